"""The interface of a kind of check."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar, Protocol

from ragstone.formatting import bound, percent, score
from ragstone.gate.evidence import Evidence
from ragstone.gate.verdict import Action, Check, CheckKind, Status
from ragstone.settings.toml_lines import KeyPath

Format = Callable[[float], str]
"""Writes a number, with its unit."""

RULE_KEYS: Mapping[str, KeyPath] = {
    CheckKind.FLOOR: ("min",),
    CheckKind.CEILING: ("max",),
    CheckKind.DROP: ("max_drop",),
    CheckKind.RISE: ("max_rise",),
    CheckKind.DRIFT: ("max_drift",),
    CheckKind.APPLICABILITY: (),
}
"""The key of thresholds.toml behind each kind of check of a metric, within the table of
the metric."""


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
    """A check that compares one number of the run, often a share of `n` samples, with
    its limit."""
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
    """One kind of check, or a few that are decided together: how they are decided, and
    how reports word them."""

    kinds: ClassVar[tuple[str, ...]]
    policy_key: ClassVar[KeyPath]
    """The key of thresholds.toml behind its checks; empty if there is none."""
    is_final: ClassVar[bool] = False
    """Whether the checkers after it are skipped if it yields a check."""
    heading: ClassVar[str] = ""
    """The title of its checks; if empty, it is made from the kind."""
    is_share: ClassVar[bool] = False
    """Whether the estimate and the threshold are shares, written as percentages."""
    comparison: ClassVar[str] = "at least"
    """How the estimate must compare with the threshold: "at least" or "at most"."""

    def evaluate(self, evidence: Evidence) -> Iterable[Check]:
        """Decide the checks; none if the policy does not ask for them, or the run has
        nothing to check. Pure; never raises."""
        ...

    def key(self, check: Check) -> KeyPath:
        """The key of thresholds.toml behind `check`; empty if there is none."""
        if check.metric is None or check.kind not in RULE_KEYS:
            return self.policy_key
        key = ("metrics", check.metric, *RULE_KEYS[check.kind])
        if check.slice is None:
            return key
        return ("slices", check.slice, *key)

    def title(self, check: Check) -> str:
        """What reports call `check`, without its metric, slice or sample."""
        return self.heading or check.kind.replace("_", " ").capitalize()

    def unit(self, check: Check) -> Format | None:  # noqa: ARG002 - for those with several units
        """How reports write the estimate and the threshold; None for scores."""
        return percent if self.is_share else None

    def result(self, check: Check) -> str:
        """The estimate, as reports show it."""
        if check.estimate is None:
            return ""
        write = self.unit(check) or score
        return write(check.estimate)

    def requirement(self, check: Check) -> str:
        """The threshold, as reports show it."""
        if check.threshold is None:
            return ""
        write = self.unit(check) or bound
        comparison = self.comparison
        # A metric must reach its threshold, even where shares of this kind are limited.
        if check.metric is not None:
            comparison = "at least"
        return f"{comparison} {write(check.threshold)}"
