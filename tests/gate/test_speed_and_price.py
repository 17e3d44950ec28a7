"""What an answer takes and costs, before and now."""

from __future__ import annotations

from typing import Any

import pytest

from ragstone.evaluation.manifest import Manifest
from ragstone.evaluation.scores import RunScores
from ragstone.gate.comparability import pair_runs
from ragstone.gate.decide import decide_gate
from ragstone.gate.findings import USAGE
from ragstone.gate.policy import policy_from_mapping
from ragstone.gate.speed_and_price import START_UP_ANSWERS, paired_usage, usage_line
from ragstone.gate.usage_change import UsageChange
from ragstone.gate.verdict import GateVerdict, Status
from ragstone.settings.settings import SystemPrice
from tests.gate.conftest import build_run, make_manifest

N = 30
SECOND = [1.0 + 0.01 * index for index in range(N)]


def run(n: int = N, **more: Any) -> RunScores:
    return build_run({"faithfulness": [0.9] * n}, manifest=make_manifest(), **more)


def priced(input_usd: float) -> Manifest:
    return make_manifest().model_copy(update={"price": SystemPrice(input=input_usd, output=0.0)})


def decided(now: RunScores, before: RunScores, **system: object) -> GateVerdict:
    rules = {"metrics": {"faithfulness": {"max_drop": 0.05}}, "system": system}
    return decide_gate(now, before, policy_from_mapping(rules))


def warning(verdict: GateVerdict) -> str:
    return next((text for text in verdict.warnings if text.startswith("Answers are")), "")


def line(verdict: GateVerdict) -> str:
    return usage_line([finding.data for finding in verdict.of_kind(USAGE)])


def changes(now: RunScores, before: RunScores) -> dict[str, UsageChange]:
    return {usage.change.name: usage.change for usage in paired_usage(pair_runs(now, before))}


def test_answers_that_are_all_three_seconds_slower_are_warned_of_though_nothing_is_worse() -> None:
    verdict = decided(run(latencies=[one + 3.0 for one in SECOND]), run(latencies=SECOND))
    assert (verdict.status, verdict.exit_code) == (Status.PASS, 0)
    assert warning(verdict) == "Answers are slower than in the baseline: median latency 1.17 s → 4.17 s (×\u00a03.6)."


def test_answers_that_are_twenty_times_dearer_are_warned_of() -> None:
    verdict = decided(run(usage=[(20_000, 0)] * N), run(usage=[(1_000, 0)] * N))
    assert warning(verdict) == "Answers are dearer than in the baseline: tokens per answer 1,000 → 20,000 (×\u00a020)."


@pytest.mark.parametrize(("tokens", "warns"), [(1_499, False), (1_500, True)])
def test_a_rise_warns_from_half_as_much_again_on(tokens: int, warns: bool) -> None:
    verdict = decided(run(usage=[(tokens, 0)] * N), run(usage=[(1_000, 0)] * N))
    assert bool(warning(verdict)) is warns
    assert line(verdict) == f"Per answer: 1,000 → {tokens:,} tokens."


@pytest.mark.parametrize(("slower_s", "warns"), [(0.19, False), (0.21, True)])
def test_a_shared_runner_is_allowed_a_fifth_of_a_second(slower_s: float, warns: bool) -> None:
    before = [0.05] * N
    assert bool(warning(decided(run(latencies=[0.05 + slower_s] * N), run(latencies=before)))) is warns


def test_three_answers_are_enough_if_all_are_slower() -> None:
    before = run(3, latencies=[1.0, 1.1, 1.2])
    assert warning(decided(run(3, latencies=[4.0, 4.1, 4.2]), before))
    assert not warning(decided(run(3, latencies=[4.0, 4.1, 0.2]), before)), "two of three may be chance"


def test_a_tail_that_got_slow_is_warned_of_where_the_median_is_as_before() -> None:
    now = [one + (30.0 if index % 4 == 0 else 0.0) for index, one in enumerate(SECOND)]
    assert "p95 of latency" in warning(decided(run(latencies=now), run(latencies=SECOND)))


def test_a_single_slow_answer_is_no_tail() -> None:
    now = [*SECOND[:-1], 60.0]
    assert not warning(decided(run(latencies=now), run(latencies=SECOND)))
    few_now = [1.0] * 18 + [60.0]
    assert not warning(decided(run(19, latencies=few_now), run(19, latencies=[1.0] * 19)))


def test_the_start_of_either_run_does_not_count() -> None:
    start = [20.0] * START_UP_ANSWERS
    slow_start = run(latencies=[*start, *SECOND[START_UP_ANSWERS:]])
    for now, before in ((slow_start, run(latencies=SECOND)), (run(latencies=SECOND), slow_start)):
        found = changes(now, before)
        assert found["latency_p95_s"].now == found["latency_p95_s"].before
        assert found["latency_p95_s"].n == N - START_UP_ANSWERS


def test_questions_are_compared_with_themselves_and_new_ones_are_left_out() -> None:
    now = run(40, usage=[(1_000, 0)] * N + [(90_000, 0)] * 10)
    found = changes(now, run(usage=[(1_000, 0)] * N))["tokens_mean"]
    assert (found.before, found.now, found.n) == (1_000.0, 1_000.0, N)


def test_a_question_that_failed_is_no_slow_answer() -> None:
    now = run(latencies=[*SECOND[:15], *[60.0] * 15], system_failures={f"s{n}": "timeout" for n in range(15, N)})
    assert not warning(decided(now, run(latencies=SECOND)))


def test_a_side_that_reports_nothing_says_nothing() -> None:
    usage = [(20_000, 0)] * N
    for now, before in ((run(usage=usage), run()), (run(), run(usage=usage))):
        verdict = decided(now, before)
        assert verdict.of_kind(USAGE) == ()
        assert not warning(verdict)
        assert line(verdict) == ""


def test_a_system_that_takes_no_time_has_no_latency_to_speak_of() -> None:
    assert changes(run(latencies=[0.002] * N), run(latencies=[0.001] * N)) == {}


def test_a_price_that_rose_is_seen_at_the_same_tokens() -> None:
    now, before = (
        build_run({"faithfulness": [0.9] * N}, manifest=priced(usd), usage=[(1_000, 0)] * N) for usd in (10.0, 1.0)
    )
    verdict = decided(now, before)
    assert warning(verdict) == "Answers are dearer than in the baseline: cost per answer $0.0010 → $0.010 (×\u00a010)."
    assert line(verdict) == "Per answer: 1,000 → 1,000 tokens, $0.0010 → $0.010."


def test_a_price_that_the_baseline_lacks_is_that_of_now() -> None:
    now = build_run({"faithfulness": [0.9] * N}, manifest=priced(1.0), usage=[(2_000, 0)] * N)
    cost = changes(now, run(usage=[(1_000, 0)] * N))["cost_mean_usd"]
    assert (cost.before, cost.now) == pytest.approx((0.001, 0.002))
