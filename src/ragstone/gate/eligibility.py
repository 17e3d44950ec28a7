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
    losses = CHANGES | {CheckKind.DRIFT}
    failed = []
    unsettled = []
    undecided = []
    for check in verdict.checks:
        if not check.blocks:
            continue
        if check.failed:
            failed.append(check.name)
        elif check.status is Status.INCONCLUSIVE and check.kind in losses:
            unsettled.append(check.name)
        elif check.status is Status.ERROR and check.kind != CheckKind.BASELINE:
            undecided.append(check.name)
    if failed:
        return False, f"it failed ({some(failed)})"
    if unsettled:
        return False, f"a loss is not settled ({some(unsettled)})"
    if undecided:
        return False, f"it could not be decided ({some(undecided)})"
    if verdict.status is Status.FAIL:
        return False, "it failed"
    if verdict.status is Status.PASS:
        return True, "it passed"
    return True, "nothing is shown against it"
