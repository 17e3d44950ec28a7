"""Is the system fast and cheap enough, and no slower or dearer than in the baseline?

Latency, tokens and cost depend on which questions are asked, so it must be shown that a
limit is exceeded: for a 95th percentile by an exact binomial test of how many answers
exceed it, for a mean by Student's t, and for a rise by a sign test of the questions.
Tokens have a long right tail, for which the lower limit of Student's t is too low
rather than too high: a false fail is rarer than stated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from msgspec.structs import replace

from ragstone.evaluation.scores import RunScores
from ragstone.formatting import counted, seconds
from ragstone.gate.checks.checker import Checker, Format
from ragstone.gate.evidence import Evidence
from ragstone.gate.policy import Policy
from ragstone.gate.speed_and_price import (
    FIGURES,
    LATENCY_TOLERANCE_S,
    P95_LATENCY,
    Figure,
    PairedUsage,
    format_factor,
    measured_values,
    paired_usage,
)
from ragstone.gate.verdict import Check, CheckKind, Status
from ragstone.settings.toml_lines import KeyPath
from ragstone.stats.intervals import p_proportion_at_most, student_interval

MIN_REPORTED_SHARE = 0.98
"""A limit on tokens is decided only if at least this share of the answers reports
them."""

ERROR_RATE_SHARE = 0.15
"""The share of the policy's error rate that all limits have together."""


class SystemLimits(Checker):
    """One check for each limit that the policy sets on a figure or on its rise.

    A rise fails if it is larger than is allowed, and more questions rose by as much
    than fell, beyond chance.
    """

    kinds = (CheckKind.LATENCY, CheckKind.USAGE, CheckKind.SYSTEM_RISE)
    policy_key = ("system",)
    comparison = "at most"

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        run = evidence.current
        system = evidence.policy.system
        for key, limit in system.limits.items():
            kind = CheckKind.LATENCY if "latency" in key else CheckKind.USAGE
            name = key.removesuffix("_s")
            problem = why_not_measured(key, run)
            check = Check(
                f"system.{name}",
                kind,
                Status.ERROR,
                system.action,
                problem,
                threshold=limit,
            )
            if not problem:
                check = _limit_check(check, limit, evidence)
            yield check
        if not evidence.has_baseline:
            return
        usages = paired_usage(evidence.pairing)
        paired = {usage.figure: usage for usage in usages}
        for figure in FIGURES.values():
            max_rise = system.rises.get(figure.limit_key)
            if max_rise is None:
                continue
            problem = why_not_measured(figure.limit_key, run)
            check = Check(
                f"system.{figure.name}_rise",
                CheckKind.SYSTEM_RISE,
                Status.ERROR,
                system.action,
                problem,
            )
            usage = paired.get(figure)
            if problem:
                yield check
            elif usage is not None and usage.is_telling:
                yield _rise_check(check, usage, max_rise, evidence.policy)

    def key(self, check: Check) -> KeyPath:
        figure = _figure(check)
        is_rise = check.kind == CheckKind.SYSTEM_RISE
        return ("system", figure.limit_key if is_rise else figure.name)

    def title(self, check: Check) -> str:
        return _figure(check).title

    def unit(self, check: Check) -> Format | None:
        if check.kind == CheckKind.SYSTEM_RISE:
            return _factor
        return _figure(check).format


def unchecked_rises(evidence: Evidence) -> Iterator[str]:
    """A sentence for each limit of a rise that was not checked for want of values."""
    if not evidence.has_baseline:
        return
    usages = paired_usage(evidence.pairing)
    checked = {usage.figure.limit_key for usage in usages}
    for key in evidence.policy.system.rises:
        if key not in checked:
            yield f"{key} is not checked: no question has a value in both runs."


def _figure(check: Check) -> Figure:
    """The figure that a check limits."""
    if check.kind == CheckKind.LATENCY:
        return P95_LATENCY
    key = check.name.removeprefix("system.")
    name = key.removesuffix("_rise")
    return FIGURES[name]


def _factor(rise: float) -> str:
    """Write a rise as a factor: ``× 1.50`` for 0.5."""
    return format_factor(1.0 + rise)


