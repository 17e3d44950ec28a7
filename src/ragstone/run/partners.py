"""Asks a system the perturbed partners of questions after the questions themselves, without starting it twice."""

from __future__ import annotations

from dataclasses import replace

from ragstone.golden.sample import Sample
from ragstone.system.given import Wrapped
from ragstone.system.response import Response, System


class StaysOpen(Wrapped):
    """`system`, started once and kept open for several evaluations. `stop` closes it."""

    def __init__(self, system: System) -> None:
        super().__init__(system)
        self._started = False

    async def start(self) -> None:
        if not self._started:
            self._started = True
            await self._system.start()

    async def close(self) -> None:
        """Nothing: the next evaluation needs the system."""

    async def stop(self) -> None:
        await self._system.close()


class AsksPartners(Wrapped):
    """`system`, asked a partner's changed question in place of the one that its answer is judged by."""

    async def ask(self, sample: Sample) -> Response:
        changed = sample.perturbation
        return await self._system.ask(sample if changed is None else replace(sample, question=changed.asked))
