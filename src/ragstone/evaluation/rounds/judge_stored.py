"""The round that judges stored answers: those of a run, of recorded interactions, of a
baseline, of an oracle half."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.rounds.context import RunContext
from ragstone.evaluation.rounds.round import run_round
from ragstone.evaluation.rounds.session import RunPlan, Session
from ragstone.evaluation.stored import StoredAnswers
from ragstone.golden.sample import GoldenSet
from ragstone.metrics.metric import Metric

if TYPE_CHECKING:
    from ragstone.judge.llm.estimate import CostEstimate


async def judge_stored(
    answers: StoredAnswers,
    session: Session,
    metrics: Sequence[Metric],
    out: Path,
    *,
    samples: GoldenSet | None = None,
    context: RunContext | None = None,
    **more: Any,
) -> RunDirectory:
    """Judge the stored answers with the judge of `session`, score them by `metrics`,
    and write a run to `out`.

    `samples` are those to judge, with their labels; all of `answers`, if not given.
    `context` is that of the session, if not given. `more` are other fields of the
    round. The answers are closed. Raises what `run_round` raises.
    """
    round_ = session.round(
        samples or answers.golden,
        answers,
        metrics,
        out,
        answers=answers.answers,
        **more,
    )
    return await run_round(round_, context or session.context)


def judging_cost(
    answers: StoredAnswers, samples: GoldenSet, metrics: Sequence[Metric], plan: RunPlan
) -> CostEstimate:
    """At most what judging the stored answers to `samples` costs, from the length of
    their texts."""
    from ragstone.judge.llm.estimate import estimate_cost

    lengths: dict[str, tuple[int, int]] = {}
    answered = []
    for sample in samples:
        response = answers.response(sample.id)
        if response.failure is None:
            answered.append(sample)
            lengths[sample.id] = (
                len(response.answer),
                sum(len(context.text) for context in response.contexts),
            )
    return estimate_cost(
        plan.judge.settings,
        replace(samples, samples=tuple(answered)),
        metrics,
        repeats=plan.repeats,
        answers=answers.answers,
        lengths=lengths,
    )
