from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from ragstone.stats.best_of import expected_maximum


@pytest.mark.parametrize(("count", "known"), [(2, 0.56419), (10, 1.53875), (100, 2.50759), (1000, 3.24144)])
def test_the_expected_maximum_is_that_of_published_tables(count: int, known: float) -> None:
    assert expected_maximum(count) == pytest.approx(known, abs=1e-5)


@pytest.mark.parametrize("count", [1.5, 7.25, 66.0])
def test_fractions_are_integrated_like_whole_numbers(count: float) -> None:
    exact = quad(lambda z: z * count * norm.pdf(z) * norm.cdf(z) ** (count - 1.0), -12, 12)[0]
    assert expected_maximum(count) == pytest.approx(exact, abs=1e-6)


def test_one_version_or_none_gives_no_choice_and_more_give_more() -> None:
    assert expected_maximum(0.0) == expected_maximum(1.0) == 0.0
    found = [expected_maximum(count) for count in np.geomspace(1.0, 1e9, 40)]
    assert found == sorted(found)
    assert found[-1] < 6.5
