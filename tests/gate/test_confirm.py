"""Which drops more answers could decide, and when no more are needed."""

from __future__ import annotations

from typing import Any

import pytest

from ragstone.gate.confirm import CLEAR_SHARE, doubtful_checks, is_settled
from ragstone.gate.verdict import Action, Check, CheckKind, Status
from tests.gate.verdicts import verdict_of

ALPHA = 0.05
FLOOR = {"kind": CheckKind.FLOOR}
RISE = {"kind": CheckKind.RISE, "threshold": 0.02}


@pytest.mark.parametrize(
    ("p", "fields", "doubted", "final"),
    [
        (None, {}, False, False),
        (CLEAR_SHARE * ALPHA, {}, False, True),
        (CLEAR_SHARE * ALPHA, {"estimate": -0.02}, False, False),  # no larger than what is allowed
        (CLEAR_SHARE * ALPHA, {"action": Action.WARN}, False, False),
        (CLEAR_SHARE * ALPHA * 1.01, {}, True, False),
        (0.4, {}, True, False),
        (0.41, {}, False, False),
        (0.03, {"status": Status.FAIL}, True, False),  # a drop that fails may be asked about again
        (0.03, {"action": Action.WARN}, False, False),
        (0.03, {"estimate": -0.02}, False, False),
        (0.03, {"estimate": None}, False, False),
        (0.03, {"threshold": None}, False, False),
        (0.03, RISE | {"estimate": 0.1}, True, False),
        (0.03, RISE | {"estimate": 0.02}, False, False),
        (0.03, FLOOR, False, False),
        (None, FLOOR | {"status": Status.FAIL}, False, True),
        (None, FLOOR | {"status": Status.ERROR}, False, True),
        (None, FLOOR | {"status": Status.FAIL, "unsettled": True}, True, False),
        (None, FLOOR | {"status": Status.FAIL, "action": Action.WARN}, False, False),
    ],
)
def test_what_more_answers_could_decide(p: float | None, fields: Any, doubted: bool, final: bool) -> None:
    given: dict[str, Any] = {
        "kind": CheckKind.DROP,
        "status": Status.INCONCLUSIVE,
        "action": Action.BLOCK,
        "estimate": -0.1,
        "threshold": -0.02,
        **fields,
    }
    verdict = verdict_of(Status.INCONCLUSIVE, "", [Check("mrr.drop", reason="", **given, p_value=p)])
    assert bool(doubtful_checks(verdict, ALPHA)) is doubted
    assert is_settled(verdict, ALPHA) is final
