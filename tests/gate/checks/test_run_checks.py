"""Must-pass samples, errors and latency of the system under test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ragstone.evaluation.manifest import Manifest
from ragstone.evaluation.scores import MetricScores, RunScores, SystemFacts
from ragstone.gate.decide import decide_gate
from ragstone.gate.policy import policy_from_mapping
from ragstone.gate.verdict import Check, CheckKind, GateVerdict, Status
from ragstone.golden.sample import Bound
from ragstone.metrics.score import Failed
from ragstone.system.response import NO_TEXTS

MakeRun = Callable[..., RunScores]
MakeManifest = Callable[..., Manifest]


def decide(run: RunScores, **tables: Any) -> GateVerdict:
    return decide_gate(run, None, policy_from_mapping(tables))


def of_kind(verdict: GateVerdict, kind: CheckKind) -> list[Check]:
    return [check for check in verdict.checks if check.kind is kind]


FAITHFULNESS = {"faithfulness": {"min": 0.5}}


def test_must_pass_samples_that_reach_every_floor_pass(run: MakeRun) -> None:
    verdict = decide(run({"faithfulness": [1.0] * 20}), metrics=FAITHFULNESS, must_pass=["s0", "s3"])
    assert [check.status for check in of_kind(verdict, CheckKind.MUST_PASS)] == [Status.PASS]
    assert verdict.status is Status.PASS


def test_one_must_pass_sample_below_its_floor_fails_the_run(run: MakeRun) -> None:
    verdict = decide(run({"faithfulness": [0.2] + [1.0] * 99}), metrics=FAITHFULNESS, must_pass=["s0", "s1"])
    failed, passed = of_kind(verdict, CheckKind.MUST_PASS)
    assert failed.status is Status.FAIL
    assert "s0: faithfulness is 0.20, required 0.50" in failed.reason
    assert passed.reason == "1 of 2 must-pass samples passed."
    assert verdict.exit_code == 1


def test_a_must_pass_sample_that_the_system_failed_on_fails(run: MakeRun) -> None:
    one = run({"faithfulness": [1.0] * 100}, system_failures={"q": "RuntimeError: no index"})
    verdict = decide(one, metrics=FAITHFULNESS, must_pass=["q"])
    assert verdict.exit_code == 1
    assert "RuntimeError: no index" in verdict.reason


@pytest.mark.parametrize(
    ("sample", "says"),
    [("gone", "it is not in this run"), ("s0", "could not be scored: refused"), ("na", "no metric with a floor")],
)
def test_a_must_pass_sample_that_nothing_is_known_of_is_an_error(run: MakeRun, sample: str, says: str) -> None:
    one = run(
        {"faithfulness": [1.0] * 100},
        failed={"faithfulness": {"s0": Failed("judge", "refused")}},
        not_applicable={"faithfulness": {"na": "the answer abstains"}},
    )
    verdict = decide(one, metrics=FAITHFULNESS, must_pass=[sample])
    assert verdict.exit_code == 5
    assert says in verdict.reason


def test_must_pass_may_name_its_metrics_and_its_own_minimum(run: MakeRun) -> None:
    one = run({"faithfulness": [0.4] * 30 + [1.0] * 300, "answer_relevancy": [0.1] * 330})
    table = {"samples": ["s0"], "metrics": ["faithfulness"], "min": 0.4}
    assert decide(one, metrics=FAITHFULNESS, must_pass=table).status is Status.PASS
    assert decide(one, metrics=FAITHFULNESS, must_pass={**table, "min": 0.41}).status is Status.FAIL


def test_a_must_pass_sample_without_a_reference_is_held_to_the_family(run: MakeRun) -> None:
    excused = {f"s{index}": "the sample has no reference" for index in range(40)}
    one = run(
        {"context_precision": [], "context_precision_no_reference": [0.9] * 40},
        not_applicable={"context_precision": excused},
    )
    table = {"samples": ["s0"], "metrics": ["context_precision"]}
    verdict = decide(one, metrics={"context_precision": {"min": 0.7}}, must_pass=table)
    assert of_kind(verdict, CheckKind.MUST_PASS)[0].status is Status.PASS


def test_the_error_rate_is_a_fact_and_compared_as_it_stands(run: MakeRun) -> None:
    one = run({"faithfulness": [1.0] * 98}, system_failures={"a": "time-out", "b": "time-out"})
    verdict = decide(one, metrics=FAITHFULNESS, system={"max_error_rate": 0.01})
    check = of_kind(verdict, CheckKind.ERROR_RATE)[0]
    assert (check.status, check.estimate, verdict.exit_code) == (Status.FAIL, 0.02, 1)
    assert "failed on 2 of 100 samples (2 %), more than the 1 % allowed" in check.reason
    assert decide(one, metrics=FAITHFULNESS, system={"max_error_rate": 0.02}).status is Status.PASS


def crashing(run: MakeRun, manifest: MakeManifest, failed: int, n: int) -> RunScores:
    """A finished run of `n` samples, on the first of which the system failed."""
    ids = [f"s{i}" for i in range(failed)]
    by_system = {"faithfulness": {name: Failed("system", "timeout") for name in ids}}
    return run(
        {"faithfulness": [1.0] * n},
        failed=by_system,
        system_failures=dict.fromkeys(ids, "timeout"),
        manifest=manifest(),
    )


@pytest.mark.parametrize(
    ("failed", "n", "code"), [(1, 10, 0), (2, 100, 0), (2, 99, 1), (3, 100, 1), (10, 20, 1)], ids=str
)
def test_without_a_share_a_run_fails_from_two_failures_on_and_beyond_2_percent(
    run: MakeRun, manifest: MakeManifest, failed: int, n: int, code: int
) -> None:
    verdict = decide(crashing(run, manifest, failed, n), metrics={"faithfulness": {"min": 0.5}})
    assert verdict.exit_code == code
    checks = of_kind(verdict, CheckKind.ERROR_RATE)
    assert [check.status for check in checks] == [Status.FAIL] * code, "a check that passes is in no table"
    if code:
        assert verdict.reason.startswith(f"the system under test failed on {failed} of {n} samples (")
        assert "more than the 2 % allowed (most often: timeout)." in verdict.reason


@pytest.mark.parametrize(("share", "status"), [(0.0, Status.FAIL), (0.02, Status.PASS), (0.2, Status.PASS)])
def test_one_failure_fails_only_a_policy_that_allows_none(
    run: MakeRun, manifest: MakeManifest, share: float, status: Status
) -> None:
    found = decide(crashing(run, manifest, 1, 10), metrics=FAITHFULNESS, system={"max_error_rate": share})
    [check] = of_kind(found, CheckKind.ERROR_RATE)
    assert check.status is status
    if share == 0.02:
        assert "one failure is allowed in any run" in check.reason


@pytest.mark.parametrize(
    ("gate", "system"), [({}, {}), ({"min_coverage": 0.5}, {}), ({}, {"max_error_rate": 0.5}), ({}, {"action": "warn"})]
)
def test_a_system_that_crashes_is_a_failed_check_and_no_failure_of_the_judge(
    run: MakeRun, manifest: MakeManifest, gate: dict[str, Any], system: dict[str, Any]
) -> None:
    one = crashing(run, manifest, 11, 50)
    verdict = decide(one, metrics={"faithfulness": {"min": 0.85}}, gate=gate, system=system)
    assert (verdict.status, verdict.exit_code) == (Status.FAIL, 1)
    assert "the system under test failed on 11" in verdict.reason


def test_a_judge_that_fails_too_does_not_hide_it(run: MakeRun, manifest: MakeManifest) -> None:
    one = crashing(run, manifest, 11, 50)
    scores = one.metrics["faithfulness"]
    lost = {name: Failed("judge", "no reply") for name in list(scores.values)[:20]}
    values = {name: value for name, value in scores.values.items() if name not in lost}
    both = replace(one, metrics={"faithfulness": replace(scores, values=values, failed={**scores.failed, **lost})})
    assert decide(both, metrics=FAITHFULNESS).exit_code == 1
    judge = replace(both, system=SystemFacts(), metrics={"faithfulness": replace(scores, values=values, failed=lost)})
    assert decide(judge, metrics=FAITHFULNESS).exit_code == 5


def test_the_error_rate_counts_every_time_that_the_system_was_asked(run: MakeRun, manifest: MakeManifest) -> None:
    one = run(
        {"faithfulness": [(1.0, 1.0, 1.0)] * 98},
        manifest=manifest(answers=3),
        system_failures={"a": "1 of 3 answers: time-out", "b": "2 of 3 answers: time-out"},
        failed_answers={"a": 1, "b": 2},
    )
    check = of_kind(decide(one, metrics=FAITHFULNESS, system={"max_error_rate": 0.01}), CheckKind.ERROR_RATE)[0]
    assert (check.status, check.estimate) == (Status.PASS, 0.01)
    assert "failed on 3 of 300 questions (100 samples, each asked 3 times) (1 %)" in check.reason


def latency(run: MakeRun, seconds: list[float], **gate: Any) -> Check:
    one = run({"faithfulness": [1.0] * len(seconds)}, latencies=seconds)
    verdict = decide(one, gate=gate, metrics=FAITHFULNESS, system={"latency_p95_s": 2.0})
    return of_kind(verdict, CheckKind.LATENCY)[0]


def test_latency_within_its_limit_passes_with_few_samples_too(run: MakeRun) -> None:
    assert latency(run, [0.5] * 10).status is Status.PASS


def test_latency_clearly_over_its_limit_fails(run: MakeRun) -> None:
    check = latency(run, [0.5] * 40 + [3.0] * 20)
    assert check.status is Status.FAIL
    assert check.estimate == 3.0
    assert "over the limit of 2.00 s" in check.reason


def test_one_slow_answer_too_many_may_be_chance(run: MakeRun) -> None:
    assert latency(run, [0.5] * 55 + [3.0] * 5).status is Status.INCONCLUSIVE
    assert latency(run, [0.5] * 55 + [3.0] * 5, decision="point").status is Status.FAIL
    assert latency(run, [0.5] * 55 + [3.0] * 5, decision="assured").status is Status.FAIL


def test_a_latency_limit_without_measured_latency_is_an_error(run: MakeRun) -> None:
    assert latency(run, []).status is Status.ERROR


def test_a_long_reason_of_failed_samples_is_cut_in_the_sentence_on_coverage(run: MakeRun) -> None:
    long = "bad_return: Returned something. " + "Expected something else. " * 50
    one = run({"faithfulness": [1.0] * 4}, failed={"faithfulness": {"q": Failed("system", long)}})
    (coverage,) = of_kind(decide(one, metrics=FAITHFULNESS), CheckKind.COVERAGE)
    assert "the system under test failed on 1: bad_return: Returned something." in coverage.reason
    assert coverage.reason.endswith("…): coverage 80 %, required 90 %.")
    assert len(coverage.reason) < 320


def with_bounds(run: RunScores, **bounds: tuple[Bound, ...]) -> RunScores:
    samples = {name: replace(facts, bounds=bounds.get(name, ())) for name, facts in run.samples.items()}
    return replace(run, samples=samples)


@pytest.mark.parametrize("decision", ["evidence", "assured", "point"])
def test_a_sample_below_its_own_floor_fails_the_run_whatever_decides_the_means(run: MakeRun, decision: str) -> None:
    one = with_bounds(run({"faithfulness": [0.7] + [1.0] * 99}), s0=(("min", "faithfulness", 0.8),))
    verdict = decide(one, metrics=FAITHFULNESS, gate={"decision": decision})
    assert verdict.exit_code == 1
    assert verdict.reason == "must-pass sample s0: faithfulness is 0.70, required 0.80."


def test_a_ceiling_of_a_sample_and_of_a_metric_of_another_evaluator(run: MakeRun) -> None:
    scores = {"faithfulness": [1.0] * 100, "toxicity": [0.3] + [0.0] * 99}
    one = with_bounds(run(scores), s0=(("max", "toxicity", 0.2),))
    failed, *_ = of_kind(decide(one, metrics=FAITHFULNESS), CheckKind.MUST_PASS)
    assert failed.reason == "must-pass sample s0: toxicity is 0.30, required at most 0.20."


def test_a_score_reaches_a_floor_that_differs_by_rounding_only(run: MakeRun) -> None:
    one = run({"faithfulness": [0.1 + 0.2, 0.7 + 0.1] * 50, "toxicity": [0.1 + 0.2] * 100})
    bounded = with_bounds(
        one, s0=(("min", "faithfulness", 0.3), ("max", "toxicity", 0.3)), s1=(("min", "faithfulness", 0.8),)
    )
    verdict = decide(bounded, metrics={"faithfulness": {"min": 0.1}})
    assert of_kind(verdict, CheckKind.MUST_PASS)[0].reason == "2 of 2 must-pass samples passed."


def test_a_samples_own_floor_counts_in_place_of_the_policys(run: MakeRun) -> None:
    one = with_bounds(run({"faithfulness": [0.4] + [1.0] * 99}), s0=(("min", "faithfulness", 0.3),))
    assert decide(one, metrics=FAITHFULNESS, must_pass=["s0"]).status is Status.PASS


@pytest.mark.parametrize("why", [None, NO_TEXTS])
def test_a_floor_of_a_sample_that_was_not_measured_is_no_pass_because_another_holds(
    run: MakeRun, why: str | None
) -> None:
    scores: dict[str, list[float]] = {"mrr": [1.0] * 100}
    one = (
        run(scores)
        if why is None
        else run({**scores, "faithfulness": []}, not_applicable={"faithfulness": {"s0": why}})
    )
    bounded = with_bounds(one, s0=(("min", "faithfulness", 0.8), ("min", "mrr", 0.5)))
    verdict = decide(bounded, metrics={"mrr": {"min": 0.1}}, gate={"only_named": True})
    assert verdict.reason == f"must-pass sample s0: faithfulness: {why or 'it was not measured'}."
    assert verdict.exit_code == 5


def test_every_sample_must_pass(run: MakeRun) -> None:
    values = [1.0, 0.2] * 7
    verdict = decide(run({"faithfulness": values}), metrics={"faithfulness": {"min": 0.5}}, must_pass="all")
    *failed, passed = of_kind(verdict, CheckKind.MUST_PASS)
    assert [check.sample for check in failed] == [f"s{number}" for number in range(1, 14, 2)]
    assert passed.reason == "7 of 14 must-pass samples passed."
    assert verdict.exit_code == 1


def test_a_sample_without_a_score_is_counted_where_every_sample_must_pass(run: MakeRun) -> None:
    one = run(
        {"faithfulness": [1.0] * 100},
        failed={"faithfulness": {"s0": Failed("judge", "refused")}},
        not_applicable={"faithfulness": {"na": "the answer abstains"}},
    )
    verdict = decide(one, metrics=FAITHFULNESS, must_pass="all")
    (check,) = of_kind(verdict, CheckKind.MUST_PASS)
    assert verdict.status is Status.PASS
    assert check.reason.startswith("99 of 101 must-pass samples passed. Not compared: na: no metric with a floor has")
    assert "s0: faithfulness could not be scored: refused" in check.reason
    named = decide(with_bounds(one, na=(("min", "faithfulness", 0.5),)), metrics=FAITHFULNESS, must_pass="all")
    assert named.exit_code == 5


def test_a_sample_that_the_system_made_unmeasurable_fails_where_every_sample_must_pass(run: MakeRun) -> None:
    before = run({"faithfulness": [1.0] * 100})
    scores = MetricScores(
        {f"s{i}": 1.0 for i in range(1, 100)}, not_applicable={"s0": NO_TEXTS}, version=before["faithfulness"].version
    )
    now = replace(before, metrics={"faithfulness": scores})
    policy = policy_from_mapping({"metrics": FAITHFULNESS, "must_pass": "all"})
    verdict = decide_gate(now, before, policy)
    assert verdict.reason.startswith(f"must-pass sample s0: faithfulness could not be scored: {NO_TEXTS}.")
    assert verdict.exit_code == 1


def test_nothing_to_compare_with_is_an_error_where_every_sample_must_pass(run: MakeRun) -> None:
    verdict = decide(run({"faithfulness": [1.0] * 100}), metrics={"faithfulness": {"max_drop": 0.1}}, must_pass="all")
    assert verdict.status is Status.ERROR
    assert "no sample has a score to compare" in verdict.reason
