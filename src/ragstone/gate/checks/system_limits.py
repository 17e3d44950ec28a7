"""Is the system fast and cheap enough, and no slower or dearer than in the baseline:
latency, tokens and cost of an answer?

They depend on which samples were drawn, so being beyond a limit must be shown: by an
exact binomial test of how many are, for a 95th percentile, by Student's t for a mean,
and by a sign test of the questions for a rise. For values with a long right tail, as
tokens have, the lower limit of Student's t is too low rather than too high: a false
fail is rarer than stated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ragstone.evaluation.scores import RunScores
from ragstone.formatting import counted, percent, seconds
from ragstone.gate.checks.checker import Checker, Format
from ragstone.gate.evidence import Evidence
from ragstone.gate.policy import Policy
from ragstone.gate.source import KeyPath
from ragstone.gate.speed_and_price import (
    FIGURES,
    LATENCY_TOLERANCE_S,
    P95_LATENCY,
    Figure,
    PairedUsage,
    factor,
    measured_values,
    paired_usage,
)
from ragstone.gate.verdict import Check, CheckKind, Status
from ragstone.stats.intervals import p_proportion_at_most, student_interval

MIN_REPORTED = 0.98
"""The share of answers that must report their tokens for a limit on them to be
decided."""

SHARE = 0.15
"""The share of the policy's error rate that all limits have together."""


class SystemLimits(Checker):
    """One check for each limit that the policy sets, of an answer or of its rise.

    A rise fails if it is larger than is allowed and more questions rose by as much than
    fell, beyond chance.
    """

    kinds = (CheckKind.LATENCY, CheckKind.USAGE, CheckKind.SYSTEM_RISE)
    policy_key = ("system",)
    at = "at most"

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        system = evidence.policy.system
        action = system.action
        for key, limit in system.limits.items():
            kind = CheckKind.LATENCY if "latency" in key else CheckKind.USAGE
            name = f"system.{key.removesuffix('_s')}"
            missing = why_not_measured(key, evidence.current)
            if missing is None:
                yield _limit_check(name, kind, FIGURES[key], limit, evidence)
            else:
                error = Status.ERROR
                yield Check(name, kind, error, action, missing, threshold=limit)
        if evidence.pairing is None:
            return
        paired = {usage.figure: usage for usage in paired_usage(evidence.pairing)}
        for figure in FIGURES.values():
            max_rise = system.rises.get(figure.limit)
            if max_rise is None:
                continue
            name = f"system.{figure.name}_rise"
            missing = why_not_measured(figure.limit, evidence.current)
            if missing is not None:
                rise = CheckKind.SYSTEM_RISE
                yield Check(name, rise, Status.ERROR, action, missing)
            elif figure in paired and paired[figure].is_telling:
                yield _rise_check(name, paired[figure], max_rise, evidence.policy)

    def unguarded(self, evidence: Evidence) -> Iterator[str]:
        if evidence.pairing is None:
            return
        checked = {usage.figure.limit for usage in paired_usage(evidence.pairing)}
        for key in evidence.policy.system.rises:
            if key not in checked:
                yield f"{key} is not checked: no question has such a figure in both runs."

    def key(self, check: Check) -> KeyPath:
        figure = _figure(check)
        is_rise = check.kind is CheckKind.SYSTEM_RISE
        return ("system", figure.limit if is_rise else figure.name)

    def title(self, check: Check) -> str:
        return _figure(check).title

    def unit(self, check: Check) -> Format | None:
        if check.kind is CheckKind.SYSTEM_RISE:
            return _factor
        return _figure(check).shown


def _figure(check: Check) -> Figure:
    if check.kind is CheckKind.LATENCY:
        return P95_LATENCY
    return FIGURES[check.name.removeprefix("system.").removesuffix("_rise")]


def _factor(rise: float) -> str:
    return factor(1.0 + rise)


def error_rate_of_a_limit(policy: Policy) -> float:
    """The error rate of each limit of the system: they share a part of the policy's, by
    Bonferroni's inequality."""
    limits = len(policy.system.limits) + len(policy.system.rises)
    return SHARE * policy.alpha / limits


