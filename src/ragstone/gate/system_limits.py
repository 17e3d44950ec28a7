"""Limits of the system under test that depend on which samples were drawn: latency, tokens and cost of an answer.

Each gets an interval: order statistics for a 95th percentile, Student's t for a mean. For values with a long right
tail, as tokens have, the lower limit of Student's t is too low rather than too high: a false fail is rarer than stated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ragstone.formatting import answer_cost, counted, percent, seconds, whole
from ragstone.gate.policy import Policy
from ragstone.gate.verdict import Check, CheckKind, Interval, Status
from ragstone.run.scores import RunScores
from ragstone.run.usage import cost_usd, tokens
from ragstone.stats.mean import student_interval
from ragstone.stats.quantile import quantile_interval

_Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Limited:
    """A limit in the policy: its key under [system], what it limits, and how a value is written."""

    key: str
    kind: CheckKind
    is_mean: bool
    shown: Callable[[float], str]


def _tokens(value: float) -> str:
    return f"{whole(value)} tokens"


_LIMITS = (
    _Limited("latency_p95_s", CheckKind.LATENCY, False, seconds),
    _Limited("tokens_mean", CheckKind.USAGE, True, _tokens),
    _Limited("tokens_p95", CheckKind.USAGE, False, _tokens),
    _Limited("cost_mean_usd", CheckKind.USAGE, True, answer_cost),
    _Limited("cost_p95_usd", CheckKind.USAGE, False, answer_cost),
)


def limits_set(policy: Policy) -> int:
    """How many of these limits the policy sets."""
    return sum(getattr(policy.system, one.key) is not None for one in _LIMITS)


def limit_checks(run: RunScores, policy: Policy, *, alpha: float) -> list[Check]:
    """One check for each limit that the policy sets. `alpha` is the probability of a false fail of each."""
    return [
        _check(one, float(limit), run, policy, alpha)
        for one in _LIMITS
        if (limit := getattr(policy.system, one.key)) is not None
    ]


def _check(limited: _Limited, limit: float, run: RunScores, policy: Policy, alpha: float) -> Check:
    name = "system.latency_p95" if limited.kind is CheckKind.LATENCY else f"system.{limited.key}"
    measured = _measured(limited, run)
    missing = _missing(limited, measured, run, policy) if isinstance(measured, Mapping) else measured
    if missing is not None or not isinstance(measured, Mapping):
        return Check(
            name=name,
            kind=limited.kind,
            status=Status.ERROR,
            action=policy.system.action,
            reason=str(missing),
            threshold=limit,
        )
    values = np.array([measured[sample] for sample in sorted(measured)], dtype=np.float64)
    estimate, low, high, confidence, method = _interval(values, limited, 1.0 - 2.0 * alpha)
    status = _against_limit(low, estimate, high, limit, policy)
    bound, found = limited.shown(limit), limited.shown(estimate)
    if limited.kind is CheckKind.LATENCY and bound == found and estimate > limit:
        found = f"{estimate:g} s"
    words = {
        Status.PASS: f"within the limit of {bound}",
        Status.FAIL: f"over the limit of {bound}"
        if estimate > limit
        else f"not shown to be within the limit of {bound}",
        Status.INCONCLUSIVE: f"over the limit of {bound}, but with too few answers to rule out chance",
    }[status]
    verb = "cost" if "cost" in limited.key else "took"
    said = f"an answer {verb} {found} on average" if limited.is_mean else f"95 of 100 answers {verb} at most {found}"
    return Check(
        name=name,
        kind=limited.kind,
        status=status,
        action=policy.system.action,
        reason=f"{said} on {counted(values.size, 'sample')}: {words}.",
        estimate=estimate,
        interval=Interval(max(low, 0.0), high, confidence, method) if math.isfinite(high) else None,
        threshold=limit,
        current=estimate,
        n=values.size,
    )


def _measured(limited: _Limited, run: RunScores) -> Mapping[str, float] | str:
    """The values by sample, or why there are none."""
    if limited.kind is CheckKind.LATENCY:
        return run.system.latencies_s or "the policy limits the latency, but this run did not measure it."
    used = run.system.usage
    if not used:
        return (
            f"the policy has {limited.key}, but the system reports no tokens. "
            'It can return them with each answer: "usage": {"input_tokens": …, "output_tokens": …}.'
        )
    if "cost" not in limited.key:
        return {sample: float(tokens(usage)) for sample, usage in used.items()}
    price = None if run.manifest is None else run.manifest.price
    if price is None:
        return f"the policy has {limited.key}, but this run has no price of a token; set [system.price] in the config."
    return {sample: cost_usd(usage, price) for sample, usage in used.items()}


def _missing(limited: _Limited, measured: Mapping[str, float], run: RunScores, policy: Policy) -> str | None:
    """Why the values are too few: an answer that reports no tokens may be the dearest."""
    given = len(run.samples) - len(run.system.failures)
    if limited.kind is CheckKind.LATENCY or len(measured) >= policy.gate.min_coverage * given:
        return None
    return (
        f"the policy has {limited.key}, but only {len(measured)} of {counted(given, 'answer')} report their tokens "
        f"({percent(len(measured) / given)}, required {percent(policy.gate.min_coverage)})."
    )


def _interval(values: _Floats, limited: _Limited, confidence: float) -> tuple[float, float, float, float, str]:
    """Estimate, lower and upper limit, confidence and method."""
    if limited.is_mean:
        mean = student_interval(values, confidence=confidence)
        return mean.estimate, mean.low, mean.high, mean.confidence, "Student's t"
    found = quantile_interval(values, 0.95, confidence=confidence)
    return found.estimate, found.low, found.high, found.confidence, "order statistics"


def _against_limit(low: float, estimate: float, high: float, limit: float, policy: Policy) -> Status:
    decision = policy.gate.decision
    if decision == "point":
        return Status.FAIL if estimate > limit else Status.PASS
    if decision == "assured":
        return Status.PASS if high <= limit else Status.FAIL
    # Fewer than 59 samples can never show that 95 of 100 are in time, however fast they are. So being in time is enough
    # to pass, and only being late needs evidence.
    if estimate <= limit:
        return Status.PASS
    return Status.FAIL if low > limit else Status.INCONCLUSIVE
