"""What an answer takes and costs, before and now."""

from __future__ import annotations

from typing import Any

import pytest

from ragstone.evaluation.scores import RunScores
from ragstone.gate.comparability import pair_runs
from ragstone.gate.speed_and_price import START_UP_ANSWERS, UsageChange, format_factor, paired_usage
from ragstone.settings.settings import SystemPrice
from tests.gate.conftest import build_run, decide, make_manifest

N = 30
SECOND = [1.0 + 0.01 * index for index in range(N)]


def run(n: int = N, usd: float | None = None, **more: Any) -> RunScores:
    price = None if usd is None else SystemPrice(input=usd, output=0.0)
    return build_run({"faithfulness": [0.9] * n}, manifest=make_manifest().model_copy(update={"price": price}), **more)


def using(tokens: int, n: int = N, **more: Any) -> RunScores:
    return run(n, usage=[(tokens, 0)] * n, **more)


def taking(*seconds: float, **more: Any) -> RunScores:
    return run(len(seconds), latencies=seconds, **more)


LATER = [one + 3.0 for one in SECOND]
TAIL = [one + (30.0 if index % 4 == 0 else 0.0) for index, one in enumerate(SECOND)]
FAILED = {f"s{n}": "timeout" for n in range(15, N)}


@pytest.mark.parametrize(
    ("now", "before", "system", "says"),
    [
        pytest.param(
            taking(*LATER),
            taking(*SECOND),
            {},
            "than in the baseline: median latency 1.17 s → 4.17 s (×\u00a03.6) and p95",
            id="all slower",
        ),
        pytest.param(using(1_499), using(1_000), {}, "", id="less than half as much again"),
        pytest.param(using(1_500), using(1_000), {}, "1,000 → 1,500", id="half as much again"),
        pytest.param(using(1_300), using(1_000), {"max_token_rise": 0.2}, "1,000 → 1,300", id="more than is allowed"),
        pytest.param(using(1_900), using(1_000), {"max_token_rise": 1.0}, "", id="allowed by the policy"),
        pytest.param(taking(*[0.24] * N), taking(*[0.05] * N), {}, "", id="a shared runner"),
        pytest.param(taking(*[0.26] * N), taking(*[0.05] * N), {}, "50 ms → 260 ms", id="more than a shared runner"),
        pytest.param(taking(4.0, 4.1, 4.2), taking(1.0, 1.1, 1.2), {}, "median latency", id="all of three"),
        pytest.param(taking(4.0, 4.1, 0.2), taking(1.0, 1.1, 1.2), {}, "", id="two of three may be chance"),
        pytest.param(taking(*TAIL), taking(*SECOND), {}, "p95 of latency", id="a tail that got slow"),
        pytest.param(taking(*SECOND[:-1], 60.0), taking(*SECOND), {}, "", id="a single slow answer is no tail"),
        pytest.param(taking(*[1.0] * 18, 60.0), taking(*[1.0] * 19), {}, "", id="nor is it one of few"),
        pytest.param(taking(*SECOND[:15], *[60.0] * 15, system_failures=FAILED), taking(*SECOND), {}, "", id="failed"),
        pytest.param(using(1_000, usd=10.0), using(1_000, usd=1.0), {}, "$0.0010 → $0.010 (×\u00a010)", id="a price"),
        pytest.param(using(20_000), run(), {}, "", id="no figure before"),
        pytest.param(
            run(latencies=LATER, usage=[(2_000, 0)] * N),
            run(latencies=SECOND, usage=[(1_000, 0)] * N),
            {},
            "tokens per answer 1,000 → 2,000",
            id="both",
        ),
    ],
)
def test_answers_that_are_slower_or_dearer_are_warned_of_though_nothing_is_worse(
    now: RunScores, before: RunScores, system: Any, says: str
) -> None:
    verdict = decide(now, before, metrics={"faithfulness": {"max_drop": 0.05}}, system=system)
    warnings = [text for text in verdict.warnings if text.startswith("Answers take or cost more")]
    assert [says in text for text in warnings] == [True] * bool(says)
    if not system and not now.system.failures:
        assert verdict.exit_code == 0


def changes(now: RunScores, before: RunScores) -> dict[str, UsageChange]:
    return {usage.change.name: usage.change for usage in paired_usage(pair_runs(now, before))}


def test_the_start_of_either_run_does_not_count() -> None:
    slow_start = taking(*[20.0] * START_UP_ANSWERS, *SECOND[START_UP_ANSWERS:])
    for now, before in ((slow_start, taking(*SECOND)), (taking(*SECOND), slow_start)):
        found = changes(now, before)["latency_p95_s"]
        assert (found.now, found.n) == (found.before, N - START_UP_ANSWERS)
    assert changes(taking(*SECOND[:9]), taking(*SECOND[:9]))["latency_p50_s"].n == 8, "of few, a fifth"


def test_questions_are_compared_with_themselves_and_new_ones_are_left_out() -> None:
    now = run(40, usage=[(1_000, 0)] * N + [(90_000, 0)] * 10)
    found = changes(now, using(1_000))["tokens_mean"]
    assert (found.before, found.now, found.n) == (1_000.0, 1_000.0, N)
    assert changes(taking(*[0.009] * N), taking(*[0.001] * N)) == {}, "a system that takes no time"
    assert changes(taking(*[0.01] * N), taking(*[0.01] * N)).keys() == {"latency_p50_s", "latency_p95_s"}


def test_a_price_that_the_baseline_lacks_is_that_of_now() -> None:
    cost = changes(using(2_000, usd=1.0), using(1_000))["cost_mean_usd"]
    assert (cost.before, cost.now) == pytest.approx((0.001, 0.002))
    assert "cost_mean_usd" not in changes(using(2_000), using(1_000, usd=1.0))


@pytest.mark.parametrize(
    ("before", "now", "share", "times"),
    [(2.0, 3.0, 0.5, " (×\u00a01.50)"), (0.0, 3.0, float("inf"), ""), (0.0, 0.0, 0.0, " (×\u00a01.00)")],
)
def test_a_share_of_nothing(before: float, now: float, share: float, times: str) -> None:
    found = UsageChange("tokens_mean", before, now, 3)
    assert (found.share, found.times) == (share, times)


@pytest.mark.parametrize(("value", "shown"), [(1.99, "1.99"), (9.94, "9.9"), (9.95, "10")])
def test_how_many_times_as_much(value: float, shown: str) -> None:
    assert format_factor(value) == f"×\u00a0{shown}"
