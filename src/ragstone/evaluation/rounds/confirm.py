"""The round that asks every question once more, to confirm a verdict."""

from __future__ import annotations

from pathlib import Path

from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.rounds.judge_watch import watch_judge
from ragstone.evaluation.rounds.round import run_round
from ragstone.evaluation.rounds.session import Session
from ragstone.evaluation.stored import StoredAnswers
from ragstone.golden.sample import Sample
from ragstone.system.given import Wrapped
from ragstone.system.response import Response, System


async def ask_once_more(run: RunDirectory, session: Session, out: Path) -> RunDirectory:
    """`run` with one more answer to each question, written to `out`; what was judged before is in the judge's cache.

    Raises JudgeError, SystemUnderTestError, TimeLimitReached.
    """
    plan, stored = session.plan, StoredAnswers()
    stored.read_run(run)
    try:
        again = session.round(
            plan.golden,
            _OnceMore(stored, session.system),
            plan.selected_metrics(),
            out,
            answers=run.manifest.answers + 1,
        )
        return await watch_judge(await run_round(again, session.context), session.judge, None, 0, inherits=False)
    finally:
        await stored.close()


class _OnceMore(Wrapped):
    """Plays back the answers in `stored`, and asks `system` for one more."""

    def __init__(self, stored: StoredAnswers, system: System) -> None:
        super().__init__(system)
        self._stored = stored
        self._asked: dict[str, int] = {}

    async def ask(self, sample: Sample) -> Response:
        number = self._asked.get(sample.id, 0)
        self._asked[sample.id] = number + 1
        if number < self._stored.answers:
            return self._stored.response(sample.id, number)
        return await self._system.ask(sample)
