"""Is an answer slower or dearer than in the baseline by more than the policy allows?"""

from __future__ import annotations

import math
from collections.abc import Iterator

from ragstone.formatting import counted, seconds
from ragstone.gate.checks.checker import Checker, Format
from ragstone.gate.checks.system_limits import error_rate_of_a_limit, why_not_measured
from ragstone.gate.evidence import Evidence
from ragstone.gate.policy import Policy
from ragstone.gate.source import KeyPath
from ragstone.gate.speed_and_price import paired_usage
from ragstone.gate.usage_change import (
    FIGURES,
    LATENCY_TOLERANCE_S,
    Figure,
    PairedUsage,
    factor,
)
from ragstone.gate.verdict import Action, Check, CheckKind, Status


class SystemRises(Checker):
    """One check for each figure whose rise the policy limits, if [system] has the
    `action` of this family.

    A rise fails if it is larger than is allowed and more questions rose by as much than
    fell, beyond chance.
    """

    kinds = (CheckKind.SYSTEM_RISE,)
    policy_key = ("system",)
    at = "at most"

    def __init__(self, action: Action) -> None:
        self._action = action

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        system = evidence.policy.system
        if system.action is not self._action or evidence.pairing is None:
            return
        paired = {usage.figure: usage for usage in paired_usage(evidence.pairing)}
        for figure in FIGURES.values():
            max_rise = system.rises.get(figure.limit)
            if max_rise is None:
                continue
            missing = why_not_measured(figure.limit, evidence.current)
            if missing is not None:
                yield Check(
                    _name(figure),
                    CheckKind.SYSTEM_RISE,
                    Status.ERROR,
                    system.action,
                    missing,
                )
            elif figure in paired and paired[figure].is_telling:
                yield _check(paired[figure], max_rise, evidence.policy)

    def unguarded(self, evidence: Evidence) -> Iterator[str]:
        if self._action is not Action.BLOCK or evidence.pairing is None:
            return
        checked = {usage.figure.limit for usage in paired_usage(evidence.pairing)}
        for key in evidence.policy.system.rises:
            if key not in checked:
                yield f"{key} is not checked: no question has such a figure in both runs."

    def key(self, check: Check) -> KeyPath:
        return ("system", _FIGURES[check.name].limit)

    def title(self, check: Check) -> str:
        return _FIGURES[check.name].title

    def formats(self, check: Check) -> tuple[Format, Format]:  # noqa: ARG002 - all are shares
        return _factor, _factor


def _factor(rise: float) -> str:
    return factor(1.0 + rise)


def _name(figure: Figure) -> str:
    return f"system.{figure.name}_rise"


_FIGURES = {_name(figure): figure for figure in FIGURES.values()}


def _check(usage: PairedUsage, max_rise: float, policy: Policy) -> Check:
    change = usage.change
    status = _status(usage, max_rise, policy)
    limit = f"at most {_factor(max_rise)} is allowed"
    if status is Status.INCONCLUSIVE:
        limit += ", but too few questions show it"
    # Within the tolerance a rise is none, however large its share: no number stands
    # beside a limit that it exceeds.
    is_tolerated = status is Status.PASS and change.share > max_rise
    if is_tolerated:
        limit = f"less than {seconds(LATENCY_TOLERANCE_S)} is no rise"
    return Check(
        name=_name(usage.figure),
        kind=CheckKind.SYSTEM_RISE,
        status=status,
        action=policy.system.action,
        reason=f"{change.title} {change.moved}{change.times} on {counted(change.n, 'question')}; {limit}.",
        estimate=None if is_tolerated or math.isinf(change.share) else change.share,
        threshold=max_rise,
        current=change.now,
        baseline=change.before,
        n=change.n,
    )


def _status(usage: PairedUsage, max_rise: float, policy: Policy) -> Status:
    rate = error_rate_of_a_limit(policy)
    if policy.gate.decision == "assured":
        is_assured = usage.p_within(max_rise) <= rate and not usage.is_beyond(max_rise)
        return Status.PASS if is_assured else Status.FAIL
    if not usage.is_beyond(max_rise):
        return Status.PASS
    if usage.p_by_chance(max_rise) <= rate:
        return Status.FAIL
    return Status.INCONCLUSIVE
