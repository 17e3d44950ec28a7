"""Must-pass samples, errors and latency of the system under test."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ragstone.evaluation.scores import MetricScores, RunScores, SystemFacts
from ragstone.gate.decide import decide_gate
from ragstone.gate.policy import policy_from_mapping
from ragstone.gate.verdict import Check, CheckKind, GateVerdict, Status
from ragstone.golden.sample import Bound
from ragstone.metrics.score import Failed
from ragstone.system.response import NO_TEXTS
from tests.gate.conftest import build_run as run
from tests.gate.conftest import make_manifest as manifest


def decide(run: RunScores, **tables: Any) -> GateVerdict:
    return decide_gate(run, None, policy_from_mapping(tables))


def of_kind(verdict: GateVerdict, kind: CheckKind) -> list[Check]:
    return [check for check in verdict.checks if check.kind is kind]


FAITHFULNESS = {"faithfulness": {"min": 0.5}}


LATE = {"error_rate": {"max": 0.2}}
ONLY = {"only_named": True}
UNKNOWN = run(
    {"faithfulness": [1.0] * 100},
    failed={"faithfulness": {"s0": Failed("judge", "refused")}},
    not_applicable={"faithfulness": {"na": "the answer abstains"}},
)
CRASHED = run({"faithfulness": [1.0] * 100}, system_failures={"q": "RuntimeError: no index"})
HALVES = run({"faithfulness": [0.4] * 30 + [1.0] * 300, "answer_relevancy": [0.1] * 330})
RATES = run({"error_rate": [0.3, 0.1] + [0.0] * 30})
NO_REFERENCE = run(
    {"context_precision": [], "context_precision_no_reference": [0.9] * 40},
    not_applicable={"context_precision": {f"s{index}": "the sample has no reference" for index in range(40)}},
)


@pytest.mark.parametrize(
    ("current", "metrics", "must_pass", "code", "says"),
    [
        (run({"faithfulness": [1.0] * 20}), FAITHFULNESS, ["s0", "s3"], 0, "2 of 2 must-pass samples passed."),
        (run({"faithfulness": [0.2] + [1.0] * 99}), FAITHFULNESS, ["s0", "s1"], 1, "s0: faithfulness is 0.20"),
        (run({"faithfulness": [0.2] + [1.0] * 99}), FAITHFULNESS, ["s0", "s1"], 1, "1 of 2 must-pass samples passed."),
        (run({"faithfulness": [1.0, 0.2] * 7}), FAITHFULNESS, "all", 1, "7 of 14 must-pass samples passed."),
        (CRASHED, FAITHFULNESS, ["q"], 1, "RuntimeError: no index"),
        (UNKNOWN, FAITHFULNESS, ["gone"], 5, "it is not in this run"),
        (UNKNOWN, FAITHFULNESS, ["s0"], 5, "could not be scored: refused"),
        (UNKNOWN, FAITHFULNESS, ["na"], 5, "no metric with a floor"),
        (UNKNOWN, {"faithfulness": {"max_drop": 0.1}}, "all", 5, "must-pass samples passed. Not compared: "),
        (HALVES, FAITHFULNESS, {"samples": ["s0"], "metrics": ["faithfulness"], "min": 0.4}, 0, "1 of 1"),
        (HALVES, FAITHFULNESS, {"samples": ["s0"], "metrics": ["faithfulness"], "min": 0.41}, 1, "required 0.41"),
        (HALVES, FAITHFULNESS, {"samples": ["s0"], "metrics": ["answer_relevancy"], "min": 0.2}, 1, "is 0.10"),
        (RATES, LATE, ["s0", "s1"], 1, "s0: error_rate is 0.30, required at most 0.20"),
        (RATES, LATE, ["s1"], 0, "1 of 1"),
        (RATES, LATE, {"samples": ["s1"], "min": 0.95}, 0, "1 of 1"),  # a minimum is none of a ceiling
        (
            NO_REFERENCE,
            {"context_precision": {"min": 0.7}},
            {"samples": ["s0"], "metrics": ["context_precision"]},
            0,
            "",
        ),
    ],
)
def test_must_pass_samples(current: RunScores, metrics: Any, must_pass: Any, code: int, says: str) -> None:
    verdict = decide(current, metrics=metrics, must_pass=must_pass, gate=ONLY)
    assert verdict.exit_code == code
    assert any(says in check.reason for check in of_kind(verdict, CheckKind.MUST_PASS))


def test_must_pass_samples_are_held_to_the_floors_that_the_policy_names_for_all_samples() -> None:
    recall = run({"faithfulness": [1.0] * 60, "context_recall": [0.5] + [1.0] * 59}, tags={"s0": ("billing",)})
    assert decide(recall, metrics=FAITHFULNESS, must_pass=["s0"]).exit_code == 0
    assert decide(recall, must_pass=["s0"]).exit_code == 1
    part = {"billing": {"metrics": {"context_recall": {"min": 0.4}}}}
    assert decide(recall, metrics=FAITHFULNESS, slices=part, must_pass=["s0"], gate=ONLY).exit_code == 0


def crashing(failed: int, n: int) -> RunScores:
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
    ("failed", "n", "share", "code"),
    [
        (1, 10, None, 0),
        (2, 100, None, 0),
        (2, 99, None, 1),
        (10, 20, None, 1),
        (1, 10, 0.0, 1),
        (2, 10, 0.02, 1),
        (2, 100, 0.01, 1),
        (2, 100, 0.02, 0),
    ],
)
def test_the_error_rate_is_a_fact_and_compared_as_it_stands(
    failed: int, n: int, share: float | None, code: int
) -> None:
    system = {} if share is None else {"max_error_rate": share}
    verdict = decide(crashing(failed, n), metrics=FAITHFULNESS, system=system)
    assert verdict.exit_code == code
    checks = of_kind(verdict, CheckKind.ERROR_RATE)
    assert len(checks) == (code if share is None else 1), "a check of the default that passes is in no table"
    for check in checks:
        assert check.status is (Status.FAIL if code else Status.PASS)
        assert check.estimate == failed / n
    if code:
        assert f"the system under test failed on {failed} of {n} samples (" in verdict.reason
        assert f"more than the {100 * (0.02 if share is None else share):g} % allowed" in verdict.reason
        assert "timeout" in verdict.reason


def test_one_failure_that_is_more_than_the_policy_allows_neither_fails_nor_passes() -> None:
    verdict = decide(crashing(1, 10), metrics=FAITHFULNESS, system={"max_error_rate": 0.02})
    [check] = of_kind(verdict, CheckKind.ERROR_RATE)
    assert (check.status, verdict.status, verdict.exit_code) == (Status.INCONCLUSIVE, Status.INCONCLUSIVE, 0)
    assert "(10 %), more than the 2 % allowed, but one failure alone may be chance" in check.reason


@pytest.mark.parametrize(
    ("gate", "system"), [({}, {}), ({"min_coverage": 0.5}, {}), ({}, {"max_error_rate": 0.5}), ({}, {"action": "warn"})]
)
def test_a_system_that_crashes_is_a_failed_check_and_no_failure_of_the_judge(
    gate: dict[str, Any], system: dict[str, Any]
) -> None:
    one = crashing(11, 50)
    verdict = decide(one, metrics={"faithfulness": {"min": 0.85}}, gate=gate, system=system)
    assert (verdict.status, verdict.exit_code) == (Status.FAIL, 1)
    assert "the system under test failed on 11" in verdict.reason


def test_a_judge_that_fails_too_does_not_hide_it() -> None:
    one = crashing(11, 50)
    scores = one.metrics["faithfulness"]
    lost = {name: Failed("judge", "no reply") for name in list(scores.values)[:20]}
    values = {name: value for name, value in scores.values.items() if name not in lost}
    both = replace(one, metrics={"faithfulness": replace(scores, values=values, failed={**scores.failed, **lost})})
    assert decide(both, metrics=FAITHFULNESS).exit_code == 1
    judge = replace(both, system=SystemFacts(), metrics={"faithfulness": replace(scores, values=values, failed=lost)})
    assert decide(judge, metrics=FAITHFULNESS).exit_code == 5


def test_the_error_rate_counts_every_time_that_the_system_was_asked() -> None:
    one = run(
        {"faithfulness": [(1.0, 1.0, 1.0)] * 98},
        manifest=manifest(answers=3),
        system_failures={"a": "1 of 3 answers: time-out", "b": "2 of 3 answers: time-out"},
        failed_answers={"a": 1, "b": 2},
    )
    check = of_kind(decide(one, metrics=FAITHFULNESS, system={"max_error_rate": 0.01}), CheckKind.ERROR_RATE)[0]
    assert (check.status, check.estimate) == (Status.PASS, 0.01)
    assert "failed on 3 of 300 answers to 100 samples (1 %)" in check.reason


@pytest.mark.parametrize(
    ("seconds", "decision", "status"),
    [
        ([0.5] * 10, "evidence", Status.PASS),
        ([0.5] * 40 + [3.0] * 20, "evidence", Status.FAIL),
        ([0.5] * 55 + [3.0] * 5, "evidence", Status.INCONCLUSIVE),  # one slow answer too many
        ([0.5] * 55 + [3.0] * 5, "point", Status.FAIL),
        ([0.5] * 55 + [3.0] * 5, "assured", Status.FAIL),
        ([], "evidence", Status.ERROR),
    ],
)
def test_latency(seconds: list[float], decision: str, status: Status) -> None:
    one = run({"faithfulness": [1.0] * len(seconds)}, latencies=seconds)
    verdict = decide(one, gate={"decision": decision}, metrics=FAITHFULNESS, system={"latency_p95_s": 2.0})
    (check,) = of_kind(verdict, CheckKind.LATENCY)
    assert check.status is status
    if status is Status.FAIL:
        assert check.estimate == 3.0
        assert "over the limit of 2.00 s" in check.reason


def test_a_long_reason_of_failed_samples_is_cut_in_the_sentence_on_coverage() -> None:
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
@pytest.mark.parametrize(
    ("scores", "bounds", "code", "says"),
    [
        ({"faithfulness": 0.7}, [("min", "faithfulness", 0.8)], 1, "s0: faithfulness is 0.70, required 0.80."),
        ({"toxicity": 0.3}, [("max", "toxicity", 0.2)], 1, "s0: toxicity is 0.30, required at most 0.20."),
        ({"faithfulness": 0.1 + 0.2}, [("min", "faithfulness", 0.3)], 0, "1 of 1 must-pass sample passed."),
        ({"toxicity": 0.1 + 0.2}, [("max", "toxicity", 0.3)], 0, "1 of 1 must-pass sample passed."),
        ({"faithfulness": 0.4}, [("min", "faithfulness", 0.3)], 0, "1 of 1 must-pass sample passed."),
    ],
    ids=["below", "above", "rounding of a floor", "rounding of a ceiling", "in place of the policy's"],
)
def test_a_sample_is_held_to_its_own_bounds_whatever_decides_the_means(
    scores: dict[str, float], bounds: list[Bound], code: int, says: str, decision: str
) -> None:
    best = {"faithfulness": 1.0, "toxicity": 0.0}
    one = run({name: [scores.get(name, value)] + [value] * 99 for name, value in best.items()})
    verdict = decide(
        with_bounds(one, s0=tuple(bounds)), metrics=FAITHFULNESS, must_pass=["s0"], gate={"decision": decision, **ONLY}
    )
    assert verdict.exit_code == code
    assert of_kind(verdict, CheckKind.MUST_PASS)[0].reason.endswith(says)


@pytest.mark.parametrize("why", [None, NO_TEXTS])
def test_a_floor_of_a_sample_that_was_not_measured_is_no_pass_because_another_holds(why: str | None) -> None:
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


def test_a_sample_without_a_score_is_counted_where_every_sample_must_pass() -> None:
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


def test_a_sample_that_the_system_made_unmeasurable_fails_where_every_sample_must_pass() -> None:
    before = run({"faithfulness": [1.0] * 100})
    scores = MetricScores(
        {f"s{i}": 1.0 for i in range(1, 100)}, not_applicable={"s0": NO_TEXTS}, version=before["faithfulness"].version
    )
    now = replace(before, metrics={"faithfulness": scores})
    policy = policy_from_mapping({"metrics": FAITHFULNESS, "must_pass": "all"})
    verdict = decide_gate(now, before, policy)
    assert verdict.reason.startswith(f"must-pass sample s0: faithfulness could not be scored: {NO_TEXTS}.")
    assert verdict.exit_code == 1
