"""The engine where other processes judge: what the system has answered leaves in
batches, and records come back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ragstone.evaluation.engine import Asked, Asking, Work
from ragstone.evaluation.executors import BATCH, Job, Workers
from ragstone.evaluation.record import RecordLine
from ragstone.evaluation.scoring import needed_measures
from ragstone.judge.collect import collect_judgements
from ragstone.judge.judgements import Grade, JudgementFailure
from ragstone.judge.protocol import Call, Ledger


async def run_samples_in(
    workers: Workers, work: Work, sink: Callable[[RecordLine], None]
) -> None:
    """Ask every sample here, and have it judged and scored by `workers` (started).

    Errors are raised as by `run_samples`. Raises JudgeError also if the workers can't
    judge any more.
    """
    asking = Asking(work, waiting=workers.lanes * BATCH)
    engine = _BatchEngine(work, asking, workers, sink)
    await asking.finish(engine.judge() for _ in range(workers.lanes))


@dataclass(frozen=True, slots=True)
class _BatchEngine:
    """Has batches judged by workers."""

    work: Work
    asking: Asking
    workers: Workers
    sink: Callable[[RecordLine], None]

    async def judge(self) -> None:
        while batch := await self._take():
            async with asyncio.TaskGroup() as group:
                graded = [
                    group.create_task(self._graded(answered)) for answered in batch
                ]
            for record in await self.workers.judge([task.result() for task in graded]):
                self.sink(record)
                self.work.progress.advance(record.state)
        self.asking.end_again()

    async def _take(self) -> list[Asked]:
        """The next batch: what is there, at least one; empty at the end."""
        answered = self.asking.answered
        batch: list[Asked] = []
        answered_sample = await answered.get()
        while answered_sample is not None:
            batch.append(answered_sample)
            if len(batch) == BATCH or answered.empty():
                return batch
            answered_sample = answered.get_nowait()
        if batch:
            self.asking.end_again()
        return batch

    async def _graded(self, answered: Asked) -> Job:
        """A job with the grades of custom metrics, whose functions are called from
        here, in the user's interpreter."""
        sample, responses, ledger = answered.sample, answered.in_order(), Ledger()
        wanted = needed_measures(self.work.metrics, sample, self.work.custom)
        if not wanted:
            return Job(sample, responses)
        grades: list[tuple[Mapping[str, Grade | JudgementFailure], ...]] = []
        for response in responses:
            rounds = []
            for repeat in range(self.work.repeats if response.failure is None else 0):
                call = Call(sample.id, repeat, ledger)
                judgements = await collect_judgements(
                    self.work.judge, sample, response, frozenset(), call, custom=wanted
                )
                rounds.append(judgements.custom)
            grades.append(tuple(rounds))
        return Job(sample, responses, tuple(grades), ledger)
