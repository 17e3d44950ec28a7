"""Is an answer slower or dearer than in the baseline by more than the policy allows?"""

from __future__ import annotations

import math
from collections.abc import Iterator

from ragstone.formatting import counted, seconds
from ragstone.gate.checks.checker import Checker
from ragstone.gate.checks.system_limits import error_rate_of_a_limit, measured_answers
from ragstone.gate.evidence import Evidence
from ragstone.gate.policy import Policy
from ragstone.gate.source import KeyPath
from ragstone.gate.speed_and_price import paired_usage
from ragstone.gate.usage_change import FIGURES, LATENCY_TOLERANCE_S, PairedUsage, factor
from ragstone.gate.verdict import Action, Check, CheckKind, Status

_MEASURED = {"max_latency_rise": CheckKind.LATENCY}
"""What a key limits, if it isn't the tokens and what they cost."""


class SystemRises(Checker):
    """One check for each figure whose rise the policy limits, if [system] has the `action` of this family.

    A rise fails if it is larger than is allowed and more questions rose by as much than fell, beyond chance.
    """

    kinds = (CheckKind.SYSTEM_RISE,)
    policy_key = ("system",)

    def __init__(self, action: Action) -> None:
        self._action = action

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        system = evidence.policy.system
        if system.action is not self._action or evidence.pairing is None:
            return
        figures = paired_usage(evidence.pairing)
        for key, max_rise in system.rises.items():
            measured = measured_answers(key, _MEASURED.get(key, CheckKind.USAGE), evidence.current)
            if isinstance(measured, str):
                yield Check(f"system.{key}", CheckKind.SYSTEM_RISE, Status.ERROR, system.action, measured)
                continue
            alpha = error_rate_of_a_limit(evidence.policy)
            for usage in figures:
                if usage.figure.limit == key and usage.is_telling:
                    yield _check(usage, max_rise, evidence.policy, alpha)

    def unguarded(self, evidence: Evidence) -> Iterator[str]:
        if self._action is not Action.BLOCK or evidence.pairing is None:
            return
        checked = {usage.figure.limit for usage in paired_usage(evidence.pairing)}
        for key in evidence.policy.system.rises:
            if key not in checked:
                yield f"{key} is not checked: no question has such a figure in both runs."

    def key(self, check: Check) -> KeyPath:
        name = check.name.removeprefix("system.").removesuffix("_rise")
        return ("system", FIGURES[name].limit if name in FIGURES else check.name.removeprefix("system."))

    def title(self, check: Check) -> str:
        name = check.name.removeprefix("system.").removesuffix("_rise")
        return FIGURES[name].title if name in FIGURES else "Speed and price"

    def found(self, check: Check) -> str:
        return "" if check.estimate is None else factor(1.0 + check.estimate)

    def wanted(self, check: Check) -> str:
        return "" if check.threshold is None else f"at most {factor(1.0 + check.threshold)}"


def _check(usage: PairedUsage, max_rise: float, policy: Policy, alpha: float) -> Check:
    change, status = usage.change, _status(usage, max_rise, policy.gate.decision, alpha)
    limit = f"at most {factor(1.0 + max_rise)} is allowed"
    if status is Status.INCONCLUSIVE:
        limit += ", but too few questions show it"
    # Within the tolerance a rise is none, however large its share: no number stands beside a limit that it exceeds.
    is_tolerated = status is Status.PASS and change.share > max_rise
    if is_tolerated:
        limit = f"less than {seconds(LATENCY_TOLERANCE_S)} is no rise"
    return Check(
        name=f"system.{change.name}_rise",
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


def _status(usage: PairedUsage, max_rise: float, decision: str, alpha: float) -> Status:
    beyond = usage.is_beyond(max_rise)
    if decision == "point":
        return Status.FAIL if beyond else Status.PASS
    if decision == "assured":
        return Status.PASS if not beyond and usage.p_within(max_rise) <= alpha else Status.FAIL
    if not beyond:
        return Status.PASS
    return Status.FAIL if usage.p_by_chance(max_rise) <= alpha else Status.INCONCLUSIVE
