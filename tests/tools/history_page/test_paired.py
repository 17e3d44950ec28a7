"""Paired differences as the page of the history computes them, against the statistics that the gate uses."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pytest

from ragstone.report.templates import read_template
from ragstone.stats.intervals import mean_interval
from tests.report.browser import Page, chromium, needs_chromium

pytestmark = [pytest.mark.browser, needs_chromium]


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with chromium() as found:
        found.run(read_template("paired.js", "ragstone.tools.history_page").replace("const paired", "var paired"))
        yield found


def cases() -> Iterator[tuple[str, list[float], list[int] | None]]:
    rng = np.random.default_rng(7)
    yield "nothing", [0.0] * 20, None
    yield "one", [0.25], None
    yield "one at the end", [1.0], None
    yield "all at the ends", [1.0, -1.0, 1.0, 1.0], None
    yield "many at the ends", [*[1.0] * 30, *[-1.0] * 50], None
    yield "halves at the ends", [0.5, -0.5, 0.5], None
    yield "all the same", [0.2] * 12, None
    yield "few of many", [*[0.0] * 190, *[-1.0] * 6, *[0.5] * 4], None
    for n in (3, 40, 400):
        values = np.round(rng.uniform(-1.0, 1.0, n) * rng.integers(0, 2, n), 6)
        yield f"{n} mixed", values.tolist(), None
        yield f"{n} in groups", values.tolist(), rng.integers(0, max(2, n // 4), n).tolist()
    values = (rng.integers(0, 2521, 1000) - rng.integers(0, 2521, 1000)) / 2520
    yield "steps", values.tolist(), None
    yield "one group", [0.25, -0.5, 0.125], [4, 4, 4]


@pytest.mark.parametrize(("values", "groups"), [pytest.param(v, g, id=name) for name, v, g in cases()])
def test_the_page_finds_the_interval_that_the_gate_finds(
    page: Page, values: list[float], groups: list[int] | None
) -> None:
    labels = None if groups is None else np.array(groups, dtype=np.int64)
    wanted = mean_interval(np.array(values), bounds=(-1.0, 1.0), groups=labels)
    found = page.run(f"paired.meanInterval({json.dumps(values)}, {json.dumps(groups)})")
    assert found["n"] == wanted.n
    assert found["groups"] == wanted.n_groups
    for name in ("estimate", "low", "high"):
        assert found[name] == pytest.approx(getattr(wanted, name), abs=1e-6), name
