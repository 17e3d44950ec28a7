"""Asks a system the perturbed partners of questions after the questions themselves, without starting it twice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ragstone.golden.sample import Sample
from ragstone.system.response import Response, System


class StaysOpen:
    """`system`, started once and kept open for several evaluations. `stop` closes it."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._started = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._system, name)

    @property
    def entrypoint(self) -> str:
        return self._system.entrypoint

    @property
    def concurrency(self) -> int:
        return self._system.concurrency

    async def start(self) -> None:
        if not self._started:
            self._started = True
            await self._system.start()

    async def ask(self, sample: Sample) -> Response:
        return await self._system.ask(sample)

    async def close(self) -> None:
        """Nothing: the next evaluation needs the system."""

    async def stop(self) -> None:
        await self._system.close()


class AsksPartners:
    """`system`, asked a partner's changed question in place of the one that its answer is judged by."""

    def __init__(self, system: System) -> None:
        self._system = system

    def __getattr__(self, name: str) -> Any:
        return getattr(self._system, name)

    @property
    def entrypoint(self) -> str:
        return self._system.entrypoint

    @property
    def concurrency(self) -> int:
        return self._system.concurrency

    async def start(self) -> None:
        await self._system.start()

    async def ask(self, sample: Sample) -> Response:
        changed = sample.perturbation
        return await self._system.ask(sample if changed is None else replace(sample, question=changed.asked))

    async def close(self) -> None:
        await self._system.close()
