"""What the answers of a run took, of the tokens that the system reports."""

from __future__ import annotations

import pytest

from ragstone.evaluation.scores import RunScores, SystemFacts
from ragstone.evaluation.usage import SystemUsage, system_usage
from ragstone.settings.settings import SystemPrice
from ragstone.system.response import TokenUsage
from tests.evaluation.builders import manifest, samples

PRICE = SystemPrice(input=1.0, output=10.0)


def usage_of(*reported: tuple[int, int], answers: int = 0, price: SystemPrice | None = PRICE) -> SystemUsage | None:
    usage = {f"q{number}": TokenUsage(*counts) for number, counts in enumerate(reported)}
    facts = SystemFacts(answers={f"q{number}": ("",) for number in range(answers or len(reported))}, usage=usage)
    described = manifest(samples(2)).model_copy(update={"price": price})
    return system_usage(RunScores("run", {}, {}, facts, described))


def test_the_tokens_of_an_answer_and_their_cost_are_summed_up() -> None:
    usage = usage_of((100, 10), (300, 30))
    assert usage is not None
    assert (usage.answers, usage.reported, usage.tokens_mean, usage.tokens_p95) == (2, 2, 220, 330)
    assert usage.cost_mean_usd == pytest.approx(400 / 1e6)
    assert usage.cost_p95_usd == pytest.approx(600 / 1e6)


def test_what_is_not_reported_is_not_zero_and_reported_zeros_are() -> None:
    assert usage_of() is None
    some, zeros, free = usage_of((100, 10), answers=2), usage_of((0, 0)), usage_of((100, 10), price=None)
    assert some is not None
    assert zeros is not None
    assert free is not None
    assert (some.answers, some.reported, some.tokens_mean) == (2, 1, 110)
    assert (zeros.tokens_mean, zeros.cost_mean_usd) == (0, 0)
    assert (free.cost_mean_usd, free.cost_p95_usd) == (None, None)
