"""How much of the policy's error rate each look at a drop has, and when to ask again before a run fails.

Recorded answers, and those of a system that says the same twice, are looked at once. Elsewhere the first answers only
raise a suspicion: then every question is asked again, and all answers together decide. A healthy run fails at the
second look at most as often as a run that always had that many answers, whatever happens at the first. All questions
are asked again, not only those that fell: a question that was chosen because its answer was bad gets a better one by
regression to the mean, changed or not. Shares were chosen with `bench/losses.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ragstone.gate.verdict import CHANGES, Action, Check, GateVerdict, Status


@dataclass(frozen=True, slots=True)
class Look:
    """A look at all drops: up to which share of the policy's error rate their p-values fail, are suspected, and are
    asked about again."""

    fail: float
    suspect: float
    ask: float


ONCE = Look(fail=0.4, suspect=1.0, ask=3.0)
LAST = Look(fail=0.4, suspect=2.0, ask=2.0)

FLOORS = 0.15
"""The share of the error rate that the floors have at each look, if there are drops; without a baseline, they have it
all."""

AT_ONCE = 0.02
"""A drop at this share of the error rate is not asked about again."""


def look_at(confirmed: bool) -> Look:
    """The shares for a run that was asked again (`confirmed`), or was not."""
    return LAST if confirmed else ONCE


def doubts(verdict: GateVerdict, alpha: float, *, confirmed: bool = False) -> tuple[Check, ...]:
    """The blocking drops that more answers could decide, at the policy's error rate."""
    look = look_at(confirmed)
    return tuple(check for check in _drops(verdict) if is_doubt(check, alpha, look))


def is_doubt(check: Check, alpha: float, look: Look) -> bool:
    """Whether more answers could decide a drop, even where it passes if nothing is asked again."""
    p = check.p_value
    return p is not None and AT_ONCE * alpha < p <= look.ask * alpha and check.is_beyond


def settled(verdict: GateVerdict, alpha: float) -> bool:
    """Whether no more answers are needed: a drop is clear, or the run fails or is an error for another reason."""
    drops = tuple(_drops(verdict))
    known = set(map(id, drops))
    clear = any(check.p_value is not None and check.p_value <= AT_ONCE * alpha and check.is_beyond for check in drops)
    bad = {Status.FAIL, Status.ERROR}
    return clear or any(
        check.status in bad and check.action is Action.BLOCK and id(check) not in known for check in verdict.checks
    )


def _drops(verdict: GateVerdict) -> Iterator[Check]:
    return (check for check in verdict.checks if check.kind in CHANGES and check.action is Action.BLOCK)
