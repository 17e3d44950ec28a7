"""The engine where other processes judge: what the system has answered leaves in
batches, and records come back."""

from __future__ import annotations

from collections.abc import Callable

from ragstone.evaluation.engine import Asking, Work
from ragstone.evaluation.executors import BATCH, Job, Workers
from ragstone.evaluation.record import RecordLine


async def run_samples_in(
    workers: Workers, work: Work, sink: Callable[[RecordLine], None]
) -> None:
    """Ask every sample here, and have it judged and scored by `workers` (started).

    There are no custom metrics. Errors are raised as by `run_samples`. Raises
    JudgeError also if the workers can't judge any more.
    """
    asking = Asking(work, waiting=workers.lanes * BATCH)

    async def judge() -> None:
        while batch := await _next_batch(asking):
            for record in await workers.judge(batch):
                sink(record)
                work.progress.advance(record.state)
        asking.end_again()

    await asking.finish(judge() for _ in range(workers.lanes))


async def _next_batch(asking: Asking) -> list[Job]:
    """The next batch: what is there, at least one; empty at the end."""
    answered = asking.answered
    batch: list[Job] = []
    question = await answered.get()
    while question is not None:
        batch.append((question.sample, question.in_order()))
        if len(batch) == BATCH or answered.empty():
            return batch
        question = answered.get_nowait()
    if batch:
        asking.end_again()
    return batch
