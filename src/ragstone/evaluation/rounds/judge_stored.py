"""The round that judges stored answers: of a run, of a baseline, or of recorded
interactions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.rounds.round import run_round
from ragstone.evaluation.rounds.session import Session
from ragstone.evaluation.stored import StoredAnswers
from ragstone.golden.sample import GoldenSet
from ragstone.metrics.metric import Metric


async def judge_stored(
    answers: StoredAnswers,
    session: Session,
    metrics: Sequence[Metric],
    out: Path,
    samples: GoldenSet,
    **fields: Any,
) -> RunDirectory:
    """Judge the stored answers to `samples` with the judge of `session`, score them by
    `metrics`, and write a run to `out`.

    `fields` are further fields of the round. Closes `answers`. Raises what `run_round`
    raises.
    """
    plan = replace(session.plan, answers_per_sample=answers.answers_per_sample)
    round_ = session.round(samples, answers, metrics, out, plan=plan, **fields)
    return await run_round(round_, replace(session.context, system_log=None))
