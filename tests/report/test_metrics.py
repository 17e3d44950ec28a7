"""The metrics of a report, with their limits and states."""

from __future__ import annotations

import pytest

from ragstone.evaluation.scores import MetricScores, RunScores, SampleFacts
from ragstone.gate.verdict import Action, Check, CheckKind, Status
from ragstone.report.document import document_of
from ragstone.report.metrics import metric_parts, state_of
from ragstone.report.parts import Limit
from tests.gate.verdicts import verdict_of
from tests.report.checks import metric_check
from tests.report.conftest import helpdesk_report
from tests.report.runs import scores


def test_a_row_has_its_floor_and_its_drop_together_and_slices_come_after_the_whole_run() -> None:
    rows = helpdesk_report().metrics
    first = rows[0]
    assert (first.metric, first.score) == ("faithfulness", 0.91)
    assert (first.change, first.status, first.state) == (-0.09, Status.FAIL, "dropped")
    assert first.limits == (Limit("floor", 0.85, warns=False), Limit("drop", 0.02, warns=False))
    assert [row.slice for row in rows] == [None] * 5 + ["lang:de"]
    assert (rows[4].metric, rows[4].state) == ("tone", "not gated")


@pytest.mark.parametrize(
    ("found", "state"),
    [
        (metric_check(), "pass"),
        (metric_check(Status.FAIL), "below floor"),
        (metric_check(Status.FAIL, kind=CheckKind.DROP), "dropped"),
        (metric_check(Status.FAIL, action=Action.WARN), "below floor (warns)"),
        (metric_check(Status.INCONCLUSIVE), "floor unclear"),
        (metric_check(Status.INCONCLUSIVE, kind=CheckKind.DROP), "drop unclear"),
        (metric_check(Status.INCONCLUSIVE, action=Action.WARN), "floor unclear (warns)"),
        (metric_check(Status.INCONCLUSIVE, kind=CheckKind.APPLICABILITY), "applies to few answers"),
        (metric_check(Status.ERROR), "error"),
        (None, "not gated"),
    ],
)
def test_states_in_a_few_words(found: Check | None, state: str) -> None:
    assert state_of(found) == state


def test_a_drop_that_was_accepted_is_not_said_to_be_no_drop() -> None:
    drop = metric_check(kind=CheckKind.DROP, estimate=-0.173, threshold=-0.1729, accepted="mzxw6ytb")
    assert state_of(drop, drop) == "pass: accepted drop"


def test_a_blocking_failure_decides_over_a_warning() -> None:
    drop = metric_check(Status.FAIL, kind=CheckKind.DROP, estimate=-0.1, threshold=-0.02)
    found = verdict_of(Status.FAIL, "", (metric_check(Status.FAIL, action=Action.WARN), drop))
    row = document_of(found, scores({"faithfulness": {"a": 0.9}})).metrics[0]
    assert (row.action, row.state) == (Action.BLOCK, "dropped")


def test_a_row_says_how_the_scores_of_its_samples_differ() -> None:
    values = {"a": 0.2, "b": 0.4, "c": 0.9}
    facts = {name: SampleFacts(tags=("de",) if name != "c" else ()) for name in values}
    run = RunScores("run", {"tone": MetricScores(values), "one": MetricScores({"a": 0.5})}, facts)
    sliced = Check(
        "de/tone", CheckKind.FLOOR, Status.PASS, Action.BLOCK, "", metric="tone", slice="de", estimate=0.3, n=2
    )
    rows = {(row.metric, row.slice): row for row in metric_parts(verdict_of(Status.PASS, "", [sliced]), run, None)}
    whole, part = rows["tone", None], rows["tone", "de"]
    assert (whole.min, whole.max) == (0.2, 0.9)
    assert whole.sd == pytest.approx(0.3605551)
    assert (part.min, part.max) == (0.2, 0.4)
    assert part.sd == pytest.approx(0.1414214)
    one = rows["one", None]
    assert (one.min, one.max, one.sd) == (0.5, 0.5, None)
