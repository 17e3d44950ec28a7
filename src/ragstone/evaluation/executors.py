"""Judging and scoring in other processes: worker processes of this machine, or the
workers of a Dask cluster.

Both get batches of samples with their answers, and return the lines of their records.
The system under test is asked and the run is written by this process. Workers get no
environment, no key and no code of the user's.

If a worker is lost, the samples that were on their way are judged once more, one at a
time. A sample over which a worker is lost a second time fails, and no other one with
it.
"""

from __future__ import annotations

import asyncio
import os
import platform
import signal
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection
from queue import SimpleQueue
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

from ragstone.errors import JudgeError, RagstoneError
from ragstone.evaluation.record import RecordLine
from ragstone.evaluation.scoring import judge_sample
from ragstone.evaluation.serialise import record_line
from ragstone.formatting import counted
from ragstone.golden.sample import Sample
from ragstone.judge.portable import PortableJudge
from ragstone.judge.protocol import Judge, JudgeIdentity, JudgementFailed, Ledger
from ragstone.metrics.metric import Metric
from ragstone.system.response import Response

if TYPE_CHECKING:
    from distributed import Client

BATCH = 16
"""Samples that are sent together: about 40 ms of judging."""

MAX_LOST_PROCESSES = 10
"""Worker processes that end so often have no single sample to blame."""

PATIENCE_S = 300.0
"""How long a Dask cluster may take for one batch, or to have its first worker."""

CLOSE_S = 10.0
LOST_S = 2.0
DASK_LANES = 64
"""Batches on their way, since workers may join."""

PACKAGES = (
    "ragstone",
    "google-re2",
    "numpy",
    "pydantic-core",
    "PyStemmer",
    "sentencex",
)
"""Packages that records depend on: on a cluster they must have the same versions as
here."""

