"""Workers of a Dask cluster that judge and score answers (`dask_task.py` is what they do).

Batches are sent as tasks of Dask, to be judged by a worker with little to do. Dask gives those of a lost worker to
another one. The system under test, the functions of custom metrics and the files of the run stay with this process.

Whoever connects to a cluster trusts it: Dask unpickles what scheduler and workers send.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import warnings
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from itertools import count
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from ragstone.errors import ConfigError, JudgeError
from ragstone.formatting import counted, some
from ragstone.judge.factory import Recipe
from ragstone.judge.protocol import JudgeIdentity
from ragstone.metrics.metric import Metric
from ragstone.run import dask_task
from ragstone.run.dask_task import MODEL_PACKAGES, PACKAGES, PYTHON, SAME_VERSIONS, differences, encode_task
from ragstone.run.worker_process import Job, Reply, Task, decode_reply, encode_request
from ragstone.run.workers import LANES, Lane

if TYPE_CHECKING:
    from distributed import Client

_BATCH = 64
_BATCH_WITH_MODEL = 2
_MIN_WAITING = 16
_PATIENCE_S = 300.0
_SILENT_S = 300.0
_POLL_S = 1.0
_CLOSE_S = 10.0
_MAX_LOST = 3
_NOISY = ("distributed.client", "distributed.batched", "distributed.comm")
_REACHABLE = "Is it running, and reachable from here? TLS and timeouts are set in Dask's own configuration."
_RESUME = "Finished samples are saved: continue with --resume."


def refuse_without_dask() -> None:
    """Raise ConfigError if Dask is not installed."""
    try:
        import distributed  # noqa: F401
    except ImportError:
        raise ConfigError(
            "--dask needs the package 'distributed', which is not installed.",
            where="run.dask",
            hint='Run: pip install "ragstone[dask]"',
        ) from None


class DaskWorkers:
    """The workers of the cluster whose scheduler is at `address`, however many there are.

    `identity` is that of this process's judge, which theirs must have too. `say` shows a line to the user. Without any
    worker for `patience_s`, the run ends.
    """

    def __init__(
        self,
        address: str,
        recipe: Recipe,
        metrics: Sequence[Metric],
        *,
        repeats: int,
        identity: JudgeIdentity,
        say: Callable[[str], None],
        patience_s: float = _PATIENCE_S,
    ) -> None:
        self._address = address
        self._packages = (*PACKAGES, *MODEL_PACKAGES) if recipe.loads_model else PACKAGES
        self._loads_model = recipe.loads_model
        self._task = encode_task(Task(recipe.elsewhere(), tuple(metrics), repeats), identity, self._packages)
        self._say = say
        self.patience_s = patience_s
        self._run = f"ragstone-{uuid4().hex}"
        self._client: Client | None = None
        self._kept: Any = None
        self._numbers = count(1)
        self._levels: dict[str, int] = {}
        self._suspected: list[Sequence[Job]] = []  # what workers had when they were lost, until others have judged it
        self.threads: dict[str, int] = {}
        self.batch = _BATCH_WITH_MODEL if recipe.loads_model else _BATCH

    @property
    def waiting(self) -> int:
        """As many samples as all workers take, and some more, since others may join."""
        return max(_MIN_WAITING, LANES * len(self.threads)) * self.batch

    async def start(self) -> None:
        """Connect, and wait for the first worker. Raises JudgeError."""
        from distributed import Client
        from distributed.versions import VersionMismatchWarning

        # Its errors are raised as well, where they matter.
        self._levels = {name: logging.getLogger(name).level for name in _NOISY}
        for name in _NOISY:
            logging.getLogger(name).setLevel(logging.CRITICAL)
        self._client = Client(self._address, asynchronous=True, set_as_default=False, name="ragstone")
        since = time.monotonic()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", VersionMismatchWarning)  # versions that matter are compared below
                async with asyncio.timeout(_connecting_s()):
                    await self._client
        except TimeoutError:
            raise self._silent(since, _REACHABLE) from None
        except Exception as error:  # of the network, or of a TLS configuration that is wrong or missing
            raise JudgeError(
                f"no connection with the Dask scheduler: {_line(error)}",
                where=self._address,
                hint=_REACHABLE,
            ) from None
        self._keep_task()  # at once, for a cluster that starts workers when there is something to do
        async with contextlib.aclosing(self._workers()) as found:
            await anext(found)
        await self._check_versions()
        self._say(self._described())

    async def lanes(self) -> AsyncIterator[Lane]:
        """Each worker twice: while it judges one batch, the next one is on its way."""
        lanes: dict[str, _Lane] = {}
        async for now in self._workers():
            for address in lanes.keys() - now.keys():
                lanes.pop(address).open = False
            for address in now.keys() - lanes.keys():
                lanes[address] = lane = _Lane(self, address)
                for _ in range(LANES):
                    yield lane

    async def close(self) -> None:
        """Take back what is not finished, and disconnect."""
        client, self._client = self._client, None
        if client is None:
            return
        with contextlib.suppress(Exception):  # whatever the state of the cluster is
            async with asyncio.timeout(_CLOSE_S):
                if client.status == "running":
                    await client.run(dask_task.forget, self._run, on_error="ignore")
        with contextlib.suppress(Exception):
            async with asyncio.timeout(_CLOSE_S):
                await client.close()
        for name, level in self._levels.items():
            logging.getLogger(name).setLevel(level)

    async def judge(self, address: str, jobs: tuple[Job, ...]) -> Reply:
        """The records of `jobs`, judged by the worker at `address`, or by another one if that is lost."""
        assert self._client is not None  # noqa: S101 - started
        body = encode_request(jobs)
        for _ in range(_MAX_LOST):
            there, data = await self._send(address, body)
            if self._kept.cancelled():  # the connection was interrupted
                self._keep_task()
            future = self._client.submit(
                dask_task.judge,
                self._run,
                self._kept,
                data,
                key=f"{self._run}-{next(self._numbers)}",
                workers=there,
                allow_other_workers=there is not None,
                pure=False,
            )
            try:
                reply = decode_reply(await future, jobs)
                self._suspected = [other for other in self._suspected if other is not jobs]
                return reply
            except CancelledError as error:
                await self._connected(error)  # then it is a worker that was lost, and the jobs with it
                self._suspected.append(jobs)
            except Exception as error:
                raise self._explained(error, jobs) from None
            finally:
                future.release()
                data.release()
        raise self._killed(_MAX_LOST, jobs)

    def _keep_task(self) -> None:
        assert self._client is not None  # noqa: S101 - started
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sending large graph")  # once
            key = f"{self._run}-task-{next(self._numbers)}"
            self._kept = self._client.submit(dask_task.keep, self._task, key=key, pure=False)

    async def _send(self, address: str, body: bytes) -> tuple[list[str] | None, Any]:
        """`body` on the worker at `address`, or on another one if that is lost, and which one it is, if that is known.

        As a part of a task, it would stay for long in the scheduler, which logs the last thousand messages to each
        worker, and in this process. The task is to run where its data is: on another worker there would be a copy, with
        which Dask tries again by itself, and what ends a worker would end more of them than are counted here.
        """
        assert self._client is not None  # noqa: S101 - started
        while True:
            one = address if address in self.threads else next(iter(self.threads), None)
            there = None if one is None else [one]
            try:
                return there, await self._client.scatter(body, workers=there, direct=False, hash=False)
            except Exception as error:  # no more than a sign that a worker, or all, or the scheduler, are gone
                await self._connected(error)

    async def _connected(self, error: Exception) -> None:
        """Raise JudgeError if it is the scheduler that is lost; if it is a worker, go on when that is known."""
        assert self._client is not None  # noqa: S101 - started
        await asyncio.sleep(2 * _POLL_S)
        if self._client.status != "running":
            raise self._explained(error, ()) from None

    async def _workers(self) -> AsyncGenerator[Mapping[str, int]]:
        """The threads of each worker by its address, now and from time to time. Raises JudgeError without any."""
        assert self._client is not None  # noqa: S101 - started
        lost_since: float | None = None
        while True:
            since = time.monotonic()
            try:
                async with asyncio.timeout(_SILENT_S):
                    self.threads = dict(await self._client.scheduler.ncores())
            except TimeoutError:
                raise self._silent(since, _RESUME) from None
            except Exception as error:
                await self._connected(error)
                continue
            if self.threads:
                lost_since = None
                yield self.threads
            elif lost_since is None:
                lost_since = time.monotonic()
                self._say(f"The Dask cluster at {self._address} has no worker: waiting up to {self._patience()}.")
            elif time.monotonic() - lost_since >= self.patience_s:
                had = [_names(jobs) for jobs in self._suspected[-1:]]
                last = f" The last one was lost while it had {had[0]} to judge." if had else ""
                raise JudgeError(
                    f"the Dask cluster had no worker for {self._patience()}.{last}",
                    where=self._address,
                    hint=f"Start some with `dask worker {self._address}`. {_RESUME}",
                )
            await asyncio.sleep(_POLL_S)

    async def _check_versions(self) -> None:
        assert self._client is not None  # noqa: S101 - started
        found = await self._client.get_versions(packages=list(self._packages))
        ours = _versions(found["client"], self._packages)
        # The scheduler judges nothing, but imports what it passes on.
        ours_there = _versions(found["client"], PACKAGES[:1])
        wrong = {"the scheduler": differences(_versions(found["scheduler"], PACKAGES[:1]), ours_there)}
        for address, one in found["workers"].items():
            wrong[f"worker {address}"] = differences(_versions(one, self._packages), ours)
        shown = [f"{process}: {differing}" for process, differing in wrong.items() if differing]
        if shown:
            more = [f"and {len(shown) - 3} more"] if len(shown) > 3 else []
            differ = "1 process of the Dask cluster differs" if len(shown) == 1 else f"{len(shown)} processes differ"
            raise JudgeError(
                "\n  ".join([f"{differ} from this one:", *shown[:3], *more]), where=self._address, hint=SAME_VERSIONS
            )

    def _silent(self, since: float, hint: str) -> JudgeError:
        waited = counted(round(time.monotonic() - since), "second")
        return JudgeError(f"the Dask scheduler did not answer for {waited}.", where=self._address, hint=hint)

    def _patience(self) -> str:
        return counted(round(self.patience_s), "second")

    def _described(self) -> str:
        judging = f"Judging with {counted(len(self.threads), 'Dask worker')} at {self._address}."
        if self._loads_model or max(self.threads.values()) == 1:
            return judging
        return f"{judging} Each uses one core: start them with --nworkers auto and --nthreads 1 to use all."

    def _explained(self, error: Exception, jobs: Sequence[Job]) -> JudgeError:
        from distributed import KilledWorker

        if isinstance(error, KilledWorker):
            return self._killed(error.allowed_failures + 1, jobs)
        if isinstance(error, (CancelledError, OSError)):
            return JudgeError("the connection with the Dask scheduler was lost.", where=self._address, hint=_RESUME)
        return JudgeError(
            f"the Dask cluster could not judge: {_line(error.__cause__ or error)}",
            where=self._address,
            hint="Is Ragstone installed on the scheduler and on all workers, in this version?",
        )

    def _killed(self, times: int, jobs: Sequence[Job]) -> JudgeError:
        lost = f"{times} workers of the Dask cluster were lost, one after the other"
        return JudgeError(
            f"{lost}, while they had {_names(jobs)} to judge.",
            where=self._address,
            hint=f"Look into the workers' logs; they may have run out of memory. {_RESUME}",
        )


class _Lane:
    def __init__(self, pool: DaskWorkers, address: str) -> None:
        self._pool = pool
        self._address = address
        self.open = True

    async def judge(self, jobs: tuple[Job, ...]) -> Reply:
        return await self._pool.judge(self._address, jobs)


def _names(jobs: Sequence[Job]) -> str:
    return some([f"'{job.sample.id}'" for job in jobs], 3)


def _connecting_s() -> float:
    """The most seconds that Dask is given to connect: as long as it is set to try, and as long again for an answer.

    Dask itself limits the first part only: it waits for ever for whoever accepts the connection and says nothing.
    """
    import dask.config
    from dask.utils import parse_timedelta

    return 2.0 * float(parse_timedelta(dask.config.get("distributed.comm.timeouts.connect"), default="seconds"))


def _versions(found: Mapping[str, Any] | None, packages: Sequence[str]) -> dict[str, str | None]:
    """What Dask says of a process, as `dask_task.versions` says it."""
    known: Mapping[str, str | None] = (found or {}).get("packages", {})
    python = ".".join((known.get("python") or "unknown").split(".")[:2])
    return {PYTHON: python, **{name: known.get(name) for name in packages}}


def _line(error: BaseException) -> str:
    text = " ".join(str(error).split())[:300]
    return text if text and isinstance(error, OSError) else f"{type(error).__name__}: {text}"
