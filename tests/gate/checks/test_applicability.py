"""Did a metric apply to so few answers that a rule on it says nothing of the others?"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from ragstone.evaluation.scores import RunScores, SystemFacts
from ragstone.gate.verdict import Action, CheckKind, Status
from tests.gate.conftest import build_run, check_of, checks_of, decide, make_manifest, named

NO_CLAIM = "the answer makes no claim"
NO_REFERENCE = "the sample has no reference"
WRITTEN = {"faithfulness": {"min": 0.5}}
RECALL = {"context_recall": {"min": 0.5}}
OTHER = {"politeness": {"min": 0.5}}


def run(applies: int, total: int, reason: str = NO_CLAIM, metric: str = "faithfulness", **more: Any) -> RunScores:
    return build_run(
        {metric: [1.0] * applies, "politeness": [1.0] * total},
        not_applicable={metric: dict.fromkeys(named(total - applies, applies), reason)},
        manifest=make_manifest(),
        **more,
    )


def recall(applies: int, total: int, reason: str) -> RunScores:
    return run(applies, total, reason, "context_recall")


HALF_AND_HALF = build_run(
    {"context_recall": [1.0] * 2, "politeness": [1.0] * 30},
    not_applicable={
        "context_recall": dict.fromkeys(named(14, 2), NO_REFERENCE) | dict.fromkeys(named(14, 16), NO_CLAIM)
    },
    manifest=make_manifest(),
)


@pytest.mark.parametrize(
    ("now", "metrics", "hardly"),
    [
        (run(5, 30), WRITTEN, True),
        (run(6, 30), WRITTEN, False),  # a fifth
        (run(0, 30), WRITTEN, False),  # that is another check
        (recall(2, 30, NO_REFERENCE), RECALL, True),
        (recall(2, 30, NO_REFERENCE), OTHER, False),  # nobody named it, and without any reference it would not count
        (recall(2, 30, NO_CLAIM), OTHER, True),
        (HALF_AND_HALF, OTHER, False),
        (recall(5, 100, NO_REFERENCE), RECALL, False),  # a few labels in a large golden set may be meant
        (recall(4, 100, NO_REFERENCE), RECALL, True),
    ],
)
def test_hardly_any_is_less_than_a_fifth(now: RunScores, metrics: Any, hardly: bool) -> None:
    verdict = decide(now, metrics=metrics)
    assert bool(checks_of(verdict, CheckKind.APPLICABILITY)) is hardly
    if hardly:
        assert (verdict.status, check_of(verdict, CheckKind.APPLICABILITY).blocks) == (Status.INCONCLUSIVE, True)


def test_it_is_said_once_at_the_top() -> None:
    said = "faithfulness: only 2 of 30 answers could be judged, most often because the answer makes no claim."
    verdict = decide(run(2, 30), metrics=WRITTEN)
    assert check_of(verdict, CheckKind.APPLICABILITY).reason == said
    assert said not in verdict.warnings
    warned = decide(run(2, 30), metrics={"faithfulness": {"min": 0.5, "action": "warn"}})
    assert (warned.status, check_of(warned, CheckKind.APPLICABILITY).action) == (Status.PASS, Action.WARN)
    assert said in warned.warnings
    unnamed = decide(recall(2, 30, NO_REFERENCE), metrics=OTHER)
    assert any(warning.startswith("context_recall: only 2 of 30") for warning in unnamed.warnings)


def test_a_family_of_metrics_applies_where_one_of_them_does() -> None:
    current = build_run(
        {"context_precision": [0.9] * 4, "context_precision_no_reference": [0.9] * 36},
        not_applicable={
            "context_precision": dict.fromkeys(named(36, 4), NO_REFERENCE),
            "context_precision_no_reference": dict.fromkeys(named(4), "the sample has a reference"),
        },
        manifest=make_manifest(),
    )
    verdict = decide(current, metrics={"context_precision": {"min": 0.5}})
    assert (verdict.status, checks_of(verdict, CheckKind.APPLICABILITY)) == (Status.PASS, [])


def test_a_slice_is_asked_about_its_own_answers() -> None:
    tags = dict.fromkeys(named(10, 20), ("rare",))
    current = build_run(
        {"faithfulness": [1.0] * 21},
        tags=tags,
        not_applicable={"faithfulness": dict.fromkeys(named(9, 21), NO_CLAIM)},
        manifest=make_manifest(),
    )
    verdict = decide(current, metrics=WRITTEN, slices={"rare": {"metrics": WRITTEN}})
    check = check_of(verdict, CheckKind.APPLICABILITY)
    assert (check.slice, check.n, check.estimate) == ("rare", 10, 0.1)


def test_questions_that_can_not_be_answered_do_not_count() -> None:
    current = run(10, 90, "the answer abstains")
    unanswerable = {name: replace(facts, answerable=int(name[1:]) < 10) for name, facts in current.samples.items()}
    assert decide(current, metrics=WRITTEN).status is Status.INCONCLUSIVE
    assert decide(replace(current, samples=unanswerable), metrics=WRITTEN).status is Status.PASS


BARE = dict.fromkeys(named(30), hash(()))
CONTEXTUAL = ("faithfulness", "context_recall", "context_precision")
JUDGED = build_run(dict.fromkeys(CONTEXTUAL, [1.0] * 30), manifest=make_manifest())
UNJUDGED = build_run(
    {"faithfulness": [], "politeness": [1.0] * 30},
    not_applicable={"faithfulness": dict.fromkeys(named(30), "no contexts")},
    manifest=make_manifest(),
)


@pytest.mark.parametrize(
    ("now", "metrics", "then", "doubted"),
    [
        pytest.param(UNJUDGED, {}, None, True, id="a first run by the default rules"),
        pytest.param(UNJUDGED, {}, UNJUDGED, False, id="compared"),
        pytest.param(JUDGED, {}, None, False, id="judged all the same"),
    ],
)
def test_a_system_that_returns_no_contexts(now: RunScores, metrics: Any, then: RunScores | None, doubted: bool) -> None:
    returned = replace(now, system=SystemFacts(contexts=BARE))
    verdict = decide(returned, then, metrics=metrics) if metrics else decide(returned, then)
    reasons = [check.reason for check in checks_of(verdict, CheckKind.APPLICABILITY)]
    assert any("returned no contexts with any answer, so" in reason for reason in reasons) is doubted
    one = replace(returned, system=SystemFacts(contexts={**BARE, "s0": 7}))
    assert not checks_of(decide(one, then, metrics=metrics), CheckKind.APPLICABILITY)
    failed = replace(one, system=replace(one.system, failures={"s0": "slow"}))
    assert bool(checks_of(decide(failed, then, metrics=metrics), CheckKind.APPLICABILITY)) is doubted
