"""Samples that must always pass: what each must reach, and what failures and other questions make of it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from ragstone.evaluation.round_facts import ConfirmFacts, RoundFacts
from ragstone.evaluation.scores import RunScores
from ragstone.gate.checks.must_pass import MustPass
from ragstone.gate.confirm import doubtful_checks, is_settled
from ragstone.gate.verdict import Action, Check, CheckKind, Status
from ragstone.golden.sample import Bound
from ragstone.metrics.score import Failed
from ragstone.system.response import NO_CONTEXTS, NO_TEXTS
from tests.gate.conftest import ONLY_NAMED, build_run, decide, evidence_of, failed, make_manifest

FAITHFUL = {"faithfulness": {"min": 0.5}}
TWICE = make_manifest(answers=2)
THRICE = make_manifest(answers=3)


def checks(now: RunScores, must_pass: Any, then: RunScores | None = None, **tables: Any) -> list[Check]:
    rules = {"metrics": FAITHFUL, "must_pass": must_pass, "gate": ONLY_NAMED, **tables}
    return list(MustPass().evaluate(evidence_of(now, then, **rules)))


def scored(*scores: Any, **more: Any) -> RunScores:
    return build_run({"faithfulness": scores}, **more)


def with_bounds(run: RunScores, **bounds: tuple[Bound, ...]) -> RunScores:
    samples = {name: replace(facts, bounds=bounds.get(name, ())) for name, facts in run.samples.items()}
    return replace(run, samples=samples)


LATE = {"error_rate": {"max": 0.2}}
LOW = scored(0.2, *[1.0] * 9)
UNKNOWN = scored(
    *[1.0] * 10,
    failed={"faithfulness": failed(["s0"], why="refused")},
    not_applicable={"faithfulness": {"na": "the answer abstains", "bare": NO_TEXTS, "none": NO_CONTEXTS}},
)
TEXTLESS = scored(1.0, 1.0, failed={"faithfulness": failed(["s0"], "system", NO_TEXTS)})
CRASHED = scored(1.0, system_failures={"q": "no index"})
RATES = build_run({"error_rate": [0.3, 0.1]})
UNREFERENCED = build_run(
    {"context_precision": [], "context_precision_no_reference": [0.6, 0.9]},
    not_applicable={"context_precision": {"s0": "the sample has no reference"}},
)
FAMILY = {"context_precision": {"min": 0.7}}
SAME_RUNS = [[1.0, 1.0], [1.0, 0.0], [0.0, 0.0], [1.0, 1.0]]


@pytest.mark.parametrize(
    ("now", "metrics", "must_pass", "found"),
    [
        (LOW, FAITHFUL, ["s1", "s3"], {None: "2 of 2"}),
        (LOW, FAITHFUL, ["s0", "s1"], {"s0": "faithfulness is 0.20, required 0.50", None: "1 of 2"}),
        (LOW, FAITHFUL, "all", {"s0": "faithfulness is 0.20", None: "9 of 10"}),
        (CRASHED, FAITHFUL, ["q"], {"q": "the system under test failed on it: no index"}),
        (UNKNOWN, FAITHFUL, ["gone"], {"gone": "it is not in this run"}),
        (UNKNOWN, FAITHFUL, ["s0"], {"s0": "could not be scored: refused"}),
        (UNKNOWN, FAITHFUL, ["na"], {"na": "no metric with a floor has a score"}),
        (UNKNOWN, FAITHFUL, ["bare"], {"bare": f"faithfulness: {NO_TEXTS}"}),
        (UNKNOWN, FAITHFUL, "all", {None: "9 of 13 must-pass samples passed. Not compared: "}),
        (UNKNOWN, {"faithfulness": {"max_drop": 0.1}}, "all", {None: "0 of 13"}),
        (TEXTLESS, FAITHFUL, "all", {"s0": f"could not be scored: {NO_TEXTS}", None: "1 of 2"}),
        (LOW, FAITHFUL, {"samples": ["s0"], "min": 0.2}, {None: "1 of 1"}),
        (UNREFERENCED, FAMILY, ["s0", "s1"], {"s0": "is 0.60", None: "1 of 2"}),
        (RATES, LATE, ["s0", "s1"], {"s0": "error_rate is 0.30, required at most 0.20", None: "1 of 2"}),
        (RATES, LATE, {"samples": ["s1"], "min": 0.95}, {None: "1 of 1"}),  # a minimum is none of a ceiling
    ],
)
def test_what_a_sample_must_reach(now: RunScores, metrics: Any, must_pass: Any, found: dict[str | None, str]) -> None:
    made = checks(now, must_pass, metrics=metrics)
    assert [one.name.removeprefix("must_pass").lstrip(".") for one in made] == [one.sample or "" for one in made]
    reasons = {check.sample: check.reason for check in made}
    assert reasons.keys() == found.keys()
    assert all(said in reasons[sample] for sample, said in found.items())


def test_only_a_sample_that_failed_or_that_someone_named_ends_the_run() -> None:
    def statuses(now: RunScores, must_pass: Any, **tables: Any) -> list[Status]:
        return [check.status for check in checks(now, must_pass, **tables)]

    assert statuses(LOW, ["s0", "s1"]) == [Status.FAIL, Status.PASS]
    assert statuses(UNKNOWN, ["na"]) == [Status.ERROR]
    assert statuses(UNKNOWN, "all") == [Status.PASS]
    assert statuses(UNKNOWN, "all", metrics={"faithfulness": {"max_drop": 0.1}}) == [Status.ERROR]
    own = with_bounds(UNKNOWN, na=(("min", "faithfulness", 0.5),))
    assert statuses(own, "all") == [Status.ERROR, Status.PASS]
    warned = checks(LOW, {"samples": ["s0"], "action": "warn"})
    assert [check.action for check in warned] == [Action.WARN]
    verdict = decide(LOW, metrics={"faithfulness": {"min": 0.1}}, must_pass={"samples": ["s0"], "min": 0.5})
    assert (verdict.status, verdict.exit_code) == (Status.FAIL, 1)


def test_samples_are_held_to_the_floors_that_the_policy_names_for_all_samples_or_else_to_all() -> None:
    recall = build_run({"faithfulness": [1.0] * 3, "context_recall": [0.5, 1.0, 1.0]}, tags={"s0": ("billing",)})
    assert [check.sample for check in checks(recall, ["s0"], gate={})] == [None]
    assert [check.sample for check in checks(recall, ["s0"], metrics={}, gate={})] == ["s0"]
    part = {"billing": {"metrics": {"context_recall": {"min": 0.9}}}}
    assert [check.sample for check in checks(recall, ["s0"], slices=part)] == [None]


def slow(times: int) -> RunScores:
    """The system was asked twice, and failed so often on the sample q."""
    return scored(1.0, manifest=TWICE, system_failures={"q": "slow"}, failed_answers={"q": times})


@pytest.mark.parametrize(
    ("now", "sample", "status", "unsettled"),
    [
        pytest.param(scored([1.0, 0.0], manifest=TWICE), "s0", "pass", False, id="half of them pass"),
        pytest.param(scored([1.0, 0.0, 0.0], manifest=THRICE), "s0", "fail", True, id="most fail"),
        pytest.param(scored([0.0] * 3, manifest=THRICE), "s0", "fail", True, id="three of at most six fail"),
        pytest.param(scored([0.0] * 4, manifest=make_manifest(answers=4)), "s0", "fail", False, id="four of six fail"),
        pytest.param(scored([1.0, 0.4, None], manifest=THRICE), "s0", "pass", False, id="does not apply to one"),
        pytest.param(slow(1), "q", "error", False, id="one of two answers is a failure"),
        pytest.param(slow(2), "q", "fail", True, id="both are failures"),
        pytest.param(replace(TEXTLESS, manifest=TWICE), "s0", "fail", True, id="the system made it unmeasurable"),
    ],
)
def test_the_majority_of_the_answers_decides(now: RunScores, sample: str, status: str, unsettled: bool) -> None:
    (check,) = checks(now, [sample])
    assert (check.status, check.unsettled) == (status, unsettled)


def test_an_answer_that_the_system_spoilt_is_an_error_beside_others_with_scores() -> None:
    now = build_run(
        {"faithfulness": [1.0], "mrr": [[1.0, 1.0]]},
        failed={"faithfulness": {"s0": Failed("system", NO_TEXTS)}},
        manifest=TWICE,
    )
    both = {"faithfulness": {"min": 0.5}, "mrr": {"min": 0.5}}
    assert [check.status for check in checks(now, ["s0"], metrics=both)] == [Status.ERROR]
    once = replace(now, manifest=make_manifest())
    assert [check.status for check in checks(once, ["s0"], metrics=both)] == [Status.FAIL]


def test_a_failure_of_first_answers_is_asked_again_before_the_run_fails() -> None:
    now = scored(0.0, *[1.0] * 20, manifest=make_manifest())
    verdict = decide(now, metrics=FAITHFUL, must_pass=["s0"], gate=ONLY_NAMED)
    assert verdict.status is Status.FAIL
    assert [check.sample for check in doubtful_checks(verdict, 0.05)] == ["s0"]
    assert not is_settled(verdict, 0.05)
    steady = replace(now, rounds=RoundFacts(confirm=ConfirmFacts(steady=True)))
    assert is_settled(decide(steady, metrics=FAITHFUL, must_pass=["s0"], gate=ONLY_NAMED), 0.05)


def test_every_question_that_passed_in_all_runs_of_the_baseline_must_pass() -> None:
    then = scored(*SAME_RUNS, 1.0, not_applicable={"faithfulness": {"na": "so"}}, system_failures={"s4": "slow"})
    now = scored(1.0, 0.0, 0.0, 0.0, 0.0, not_applicable={"faithfulness": {"na": "so"}})
    found = checks(now, "baseline", then)
    assert [(check.sample, check.status) for check in found] == [("s3", Status.FAIL), (None, Status.PASS)]
    assert found[-1].reason == "1 of 2 must-pass samples passed."
    assert checks(now, "baseline") == []


@pytest.mark.parametrize(
    ("scores", "bound", "says"),
    [
        ({"faithfulness": 0.7}, ("min", "faithfulness", 0.8), "s0: faithfulness is 0.70, required 0.80."),
        ({"toxicity": 0.3}, ("max", "toxicity", 0.2), "s0: toxicity is 0.30, required at most 0.20."),
        ({"faithfulness": 0.1 + 0.2}, ("min", "faithfulness", 0.3), "1 of 1 must-pass sample passed."),
        ({"toxicity": 0.1 + 0.2}, ("max", "toxicity", 0.3), "1 of 1 must-pass sample passed."),
        ({"faithfulness": 0.4}, ("min", "faithfulness", 0.3), "1 of 1 must-pass sample passed."),
    ],
    ids=["below", "above", "rounding of a floor", "rounding of a ceiling", "in place of the policy's"],
)
def test_a_sample_is_held_to_its_own_bounds(scores: dict[str, float], bound: Bound, says: str) -> None:
    best = {"faithfulness": 1.0, "toxicity": 0.0}
    one = build_run({name: [scores.get(name, value)] + [value] * 99 for name, value in best.items()})
    found = checks(with_bounds(one, s0=(bound,)), ["s0"], gate=ONLY_NAMED)
    assert [check.reason.removeprefix("must-pass sample ") for check in found] == [says]


@pytest.mark.parametrize("why", [None, NO_TEXTS])
def test_a_floor_of_a_sample_that_was_not_measured_is_no_pass_because_another_holds(why: str | None) -> None:
    unmeasured: dict[str, Any] = {} if why is None else {"not_applicable": {"faithfulness": {"s0": why}}}
    scores: dict[str, list[float]] = {"mrr": [1.0] * 9} | ({} if why is None else {"faithfulness": []})
    bounds: tuple[Bound, ...] = (("min", "faithfulness", 0.8), ("min", "mrr", 0.5))
    bounded = with_bounds(build_run(scores, **unmeasured), s0=bounds)
    verdict = decide(bounded, metrics={"mrr": {"min": 0.1}}, gate=ONLY_NAMED)
    assert verdict.reason == f"must-pass sample s0: faithfulness: {why or 'it was not measured'}."
    assert verdict.exit_code == 5


def asking(run: RunScores, **questions: str) -> RunScores:
    samples = {
        name: replace(facts, question=questions.get(name, name), parts=(questions.get(name, name),))
        for name, facts in run.samples.items()
    }
    return replace(run, samples=samples)


def test_another_question_under_a_named_id_is_an_error() -> None:
    """Swapping the ids of two questions would evade the check."""
    pinned = {"questions": {"s0": "How long is  the notice?"}}
    run = scored(*[1.0] * 9)
    assert [check.status for check in checks(asking(run, s0="How long is the notice?"), pinned)] == [Status.PASS]
    (check,) = checks(asking(run, s0="What is easy?"), pinned)
    assert check.status is Status.ERROR
    assert "it asks “What is easy?” instead of “How long is  the notice?”" in check.reason
    then = asking(run, s0="hard", s1="easy")
    swapped = asking(run, s0="easy", s1="hard")
    (check,) = checks(swapped, ["s0"], then)
    assert (check.status, "instead of “hard”" in check.reason) == (Status.ERROR, True)
    assert [check.status for check in checks(swapped, {"questions": {"s0": "easy"}}, then)] == [Status.PASS]
    assert [check.status for check in checks(swapped, ["s2"], then)] == [Status.PASS]
    assert {check.status for check in checks(swapped, "all", then)} == {Status.PASS}, "no id is named"
    verdict = decide(swapped, then, metrics=FAITHFUL, must_pass=["s0"], gate=ONLY_NAMED)
    assert (verdict.status, verdict.exit_code) == (Status.ERROR, 5)
    assert {one.kind for one in verdict.checks if one.status is Status.ERROR} >= {CheckKind.MUST_PASS}
