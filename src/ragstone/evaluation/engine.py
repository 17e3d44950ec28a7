"""The engine: samples stream in, are asked, judged and scored, and leave through a
sink.

Memory is bounded: only the samples that the system and the judge are working on are
kept, however long the golden set is.
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import aclosing
from typing import Any, Protocol

from msgspec import Struct, field

from ragstone.errors import first_in
from ragstone.evaluation.conversation import ask_in_order
from ragstone.evaluation.record import RecordLine, record_line
from ragstone.evaluation.scoring import judge_sample
from ragstone.golden.conversations import by_conversation
from ragstone.golden.sample import Sample
from ragstone.judge.collect import Measure
from ragstone.judge.protocol import Judge
from ragstone.metrics.metric import Metric
from ragstone.system.response import Response, System, SystemFailure

MAX_FAILURES_AT_START = 20
"""A system that fails at so many questions before it answers any is not asked the
others."""


class Progress:
    """Receives the progress of a run, and shows nothing of it. `state` is ``scored``,
    ``partly_failed`` or ``system_failed``."""

    def start(self, total: int | None) -> None: ...

    def advance(self, state: str) -> None: ...

    def finish(self) -> None: ...


Job = tuple[Sample, tuple[Response, ...]]
"""A sample and the responses to it."""


class Judging(Protocol):
    """What judges and scores the responses to samples."""

    lanes: int
    """How many batches are worth being on their way."""
    batch: int
    """Maximum number of samples of a batch."""

    async def judge(self, jobs: Sequence[Job]) -> list[RecordLine]:
        """The records of `jobs`, in their order. Raises JudgeError if it can't judge
        any more."""


class Work(Struct, frozen=True):
    """What is evaluated: each of `samples` is asked `answers` times, and each answer
    judged `repeats` times.

    `system` must be started. `custom` are the measures of custom metrics.
    `keeps_contexts`: the answers of a conversation are judged with the contexts of its
    earlier turns too.
    """

    samples: Iterable[Sample]
    system: System
    judge: Judge
    metrics: Sequence[Metric]
    repeats: int = 1
    answers: int = 1
    progress: Progress = field(default_factory=Progress)
    custom: Mapping[str, Measure] = {}
    keeps_contexts: bool = True


_Responses = dict[str, dict[int, Response]]
"""The responses to samples, by id and place, as they come in."""


async def run_samples(
    work: Work,
    sink: Callable[[RecordLine], None],
    judging: Judging | None = None,
) -> None:
    """Ask, judge and score every sample; pass each finished record to `sink`.
    `judging` is started, and knows no custom metrics; by default, this process judges.

    Raises the errors of the system and the judge for a failure as a whole
    (SystemUnderTestError, JudgeError); by then every finished sample has reached the
    sink, and the samples in flight are lost, to be evaluated again on resume.
    """
    judging = judging or _ThisProcess(work)
    lanes, limit, judge = judging.lanes, judging.batch, judging.judge
    asking = _Asking(work, waiting=lanes * limit)

    async def lane() -> None:
        while jobs := await asking.next_batch(limit):
            for record in await judge(jobs):
                sink(record)
                work.progress.advance(record.state)
            # A judge that never awaits would block the event loop, including signals
            # and timeouts.
            await asyncio.sleep(0)

    await asking.finish(lane() for _ in range(lanes))


class _ThisProcess:
    """Judges in this process, one sample in each lane."""

    batch = 1

    def __init__(self, work: Work) -> None:
        self.lanes = max(1, work.judge.concurrency)
        self._work = work

    async def judge(self, jobs: Sequence[Job]) -> list[RecordLine]:
        work = self._work
        ((sample, responses),) = jobs
        record = await judge_sample(
            work.judge,
            work.metrics,
            sample,
            responses,
            repeats=work.repeats,
            custom=work.custom,
        )
        return [record_line(record)]


class _Asking:
    """Asks the system about each sample. What it has answered waits in a queue, up to
    `waiting` samples; None is its end."""

    def __init__(self, work: Work, *, waiting: int) -> None:
        self._work = work
        self._questions = self._each_question()
        self._has_answered = False
        self._first_failures: list[SystemFailure] = []
        self._answered: asyncio.Queue[Job | None] = asyncio.Queue(waiting)

    async def finish(self, judging: Iterable[Coroutine[Any, Any, None]]) -> None:
        """Ask everything, while the coroutines take what is answered."""
        try:
            async with asyncio.TaskGroup() as group:
                askers = [
                    group.create_task(self._ask())
                    for _ in range(max(1, self._work.system.concurrency))
                ]
                for coroutine in judging:
                    group.create_task(coroutine)
                await asyncio.gather(*askers)
                await self._answered.put(None)
        except BaseExceptionGroup as errors:
            raise first_in(errors) from None

    async def next_batch(self, limit: int) -> list[Job]:
        """What is answered, at least one and at most `limit`; empty at the end."""
        batch: list[Job] = []
        while not batch or (len(batch) < limit and not self._answered.empty()):
            job = await self._answered.get()
            if job is None:
                self._answered.put_nowait(None)  # the end, for the next one
                break
            batch.append(job)
        return batch

    def _each_question(self) -> Iterator[tuple[_Responses, tuple[Sample, ...], int]]:
        """The turns of each conversation, or a sample alone, once for each answer."""
        for turns in by_conversation(self._work.samples):
            responses: _Responses = {sample.id: {} for sample in turns}
            for place in range(self._work.answers):
                yield responses, turns, place

    async def _ask(self) -> None:
        work = self._work
        for responses, turns, place in self._questions:
            conversation = ask_in_order(
                work.system,
                turns,
                self._response_to,
                keeps_contexts=work.keeps_contexts,
            )
            async with aclosing(conversation):
                async for sample, response in conversation:
                    answered = responses[sample.id]
                    answered[place] = response
                    if len(answered) == work.answers:
                        in_order = tuple(answered[place] for place in sorted(answered))
                        await self._answered.put((sample, in_order))

    async def _response_to(self, system: System, sample: Sample) -> Response:
        """What the system, or a session of it, answers.

        A system that has failed at each of the first questions is not asked.
        """
        failures = self._first_failures
        if len(failures) >= MAX_FAILURES_AT_START:
            last = failures[-1]
            kind = last.kind
            message = last.message
            text = f"not asked, since the first {MAX_FAILURES_AT_START} questions failed, the last with: {message}"
            return Response(sample.id, failure=SystemFailure(kind, text))
        response = await system.ask(sample)
        if response.failure is None or not self._work.system.can_be_asked_again:
            self._has_answered = True
            failures.clear()
        elif not self._has_answered:
            failures.append(response.failure)
        return response
