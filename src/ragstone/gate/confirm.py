"""How much of the policy's error rate each look at a drop has, and when to ask again
before a run fails.

Recorded answers, and those of a system that says the same twice, are looked at once.
Elsewhere the first answers only raise a suspicion: then every question is asked again,
and all answers together decide. A healthy run fails at the second look at most as often
as a run that always had that many answers, whatever happens at the first. All questions
are asked again, not only those that fell: a question that was chosen because its answer
was bad gets a better one by regression to the mean, changed or not. Shares were chosen
with `bench/losses.py`.
"""

from __future__ import annotations

import math

from ragstone.gate.verdict import CHANGE_KINDS, Check, GateVerdict, Status

FAIL = 0.4
"""Up to this share of the policy's error rate, the p-value of a drop fails."""
SUSPECT = 1.0
"""Up to this share it is suspected."""
STILL_SUSPECT = 2.0
"""The same of a run that was asked again."""
ASK = 8.0
"""Up to this share the system is asked again."""
AT_ONCE = 0.02
"""A drop at this share of the error rate is not asked about again."""


def doubts(verdict: GateVerdict, alpha: float) -> tuple[Check, ...]:
    """The blocking checks that more answers could decide: drops at the policy's error
    rate, and what is unsettled."""
    blocking = (check for check in verdict.checks if check.blocks)
    return tuple(
        check for check in blocking if check.unsettled or is_doubt(check, alpha)
    )


def is_doubt(check: Check, alpha: float) -> bool:
    """Whether more answers could decide a drop, even where it passes if nothing is
    asked again."""
    p_value = _p_value_of_loss(check)
    return AT_ONCE * alpha < p_value <= ASK * alpha


def settled(verdict: GateVerdict, alpha: float) -> bool:
    """Whether no more answers are needed: a drop is clear, or the run fails or is an
    error for another reason."""
    clear_p_value = AT_ONCE * alpha
    for check in verdict.checks:
        is_bad = check.status in (Status.FAIL, Status.ERROR)
        is_final = is_bad and not check.unsettled
        if check.kind in CHANGE_KINDS:
            is_final = _p_value_of_loss(check) <= clear_p_value
        if is_final and check.blocks:
            return True
    return False


def _p_value_of_loss(check: Check) -> float:
    """The p-value of a drop beyond its limit; of any other check more than any share of
    an error rate."""
    if check.kind not in CHANGE_KINDS or check.p_value is None or not check.is_beyond:
        return math.inf
    return check.p_value
