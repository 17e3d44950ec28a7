"""How far the answers of the system to one question agree, and what makes scores
vary."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ragstone.evaluation.scores import MetricScores
from ragstone.formatting import counted, figure, percent, some
from ragstone.gate.bounds import answers_per_sample
from ragstone.gate.evidence import Evidence
from ragstone.gate.rules import Rule
from ragstone.stats.variance import VarianceComponents, variance_components

_MAX_NAMED = 3


def variance_of(scores: MetricScores) -> VarianceComponents | None:
    """The variance of one score of a metric: units are samples, draws answers, readings
    judging rounds.

    None if no answer was repeated or judged again, or for fewer than two samples.
    """
    if len(scores.readings) < 2:
        return None
    values: list[float] = []
    units: list[int] = []
    draws: list[int] = []
    any_repeated = False
    for unit, answers in enumerate(scores.readings.values()):
        any_repeated = any_repeated or len(answers) > 1
        for draw, rounds in enumerate(answers):
            values += rounds
            units += [unit] * len(rounds)
            draws += [draw] * len(rounds)
    return variance_components(
        np.array(values, dtype=np.float64),
        np.array(units, dtype=np.int64),
        np.array(draws, dtype=np.int64) if any_repeated else None,
    )


def variance_words(parts: VarianceComponents) -> str:
    """The shares of the variance of one score, such as ``samples 61 %, system 30 %,
    judge 9 %``; empty if unknown.

    A source that was not repeated is named with the one that it can't be told from.
    """
    system = "system" if parts.readings is not None else "system and judge"
    shares = {
        "samples": parts.share(parts.units),
        system: parts.share(parts.draws),
        "judge": parts.share(parts.readings),
    }
    return ", ".join(
        f"{source} {percent(share)}"
        for source, share in shares.items()
        if share is not None
    )


def stability_notes(evidence: Evidence) -> Iterator[str]:
    """Notes on a run that asked the system several times: where the variance is, and
    which samples are unsteady."""
    run = evidence.current
    if answers_per_sample(run) == 1:
        return
    sources = []
    for metric, scores in run.metrics.items():
        variance = variance_of(scores)
        words = "" if variance is None else variance_words(variance)
        if words:
            sources.append(f"{metric}: {words}")
    if sources:
        yield f"Sources of the variance of a score: {'; '.join(sources)}."
    for rule in evidence.rules:
        if rule.min is not None and rule.slice is None:
            yield from _unsteady(run.scores_of(rule.metric), rule, rule.min)


def _unsteady(scores: MetricScores, rule: Rule, floor: float) -> Iterator[str]:
    """A note on the samples with answers on both sides of a floor (or ceiling)."""
    shares: dict[str, float] = {}
    words: dict[str, str] = {}
    for sample_id, answers in sorted(scores.answers.items()):
        passed = [
            rule.direction.shown(value) >= floor
            for value in answers
            if value is not None
        ]
        if len(set(passed)) == 2:
            shares[sample_id] = sum(passed) / len(passed)
            words[sample_id] = (
                f"{sample_id}: {sum(passed)} of {len(passed)} answers pass"
            )
    if not shares:
        return
    worst_first = sorted(shares, key=lambda sample_id: shares[sample_id])
    named = some([words[sample_id] for sample_id in worst_first], _MAX_NAMED)
    limit = f"{rule.direction.level_key} = {figure(rule.direction.shown(floor))}"
    samples = f"{len(shares)} of {counted(len(scores.answers), 'sample')}"
    yield f"{rule.metric}: {samples} have answers that meet {limit} and answers that do not ({named})."
