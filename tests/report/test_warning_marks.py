"""A check that only warns is marked so."""

from __future__ import annotations

import pytest

from ragstone.evaluation.scores import RunScores
from ragstone.gate.verdict import Action, Check, CheckKind, Status
from ragstone.report.document import document_of
from ragstone.report.render import Format, render
from tests.gate.verdicts import verdict_of
from tests.report.runs import one_check

MARKS: dict[Format, str] = {
    "md": "(warns)",
    "json": '"action": "warn"',
    "junit": "warning",
    "html": "(warns)",
    "text": "(warns)",
}


@pytest.mark.parametrize("form", MARKS)
def test_a_check_that_only_warns_is_marked_so(form: Format) -> None:
    """JUnit has no word for a test case that passes and would not have mattered."""
    mark = MARKS[form]
    for status in Status:
        if (form, status) != ("junit", Status.PASS):
            assert mark in render(one_check(status, Action.WARN), form), status
            assert mark not in render(one_check(status, Action.BLOCK), form), status


@pytest.mark.parametrize("form", ["md", "html", "text"])
def test_so_is_one_of_the_whole_run_that_passes(form: Format) -> None:
    for action in (Action.WARN, Action.BLOCK):
        check = Check("latency.p95", CheckKind.LATENCY, Status.PASS, action, "fast", estimate=0.5, threshold=2.0)
        report = document_of(verdict_of(Status.PASS, "fine", [check]), RunScores("run", {}, {}))
        assert ("(warns)" in render(report, form)) is (action is Action.WARN)
