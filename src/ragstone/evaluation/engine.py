"""The engine: asks the system about each sample, judges and scores its responses, and
passes the finished records on.

Memory is bounded: only the samples that the system and the judge are working on are
kept, however large the golden set is.
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
from ragstone.golden.conversations import group_by_conversation
from ragstone.golden.sample import Sample
from ragstone.judge.collect import Measure
from ragstone.judge.protocol import Judge
from ragstone.metrics.metric import Metric
from ragstone.system.response import Response, System, SystemFailure

MAX_FAILURES_AT_START = 20
"""A system that fails at its first questions is given up after so many."""


class Progress:
    """Receives the progress of a run, and does not show it; subclasses do."""

    def start(self, total: int | None) -> None:
        """Start a run of `total` samples; None if their number is not known."""

    def advance(self, state: str) -> None:
        """Count a finished sample; `state` is that of its record."""

    def finish(self) -> None:
        """End, also if the run failed."""


Job = tuple[Sample, tuple[Response, ...]]
"""A sample and the responses to it."""


class BatchJudge(Protocol):
    """Judges and scores the responses to batches of samples."""

    max_batches: int
    """Maximum number of batches to judge at the same time."""
    batch_size: int
    """Maximum number of samples in a batch."""

    async def judge(self, jobs: Sequence[Job]) -> list[RecordLine]:
        """The records of `jobs`, in their order. Raises JudgeError if no more can be
        judged."""


class Work(Struct, frozen=True):
    """The samples to evaluate, and how."""

    samples: Iterable[Sample]
    system: System
    """The system under test, started."""
    judge: Judge
    metrics: Sequence[Metric]
    repeats: int = 1
    """How often each answer is judged."""
    answers_per_sample: int = 1
    """How often each question is asked."""
    progress: Progress = field(default_factory=Progress)
    custom: Mapping[str, Measure] = {}
    """The measures of custom metrics."""
    keeps_contexts: bool = True
    """Whether an answer of a conversation is judged with the contexts of earlier turns
    too."""


_Responses = dict[str, dict[int, Response]]
"""The responses that have arrived, by the id of the sample and the number of the
answer, from 0."""


async def run_samples(
    work: Work,
    sink: Callable[[RecordLine], None],
    batch_judge: BatchJudge | None = None,
) -> None:
    """Ask, judge and score every sample, and pass each finished record to `sink`.

    `batch_judge` must be started, and can't score custom metrics; by default, this
    process judges. Raises SystemUnderTestError or JudgeError if the system or the judge
    fails as a whole. By then every finished record has been passed on; samples that
    were being worked on are evaluated again on resume.
    """
    batch_judge = batch_judge or _OwnProcess(work)
    batch_size = batch_judge.batch_size
    questions = _Questions(work, max_waiting=batch_judge.max_batches * batch_size)

    async def judge_batches() -> None:
        while jobs := await questions.next_batch(batch_size):
            for record in await batch_judge.judge(jobs):
                sink(record)
                work.progress.advance(record.state)
            # A judge that never awaits would block the event loop, including signals
            # and timeouts.
            await asyncio.sleep(0)

    await questions.ask_all(judge_batches() for _ in range(batch_judge.max_batches))


class _OwnProcess:
    """Judges in this process, one sample at a time in each batch."""

    batch_size = 1

    def __init__(self, work: Work) -> None:
        self.max_batches = max(1, work.judge.concurrency)
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


class _Questions:
    """Asks the system about each sample. Samples with all their responses wait in a
    queue, at most `max_waiting` of them; None marks its end."""

    def __init__(self, work: Work, *, max_waiting: int) -> None:
        self._work = work
        self._conversations = self._each_conversation()
        self._can_give_up = True
        """Whether the system may still be given up: it has not answered yet."""
        self._first_failures: list[SystemFailure] = []
        self._waiting: asyncio.Queue[Job | None] = asyncio.Queue(max_waiting)

    async def ask_all(self, consumers: Iterable[Coroutine[Any, Any, None]]) -> None:
        """Ask about every sample, while `consumers` take the samples that are
        waiting."""
        try:
            async with asyncio.TaskGroup() as group:
                askers = [
                    group.create_task(self._ask())
                    for _ in range(max(1, self._work.system.concurrency))
                ]
                for coroutine in consumers:
                    group.create_task(coroutine)
                await asyncio.gather(*askers)
                await self._waiting.put(None)
        except BaseExceptionGroup as errors:
            raise first_in(errors) from None

    async def next_batch(self, max_size: int) -> list[Job]:
        """Wait for a sample, and return it with those that wait already, at most
        `max_size`; an empty list at the end."""
        batch: list[Job] = []
        while not batch or (len(batch) < max_size and not self._waiting.empty()):
            job = await self._waiting.get()
            if job is None:
                self._waiting.put_nowait(None)  # other consumers end by it, too
                break
            batch.append(job)
        return batch

    def _each_conversation(
        self,
    ) -> Iterator[tuple[_Responses, tuple[Sample, ...], int]]:
        """The turns of each conversation, or a sample alone, once for each answer: with
        the number of the answer, and the responses that have arrived."""
        for turns in group_by_conversation(self._work.samples):
            responses: _Responses = {sample.id: {} for sample in turns}
            for number in range(self._work.answers_per_sample):
                yield responses, turns, number

    async def _ask(self) -> None:
        """Ask one conversation after the other, shared with other askers."""
        work = self._work
        for responses, turns, number in self._conversations:
            conversation = ask_in_order(
                work.system,
                turns,
                self._response_to,
                keeps_contexts=work.keeps_contexts,
            )
            async with aclosing(conversation):
                async for sample, response in conversation:
                    by_number = responses[sample.id]
                    by_number[number] = response
                    if len(by_number) == work.answers_per_sample:
                        in_order = tuple(by_number[key] for key in sorted(by_number))
                        await self._waiting.put((sample, in_order))

    async def _response_to(self, system: System, sample: Sample) -> Response:
        """Ask `system`, which may be a session, unless it was given up."""
        failures = self._first_failures
        if len(failures) >= MAX_FAILURES_AT_START:
            last = failures[-1]
            message = f"not asked, since the first {MAX_FAILURES_AT_START} questions failed, the last with: {last.message}"
            return Response(sample.id, failure=SystemFailure(last.kind, message))
        response = await system.ask(sample)
        # Asking for recorded answers costs nothing: there, failures are just missing.
        if response.failure is None or not self._work.system.can_be_asked_again:
            self._can_give_up = False
            failures.clear()
        elif self._can_give_up:
            failures.append(response.failure)
        return response