_ENVIRONMENT = ("SYSTEMROOT", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""What an interpreter may need to start at all."""

_RESUME = "Finished samples are saved: continue with --resume"
_LOST_TWICE = "the worker that judged it was lost, and so was a second one; there may be too little memory"


@dataclass(frozen=True, slots=True)
class Task:
    """What a worker does with every sample: who judges, how often, and for which
    metrics.

    `identity` and `versions` are those of this process, and must be those of the worker
    too. `run` identifies the task.
    """

    judge: PortableJudge
    metrics: tuple[Metric, ...]
    repeats: int
    identity: JudgeIdentity
    versions: Mapping[str, str]
    run: str = field(default_factory=lambda: uuid4().hex)


Job = tuple[Sample, tuple[Response, ...]]
"""A sample and the responses to it."""


# -- in a worker
# -------------------------------------------------------------------------------------------------------


_judges: dict[str, Judge] = {}
"""The judge of the task at hand, by the task's id."""
_one_at_a_time = threading.Lock()
"""Judging is bound by the processor, and judges are made for one thread."""


def judge_in_process(task: Task, pipe: Connection) -> None:
    """Judge for `task` all jobs that come through `pipe`, until it is closed: what a
    worker process does."""
    with suppress(EOFError, OSError):
        while True:
            jobs = pipe.recv()
            pipe.send(_outcome(task, jobs))


def _outcome(task: Task, jobs: Sequence[Job]) -> list[RecordLine] | Exception:
    """The records of `jobs`, or what judging them raised: it is raised in the run's
    process."""
    try:
        return judge_jobs(task, jobs)
    except Exception as error:
        return error


def judge_jobs(task: Task, jobs: Sequence[Job]) -> list[RecordLine]:
    """The records of `jobs`. Raises JudgeError if this worker can't judge as the run
    does."""
    with _one_at_a_time:
        if task.run not in _judges:
            _judges.clear()
            _judges[task.run] = _build_judge(task)
        return asyncio.run(_judge(_judges[task.run], task, jobs))


def _build_judge(task: Task) -> Judge:
    differing = differences(versions(), task.versions)
    if differing:
        raise JudgeError(
            f"a worker differs from this process: {differing}.",
            hint="Records depend on these versions: install the same ones everywhere, for example in the same image.",
        )
    judge = task.judge.build()
    if judge.identity != task.identity:
        raise JudgeError("a worker built a different judge than this process.")
    return judge


async def _judge(judge: Judge, task: Task, jobs: Sequence[Job]) -> list[RecordLine]:
    return [await _judge_job(judge, task, job) for job in jobs]


async def _judge_job(judge: Judge, task: Task, job: Job) -> RecordLine:
    sample, responses = job
    record = await judge_sample(
        judge,
        task.metrics,
        sample,
        responses,
        repeats=task.repeats,
        custom={},
        ledger=Ledger(),
    )
    return record_line(record)


def versions() -> dict[str, str]:
    """The versions of Python and of PACKAGES here; empty: not installed."""
    installed = {"Python": ".".join(platform.python_version_tuple()[:2])}
    for package in PACKAGES:
        try:
            installed[package] = version(package)
        except PackageNotFoundError:
            installed[package] = ""
    return installed


def differences(remote: Mapping[str, str], local: Mapping[str, str]) -> str:
    """The versions in `remote` that are not those in `local`, in a phrase; empty if
    there are none."""
    differing = [
        f"{name} {remote.get(name) or 'is missing'} (here {wanted or 'none'})"
        for name, wanted in local.items()
        if remote.get(name, "") != wanted
    ]
    return ", ".join(differing)


# -- in the run's process
# ----------------------------------------------------------------------------------------------


class WorkerLost(Exception):  # noqa: N818 - its samples are judged once more
    """A worker ended while a batch was on its way."""


class Workers(ABC):
    """Workers of one task. Call `start`, and always `close`. Up to `lanes` batches are
    worth being on their way."""

    lanes: int

    def __init__(self, task: Task) -> None:
        self._task = task
        self._second_attempt = asyncio.Lock()

    @abstractmethod
    async def start(self) -> None:
        """Raises JudgeError if there are no workers."""

    @abstractmethod
    async def close(self) -> None:
        """End what is not finished, whatever the state of the workers."""

    async def judge(self, jobs: Sequence[Job]) -> list[RecordLine]:
        """The records of `jobs`, in their order. Raises JudgeError if the workers can't
        judge any more."""
        try:
            return await self._submit(jobs)
        except WorkerLost:
            return [await self._judge_once_more(job) for job in jobs]

    async def _judge_once_more(self, job: Job) -> RecordLine:
        async with self._second_attempt:
            try:
                (record,) = await self._submit((job,))
            except WorkerLost:
                record = await _judge_job(
                    cast(Judge, _FailingJudge(_LOST_TWICE)), self._task, job
                )
        return record

    @abstractmethod
    async def _submit(self, jobs: Sequence[Job]) -> list[RecordLine]:
        """What `judge_jobs` returns in a worker.

        Raises WorkerLost, and JudgeError if the workers can't judge any more.
        """


@dataclass(frozen=True, slots=True)
class _FailingJudge:
    """Fails every judgement for one reason."""

    reason: str

    def __getattr__(self, judgement: str) -> Callable[..., Any]:
        async def fail(*_: object, **__: object) -> None:
            raise JudgementFailed(self.reason)

        return fail


# -- worker processes
# --------------------------------------------------------------------------------------------------


class ProcessWorkers(Workers):
    """`count` processes of this machine. One that ends is replaced."""

    def __init__(self, count: int, task: Task) -> None:
        super().__init__(task)
        self.lanes = (
            2 * count
        )  # while a process judges one batch, the next one waits for it
        self._count = count
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="ragstone-worker")
        self._idle: SimpleQueue[_WorkerProcess] = SimpleQueue()
        self._processes: list[_WorkerProcess] = []
        self._starting: list[Future[list[RecordLine]]] = []
        self._lost = 0

    async def start(self) -> None:
        with _start_of_processes():
            for _ in range(self._count):
                self._add_process()
        self._starting = [
            self._threads.submit(self._judge_in_idle, ()) for _ in self._processes
        ]

    async def close(self) -> None:
        """End the processes, whatever they are doing."""
        for process in self._processes:
            process.end()
            self._idle.put(process)  # so that no thread waits for one
        self._threads.shutdown(cancel_futures=True)
        for process in self._processes:
            process.close()

    async def _submit(self, jobs: Sequence[Job]) -> list[RecordLine]:
        await self._started()
        try:
            return await asyncio.wrap_future(
                self._threads.submit(self._judge_in_idle, jobs)
            )
        except _ProcessEnded:
            self._replace_lost()
            raise WorkerLost from None

    async def _started(self) -> None:
        """Return when all processes are ready. Raises JudgeError if they can't be."""
        try:
            await asyncio.gather(*map(asyncio.wrap_future, self._starting))
        except _ProcessEnded:
            raise JudgeError(
                "a worker process ended before it was ready.",
                hint=f"{_RESUME}, and judge in one process: RAGSTONE_WORKERS=1.",
            ) from None

    def _judge_in_idle(self, jobs: Sequence[Job]) -> list[RecordLine]:
        """What an idle process makes of `jobs`: there is one, since there are as many
        processes as threads."""
        process = self._idle.get()
        outcome = process.judge(jobs)
        self._idle.put(process)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def _replace_lost(self) -> None:
        """Start a process in the place of a lost one. Raises JudgeError if too many
        were lost."""
        self._lost += 1
        if self._lost > MAX_LOST_PROCESSES:
            raise JudgeError(
                f"worker processes ended {counted(self._lost, 'time')} while they judged.",
                hint=f"{_RESUME}, with fewer workers if memory is short (RAGSTONE_WORKERS=1).",
            )
        with _start_of_processes():
            self._add_process()

    def _add_process(self) -> None:
        process = _WorkerProcess(self._task)
        self._processes.append(process)
        self._idle.put(process)


