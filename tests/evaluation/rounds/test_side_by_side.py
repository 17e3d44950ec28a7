"""Two systems at the same question: in turns, neither far ahead, and nobody waits for one that has left."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from ragstone.evaluation.engine import Work, run_samples
from ragstone.evaluation.rounds.base_commit import Pace, Paced
from ragstone.golden.sample import Sample
from ragstone.metrics.registry import select_metrics
from ragstone.system.response import Response, System
from tests.evaluation.builders import Answering, judge, samples


class Timed(Answering):
    """Answers after a number of turns of the event loop, and writes down who was asked what."""

    def __init__(self, name: str, diary: list[tuple[str, str]], *, turns: int = 1, concurrency: int = 2) -> None:
        super().__init__(concurrency=concurrency)
        self.name = name
        self.diary = diary
        self.turns = turns

    async def ask(self, sample: Sample) -> Response:
        self.diary.append((self.name, sample.id))
        for _ in range(self.turns):
            await asyncio.sleep(0)
        return await super().ask(sample)


async def both(first: System, second: System, n: int, skipped: Sequence[set[int]] = (set(), set())) -> None:
    """Evaluate `n` samples with two systems side by side; `skipped` are those that a resumed run already has."""
    golden = samples(n)
    pace = Pace()
    systems = [Paced(first, pace, 0), Paced(second, pace, 1)]

    async def one(system: System, without: set[int]) -> None:
        await system.start()
        try:
            pending = (sample for at, sample in enumerate(golden) if at not in without)
            metrics = select_metrics(("faithfulness",))
            await run_samples(Work(pending, system=system, judge=judge(golden), metrics=metrics), lambda _record: None)
        finally:
            await system.close()

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        for system, without in zip(systems, skipped, strict=True):
            group.create_task(one(system, without))


@pytest.mark.parametrize(("head_turns", "base_turns", "mine", "theirs"), [(1, 40, 4, 4), (40, 1, 1, 5), (40, 1, 5, 1)])
def test_each_question_is_asked_of_both_at_about_the_same_time(
    head_turns: int, base_turns: int, mine: int, theirs: int
) -> None:
    diary: list[tuple[str, str]] = []
    head = Timed("head", diary, turns=head_turns, concurrency=mine)
    base = Timed("base", diary, turns=base_turns, concurrency=theirs)
    asyncio.run(both(head, base, 30))
    assert sorted(head.asked) == sorted(base.asked) == sorted(f"q{i}" for i in range(30))
    for at in range(len(diary)):
        so_far = [name for name, _ in diary[: at + 1]]
        assert abs(so_far.count("head") - so_far.count("base")) <= max(mine, theirs) + 1


@pytest.mark.parametrize("skipped", [({0, 2, 4, 6}, {1, 3, 5}), (set(), set(range(10))), ({8, 9}, {0, 1, 2})])
def test_resumed_runs_that_lack_different_samples_do_not_wait_for_each_other_forever(
    skipped: tuple[set[int], set[int]],
) -> None:
    head, base = Answering(concurrency=2), Answering(concurrency=1)
    asyncio.run(both(head, base, 10, skipped))
    for system, without in zip((head, base), skipped, strict=True):
        assert set(system.asked) == {f"q{at}" for at in range(10) if at not in without}


def test_nobody_waits_for_a_system_that_was_closed() -> None:
    async def alone() -> list[str]:
        golden = samples(6)
        pace, one = Pace(), Answering()
        head, base = Paced(one, pace, 0), Paced(Answering(), pace, 1)
        await base.close()
        for sample in golden:
            await asyncio.wait_for(head.ask(sample), 30)
        return one.asked

    assert asyncio.run(alone()) == [f"q{i}" for i in range(6)]
