"""The engine: samples stream in, are asked, judged and scored, and leave through a sink.

Memory is bounded: only the samples that the system and the judge are working on are kept, however long the golden set
is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ragstone.golden.sample import Sample
from ragstone.judge.collect import Measure, collect_judgements
from ragstone.judge.judgements import Judgements
from ragstone.judge.protocol import Call, Judge, Ledger
from ragstone.metrics.metric import Metric
from ragstone.run.record import Answer, SampleRecord
from ragstone.run.scoring import needed_judgements, needed_measures, sample_scores, sample_state, scored_answer
from ragstone.system.response import Response, System


class Progress(Protocol):
    """Receives the progress of a run. `state` is ``scored``, ``partly_failed`` or ``system_failed``."""

    def start(self, total: int) -> None: ...

    def advance(self, state: str) -> None: ...

    def finish(self) -> None: ...


class Quiet:
    """Ignores progress."""

    def start(self, total: int) -> None: ...

    def advance(self, state: str) -> None: ...

    def finish(self) -> None: ...


async def run_samples(
    samples: Iterable[Sample],
    *,
    system: System,
    judge: Judge,
    metrics: Sequence[Metric],
    sink: Callable[[SampleRecord], None],
    repeats: int = 1,
    answers: int = 1,
    progress: Progress | None = None,
    enough: Callable[[], bool] | None = None,
    custom: Mapping[str, Measure] | None = None,
) -> None:
    """Ask, judge and score every sample; pass each finished record to `sink`.

    The system is asked each question `answers` times, and each answer is judged `repeats` times. `custom` are the
    measures of custom metrics. `system` must be started. `enough` is called before each sample and stops the run early
    if it returns True. Raises the errors of the system and the judge for a failure as a whole (SystemUnderTestError,
    JudgeError); by then every finished sample has reached the sink, and the samples in flight are lost, to be evaluated
    again on resume.
    """
    engine = _Engine(
        iter(samples), system, judge, tuple(metrics), sink, repeats, answers, progress or Quiet(), enough, custom or {}
    )
    try:
        async with asyncio.TaskGroup() as group:
            askers = [group.create_task(engine.ask()) for _ in range(max(1, system.concurrency))]
            width = max(1, judge.concurrency)
            for _ in range(width):
                group.create_task(engine.judge())
            await asyncio.gather(*askers)
            for _ in range(width):
                await engine.answered.put(None)
    except BaseExceptionGroup as errors:
        raise _first(errors) from None


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    error = errors.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error


class _Engine:
    def __init__(
        self,
        source: Iterator[Sample],
        system: System,
        judge: Judge,
        metrics: tuple[Metric, ...],
        sink: Callable[[SampleRecord], None],
        repeats: int,
        answers: int,
        progress: Progress,
        enough: Callable[[], bool] | None,
        custom: Mapping[str, Measure],
    ) -> None:
        self._questions = self._ask_each(source, answers)
        self._system = system
        self._judge = judge
        self._metrics = metrics
        self._sink = sink
        self._repeats = repeats
        self._progress = progress
        self._enough = enough
        self._custom = custom
        self.answered: asyncio.Queue[_Asked | None] = asyncio.Queue(max(1, judge.concurrency))

    def _ask_each(self, source: Iterator[Sample], answers: int) -> Iterator[tuple[_Asked, int]]:
        """What to ask next: a sample, and the place of the answer among the sample's answers."""
        for sample in source:
            if self._enough is not None and self._enough():
                return
            asked = _Asked(sample, answers)
            for place in range(answers):
                yield asked, place

    async def ask(self) -> None:
        for asked, place in self._questions:
            asked.responses[place] = await self._system.ask(asked.sample)
            if len(asked.responses) == asked.answers:
                await self.answered.put(asked)

    async def judge(self) -> None:
        while (asked := await self.answered.get()) is not None:
            record = await self._evaluate(asked)
            self._sink(record)
            self._progress.advance(sample_state(record.scores, record.responses))
            # A judge that never awaits would block the event loop, including signals and timeouts.
            await asyncio.sleep(0)

    async def _evaluate(self, asked: _Asked) -> SampleRecord:
        sample, ledger = asked.sample, Ledger()
        needs = needed_judgements(self._metrics, sample)
        custom = needed_measures(self._metrics, sample, self._custom)
        answers: list[Answer] = []
        previous: Response | None = None
        # One after the other, so that the judgements of an answer that comes twice are in the cache.
        for response in asked.in_order():
            rounds: list[Judgements] = []
            for repeat in range(self._repeats if (needs or custom) and response.failure is None else 0):
                call = Call(sample.id, repeat, ledger)
                found = await collect_judgements(
                    self._judge, sample, response, needs, call, previous=previous, custom=custom
                )
                rounds.append(found)
            answers.append(scored_answer(self._metrics, sample, response, rounds))
            previous = response
        return SampleRecord(sample, tuple(answers), sample_scores(self._metrics, sample, answers), ledger)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A sample that is being asked `answers` times. `responses` are by place, as they come in."""

    sample: Sample
    answers: int
    responses: dict[int, Response] = field(default_factory=dict)

    def in_order(self) -> Iterator[Response]:
        return (self.responses[place] for place in sorted(self.responses))
