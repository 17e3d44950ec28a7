"""How much of the policy's error rate each decision on a drop has, and when the system
is asked again before a run fails.

Recorded answers, and those of a system that says the same twice, are decided on once.
Elsewhere the first answers only raise a suspicion: then every question is asked again,
and all answers together decide. Whatever the first answers say, an unchanged system
fails after the second round no more often than if it always had that many answers.

All questions are asked again, not only those that fell: a question that was chosen
because its answer was bad gets a better one by regression to the mean, changed or not.
The shares below were chosen with `bench/losses.py`.
"""

from __future__ import annotations

import math

from ragstone.gate.verdict import CHANGE_KINDS, Check, GateVerdict, Status

FAIL_SHARE = 0.4
"""A drop fails if its p-value is at most this share of the policy's error rate."""
SUSPECT_SHARE = 1.0
"""A drop is suspected up to this share of the error rate."""
STILL_SUSPECT_SHARE = 2.0
"""Once the system was asked again, a drop is suspected up to this share."""
ASK_SHARE = 8.0
"""The system is asked again up to this share of the error rate."""
CLEAR_SHARE = 0.02
"""Up to this share of the error rate a drop is so clear that it fails without asking
again."""


def doubtful_checks(verdict: GateVerdict, alpha: float) -> tuple[Check, ...]:
    """The blocking checks that more answers could decide: drops whose p-value is near
    the error rate `alpha`, and checks that are unsettled."""
    blocking = (check for check in verdict.checks if check.blocks)
    return tuple(
        check for check in blocking if check.unsettled or is_doubtful(check, alpha)
    )


def is_doubtful(check: Check, alpha: float) -> bool:
    """Whether more answers could decide a check of a drop, even if it passes as it
    is."""
    p_value = _p_value_of_loss(check)
    return CLEAR_SHARE * alpha < p_value <= ASK_SHARE * alpha


def is_settled(verdict: GateVerdict, alpha: float) -> bool:
    """Whether no more answers are needed: a drop is clear, or another check fails or is
    an error whatever they say."""
    clear_p_value = CLEAR_SHARE * alpha
    for check in verdict.checks:
        is_bad = check.status in (Status.FAIL, Status.ERROR)
        is_final = is_bad and not check.unsettled
        if check.kind in CHANGE_KINDS:
            is_final = _p_value_of_loss(check) <= clear_p_value
        if is_final and check.blocks:
            return True
    return False


def _p_value_of_loss(check: Check) -> float:
    """The p-value of a drop beyond its limit; infinite for any other check, which is
    more than any share of an error rate."""
    if check.kind not in CHANGE_KINDS or check.p_value is None or not check.is_beyond:
        return math.inf
    return check.p_value
