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
    """`run` with one more answer to each question, written to `out`; what was judged
    before is in the judge's cache.

    Answers of earlier runs, which it may not have, are not played back but added.

    Raises JudgeError, SystemUnderTestError, TimeLimitReached.
    """
    plan = session.plan
    stored = StoredAnswers.of(run)
    own = run.manifest.own_answers
    metrics = plan.selected_metrics()
    again = session.round(
        plan.golden,
        _OnceMore(stored, own, session.system),
        metrics,
        out,
        plan=replace(plan, answers_per_sample=own + 1),
    )
    try:
        extended = await run_round(again, session.context)
        return await watch_judge(
            add_answers(extended, run, metrics, adds_own=False), session.judge
        )
    finally:
        await stored.close()


class _OnceMore(SystemWrapper):
    """Plays back the first answers in `stored`, `own` to each question, and asks
    `system` for one more.

    A conversation is played back or asked as a whole.
    """

    def __init__(self, stored: StoredAnswers, own: int, system: System) -> None:
        super().__init__(system)
        self._stored = stored
        self._own = own

    async def ask(self, sample: Sample) -> Response:
        number = self._stored.next_number(sample)
        if number < self._own:
            return self._stored.numbered(sample, number)
        return await self._system.ask(sample)

    @asynccontextmanager
    async def session(self) -> AsyncIterator[System]:
        async with super().session() as session, self._stored.session() as stored:
            cast(_OnceMore, session)._stored = stored
            yield session
