"""What a system around another system passes on."""

from __future__ import annotations

from ragstone.golden.sample import Sample
from ragstone.system.response import Response, System


class Wrapped:
    """`system` as it is. Subclasses change how it is started, asked or closed."""

    def __init__(self, system: System) -> None:
        self._system = system

    @property
    def entrypoint(self) -> str:
        return self._system.entrypoint

    @property
    def concurrency(self) -> int:
        return self._system.concurrency

    @property
    def can_be_asked_again(self) -> bool:
        return self._system.can_be_asked_again

    @property
    def accepts(self) -> frozenset[str] | None:
        """As the system says, once it is started."""
        found: object = getattr(self._system, "accepts", None)
        return found if isinstance(found, frozenset) else None

    async def start(self) -> None:
        await self._system.start()

    async def ask(self, sample: Sample) -> Response:
        return await self._system.ask(sample)

    async def close(self) -> None:
        await self._system.close()
