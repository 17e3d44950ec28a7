"""The engine: samples stream in, are asked, judged and scored, and leave through a
sink.

Memory is bounded: only the samples that the system and the judge are working on are
kept, however long the golden set is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Protocol

from ragstone.errors import first_in
from ragstone.evaluation.conversation import ask_conversation
from ragstone.evaluation.record import SampleRecord
from ragstone.evaluation.scoring import judge_sample, sample_state
from ragstone.golden.conversations import by_conversation
from ragstone.golden.sample import Sample
from ragstone.judge.collect import Measure
from ragstone.judge.protocol import Judge, Ledger
from ragstone.metrics.metric import Metric
from ragstone.system.response import Response, System, SystemFailure

MAX_FAILURES_AT_START = 20
"""A system that fails at so many questions before it answers any is not asked the
others."""


class Progress(Protocol):
    """Receives the progress of a run. `state` is ``scored``, ``partly_failed`` or
    ``system_failed``."""

    def start(self, total: int | None) -> None: ...

    def advance(self, state: str) -> None: ...

    def finish(self) -> None: ...


class Quiet:
    def start(self, total: int | None) -> None: ...

    def advance(self, state: str) -> None: ...

    def finish(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Work:
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
    progress: Progress = field(default_factory=Quiet)
    custom: Mapping[str, Measure] = field(default_factory=dict)
    keeps_contexts: bool = True


async def run_samples(work: Work, sink: Callable[[SampleRecord], None]) -> None:
    """Ask, judge and score every sample; pass each finished record to `sink`.

    Raises the errors of the system and the judge for a failure as a whole
    (SystemUnderTestError, JudgeError); by then every finished sample has reached the
    sink, and the samples in flight are lost, to be evaluated again on resume.
    """
    width = max(1, work.judge.concurrency)
    asking = Asking(work, waiting=width)
    engine = _Engine(work, asking, sink)
    await asking.finish(engine.judge() for _ in range(width))


@dataclass(frozen=True, slots=True)
class Asked:
    """A sample that is being asked `answers` times. `responses` are by place, as they
    come in."""

    sample: Sample
    answers: int
    responses: dict[int, Response] = field(default_factory=dict)

    def in_order(self) -> tuple[Response, ...]:
        return tuple(self.responses[place] for place in sorted(self.responses))


class Asking:
    """Asks the system about each sample. What it has answered waits in `answered`, up
    to `waiting` samples."""

    def __init__(self, work: Work, *, waiting: int) -> None:
        self._system = work.system
        self._keeps_contexts = work.keeps_contexts
        self._questions = self._ask_each(by_conversation(work.samples), work.answers)
        self._has_answered = False
        self._failed_in_a_row = 0
        self._last_failure: SystemFailure | None = None
        self.answered: asyncio.Queue[Asked | None] = asyncio.Queue(waiting)

    async def finish(self, judging: Iterable[Coroutine[Any, Any, None]]) -> None:
        """Ask everything, while the coroutines take what is answered. None is the end,
        for all of them."""
        try:
            async with asyncio.TaskGroup() as group:
                askers = [
                    group.create_task(self._ask())
                    for _ in range(max(1, self._system.concurrency))
                ]
                for coroutine in judging:
                    group.create_task(coroutine)
                await asyncio.gather(*askers)
                await self.answered.put(None)
        except BaseExceptionGroup as errors:
            raise first_in(errors) from None

    def end_again(self) -> None:
        """Leave the end, which was taken, to the next one."""
        self.answered.put_nowait(None)

    def _ask_each(
        self, conversations: Iterator[tuple[Sample, ...]], answers: int
    ) -> Iterator[tuple[tuple[Asked, ...], int]]:
        for turns in conversations:
            questions = tuple(Asked(sample, answers) for sample in turns)
            for place in range(answers):
                yield questions, place

    async def _ask(self) -> None:
        for turns, place in self._questions:
            if turns[0].sample.turn is None:
                await self._answer(
                    turns[0],
                    place,
                    await self._response_to(self._system, turns[0].sample),
                )
            else:
                await self._ask_turns(turns, place)

    async def _ask_turns(self, turns: Sequence[Asked], place: int) -> None:
        asked_by_id = {question.sample.id: question for question in turns}
        samples = [question.sample for question in turns]
        conversation = ask_conversation(
            self._system,
            samples,
            self._response_to,
            keeps_contexts=self._keeps_contexts,
        )
        async with aclosing(conversation):
            async for sample, response in conversation:
                await self._answer(asked_by_id[sample.id], place, response)

    async def _answer(self, question: Asked, place: int, response: Response) -> None:
        question.responses[place] = response
        if len(question.responses) == question.answers:
            await self.answered.put(question)

    async def _response_to(self, system: System, sample: Sample) -> Response:
        """What the system, or a session of it, answers.

        A system that has failed at each of the first questions is not asked.
        """
        if (
            self._failed_in_a_row >= MAX_FAILURES_AT_START
            and self._last_failure is not None
        ):
            kind, message = self._last_failure.kind, self._last_failure.message
            text = f"not asked, since the first {MAX_FAILURES_AT_START} questions failed, the last with: {message}"
            return Response(sample.id, failure=SystemFailure(kind, text))
        response = await system.ask(sample)
        if response.failure is None or not self._system.can_be_asked_again:
            self._has_answered = True
        elif not self._has_answered:
            self._failed_in_a_row += 1
            self._last_failure = response.failure
        if self._has_answered:
            self._failed_in_a_row = 0
        return response


@dataclass(frozen=True, slots=True)
class _Engine:
    """Judges in this process."""

    work: Work
    asking: Asking
    sink: Callable[[SampleRecord], None]

    async def judge(self) -> None:
        while (answered := await self.asking.answered.get()) is not None:
            work, responses = self.work, answered.in_order()
            record = await judge_sample(
                work.judge,
                work.metrics,
                answered.sample,
                responses,
                repeats=work.repeats,
                custom=work.custom,
                ledger=Ledger(),
            )
            self.sink(record)
            work.progress.advance(sample_state(record.scores, record.responses))
            # A judge that never awaits would block the event loop, including signals
            # and timeouts.
            await asyncio.sleep(0)
        self.asking.end_again()
