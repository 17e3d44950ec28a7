"""When to ask again before a run fails: a rule of two stages whose error rate is the policy's.

The first answers decide at once if a check fails at a tenth of the error rate, or if no check leaves a doubt. Otherwise
every question is asked again, and all answers together decide at the other nine tenths. Whatever happens at the first
stage, a healthy run fails at the second one at most as often as a run that always had that many answers; the two
rates add up to the policy's. All questions are asked again, not only those that fell: a question that was chosen
because its answer was bad gets a better one by regression to the mean, changed or not.
"""

from __future__ import annotations

from collections.abc import Iterator

from ragstone.gate.verdict import CHANGES, LEVELS, Action, Check, GateVerdict, Status

AT_ONCE = 0.1
"""The share of the error rate that is spent on failing at once; the rest is for all answers together."""

DOUBT = 0.3
"""A check leaves a doubt if its adjusted p-value is at most this. A larger value finds little more, and asks again in
more healthy runs (`bench/confirm.py`)."""


def doubts(verdict: GateVerdict) -> tuple[Check, ...]:
    """The blocking floors and drops that more answers could decide: failed, inconclusive, or with a hint of a loss."""
    return tuple(
        check
        for check in _bounds(verdict)
        if check.status is not Status.PASS or (check.p_value is not None and check.p_value <= DOUBT)
    )


def fails_at_once(verdict: GateVerdict, alpha: float) -> bool:
    """Whether a blocking floor or drop fails so clearly that no more answers are needed."""
    return any(
        check.status is Status.FAIL and check.p_value is not None and check.p_value <= AT_ONCE * alpha
        for check in _bounds(verdict)
    )


def fails_anyway(verdict: GateVerdict) -> bool:
    """Whether the run is an error, or fails for a reason other than its floors and drops."""
    bad = {Status.FAIL, Status.ERROR}
    known = set(map(id, _bounds(verdict)))
    return verdict.status is Status.ERROR or any(
        check.status in bad and check.action is Action.BLOCK and id(check) not in known for check in verdict.checks
    )


def _bounds(verdict: GateVerdict) -> Iterator[Check]:
    kinds = {*LEVELS, *CHANGES}
    return (check for check in verdict.checks if check.kind in kinds and check.action is Action.BLOCK)
