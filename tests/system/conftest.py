from __future__ import annotations

import asyncio
import os
import textwrap
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from ragstone.golden.sample import Sample
from ragstone.settings.settings import SystemSettings
from ragstone.system.entrypoint import build_system
from ragstone.system.environment import RunAs
from ragstone.system.response import Response, System, takes_extra
from tests.system.service import Server

T = TypeVar("T")


class Room:
    """A folder with user code in it, and a way to ask it questions through real processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "system.log"
        self.environ: dict[str, str] = {
            name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "CONDA_PREFIX")
        }
        self.run_as: RunAs | None = None

    def write(self, name: str, source: str) -> Path:
        path = self.folder / name
        path.write_text(textwrap.dedent(source), encoding="utf-8")
        return path

    def app(self, source: str) -> None:
        """Write the module `app`."""
        self.write("app.py", source)

    def ask(self, entrypoint: str, *questions: str, **settings: object) -> list[Response]:
        """One response a question, in order; ids are the questions' numbers."""
        samples = [Sample(id=f"s{number}", question=question) for number, question in enumerate(questions)]
        return self.ask_samples(entrypoint, *samples, **settings)

    def ask_samples(self, entrypoint: str, *samples: Sample, **settings: object) -> list[Response]:
        async def ask(system: System) -> list[Response]:
            return list(await asyncio.gather(*(system.ask(sample) for sample in samples)))

        return self.use(ask, entrypoint, **settings)

    def knows(self, part: str, entrypoint: str, **settings: object) -> bool | None:
        """Whether the started system takes `part` beside the question."""

        async def answer(system: System) -> bool | None:
            return takes_extra(system, part)

        return self.use(answer, entrypoint, **settings)

    def use(self, use: Callable[[System], Awaitable[T]], entrypoint: str, **settings: object) -> T:
        """What `use` does with the started system."""

        async def started() -> T:
            async with self.started(entrypoint, **settings) as system:
                return await use(system)

        return asyncio.run(started())

    @asynccontextmanager
    async def started(self, entrypoint: str, **settings: object) -> AsyncIterator[System]:
        given = {"timeout_s": 30.0, "startup_timeout_s": 60.0, **settings, "entrypoint": entrypoint}
        system = build_system(
            SystemSettings.model_validate(given),
            root=self.folder,
            environ=self.environ,
            log=self.log,
            run_as=self.run_as,
        )
        try:
            await system.start()
            yield system
        finally:
            await system.close()


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.stop()


@pytest.fixture
def no_proxy(monkeypatch: pytest.MonkeyPatch, room: Room) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        room.environ.pop(name, None)
