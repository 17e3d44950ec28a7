"""The round that asks every question once more, to confirm a verdict."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

from msgspec.structs import replace

from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.earlier import add_answers
from ragstone.evaluation.rounds.judge_watch import watch_judge
from ragstone.evaluation.rounds.round import run_round
from ragstone.evaluation.rounds.session import Session
from ragstone.evaluation.stored import StoredAnswers
from ragstone.golden.sample import Sample
from ragstone.system.given import SystemWrapper
from ragstone.system.response import Response, System


async def ask_once_more(run: RunDirectory, session: Session, out: Path) -> RunDirectory:
    """Write a run to `out` with the answers of `run`, and one more to each question.

    The answers that `run` got itself are played back, and judged from the judge's
    cache. Answers that it has of earlier runs are added with their judgements.

    Raises JudgeError, SystemUnderTestError, TimeLimitReached.
    """
    plan = session.plan
    stored = StoredAnswers.of(run)
    own_answers = run.manifest.own_answers
    metrics = plan.selected_metrics()
    extended_round = session.round(
        plan.golden,
        _OneMoreAnswer(stored, own_answers, session.system),
        metrics,
        out,
        plan=replace(plan, answers_per_sample=own_answers + 1),
    )
    try:
        extended = await run_round(extended_round, session.context)
        pooled = add_answers(extended, run, metrics, adds_own=False)
        return await watch_judge(pooled, session.judge)
    finally:
        await stored.close()


class _OneMoreAnswer(SystemWrapper):
    """Plays back the first `stored_count` answers to each question, and then asks
    `system` for another one.

    A conversation is played back or asked as a whole.
    """

    def __init__(
        self, stored: StoredAnswers, stored_count: int, system: System
    ) -> None:
        super().__init__(system)
        self._stored = stored
        self._stored_count = stored_count

    async def ask(self, sample: Sample) -> Response:
        number = self._stored.next_number(sample)
        if number < self._stored_count:
            return self._stored.numbered(sample, number)
        return await self._system.ask(sample)

    @asynccontextmanager
    async def session(self) -> AsyncIterator[System]:
        async with super().session() as session, self._stored.session() as stored:
            # The session is a copy of this wrapper.
            cast(_OneMoreAnswer, session)._stored = stored
            yield session
