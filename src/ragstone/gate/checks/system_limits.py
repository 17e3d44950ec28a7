"""Is the system fast and cheap enough: latency, tokens and cost of an answer?

They depend on which samples were drawn, so being beyond a limit must be shown: by an
exact binomial test of how many are, for a 95th percentile, by Student's t for a mean. For values with a long right
tail, as tokens have, the lower limit of Student's t is too low rather than too high: a
false fail is rarer than stated.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ragstone.evaluation.scores import RunScores
from ragstone.formatting import counted, percent
from ragstone.gate.checks.checker import Checker, Format, limit_check
from ragstone.gate.evidence import Evidence
from ragstone.gate.policy import Policy
from ragstone.gate.source import KeyPath
from ragstone.gate.usage_change import FIGURES, measured_values
from ragstone.gate.verdict import Action, Check, CheckKind, Status
from ragstone.stats.intervals import p_proportion_at_most, student_interval

MIN_REPORTED = 0.98
"""The share of answers that must report their tokens for a limit on them to be
decided."""

SHARE = 0.15
"""The share of the policy's error rate that all limits have together."""


class SystemLimits(Checker):
    """One check for each limit that the policy sets, if it has the `action` of this
    family."""

    kinds = (CheckKind.LATENCY, CheckKind.USAGE)
    policy_key = ("system",)
    at = "at most"

    def __init__(self, action: Action) -> None:
        self._action = action

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        if evidence.policy.system.action is self._action:
            for key, limit in evidence.policy.system.limits.items():
                yield _check(key, limit, evidence)

    def key(self, check: Check) -> KeyPath:
        return ("system", _key(check))

    def title(self, check: Check) -> str:
        return FIGURES[_key(check)].title

    def formats(self, check: Check) -> tuple[Format, Format]:
        shown = FIGURES[_key(check)].shown
        return shown, shown


def error_rate_of_a_limit(policy: Policy) -> float:
    """The error rate of each limit of the system: they share a part of the policy's, by
    Bonferroni's inequality."""
    limits = len(policy.system.limits) + len(policy.system.rises)
    return SHARE * policy.alpha / limits


def _key(check: Check) -> str:
    if check.kind is CheckKind.LATENCY:
        return "latency_p95_s"
    return check.name.removeprefix("system.")


def _check(key: str, limit: float, evidence: Evidence) -> Check:
    figure = FIGURES[key]
    policy = evidence.policy
    kind = CheckKind.LATENCY if "latency" in key else CheckKind.USAGE
    name = f"system.{key.removesuffix('_s')}"
    action = policy.system.action
    missing = why_not_measured(key, evidence.current)
    if missing is not None:
        return Check(name, kind, Status.ERROR, action, missing, threshold=limit)
    measured = measured_values(evidence.current, key)
    values = np.array(list(measured.values()), dtype=np.float64)
    estimate = figure.of(values)
    rate = error_rate_of_a_limit(policy)
    if kind is CheckKind.LATENCY:
        late = int(np.count_nonzero(values > limit))
        in_time = values.size - late
        is_shown = p_proportion_at_most(late, values.size, 0.05) <= rate
        is_assured = p_proportion_at_most(in_time, values.size, 0.95) <= rate
    else:
        mean = student_interval(values, confidence=1.0 - 2.0 * rate)
        is_shown = mean.low > limit
        is_assured = mean.high <= limit
    # Fewer than 59 samples can never show that 95 of 100 are in time, however fast they
    # are. So being in time is enough to pass, and only being late needs evidence.
    bound = f"the limit of {figure.shown(limit)}"
    if policy.gate.decision == "assured" and not is_assured:
        status = Status.FAIL
        side = f"not shown to be within {bound}"
    elif estimate <= limit:
        status = Status.PASS
        side = f"within {bound}"
    elif is_shown:
        status = Status.FAIL
        side = f"over {bound}"
    else:
        status = Status.INCONCLUSIVE
        side = f"over {bound}, but with too few answers to rule out chance"
    return limit_check(
        name,
        kind,
        status,
        f"{figure.title}: {figure.shown(estimate)} on {counted(values.size, 'sample')}, {side}.",
        value=estimate,
        limit=limit,
        n=values.size,
        action=action,
    )


def why_not_measured(key: str, run: RunScores) -> str | None:
    """Why there are no values for a limit, or too few: an answer without tokens may be
    the dearest. None if there are enough."""
    used = run.system.usage
    answers = len(run.samples) - len(run.system.failures)
    if "latency" in key:
        if run.system.latencies_s:
            return None
        return f"the policy has {key}, but this run did not measure the latency."
    if not used:
        return (
            f"the policy has {key}, but the system reports no tokens. "
            'It can return them with each answer: "usage": {"input_tokens": …, "output_tokens": …}.'
        )
    if "cost" in key and run.price is None:
        return f"the policy has {key}, but this run has no token price; set [system.price] in the config."
    if len(used) < MIN_REPORTED * answers:
        return (
            f"the policy has {key}, but only {len(used)} of {counted(answers, 'answer')} report their tokens "
            f"({percent(len(used) / answers)}, required {percent(MIN_REPORTED)})."
        )
    return None
