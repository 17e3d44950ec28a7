"""Is the system fast and cheap enough: latency, tokens and cost of an answer?

They depend on which samples were drawn, so each gets an interval: order statistics for a 95th percentile, Student's t
for a mean. For values with a long right tail, as tokens have, the lower limit of Student's t is too low rather than too
high: a false fail is rarer than stated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ragstone.evaluation.scores import RunScores
from ragstone.evaluation.usage import cost_usd, tokens
from ragstone.formatting import answer_cost, counted, percent, seconds, whole
from ragstone.gate.checks.checker import Checker
from ragstone.gate.evidence import Evidence
from ragstone.gate.policy import Policy
from ragstone.gate.source import KeyPath
from ragstone.gate.verdict import Action, Check, CheckKind, Interval, Status
from ragstone.stats.intervals import quantile_interval, student_interval

MIN_REPORTED = 0.98
"""The share of answers that must report their tokens for a limit on them to be decided."""


SHARE = 0.15
"""The share of the policy's error rate that all limits have together."""


@dataclass(frozen=True, slots=True)
class _Limited:
    """A limit in the policy: what reports call it, and how a value is written."""

    kind: CheckKind
    title: str
    is_mean: bool
    shown: Callable[[float], str]
    unit: str = ""


_LIMITS = {
    "latency_p95_s": _Limited(CheckKind.LATENCY, "Latency (p95)", False, seconds),
    "tokens_mean": _Limited(CheckKind.USAGE, "Tokens per answer", True, whole, " tokens"),
    "tokens_p95": _Limited(CheckKind.USAGE, "Tokens per answer (p95)", False, whole, " tokens"),
    "cost_mean_usd": _Limited(CheckKind.USAGE, "Cost per answer", True, answer_cost),
    "cost_p95_usd": _Limited(CheckKind.USAGE, "Cost per answer (p95)", False, answer_cost),
}


class SystemLimits(Checker):
    """One check for each limit that the policy sets, if it has the `action` of this family."""

    kinds = (CheckKind.LATENCY, CheckKind.USAGE)
    policy_key = ("system",)

    def __init__(self, action: Action) -> None:
        self._action = action

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        if evidence.policy.system.action is self._action:
            for key, limit in evidence.policy.system.limits.items():
                yield _check(key, limit, evidence, error_rate_of_a_limit(evidence.policy))

    def key(self, check: Check) -> KeyPath:
        return ("system", _key(check))

    def title(self, check: Check) -> str:
        return _LIMITS[_key(check)].title

    def found(self, check: Check) -> str:
        return "" if check.estimate is None else _LIMITS[_key(check)].shown(check.estimate)

    def wanted(self, check: Check) -> str:
        return "" if check.threshold is None else f"at most {_LIMITS[_key(check)].shown(check.threshold)}"


def error_rate_of_a_limit(policy: Policy) -> float:
    """The error rate of each limit of the system: they share a part of the policy's, by Bonferroni's inequality."""
    limits = len(policy.system.limits) + len(policy.system.rises)
    return SHARE * policy.alpha / limits


def _key(check: Check) -> str:
    return "latency_p95_s" if check.kind is CheckKind.LATENCY else check.name.removeprefix("system.")


def _check(key: str, limit: float, evidence: Evidence, alpha: float) -> Check:
    limited, policy = _LIMITS[key], evidence.policy
    name = f"system.{key.removesuffix('_s')}"
    measured = measured_answers(key, limited.kind, evidence.current)
    if isinstance(measured, str):
        return Check(name, limited.kind, Status.ERROR, policy.system.action, measured, threshold=limit)
    values = np.array([measured[sample] for sample in sorted(measured)], dtype=np.float64)
    measure = student_interval if limited.is_mean else partial(quantile_interval, q=0.95)
    result = measure(values, confidence=1.0 - 2.0 * alpha)
    estimate, interval = result.estimate, replace(Interval.of(result), low=max(result.low, 0.0))
    status = _against_limit(estimate, interval, limit, policy)
    bound, found = limited.shown(limit) + limited.unit, limited.shown(estimate) + limited.unit
    if limited.kind is CheckKind.LATENCY and bound == found and estimate > limit:
        found = f"{estimate:g} s"
    words = {
        Status.PASS: f"within the limit of {bound}",
        Status.FAIL: f"over the limit of {bound}"
        if estimate > limit
        else f"not shown to be within the limit of {bound}",
        Status.INCONCLUSIVE: f"over the limit of {bound}, but with too few answers to rule out chance",
    }[status]
    verb = "cost" if "cost" in key else "took"
    said = f"an answer {verb} {found} on average" if limited.is_mean else f"95 of 100 answers {verb} at most {found}"
    return Check(
        name=name,
        kind=limited.kind,
        status=status,
        action=policy.system.action,
        reason=f"{said} on {counted(values.size, 'sample')}: {words}.",
        estimate=estimate,
        interval=interval if math.isfinite(interval.high) else None,
        threshold=limit,
        current=estimate,
        n=values.size,
    )


def measured_answers(key: str, kind: CheckKind, run: RunScores) -> Mapping[str, float] | str:
    """The values by sample, or why there are none, or too few: an answer without tokens may be the dearest."""
    if kind is CheckKind.LATENCY:
        return run.system.latencies_s or "the policy limits the latency, but this run did not measure it."
    used, price = run.system.usage, None if run.manifest is None else run.manifest.price
    if not used:
        return (
            f"the policy has {key}, but the system reports no tokens. "
            'It can return them with each answer: "usage": {"input_tokens": …, "output_tokens": …}.'
        )
    if "cost" in key and price is None:
        return f"the policy has {key}, but this run has no token price; set [system.price] in the config."
    given = len(run.samples) - len(run.system.failures)
    if len(used) < MIN_REPORTED * given:
        return (
            f"the policy has {key}, but only {len(used)} of {counted(given, 'answer')} report their tokens "
            f"({percent(len(used) / given)}, required {percent(MIN_REPORTED)})."
        )
    if "cost" in key and price is not None:
        return {sample: cost_usd(usage, price) for sample, usage in used.items()}
    return {sample: float(tokens(usage)) for sample, usage in used.items()}


def _against_limit(estimate: float, interval: Interval, limit: float, policy: Policy) -> Status:
    decision = policy.gate.decision
    if decision == "point":
        return Status.FAIL if estimate > limit else Status.PASS
    if decision == "assured":
        return Status.PASS if interval.high <= limit else Status.FAIL
    # Fewer than 59 samples can never show that 95 of 100 are in time, however fast they are. So being in time is enough
    # to pass, and only being late needs evidence.
    if estimate <= limit:
        return Status.PASS
    return Status.FAIL if interval.low > limit else Status.INCONCLUSIVE
