"""The round of a base commit: its system is asked the same questions beside the current
one.

A provider's bad hour, or a model that moved since last night, then happens to both, and
the difference is the change.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ragstone.errors import (
    RunDirectoryError,
    SystemUnderTestError,
    first_in,
)
from ragstone.evaluation.directory import (
    BASE_COMMIT,
    MANIFEST,
    RunDirectory,
    read_manifest,
)
from ragstone.evaluation.manifest import SAME_JOB, BaselineFact
from ragstone.evaluation.rounds.context import RunContext
from ragstone.evaluation.rounds.judge_watch import watch_judge
from ragstone.evaluation.rounds.round import Round, add_cost, run_round
from ragstone.evaluation.writer import update_manifest
from ragstone.golden.sample import Sample
from ragstone.settings.settings import SystemSettings
from ragstone.system.given import SystemWrapper
from ragstone.system.response import Response, System

SHORT = 12
"""Characters of a commit in messages."""


class BaseSystem(Struct, frozen=True):
    """The system at the base commit, ready to be asked.

    `make` builds it, not yet started; its output goes to `log`. `lineage` are the
    fingerprints by which accepted drops know the commit, `spent` the ids of those that
    it includes. `notes` are for the report.
    """

    commit: str
    settings: SystemSettings
    make: Callable[[], System]
    log: Path | None = None
    lineage: tuple[str, ...] = ()
    spent: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"commit {self.commit[:SHORT]}"


async def evaluate_both(
    head: Round, base: BaseSystem, context: RunContext
) -> RunDirectory:
    """The round `head`, and the same one of `base`, each question asked of both at
    about the same time.

    The run of the base is written to the folder `base-commit` of the run directory;
    what judging it costs counts as this run's. Raises the errors of either; both runs
    can then be resumed.
    """
    out, folder = head.out, head.out / BASE_COMMIT
    if head.resume and (folder / MANIFEST).is_file():
        earlier = read_manifest(folder).system.commit or "unknown"
        if earlier != base.commit:
            raise RunDirectoryError(
                f"can't resume: it was compared with commit {earlier[:SHORT]}, not with {base.name}.",
                where=str(out),
                hint=f"Use --baseline-commit {earlier[:SHORT]}, or start over without --resume.",
            )
    pace = Pace()
    plan = head.plan
    source = replace(plan.system, settings=base.settings, commit=base.commit)
    before = replace(
        head,
        system=Paced(base.make(), pace, 1),
        plan=replace(plan, metrics=replace(plan.metrics, system=source)),
        out=folder.absolute(),
        check=lambda _system: None,
        policy_hash=None,
        baseline=None,
        invocation=None,
    )
    quiet = replace(context.quiet(), system_log=base.log)

    async def of_base() -> RunDirectory:
        try:
            return await run_round(before, quiet)
        except SystemUnderTestError as error:
            raise at_base(error, base) from None

    try:
        async with asyncio.TaskGroup() as group:
            paced = replace(head, system=Paced(head.system, pace, 0))
            of_head = group.create_task(run_round(paced, context))
            of_before = group.create_task(of_base())
    except BaseExceptionGroup as errors:
        for finished in (of_head, of_before):
            if not finished.cancelled() and finished.exception() is None:
                why = "the run that it was to be compared with failed"
                update_manifest(finished.result(), state="stopped", stop_reason=why)
        raise first_in(errors) from None
    run, base_result = of_head.result(), of_before.result()
    counts = base_result.manifest.counts
    if counts.system_failed and not counts.scored + counts.partly_failed:
        raise at_base(SystemUnderTestError("it gave no answer at all."), base)
    base_result = await watch_judge(base_result, head.judge)
    fact = BaselineFact(
        eligible=False, reason=SAME_JOB, lineage=base.lineage, spent=base.spent
    )
    update_manifest(base_result, same_job=True, baseline=fact)
    return add_cost(run, base_result.manifest.cost)


def base_run(run: RunDirectory) -> RunDirectory:
    """The run of the base commit that `evaluate_both` wrote. Raises
    RunDirectoryError."""
    return RunDirectory.open(run.path / BASE_COMMIT)


def missing_note(base: BaseSystem, run: RunDirectory) -> tuple[str, ...]:
    """A sentence if the base commit's system failed on some samples: those are not
    compared."""
    counts = run.manifest.counts
    note = f"The system at {base.name} failed on {counts.system_failed} of {counts.total} samples; they are not compared."
    return (note,) if counts.system_failed else ()


def at_base(error: SystemUnderTestError, base: BaseSystem) -> SystemUnderTestError:
    """`error`, saying that it is the base's."""
    return SystemUnderTestError(
        f"the system at the base, {base.name}: {error.message}",
        where=error.where,
        hint=error.hint
        or "Compare with another baseline, or with --baseline-commit and a commit that works.",
    )


class Pace:
    """Keeps two systems at the same question: none is asked more than one question
    ahead of the other, until that one is closed."""

    def __init__(self) -> None:
        self.asked: list[float] = [0, 0]
        """How many questions each system was asked; infinite for one that is closed."""
        self.moved = asyncio.Condition()
        self.started = asyncio.Barrier(2)


class Paced(SystemWrapper):
    """A system that waits for the other one before each question."""

    def __init__(self, system: System, pace: Pace, side: int) -> None:
        super().__init__(system)
        self._pace = pace
        self._side = side

    async def start(self) -> None:
        """If one of the systems can't start, the other writes nothing."""
        await self._system.start()
        await self._pace.started.wait()

    async def ask(self, sample: Sample) -> Response:
        questions = self._pace.asked
        side = self._side
        opposite = 1 - side
        async with self._pace.moved:
            await self._pace.moved.wait_for(
                lambda: questions[side] <= questions[opposite]
            )
            questions[side] += 1
            self._pace.moved.notify_all()
        return await self._system.ask(sample)

    async def close(self) -> None:
        async with self._pace.moved:
            self._pace.asked[self._side] = math.inf
            self._pace.moved.notify_all()
        await self._system.close()
