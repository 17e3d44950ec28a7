"""Whether a run can be a baseline, independently of whether it passed."""

from __future__ import annotations

from ragstone.formatting import some
from ragstone.gate.verdict import CHANGES, CheckKind, GateVerdict, Status


def eligibility(verdict: GateVerdict) -> tuple[bool, str]:
    """Whether a finished run with this verdict can be a baseline, and why, without a
    full stop.

    A failed run can't, nor one that could not be decided for lack of scores, nor one
    with a loss that is suspected and not settled: a loss would become the baseline. One
    that is otherwise inconclusive can: nothing is shown against it. So can one that
    only lacked a baseline, or there would never be a first.
    """
    blocking = [check for check in verdict.checks if check.blocks]
    failed = [check.name for check in blocking if check.failed]
    if failed:
        return False, f"it failed ({some(failed)})"
    losses = CHANGES | {CheckKind.DRIFT}
    unsettled = [
        check.name
        for check in blocking
        if check.kind in losses and check.status is Status.INCONCLUSIVE
    ]
    if unsettled:
        return False, f"a loss is not settled ({some(unsettled)})"
    errors = {
        check.name: check.kind for check in blocking if check.status is Status.ERROR
    }
    broken = [name for name in errors if errors[name] is not CheckKind.BASELINE]
    if broken:
        return False, f"it could not be decided ({some(broken)})"
    if errors:
        return True, "it only lacked a baseline"
    if verdict.status in (Status.FAIL, Status.ERROR):
        return False, f"its verdict was {verdict.status}"
    if verdict.status is Status.INCONCLUSIVE:
        return True, "nothing is shown against it"
    return True, "it passed"
