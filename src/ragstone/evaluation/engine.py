"""The engine: samples stream in, are asked, judged and scored, and leave through a sink.

Memory is bounded: only the samples that the system and the judge are working on are kept, however long the golden set
is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ragstone.errors import first_in
from ragstone.evaluation.executors import BATCH, Job, Workers
from ragstone.evaluation.record import RecordLine, SampleRecord
from ragstone.evaluation.scoring import judge_sample, needed_measures, sample_state
from ragstone.golden.sample import Sample
from ragstone.judge.collect import Measure, collect_judgements
from ragstone.judge.judgements import Grade, JudgementFailure
from ragstone.judge.protocol import Call, Judge, Ledger
from ragstone.metrics.metric import Metric
from ragstone.system.response import Response, System


class Progress(Protocol):
    """Receives the progress of a run. `state` is ``scored``, ``partly_failed`` or ``system_failed``."""

    def start(self, total: int | None) -> None: ...

    def advance(self, state: str) -> None: ...

    def finish(self) -> None: ...


class Quiet:
    def start(self, total: int | None) -> None: ...

    def advance(self, state: str) -> None: ...

    def finish(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Work:
    """What is evaluated: each of `samples` is asked `answers` times, and each answer judged `repeats` times.

    `system` must be started. `custom` are the measures of custom metrics.
    """

    samples: Iterable[Sample]
    system: System
    judge: Judge
    metrics: Sequence[Metric]
    repeats: int = 1
    answers: int = 1
    progress: Progress = field(default_factory=Quiet)
    custom: Mapping[str, Measure] = field(default_factory=dict)


async def run_samples(work: Work, sink: Callable[[SampleRecord], None]) -> None:
    """Ask, judge and score every sample; pass each finished record to `sink`.

    Raises the errors of the system and the judge for a failure as a whole (SystemUnderTestError, JudgeError); by then
    every finished sample has reached the sink, and the samples in flight are lost, to be evaluated again on resume.
    """
    width = max(1, work.judge.concurrency)
    asking = _Asking(work, waiting=width)
    engine = _Engine(work, asking, sink)
    await asking.finish(engine.judge() for _ in range(width))


async def run_samples_in(workers: Workers, work: Work, sink: Callable[[RecordLine], None]) -> None:
    """Ask every sample here, and have it judged and scored by `workers` (started).

    Errors are raised as by `run_samples`. Raises JudgeError also if the workers can't judge any more.
    """
    asking = _Asking(work, waiting=workers.lanes * BATCH)
    engine = _BatchEngine(work, asking, workers, sink)
    await asking.finish(engine.judge() for _ in range(workers.lanes))


@dataclass(frozen=True, slots=True)
class _Asked:
    """A sample that is being asked `answers` times. `responses` are by place, as they come in."""

    sample: Sample
    answers: int
    responses: dict[int, Response] = field(default_factory=dict)

    def in_order(self) -> tuple[Response, ...]:
        return tuple(self.responses[place] for place in sorted(self.responses))


class _Asking:
    """Asks the system about each sample. What it has answered waits in `answered`, up to `waiting` samples."""

    def __init__(self, work: Work, *, waiting: int) -> None:
        self._system = work.system
        self._questions = self._ask_each(iter(work.samples), work.answers)
        self.answered: asyncio.Queue[_Asked | None] = asyncio.Queue(waiting)

    async def finish(self, judging: Iterable[Coroutine[Any, Any, None]]) -> None:
        """Ask everything, while the coroutines take what is answered. None is the end, for all of them."""
        try:
            async with asyncio.TaskGroup() as group:
                askers = [group.create_task(self._ask()) for _ in range(max(1, self._system.concurrency))]
                for one in judging:
                    group.create_task(one)
                await asyncio.gather(*askers)
                await self.answered.put(None)
        except BaseExceptionGroup as errors:
            raise first_in(errors) from None

    def end_again(self) -> None:
        """Leave the end, which was taken, to the next one."""
        self.answered.put_nowait(None)

    def _ask_each(self, source: Iterator[Sample], answers: int) -> Iterator[tuple[_Asked, int]]:
        for sample in source:
            asked = _Asked(sample, answers)
            for place in range(answers):
                yield asked, place

    async def _ask(self) -> None:
        for asked, place in self._questions:
            asked.responses[place] = await self._system.ask(asked.sample)
            if len(asked.responses) == asked.answers:
                await self.answered.put(asked)


@dataclass(frozen=True, slots=True)
class _Engine:
    """Judges in this process."""

    work: Work
    asking: _Asking
    sink: Callable[[SampleRecord], None]

    async def judge(self) -> None:
        while (asked := await self.asking.answered.get()) is not None:
            work, responses = self.work, asked.in_order()
            record = await judge_sample(
                work.judge,
                work.metrics,
                asked.sample,
                responses,
                repeats=work.repeats,
                custom=work.custom,
                ledger=Ledger(),
            )
            self.sink(record)
            work.progress.advance(sample_state(record.scores, record.responses))
            # A judge that never awaits would block the event loop, including signals and timeouts.
            await asyncio.sleep(0)
        self.asking.end_again()


@dataclass(frozen=True, slots=True)
class _BatchEngine:
    """Has batches judged by workers."""

    work: Work
    asking: _Asking
    workers: Workers
    sink: Callable[[RecordLine], None]

    async def judge(self) -> None:
        while batch := await self._take():
            async with asyncio.TaskGroup() as group:
                graded = [group.create_task(self._graded(asked)) for asked in batch]
            for record in await self.workers.judge([task.result() for task in graded]):
                self.sink(record)
                self.work.progress.advance(record.state)
        self.asking.end_again()

    async def _take(self) -> list[_Asked]:
        """The next batch: what is there, at least one; empty at the end."""
        answered = self.asking.answered
        batch: list[_Asked] = []
        asked = await answered.get()
        while asked is not None:
            batch.append(asked)
            if len(batch) == BATCH or answered.empty():
                return batch
            asked = answered.get_nowait()
        if batch:
            self.asking.end_again()
        return batch

    async def _graded(self, asked: _Asked) -> Job:
        """A job with the grades of custom metrics, whose functions are called from here, in the user's interpreter."""
        sample, responses, ledger = asked.sample, asked.in_order(), Ledger()
        wanted = needed_measures(self.work.metrics, sample, self.work.custom)
        if not wanted:
            return Job(sample, responses)
        grades: list[tuple[Mapping[str, Grade | JudgementFailure], ...]] = []
        for response in responses:
            rounds = []
            for repeat in range(self.work.repeats if response.failure is None else 0):
                call = Call(sample.id, repeat, ledger)
                found = await collect_judgements(self.work.judge, sample, response, frozenset(), call, custom=wanted)
                rounds.append(found.custom)
            grades.append(tuple(rounds))
        return Job(sample, responses, tuple(grades), ledger)
