"""A check that only warns is marked so."""

from __future__ import annotations

import pytest

from ragstone.gate.verdict import Action, Status
from ragstone.report.render import Format, render
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