class _ProcessEnded(Exception):  # noqa: N818 - a worker was lost
    """A worker process ended before it had an answer."""


class _WorkerProcess:
    """A fresh interpreter that judges what comes through its own pipe, so that half a
    reply is nobody else's.

    It ends when the pipe is closed, at the latest when this process ends.
    """

    def __init__(self, task: Task) -> None:
        context = get_context("spawn")
        self._pipe, end_of_process = context.Pipe()
        self._process = context.Process(
            target=judge_in_process, args=(task, end_of_process), daemon=True
        )
        self._process.start()
        end_of_process.close()

    def judge(self, jobs: Sequence[Job]) -> list[RecordLine] | Exception:
        """The records of `jobs`, or what judging them raised. Raises _ProcessEnded."""
        try:
            self._pipe.send(jobs)
            outcome: list[RecordLine] | Exception = self._pipe.recv()
        except (EOFError, OSError):
            raise _ProcessEnded from None
        return outcome

    def end(self) -> None:
        """Kill the process: a call of `judge` in another thread raises
        _ProcessEnded."""
        self._process.kill()
        self._process.join()

    def close(self) -> None:
        self._pipe.close()
        self._process.close()


@contextmanager
def _start_of_processes() -> Iterator[None]:
    """Start interpreters inside the block that know neither the environment nor the
    main module of this process.

    The user's script may be that module, which would be run again, and a process can
    show its first environment to others. Ctrl-C, and the end of the terminal, are for
    this process: it ends the others.
    """
    environment, main = dict(os.environ), sys.modules["__main__"]
    blocked: set[int] = set()
    resource_tracker.ensure_running()
    if sys.platform != "win32":
        blocked = signal.pthread_sigmask(
            signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP}
        )
    os.environ.clear()
    os.environ.update(
        {name: environment[name] for name in _ENVIRONMENT if name in environment}
    )
    os.environ["PYTHONSAFEPATH"] = (
        "1"  # imports nothing from the current directory by its name
    )
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
        os.environ.clear()
        os.environ.update(environment)
        if sys.platform != "win32":
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


# -- a Dask cluster
# ----------------------------------------------------------------------------------------------------


class DaskWorkers(Workers):
    """The workers of the cluster whose scheduler is at `address`. Dask gives the
    batches of a lost worker to others.

    Whoever connects to a cluster trusts it: Dask unpickles what scheduler and workers
    send.
    """

    lanes = DASK_LANES

    def __init__(
        self, address: str, task: Task, *, patience_s: float = PATIENCE_S
    ) -> None:
        super().__init__(task)
        self._address = address
        self._patience_s = patience_s
        self._client: Client | None = None

    async def start(self) -> None:
        """Connect, and wait for the first worker. Raises JudgeError."""
        from distributed import Client

        self._client = Client(
            self._address, asynchronous=True, set_as_default=False, name="ragstone"
        )
        try:
            async with asyncio.timeout(self._patience_s):
                await self._client
        except Exception as error:  # of the network, or of a TLS configuration that is wrong or missing
            raise self._error(
                f"no connection with the Dask scheduler: {_line(error)}",
                "Is it running, and reachable from here? TLS and timeouts are set in Dask's own configuration.",
            ) from None
        await self.judge(())

    async def close(self) -> None:
        if self._client is not None:
            with suppress(Exception):  # whatever the state of the cluster is
                async with asyncio.timeout(CLOSE_S):
                    await self._client.close()

    async def _submit(self, jobs: Sequence[Job]) -> list[RecordLine]:
        from distributed import KilledWorker

        assert self._client is not None  # noqa: S101 - started
        executor = self._client.get_executor(pure=False)
        result = asyncio.wrap_future(executor.submit(judge_jobs, self._task, jobs))
        try:
            finished, _ = await asyncio.wait({result}, timeout=self._patience_s)
            if not finished:
                raise self._error(
                    f"the Dask cluster gave no result for {counted(round(self._patience_s), 'second')}.",
                    f"Start workers with `dask worker {self._address}`. {_RESUME}.",
                )
            if result.cancelled():
                await asyncio.sleep(
                    LOST_S
                )  # until it is known whether it was the scheduler or a worker
                if self._client.status == "running":
                    raise WorkerLost
                raise self._error(
                    "the connection with the Dask scheduler was lost.", f"{_RESUME}."
                )
            records: list[RecordLine] = result.result()
            return records
        except KilledWorker:
            raise WorkerLost from None
        except (RagstoneError, WorkerLost):
            raise
        except Exception as error:
            raise self._error(
                f"the Dask cluster could not judge: {_line(error)}",
                "Is Ragstone installed on the scheduler and on all workers, in this version?",
            ) from None

    def _error(self, message: str, hint: str) -> JudgeError:
        return JudgeError(message, where=self._address, hint=hint)


def _line(error: BaseException) -> str:
    text = " ".join(str(error).split())[:300]
    return f"{type(error).__name__}: {text}"
