"""Asks two systems the same questions at the same time: a change, and the commit that it is based on.

What the provider of a model does in the meantime (a bad hour, a moved model) then happens to both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

from ragstone.golden.sample import Sample
from ragstone.system.given import Wrapped
from ragstone.system.response import Response, System


@dataclass(slots=True)
class _Side:
    arrived: set[int] = field(default_factory=set)
    asked: set[int] = field(default_factory=set)
    furthest: int = -1
    gone: bool = False


class Pace:
    """Keeps two systems at the same question. Each is asked first every other time.

    The samples must be asked in the order `ids`, but not all of them by both: a resumed run skips those it has. No
    system can be ahead by more questions than it answers concurrently, plus one. A system that has left holds up
    nobody.
    """

    def __init__(self, ids: Iterable[str]) -> None:
        self._place = {sample_id: place for place, sample_id in enumerate(ids)}
        self._sides = (_Side(), _Side())
        self._moved = asyncio.Condition()
        self._started = asyncio.Barrier(2)
        self.both_started = False
        """Whether both systems have started."""

    def systems(self, first: System, second: System) -> tuple[System, System]:
        """The two systems, kept at the same question. `leave` is called when they are closed."""
        return _Paced(first, self, 0), _Paced(second, self, 1)

    async def started(self) -> None:
        """Wait until both systems have started: if one can't, the other writes nothing."""
        await self._started.wait()
        self.both_started = True

    async def turn(self, side: int, sample_id: str) -> None:
        """Wait until this side may ask about the sample. Questions that are repeated don't wait."""
        place = self._place[sample_id]
        mine, other = self._sides[side], self._sides[1 - side]
        if place in mine.arrived:
            return
        async with self._moved:
            mine.arrived.add(place)
            mine.furthest = max(mine.furthest, place)
            self._moved.notify_all()
            if place % 2 != side:
                await self._moved.wait_for(lambda: _has_had(other, place))
            mine.asked.add(place)
            self._moved.notify_all()

    async def leave(self, side: int) -> None:
        """This side asks no more questions."""
        async with self._moved:
            self._sides[side].gone = True
            self._moved.notify_all()


def _has_had(side: _Side, place: int) -> bool:
    """Whether the side has asked about the sample at `place`, or won't: it has passed it, or is gone."""
    return side.gone or place in side.asked or (side.furthest > place and place not in side.arrived)


class _Paced(Wrapped):
    """A system that waits for its turn before each question."""

    def __init__(self, system: System, pace: Pace, side: int) -> None:
        super().__init__(system)
        self._pace = pace
        self._side = side

    async def start(self) -> None:
        await self._system.start()
        await self._pace.started()

    async def ask(self, sample: Sample) -> Response:
        await self._pace.turn(self._side, sample.id)
        return await self._system.ask(sample)

    async def close(self) -> None:
        await self._pace.leave(self._side)
        await self._system.close()
