"""The round of a base commit: its system is asked the same questions at the same time as
the current one.

If a provider has a bad hour, or a model has changed since the last run of main, that
affects both, and what differs is due to the change.
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

SHORT_COMMIT_LENGTH = 12
"""Number of characters of a commit in messages."""


class BaseSystem(Struct, frozen=True):
    """The system at the base commit, ready to be asked.

    - `make`: builds the system, not yet started.
    - `log`: the file for the output of the system.
    - `lineage`: the fingerprints by which accepted drops refer to the commit.
    - `spent`: the ids of the accepted drops that its scores include.
    - `notes`: sentences for the report.
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
        return f"commit {self.commit[:SHORT_COMMIT_LENGTH]}"


async def evaluate_both(
    head: Round, base: BaseSystem, context: RunContext
) -> RunDirectory:
    """Run the round `head` and the same round of `base`, asking each question of both
    at about the same time, and return the run of `head`.

    The run of the base is written to the folder `base-commit` in the run directory; the
    cost of judging it is added to this run. Raises the errors of either round; both can
    then be resumed.
    """
    folder = head.out / BASE_COMMIT
    if head.resume and (folder / MANIFEST).is_file():
        earlier = read_manifest(folder).system.commit or "unknown"
        if earlier != base.commit:
            raise RunDirectoryError(
                f"can't resume: the run was compared with commit {earlier[:SHORT_COMMIT_LENGTH]}, not with {base.name}.",
                where=str(head.out),
                hint=f"Use --baseline-commit {earlier[:SHORT_COMMIT_LENGTH]}, or start over without --resume.",
            )
    pace = Pace()
    plan = head.plan
    source = replace(plan.system, settings=base.settings, commit=base.commit)
    base_round = replace(
        head,
        system=Paced(base.make(), pace, _BASE),
        plan=replace(plan, metrics=replace(plan.metrics, system=source)),
        out=folder.absolute(),
        check_system=lambda _system: None,
        policy_hash=None,
        baseline=None,
        invocation=None,
    )
    quiet = replace(context.quiet(), system_log=base.log)

    async def run_base() -> RunDirectory:
        try:
            return await run_round(base_round, quiet)
        except SystemUnderTestError as error:
            raise blame_base(error, base) from None

    try:
        async with asyncio.TaskGroup() as group:
            head_round = replace(head, system=Paced(head.system, pace, _HEAD))
            head_task = group.create_task(run_round(head_round, context))
            base_task = group.create_task(run_base())
    except BaseExceptionGroup as errors:
        # A round that finished while the other one failed can be resumed, too.
        for task in (head_task, base_task):
            if not task.cancelled() and task.exception() is None:
                reason = "the run that it was to be compared with failed"
                update_manifest(task.result(), state="stopped", stop_reason=reason)
        raise first_in(errors) from None
    counts = base_task.result().manifest.counts
    if counts.system_failed and not counts.scored + counts.partly_failed:
        raise blame_base(SystemUnderTestError("it gave no answer at all."), base)
    base_result = await watch_judge(base_task.result(), head.judge)
    fact = BaselineFact(
        eligible=False, reason=SAME_JOB, lineage=base.lineage, spent=base.spent
    )
    update_manifest(base_result, same_job=True, baseline=fact)
    return add_cost(head_task.result(), base_result.manifest.cost)


def base_run(run: RunDirectory) -> RunDirectory:
    """The run of the base commit that `evaluate_both` wrote beside `run`. Raises
    RunDirectoryError."""
    return RunDirectory.open(run.path / BASE_COMMIT)


def failure_notes(base: BaseSystem, run: RunDirectory) -> tuple[str, ...]:
    """A sentence about the samples that the base commit's system failed on; empty if
    there are none."""
    counts = run.manifest.counts
    if not counts.system_failed:
        return ()
    return (
        f"The system at {base.name} failed on {counts.system_failed} of {counts.total} samples; they are not compared.",
    )


def blame_base(error: SystemUnderTestError, base: BaseSystem) -> SystemUnderTestError:
    """`error` with a message that blames the base commit."""
    return SystemUnderTestError(
        f"the system at the base, {base.name}: {error.message}",
        where=error.where,
        hint=error.hint
        or "Compare with another baseline, or with --baseline-commit and a commit that works.",
    )


_HEAD, _BASE = 0, 1
"""The sides of a `Pace`."""


class Pace:
    """Keeps two systems at the same question: neither is asked a question while it is
    ahead of the other, until the other is closed."""

    def __init__(self) -> None:
        self.question_counts: list[float] = [0, 0]
        """How many questions each side was asked; infinite for one that is closed."""
        self.count_changed = asyncio.Condition()
        self.both_started = asyncio.Barrier(2)


class Paced(SystemWrapper):
    """A system that waits for the other one before each question."""

    def __init__(self, system: System, pace: Pace, side: int) -> None:
        super().__init__(system)
        self._pace = pace
        self._side = side

    async def start(self) -> None:
        """Start, and wait for the other system: if it can't start, this one must not
        write anything either."""
        await self._system.start()
        await self._pace.both_started.wait()

    async def ask(self, sample: Sample) -> Response:
        counts = self._pace.question_counts
        side = self._side
        opposite = 1 - side
        async with self._pace.count_changed:
            await self._pace.count_changed.wait_for(
                lambda: counts[side] <= counts[opposite]
            )
            counts[side] += 1
            self._pace.count_changed.notify_all()
        return await self._system.ask(sample)

    async def close(self) -> None:
        async with self._pace.count_changed:
            self._pace.question_counts[self._side] = math.inf
            self._pace.count_changed.notify_all()
        await self._system.close()
