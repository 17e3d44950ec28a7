"""The interface of a kind of check."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar, Protocol

from ragstone.formatting import bound, percent, score
from ragstone.gate.evidence import Evidence
from ragstone.gate.verdict import Action, Check, CheckKind, Status
from ragstone.settings.toml_lines import KeyPath

Format = Callable[[float], str]

RULE_KEYS: Mapping[str, KeyPath] = {
    CheckKind.FLOOR: ("min",),
    CheckKind.CEILING: ("max",),
    CheckKind.DROP: ("max_drop",),
    CheckKind.RISE: ("max_rise",),
    CheckKind.DRIFT: ("max_drift",),
    CheckKind.APPLICABILITY: (),
}
"""The keys of thresholds.toml, in the rule for a metric, behind checks of a metric."""


def limit_check(
    name: str,
    kind: CheckKind,
    status: Status,
    reason: str,
    *,
    value: float,
    limit: float,
    n: int,
    action: Action = Action.BLOCK,
) -> Check:
    """A check of one number of the run, often a share of `n` samples, with a limit."""
    return Check(
        name,
        kind,
        status,
        action,
        reason,
        estimate=value,
        threshold=limit,
        current=value,
        n=n,
    )


class Checker(Protocol):
    """One kind of check, or a few that are decided together: what it asks of the
    evidence, and how reports word it."""

    kinds: ClassVar[tuple[str, ...]]
    policy_key: ClassVar[KeyPath]
    """The key of thresholds.toml behind its checks."""
    final: ClassVar[bool] = False
    """If it has a check, nothing after it is checked."""
    heading: ClassVar[str] = ""
    """The title of its checks, unless it is that of the kind."""
    share: ClassVar[bool] = False
    """Estimate and threshold are shares."""
    at: ClassVar[str] = "at least"
    """How the estimate must compare with the threshold."""

    def evaluate(self, evidence: Evidence) -> Iterable[Check]:
        """The checks; none if the policy does not ask for them, or the run has nothing
        to check. Pure; never raises."""
        ...

    def key(self, check: Check) -> KeyPath:
        """The key of thresholds.toml behind `check`; empty if there is none."""
        if check.metric is None or check.kind not in RULE_KEYS:
            return self.policy_key
        rule = ("metrics", check.metric, *RULE_KEYS[check.kind])
        if check.slice is None:
            return rule
        return ("slices", check.slice, *rule)

    def title(self, check: Check) -> str:
        """What reports call `check`, without its metric, slice or sample."""
        return self.heading or check.kind.replace("_", " ").capitalize()

    def unit(self, check: Check) -> Format | None:  # noqa: ARG002 - for those with several units
        """How reports write the estimate and the threshold; None for scores."""
        return percent if self.share else None

    def result(self, check: Check) -> str:
        """The estimate, as reports show it."""
        if check.estimate is None:
            return ""
        written = self.unit(check) or score
        return written(check.estimate)

    def requirement(self, check: Check) -> str:
        """The threshold, as reports show it."""
        if check.threshold is None:
            return ""
        written = self.unit(check) or bound
        at = "at least"
        if check.metric is None:
            at = self.at
        return f"{at} {written(check.threshold)}"
