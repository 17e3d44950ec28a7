"""How far the answers of the system to one question agree, and what makes scores vary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ragstone.evaluation.scores import MetricScores
from ragstone.formatting import counted, figure, percent, some
from ragstone.gate.bounds import answers_per_sample
from ragstone.gate.evidence import Evidence
from ragstone.gate.rules import Rule
from ragstone.stats.variance import VarianceComponents, variance_components

_MAX_NAMED = 3


def variance_of(scores: MetricScores) -> VarianceComponents | None:
    """The variance of one score of a metric: units are samples, draws answers, readings judging rounds.

    None if no answer was repeated or judged again, or for fewer than two samples.
    """
    rows = [
        (value, unit, draw)
        for unit, answers in enumerate(scores.readings.values())
        for draw, rounds in enumerate(answers)
        for value in rounds
    ]
    if len(scores.readings) < 2:
        return None
    values, units, draws = np.array(rows, dtype=np.float64).T
    several = any(len(answers) > 1 for answers in scores.readings.values())
    return variance_components(values, units.astype(np.int64), draws.astype(np.int64) if several else None)


def variance_words(parts: VarianceComponents) -> str:
    """The shares of the variance of one score, such as ``samples 61 %, system 30 %, judge 9 %``; empty if unknown.

    A source that was not repeated is named with the one that it can't be told from.
    """
    system = "system" if parts.readings is not None else "system and judge"
    named = (("samples", parts.units), (system, parts.draws), ("judge", parts.readings))
    shares = [(word, parts.share(part)) for word, part in named]
    return ", ".join(f"{word} {percent(share)}" for word, share in shares if share is not None)


def passes(answers: Sequence[float | None], rule: Rule) -> tuple[int, int]:
    """How many answers reach the floor (or stay within the ceiling) of `rule`, and how many have a score."""
    scored = [rule.direction.shown(value) for value in answers if value is not None]
    return sum(rule.min is not None and value >= rule.min for value in scored), len(scored)


def stability_notes(evidence: Evidence) -> Iterator[str]:
    """Notes on a run that asked the system several times: where the variance is, and which samples are unsteady."""
    run = evidence.current
    if answers_per_sample(run) == 1:
        return
    shares = {name: variance_of(scores) for name, scores in run.metrics.items()}
    words = {name: variance_words(parts) for name, parts in shares.items() if parts is not None}
    listed = "; ".join(f"{name}: {found}" for name, found in words.items() if found)
    if listed:
        yield f"Sources of the variance of a score: {listed}."
    for rule in evidence.rules:
        scores = run.metrics.get(rule.metric)
        if rule.min is None or rule.slice is not None or scores is None:
            continue
        counts = {sample_id: passes(each, rule) for sample_id, each in scores.answers.items()}
        unsteady = [(i, good, n) for i, (good, n) in sorted(counts.items()) if 0 < good < n]
        if unsteady:
            unsteady.sort(key=lambda one: one[1] / one[2])
            named = some([f"{i}: {good} of {n} answers pass" for i, good, n in unsteady], _MAX_NAMED)
            bound = f"{rule.direction.level_key} = {figure(rule.direction.shown(rule.min))}"
            which = f"{len(unsteady)} of {counted(len(counts), 'sample')}"
            yield f"{rule.metric}: {which} have answers that meet {bound} and answers that do not ({named})."
