"""Which drops more answers could decide, and when no more are needed."""

from __future__ import annotations

from typing import Any

import pytest

from ragstone.gate.confirm import AT_ONCE, LAST, doubts, settled
from ragstone.gate.verdict import Action, Check, CheckKind, GateVerdict, Status
from tests.gate.verdicts import verdict_of

ALPHA = 0.05


def verdict(p: float | None, **fields: Any) -> GateVerdict:
    """A verdict of one check, which is a drop with this p-value unless `fields` say otherwise."""
    given: dict[str, Any] = {
        "name": "mrr.drop",
        "kind": CheckKind.DROP,
        "status": Status.INCONCLUSIVE,
        "action": Action.BLOCK,
        "reason": "",
        "estimate": -0.1,
        "threshold": -0.02,
    }
    return verdict_of(Status.INCONCLUSIVE, "", [Check(**{**given, **fields}, p_value=p)])


@pytest.mark.parametrize(
    ("p", "fields", "once", "again"),
    [
        (None, {}, False, False),
        (AT_ONCE * ALPHA, {}, False, False),  # clear at once
        (AT_ONCE * ALPHA * 1.01, {}, True, True),
        (LAST.ask * ALPHA, {}, True, True),
        (LAST.ask * ALPHA * 1.01, {}, False, False),
        (0.03, {"action": Action.WARN}, False, False),
        (0.03, {"kind": CheckKind.FLOOR}, False, False),
        (0.03, {"estimate": -0.02}, False, False),  # no larger than what is allowed
        (0.03, {"estimate": None}, False, False),
        (0.03, {"threshold": None}, False, False),
        (0.03, {"kind": CheckKind.RISE, "estimate": 0.1, "threshold": 0.02}, True, True),
        (0.03, {"kind": CheckKind.RISE, "estimate": 0.02, "threshold": 0.02}, False, False),
    ],
)
def test_drops_that_more_answers_could_decide(p: float | None, fields: Any, once: bool, again: bool) -> None:
    found = verdict(p, **fields)
    assert bool(doubts(found, ALPHA)) is once
    assert bool(doubts(found, ALPHA, confirmed=True)) is again


@pytest.mark.parametrize(
    ("p", "fields", "expected"),
    [
        (AT_ONCE * ALPHA, {}, True),
        (AT_ONCE * ALPHA, {"estimate": -0.02}, False),
        (AT_ONCE * ALPHA, {"action": Action.WARN}, False),
        (AT_ONCE * ALPHA * 1.01, {}, False),
        (0.03, {"status": Status.FAIL}, False),  # a drop that fails may be asked about again
        (None, {"kind": CheckKind.FLOOR, "status": Status.FAIL}, True),
        (None, {"kind": CheckKind.FLOOR, "status": Status.ERROR}, True),
        (None, {"kind": CheckKind.FLOOR, "status": Status.INCONCLUSIVE}, False),
        (None, {"kind": CheckKind.FLOOR, "status": Status.FAIL, "action": Action.WARN}, False),
    ],
)
def test_when_no_more_answers_are_needed(p: float | None, fields: Any, expected: bool) -> None:
    assert settled(verdict(p, **fields), ALPHA) is expected