def error_rate_of_a_limit(policy: Policy) -> float:
    """The error rate of one limit of the system. All limits share a part of the policy's
    error rate, by Bonferroni's inequality."""
    system = policy.system
    limits = len(system.limits) + len(system.rises)
    return ERROR_RATE_SHARE * policy.alpha / limits


def _decide(*, is_within: bool, is_shown: bool) -> tuple[Status, str]:
    """The status of a figure that is within its limit or beyond it, and the words for a
    doubt.

    Fewer than 59 samples can't show that 95 of 100 are in time, however fast they are.
    So it is enough to be within the limit, and only being beyond it must be shown.
    """
    if is_within:
        return Status.PASS, ""
    if is_shown:
        return Status.FAIL, ""
    return Status.INCONCLUSIVE, ", but with too few answers to rule out chance"


def _limit_check(check: Check, limit: float, evidence: Evidence) -> Check:
    """`check`, decided by whether its figure is within `limit`."""
    run = evidence.current
    figure = _figure(check)
    measured = measured_values(run, figure.name, run.price)
    measurements = list(measured.values())
    values = np.array(measurements, dtype=np.float64)
    n = values.size
    estimate = figure.compute(values)
    rate = error_rate_of_a_limit(evidence.policy)
    if check.kind == CheckKind.LATENCY:
        is_late = values > limit
        late = int(np.count_nonzero(is_late))
        # One in twenty may be late: that is what a 95th percentile leaves.
        p_value = p_proportion_at_most(late, n, 0.05)
        is_shown = p_value <= rate
    else:
        confidence = 1.0 - 2.0 * rate
        mean = student_interval(values, confidence=confidence)
        is_shown = mean.low > limit
    is_within = estimate <= limit
    status, doubt = _decide(is_within=is_within, is_shown=is_shown)
    side = "within" if is_within else "over"
    samples = counted(n, "sample")
    measured_words = f"{figure.title}: {figure.format(estimate)} on {samples}"
    reason = f"{measured_words}, {side} the limit of {figure.format(limit)}{doubt}."
    return replace(
        check, status=status, reason=reason, estimate=estimate, current=estimate, n=n
    )


def _rise_check(
    check: Check, usage: PairedUsage, max_rise: float, policy: Policy
) -> Check:
    """`check`, decided by whether its figure rose by more than `max_rise`."""
    change = usage.change
    is_within = not usage.is_beyond(max_rise)
    p_value = usage.p_by_chance(max_rise)
    is_shown = p_value <= error_rate_of_a_limit(policy)
    status, doubt = _decide(is_within=is_within, is_shown=is_shown)
    max_factor = _factor(max_rise)
    limit = f"at most {max_factor} is allowed{doubt}"
    # Within its tolerance a rise passes, however large its share. Its number is left out
    # then: reports would show it beside a limit that it exceeds.
    is_tolerated = status is Status.PASS and change.share > max_rise
    if is_tolerated:
        tolerance = seconds(LATENCY_TOLERANCE_S)
        limit = f"less than {tolerance} is no rise"
    questions = counted(change.n, "question")
    rise_words = f"{change.title} {change.moved}{change.times}"
    reason = f"{rise_words} on {questions}; {limit}."
    has_no_share = is_tolerated or math.isinf(change.share)
    estimate = None if has_no_share else change.share
    return replace(
        check,
        status=status,
        reason=reason,
        estimate=estimate,
        threshold=max_rise,
        current=change.now,
        baseline=change.before,
        n=change.n,
    )


def why_not_measured(key: str, run: RunScores) -> str:
    """A sentence on why a limit can't be decided: there are no values, or too few of
    them, since an answer without tokens may be the dearest. Empty if it can."""
    reported = len(run.system.usage)
    answers = len(run.samples) - len(run.system.failures)
    problem = ""
    if "latency" in key:
        if not run.system.latencies_s:
            problem = "this run did not measure the latency."
    elif not reported:
        problem = (
            "the system reports no tokens. It can return them with each answer: "
            '"usage": {"input_tokens": …, "output_tokens": …}.'
        )
    elif "cost" in key and run.price is None:
        problem = "this run has no token price; set [system.price] in the config."
    elif reported < MIN_REPORTED_SHARE * answers:
        total = counted(answers, "answer")
        problem = f"only {reported} of {total} report their tokens."
    if not problem:
        return ""
    return f"the policy has {key}, but {problem}"
