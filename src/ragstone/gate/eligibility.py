"""Whether a run can be a baseline, independently of whether it passed."""

from __future__ import annotations

from ragstone.formatting import join_first
from ragstone.gate.verdict import CHANGE_KINDS, CheckKind, GateVerdict, Status


def eligibility(verdict: GateVerdict) -> tuple[bool, str]:
    """Whether a finished run with this verdict can be a baseline, and a clause on why.

    A failed run can't, nor one that could not be decided for lack of scores, nor one
    with a loss that is suspected: the loss would become the baseline. A run that is
    inconclusive for other reasons can, since nothing is shown against it. So can a run
    that only lacked a baseline, or there would never be a first one.
    """
    loss_kinds = CHANGE_KINDS | {CheckKind.DRIFT}
    failed: list[str] = []
    unsettled: list[str] = []
    undecided: list[str] = []
    for check in verdict.checks:
        if check.blocks:
            match check.status:
                case Status.FAIL:
                    failed.append(check.name)
                case Status.INCONCLUSIVE if check.kind in loss_kinds:
                    unsettled.append(check.name)
                # A missing baseline says nothing against the run.
                case Status.ERROR if check.kind != CheckKind.BASELINE:
                    undecided.append(check.name)
    reasons = {
        "it failed": failed,
        "a loss is not settled": unsettled,
        "it could not be decided": undecided,
    }
    for reason, names in reasons.items():
        if names:
            return False, f"{reason} ({join_first(names)})"
    if verdict.status is Status.FAIL:
        return False, "it failed"
    if verdict.status is Status.PASS:
        return True, "it passed"
    return True, "nothing is shown against it"
