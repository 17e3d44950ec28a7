"""Rounds of stored answers: what judging them may cost."""

from __future__ import annotations

from ragstone.config import JudgeSettings
from ragstone.golden.sample import GoldenSet
from ragstone.judge.llm.estimate import CostEstimate, estimate_cost
from ragstone.rounds.round import Round
from ragstone.run.stored import StoredAnswers


def stored_cost(this: Round, judge: JudgeSettings, stored: StoredAnswers) -> CostEstimate:
    """At most what judging the answers of a round that plays back `stored` costs, from the length of their texts."""
    lengths: dict[str, tuple[int, int]] = {}
    answered = []
    for sample in this.samples:
        response = stored.response(sample.id)
        if response.failure is None:
            answered.append(sample)
            lengths[sample.id] = len(response.answer), sum(len(context.text) for context in response.contexts)
    return estimate_cost(
        judge,
        GoldenSet(tuple(answered)),
        this.metrics,
        repeats=this.repeats,
        answers=this.answers,
        lengths=lengths,
    )
