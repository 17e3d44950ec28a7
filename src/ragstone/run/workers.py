"""Worker processes that judge and score answers on all cores (`worker_process.py` is the other end).

Each is a fresh interpreter, not a fork: a copy of a process with threads, of which local models have some, may hang. It
gets no environment, no secrets and no code of the user's, so that it can do nothing that this process could not.
A worker that is killed is replaced, and what it was doing is done again, once.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Literal, Protocol

from ragstone.errors import JudgeError, SystemUnderTestError
from ragstone.formatting import some
from ragstone.judge.factory import Recipe, usable_cores
from ragstone.judge.protocol import JudgeIdentity
from ragstone.metrics.metric import Metric
from ragstone.run.worker_process import LENGTH_BYTES, Job, Reply, Task, decode_reply, encode_request, framed
from ragstone.system.child import Child, ChildContext, Guardian, SystemLog

BATCH = 16
"""Samples that are sent together: about 50 ms of judging offline."""

LANES = 2
"""Lanes of a worker: while it judges one batch, the next one is on its way."""

_MIN_SAMPLES = 500
_MIN_WITH_MODEL = 100
_MAX_WORKERS = 16
_MAX_WITH_MODEL = 4
_ATTEMPTS = 2
_BUFFER = 1024 * 1024
_KEEP = ("SYSTEMROOT", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv.pop()); from ragstone.run.worker_process import main; main()"
)


def how_many(workers: int | Literal["auto"], recipe: Recipe | None, samples: int, *, judged: int = 1) -> int:
    """How many worker processes to judge `samples` with, `judged` times each; 0: none, this process does it.

    ``auto`` takes one for each core, but none where starting them would take longer than it saves, and none for a GPU,
    which each would load its own copy of the model onto.
    """
    if recipe is None or not sys.executable or workers == 1:
        return 0
    if workers != "auto":
        return min(workers, samples)
    if recipe.on_gpu:
        return 0
    fewest, most = (_MIN_WITH_MODEL, _MAX_WITH_MODEL) if recipe.loads_model else (_MIN_SAMPLES, _MAX_WORKERS)
    cores = usable_cores()
    return min(cores, most) if cores > 1 and samples * judged >= fewest else 0


class Lane(Protocol):
    """A place where one batch at a time is judged. One that is no longer `open` gets no further batch."""

    @property
    def open(self) -> bool: ...

    async def judge(self, jobs: tuple[Job, ...]) -> Reply: ...


class Pool(Protocol):
    """Workers, wherever they are. Call `start`, and always `close`.

    Samples are sent in batches of up to `batch`; up to `waiting` samples wait for a lane.
    """

    @property
    def batch(self) -> int: ...

    @property
    def waiting(self) -> int: ...

    def lanes(self) -> AsyncIterator[Lane]:
        """The lanes that there are, and those that come later. Raises JudgeError if there will be none."""
        ...

    async def start(self) -> None: ...

    async def close(self) -> None: ...


class Workers:
    """`count` processes that judge as `recipe` says. Call `start`, and always `close`.

    `identity` is that of this process's judge, which theirs must have too.
    """

    def __init__(
        self, count: int, recipe: Recipe, metrics: Sequence[Metric], *, repeats: int, identity: JudgeIdentity
    ) -> None:
        first, second, third = gc.get_threshold()
        task = Task(recipe.shared_by(count), tuple(metrics), repeats, (first, second, third))
        self._guardian = Guardian()
        context = ChildContext(Path.cwd(), _environment(), SystemLog(None), self._guardian)
        request = framed(encode_request(task))
        self._workers = [_Worker(request, identity, context) for _ in range(count)]
        self.batch = 1 if recipe.loads_model else BATCH

    @property
    def pids(self) -> list[int]:
        """The processes that are running or have ended unnoticed."""
        return [worker.pid for worker in self._workers if worker.pid is not None]

    @property
    def waiting(self) -> int:
        return LANES * len(self._workers) * self.batch

    async def lanes(self) -> AsyncIterator[Lane]:
        for worker in self._workers * LANES:
            yield worker

    async def start(self) -> None:
        """Start the processes, without waiting until they are ready. Raises JudgeError."""
        await asyncio.gather(*(worker.start() for worker in self._workers))

    async def close(self) -> None:
        """End the processes, whatever they are doing."""
        await asyncio.gather(*(worker.close() for worker in self._workers))
        await asyncio.to_thread(self._guardian.close)


class _Worker:
    open = True  # a process that ends is replaced

    def __init__(self, task: bytes, identity: JudgeIdentity, context: ChildContext) -> None:
        self._task = task
        self._identity = identity
        self._context = context
        self._process: _Process | None = None
        self._starting = asyncio.Lock()

    @property
    def pid(self) -> int | None:
        return self._process.child.pid if self._process is not None else None

    async def start(self) -> _Process:
        """The process, a new one if there is none or it has ended."""
        async with self._starting:
            if self._process is not None and self._process.ended:
                await self._process.child.end()
                self._process = None
            if self._process is None:
                try:
                    child = await Child.spawn(_command(), self._context, limit=_BUFFER)
                except SystemUnderTestError as error:
                    raise JudgeError(
                        f"a worker process could not be started: {error.message}",
                        hint="Judge in one process: --workers 1.",
                    ) from None
                child.write(self._task)
                self._process = _Process(child, self._identity)
            return self._process

    async def judge(self, jobs: tuple[Job, ...]) -> Reply:
        """The records of `jobs`. Raises JudgeError if two processes ended over them."""
        request = framed(encode_request(jobs))
        ends = 0
        while ends < _ATTEMPTS:
            process = await self.start()
            process.child.write(request)
            try:
                return decode_reply(await process.reply(), jobs)
            except _Ended as ended:
                ends += ended.at_work
        how = await process.child.ending()
        said = process.child.tail.text()
        names = some([f"'{job.sample.id}'" for job in jobs], 3)
        raise JudgeError(
            f"a worker process {how} while it judged {names}, and so did the one that took its place."
            + (f"\n{said}" if said else ""),
            hint="Finished samples are saved: continue with --resume, with fewer workers if memory is short "
            "(--workers 1).",
        )

    async def close(self) -> None:
        if self._process is not None:
            await self._process.child.end()


class _Ended(Exception):  # noqa: N818 - not an error yet
    """The process has ended. `at_work`: over this request, not over one before it."""

    def __init__(self, *, at_work: bool) -> None:
        self.at_work = at_work


class _Process:
    """A worker's process. Its replies are read in the order of the requests."""

    def __init__(self, child: Child, identity: JudgeIdentity) -> None:
        self.child = child
        self._expected = json.loads(json.dumps(asdict(identity)))
        self._greeted = False
        self._turn = asyncio.Lock()
        self.ended = False

    async def reply(self) -> bytes:
        """The next reply. Raises _Ended if the process ended before it was complete."""
        async with self._turn:
            if self.ended:
                raise _Ended(at_work=False)
            try:
                if not self._greeted:
                    self._greet(await self._read())
                return await self._read()
            except asyncio.IncompleteReadError:
                self.ended = True
                raise _Ended(at_work=True) from None

    async def _read(self) -> bytes:
        head = await self.child.stdout.readexactly(LENGTH_BYTES)
        return await self.child.stdout.readexactly(int.from_bytes(head, "big"))

    def _greet(self, body: bytes) -> None:
        self._greeted = True
        if b"\n" in body:  # it could not build the judge
            raise_trouble(decode_reply(body, ()))
        if json.loads(body) != self._expected:
            raise JudgeError(
                "a worker process built a different judge than this process.",
                hint="Was the model changed during the run? Start again.",
            )


def raise_trouble(reply: Reply) -> None:
    trouble = reply.trouble
    if trouble is None:
        return
    if trouble.kind is None:
        raise RuntimeError(f"a worker process failed:\n{trouble.message}")
    raise JudgeError(trouble.message, where=trouble.where, hint=trouble.hint)


def _environment() -> dict[str, str]:
    """What an interpreter may need to start at all, and which GPU it is to use."""
    return {name: os.environ[name] for name in _KEEP if name in os.environ}


def _command() -> list[str]:
    """A fresh interpreter that imports from where this one does, except from the current directory by its name."""
    return [sys.executable, "-I", "-c", _START, json.dumps([one for one in sys.path if one])]
