"""What follows from a verdict: its exit code, whether the run can be a baseline, where to look; and the judge."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from ragstone.evaluation.round_facts import JudgeFacts, Planted, RoundFacts
from ragstone.evaluation.scores import RunScores
from ragstone.gate.calibration import Estimate, MetricCalibration
from ragstone.gate.checks.planted import PlantedAnswers, planted_warnings
from ragstone.gate.checks.registry import checker_of
from ragstone.gate.eligibility import eligibility
from ragstone.gate.findings import Finding, Level
from ragstone.gate.judge_change import metrics_to_rejudge
from ragstone.gate.verdict import Action, Check, CheckKind, Status
from tests.gate.conftest import build_run, decide, evidence_of, make_manifest
from tests.gate.verdicts import verdict_of

FAIL, ERROR, DOUBT, PASS = Status.FAIL, Status.ERROR, Status.INCONCLUSIVE, Status.PASS


def check(kind: CheckKind, status: Status = FAIL, **fields: Any) -> Check:
    return Check(kind.value, kind, status, **{"action": Action.BLOCK, "reason": "", **fields})


@pytest.mark.parametrize(
    ("status", "checks", "code", "eligible", "why"),
    [
        (PASS, [check(CheckKind.DROP, PASS)], 0, True, "it passed"),
        (PASS, [check(CheckKind.DROP, DOUBT, action=Action.WARN)], 0, True, "it passed"),
        (FAIL, [check(CheckKind.FLOOR), check(CheckKind.COVERAGE, ERROR)], 1, False, "it failed (floor)"),
        (FAIL, [], 1, False, "it failed"),
        (DOUBT, [check(CheckKind.FLOOR, DOUBT)], 0, True, "nothing is shown against it"),
        (DOUBT, [check(CheckKind.DROP, DOUBT)], 0, False, "a loss is not settled (drop)"),
        (DOUBT, [check(CheckKind.RISE, DOUBT)], 0, False, "a loss is not settled (rise)"),
        (ERROR, [check(CheckKind.BASELINE, ERROR)], 6, True, "nothing is shown against it"),
        (ERROR, [check(CheckKind.BASELINE, ERROR), check(CheckKind.COVERAGE, ERROR)], 5, False, "could not be decided"),
        (ERROR, [check(CheckKind.PAIRED, ERROR)], 6, False, "it could not be decided (paired)"),
        (ERROR, [check(CheckKind.ANSWERS, ERROR), check(CheckKind.COVERAGE, ERROR)], 4, False, "could not be decided"),
    ],
)
def test_exit_codes_and_eligibility(status: Status, checks: list[Check], code: int, eligible: bool, why: str) -> None:
    verdict = verdict_of(status, "so.", checks)
    assert (verdict.exit_code, verdict.passed) == (code, code == 0)
    can_be, reason = eligibility(verdict)
    assert can_be is eligible
    assert why in reason
    assert verdict.with_findings(Finding("aside", Level.NOTE, "By the way.")).without_kind("aside") == verdict
    assert replace(verdict, inconclusive_blocks=True).exit_code == (8 if status is DOUBT else code)
    unproven = verdict.as_unproven("Part of it was not checked.")
    assert (unproven.status, unproven == verdict) == ((DOUBT, False) if status is PASS else (status, True))


@pytest.mark.parametrize(
    ("status", "action", "level"),
    [
        (PASS, Action.WARN, Level.PASSED),
        (FAIL, Action.BLOCK, Level.FAILURE),
        (DOUBT, Action.BLOCK, Level.DOUBT),
        (ERROR, Action.BLOCK, Level.ERROR),
        (FAIL, Action.WARN, Level.WARNING),
    ],
)
def test_what_a_check_is_among_the_findings(status: Status, action: Action, level: Level) -> None:
    found = check(CheckKind.MUST_PASS, status, action=action, sample="q1").finding
    assert (found.level, found.where) == (level, "q1")
    assert check(CheckKind.FLOOR, metric="mrr", sample="q1").finding.where == "mrr"


LATENCY = replace(check(CheckKind.LATENCY, estimate=1.5, threshold=2.0), name="system.latency_p95")


@pytest.mark.parametrize(
    ("found", "title", "result", "requirement"),
    [
        (check(CheckKind.FLOOR, estimate=0.7, threshold=0.8), "Floor", "0.70", "at least 0.8"),
        (check(CheckKind.FLOOR), "Floor", "", ""),
        (check(CheckKind.PAIRED, estimate=0.1, threshold=0.8), "Paired samples", "10 %", "at least 80 %"),
        (check(CheckKind.ANSWERS, estimate=0.3, threshold=0.2), "Answers", "30 %", "at most 20 %"),
        (check(CheckKind.ANSWERS, metric="mrr", estimate=0.3, threshold=0.4), "Answers", "0.30", "at least 0.4"),
        (check(CheckKind.DRIFT, estimate=-0.05, threshold=-0.04), "Drift", "−0.05", "at most 0.04 lost"),
        (check(CheckKind.DRIFT), "Drift", "", ""),
        (LATENCY, "p95 of latency", "1.50 s", "at most 2.00 s"),
        (check(CheckKind.MUST_PASS), "Must pass", "failed", ""),
        (check(CheckKind.MUST_PASS, PASS, short_reason="2 of 2."), "Must pass", "2 of 2", ""),
    ],
)
def test_how_reports_write_a_check(found: Check, title: str, result: str, requirement: str) -> None:
    checker = checker_of(found)
    assert (checker.title(found), checker.result(found), checker.requirement(found)) == (title, result, requirement)


# -- the judge ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("planted", "status", "warned"),
    [
        (None, None, False),
        (Planted(asked=5, passed=0), None, False),
        (Planted(asked=5, passed=1), None, True),
        (Planted(asked=5, passed=5, passed_anywhere=5), ERROR, False),
        (Planted(asked=5, passed=5, passed_anywhere=5, unanswered=1), None, True),
        (Planted(asked=5, passed=2, steered=("q1", "q2")), DOUBT, True),
    ],
)
def test_planted_wrong_answers_that_pass(planted: Planted | None, status: Status | None, warned: bool) -> None:
    run = replace(build_run({"mrr": [1.0]}, manifest=make_manifest()), rounds=RoundFacts(JudgeFacts(planted=planted)))
    found = list(PlantedAnswers().evaluate(evidence_of(run)))
    assert [one.status for one in found] == ([] if status is None else [status])
    said = [text.startswith("The judge is too lenient: it let") for text in planted_warnings(evidence_of(run))]
    assert said == [True] * warned
    unjudged = replace(run, manifest=None)
    assert all(one.status is DOUBT for one in PlantedAnswers().evaluate(evidence_of(unjudged)))


def judged(model: str, *scores: float) -> RunScores:
    metrics = {"faithfulness": scores, "mrr": scores, "tone": scores}
    return build_run(metrics, manifest=make_manifest(model=model))


NOW, THEN = judged("new", 0.5, 0.4, 1.0), judged("old", 0.9, 0.4, 1.0)
RULES = {"faithfulness": {"max_drop": 0.02}, "tone": {"min": 0.1}, "mrr": {"max_drop": 0.5}}


@pytest.mark.parametrize(
    ("then", "on_judge_change", "names", "code"),
    [
        (THEN, "rejudge", ["faithfulness"], 0),
        (THEN, "skip", [], 0),
        (THEN, "fail", [], 6),
        (NOW, "rejudge", [], 0),
        (NOW, "fail", [], 0),
        (build_run({"mrr": [0.5]}, manifest=make_manifest(model="old")), "fail", [], 0),  # it was not measured
    ],
)
def test_a_baseline_of_another_judge(then: RunScores, on_judge_change: str, names: list[str], code: int) -> None:
    gate = {"on_judge_change": on_judge_change, "only_named": True, "max_edited": 1.0, "min_paired": 0.0}
    evidence = evidence_of(NOW, then, metrics=RULES, gate=gate)
    assert list(metrics_to_rejudge(NOW, then, evidence.rules, evidence.policy)) == names
    verdict = decide(NOW, then, metrics=RULES, gate=gate)
    said = 'the judge changed from openai old to openai new, and the policy has on_judge_change = "fail".'
    assert any(one.reason.startswith(said) for one in verdict.checks if one.kind is CheckKind.BASELINE) is (code == 6)
    assert verdict.exit_code == code


def test_labels_that_were_drawn_unevenly_and_in_groups() -> None:
    agreement = Estimate(estimate=None, low=None, high=None, confidence=0.95, method="")
    pairs = {"b": (0.5, 1.0), "a": (1.0, 0.0), "c": (0.0, 0.0)}
    found = MetricCalibration(version=None, pairs=pairs, agreement=agreement)
    assert found.residuals().tolist() == [-1.0, 0.5, 0.0]
    assert (found.max_residual, found.group_labels()) == (1.0, None)
    uneven = found.model_copy(update={"weights": {"b": 2.0, "a": 0.5}, "groups": {"a": "g", "c": "g"}})
    assert uneven.residuals().tolist() == [-0.5, 1.0, 0.0]
    assert uneven.max_residual == 2.0
    labels = uneven.group_labels()
    assert labels is not None
    assert labels[0] == labels[2] != labels[1]


def test_what_is_beyond_its_bound() -> None:
    level = check(CheckKind.CEILING, estimate=0.3, threshold=0.3)
    assert not level.is_beyond
    assert replace(level, estimate=0.31).is_beyond
    assert replace(level, kind=CheckKind.FLOOR, estimate=0.29).is_beyond
    assert not replace(level, kind=CheckKind.FLOOR).is_beyond