def _status(*, within: bool, shown: bool, assured: bool, policy: Policy) -> Status:
    """The status of a figure beside its limit.

    Fewer than 59 samples can never show that 95 of 100 are in time, however fast they
    are. So being within the limit is enough to pass, and only being beyond it needs
    evidence.
    """
    if policy.gate.decision == "assured" and not assured:
        return Status.FAIL
    if within:
        return Status.PASS
    if shown:
        return Status.FAIL
    return Status.INCONCLUSIVE


def _limit_check(
    name: str, kind: CheckKind, figure: Figure, limit: float, evidence: Evidence
) -> Check:
    policy = evidence.policy
    measured = measured_values(evidence.current, figure.name)
    values = np.array(list(measured.values()), dtype=np.float64)
    n = values.size
    estimate = figure.of(values)
    rate = error_rate_of_a_limit(policy)
    if kind is CheckKind.LATENCY:
        late = int(np.count_nonzero(values > limit))
        shown = p_proportion_at_most(late, n, 0.05) <= rate
        assured = p_proportion_at_most(n - late, n, 0.95) <= rate
    else:
        mean = student_interval(values, confidence=1.0 - 2.0 * rate)
        shown = mean.low > limit
        assured = mean.high <= limit
    within = estimate <= limit
    status = _status(within=within, shown=shown, assured=assured, policy=policy)
    side = "over"
    if within:
        side = "within"
    doubt = ""
    if status is Status.INCONCLUSIVE:
        doubt = ", but with too few answers to rule out chance"
    elif status is Status.FAIL and within:
        doubt = ", which too few answers assure"
    reason = (
        f"{figure.title}: {figure.shown(estimate)} on {counted(n, 'sample')}, {side} the limit of "
        f"{figure.shown(limit)}{doubt}."
    )
    return Check(
        name,
        kind,
        status,
        policy.system.action,
        reason,
        estimate=estimate,
        threshold=limit,
        current=estimate,
        n=n,
    )


def _rise_check(
    name: str, usage: PairedUsage, max_rise: float, policy: Policy
) -> Check:
    change = usage.change
    rate = error_rate_of_a_limit(policy)
    within = not usage.is_beyond(max_rise)
    status = _status(
        within=within,
        shown=usage.p_by_chance(max_rise) <= rate,
        assured=within and usage.p_within(max_rise) <= rate,
        policy=policy,
    )
    limit = f"at most {_factor(max_rise)} is allowed"
    if status is Status.INCONCLUSIVE:
        limit += ", but too few questions show it"
    # Within the tolerance a rise is none, however large its share: no number stands
    # beside a limit that it exceeds.
    is_tolerated = status is Status.PASS and change.share > max_rise
    if is_tolerated:
        limit = f"less than {seconds(LATENCY_TOLERANCE_S)} is no rise"
    return Check(
        name,
        CheckKind.SYSTEM_RISE,
        status,
        policy.system.action,
        f"{change.title} {change.moved}{change.times} on {counted(change.n, 'question')}; {limit}.",
        estimate=None if is_tolerated or math.isinf(change.share) else change.share,
        threshold=max_rise,
        current=change.now,
        baseline=change.before,
        n=change.n,
    )


def why_not_measured(key: str, run: RunScores) -> str | None:
    """Why there are no values for a limit, or too few: an answer without tokens may be
    the dearest. None if there are enough."""
    why = None
    reported = len(run.system.usage)
    answers = len(run.samples) - len(run.system.failures)
    if "latency" in key:
        if not run.system.latencies_s:
            why = "this run did not measure the latency."
    elif not reported:
        why = (
            "the system reports no tokens. It can return them with each answer: "
            '"usage": {"input_tokens": …, "output_tokens": …}.'
        )
    elif "cost" in key and run.price is None:
        why = "this run has no token price; set [system.price] in the config."
    elif reported < MIN_REPORTED * answers:
        why = (
            f"only {reported} of {counted(answers, 'answer')} report their tokens "
            f"({percent(reported / answers)}, required {percent(MIN_REPORTED)})."
        )
    return why and f"the policy has {key}, but {why}"
