"""The round of sealed questions, of which nothing is kept but the scores, in memory.

The system is started anew and its output is dropped, the judge has no cache, and the run is written to a folder of its
own that is removed, whatever ends the round. Samples have no name, tag or origin there: the system sees a random id.
"""

from __future__ import annotations

import secrets
import tempfile
from dataclasses import replace
from pathlib import Path

from ragstone.golden.sample import GoldenSet, Sample
from ragstone.rounds.context import RunContext
from ragstone.rounds.project_metrics import without_functions
from ragstone.rounds.round import Round, run_round
from ragstone.rounds.session import Session
from ragstone.run.scores import RunScores


async def ask_sealed(golden: GoldenSet, session: Session) -> RunScores | str:
    """The scores of `golden`, or the class of the error that ended the round: its message may quote a question."""
    with tempfile.TemporaryDirectory(prefix="ragstone-") as private:
        try:
            return await _asked(golden, session, Path(private) / "run")
        except Exception as error:  # of any kind: a traceback may quote a question, too
            return type(error).__name__


async def _asked(golden: GoldenSet, session: Session, out: Path) -> RunScores:
    plan, given = session.plan, session.context
    context = RunContext(given.environ, redact=given.redact, now=given.now, system_factory=given.system_factory)
    await session.stop_system()
    judge = session.judge_apart()
    try:
        asked = Round(
            GoldenSet(tuple(map(_nameless, golden))),
            plan.system.build(context, logged=False),
            judge,
            without_functions(plan.selected_metrics()),
            plan.metrics,
            out,
            answers=plan.answers,
            repeats=plan.repeats,
            deadline=session.deadline,
        )
        return (await run_round(asked, context)).scores()
    finally:
        await judge.close()


def _nameless(sample: Sample) -> Sample:
    return replace(sample, id=secrets.token_hex(8), tags=(), origin=None, review=None, provenance=None, min={}, max={})
