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
import pickle
import platform
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

from msgspec import Struct, field

from ragstone.errors import JudgeError, RagstoneError
from ragstone.evaluation.engine import Job
from ragstone.evaluation.record import RecordLine, record_line
from ragstone.evaluation.scoring import judge_sample
from ragstone.formatting import counted
from ragstone.judge.portable import PortableJudge
from ragstone.judge.protocol import Judge, JudgeIdentity, JudgementFailed
from ragstone.metrics.metric import Metric

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

_WORKER = """
import sys
sys.path[:] = {path!r}
from ragstone.evaluation.executors import judge_in_process
judge_in_process()
"""

_RESUME = "Finished samples are saved: continue with --resume"
_LOST_TWICE = "the worker that judged it was lost, and so was a second one; there may be too little memory"


class Task(Struct, frozen=True):
    """What a worker does with every sample: who judges, how often, and for which
    metrics.

    `identity` and `versions` are those of this process, and must be those of the worker
    too. `run` identifies the task.
    """

    judge: PortableJudge
    metrics: tuple[Metric, ...]
    repeats: int
    identity: JudgeIdentity
    versions: Mapping[str, str] = field(default_factory=lambda: versions())
    run: str = field(default_factory=lambda: uuid4().hex)


# -- in a worker
# -------------------------------------------------------------------------------------------------------


_judges: dict[str, Judge] = {}
"""The judge of the task at hand, by the task's id."""
_one_at_a_time = threading.Lock()
"""Judging is bound by the processor, and judges are made for one thread."""


def judge_in_process() -> None:
    """Judge what comes on standard input, a task and its jobs each time, until it is
    closed: what a worker process does. What judging raises is raised in the run's
    process."""
    requests, replies = sys.stdin.buffer, sys.stdout.buffer
    # What a library prints is no reply.
    sys.stdout = sys.stderr
    outcome: list[RecordLine] | Exception
    with suppress(EOFError, OSError):
        while True:
            # From the run's process, which started this one.
            task, jobs = pickle.load(requests)  # noqa: S301
            try:
                outcome = judge_jobs(task, jobs)
            except Exception as error:
                outcome = error
            pickle.dump(outcome, replies)
            replies.flush()


def judge_jobs(task: Task, jobs: Sequence[Job]) -> list[RecordLine]:
    """The records of `jobs`. Raises JudgeError if this worker can't judge as the run
    does."""
    with _one_at_a_time:
        if task.run not in _judges:
            if versions() != task.versions:
                raise JudgeError(
                    f"a worker has other versions, {versions()}, than this process, {task.versions}.",
                    hint="Records depend on them: install the same ones everywhere, for example in the same image.",
                )
            judge = task.judge()
            if judge.identity != task.identity:
                raise JudgeError("a worker built a different judge than this process.")
            _judges.clear()
            _judges[task.run] = judge
        return asyncio.run(_judge(_judges[task.run], task, jobs))


async def _judge(judge: Judge, task: Task, jobs: Sequence[Job]) -> list[RecordLine]:
    lines: list[RecordLine] = []
    for sample, responses in jobs:
        record = await judge_sample(
            judge, task.metrics, sample, responses, repeats=task.repeats
        )
        lines.append(record_line(record))
    return lines


def versions() -> dict[str, str]:
    """The versions of Python and of PACKAGES here; empty: not installed."""
    installed = {"Python": ".".join(platform.python_version_tuple()[:2])}
    for package in PACKAGES:
        try:
            installed[package] = version(package)
        except PackageNotFoundError:
            installed[package] = ""
    return installed


# -- in the run's process
# ----------------------------------------------------------------------------------------------


class WorkerLost(Exception):  # noqa: N818 - its samples are judged once more
    """A worker ended while a batch was on its way."""


class Workers(ABC):
    """Workers of one task. Call `start`, and always `close`. Up to `lanes` batches are
    worth being on their way."""

    lanes: int
    batch = BATCH

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
        with suppress(WorkerLost):
            return await self._submit(jobs)
        records: list[RecordLine] = []
        for job in jobs:
            async with self._second_attempt:
                try:
                    records += await self._submit((job,))
                except WorkerLost:
                    failing = cast(Judge, _FailingJudge())
                    records += await _judge(failing, self._task, (job,))
        return records

    @abstractmethod
    async def _submit(self, jobs: Sequence[Job]) -> list[RecordLine]:
        """What `judge_jobs` returns in a worker.

        Raises WorkerLost, and JudgeError if the workers can't judge any more.
        """


class _FailingJudge:
    """Fails every judgement, since the workers were lost."""

    def __getattr__(self, judgement: str) -> Callable[..., Any]:
        async def fail(*_: object, **__: object) -> None:
            raise JudgementFailed(_LOST_TWICE)

        return fail


# -- worker processes
# --------------------------------------------------------------------------------------------------


class ProcessWorkers(Workers):
    """`count` processes of this machine. One that ends is replaced."""

    def __init__(self, count: int, task: Task) -> None:
        super().__init__(task)
        # While a process judges one batch, the next one waits for it.
        self.lanes = 2 * count
        self._count = count
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="ragstone-worker")
        self._idle: asyncio.Queue[_WorkerProcess] = asyncio.Queue()
        self._processes: list[_WorkerProcess] = []

    async def start(self) -> None:
        for _ in range(self._count):
            self._add_process()

    async def close(self) -> None:
        """End the processes, whatever they are doing."""
        for worker in self._processes:
            worker.process.kill()
        self._threads.shutdown(cancel_futures=True)
        for worker in self._processes:
            worker.process.communicate()  # closes its pipes

    async def _submit(self, jobs: Sequence[Job]) -> list[RecordLine]:
        worker = await self._idle.get()
        judging = asyncio.get_running_loop().run_in_executor(
            self._threads, worker.judge, jobs
        )
        try:
            outcome = await judging
        except WorkerLost:
            lost = len(self._processes) - self._count + 1
            if lost > MAX_LOST_PROCESSES:
                raise JudgeError(
                    f"worker processes ended {counted(lost, 'time')}.",
                    hint=f"{_RESUME}, with fewer workers if memory is short (RAGSTONE_WORKERS=1).",
                ) from None
            self._add_process()
            raise
        self._idle.put_nowait(worker)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def _add_process(self) -> None:
        worker = _WorkerProcess(self._task)
        self._processes.append(worker)
        self._idle.put_nowait(worker)


class _WorkerProcess:
    """An interpreter that judges what comes through its own pipe, so that half a reply
    is nobody else's.

    It gets neither the environment of this process, which it could show to others, nor
    its main module. Ctrl-C, and the end of the terminal, are for this process: the
    other one ends when its pipe is closed, at the latest when this process ends.
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        environment = {
            name: os.environ[name] for name in _ENVIRONMENT if name in os.environ
        }
        # Nothing is imported from the current directory by its name.
        path = [folder for folder in sys.path if folder]
        self.process = subprocess.Popen(  # noqa: S603 - this interpreter
            [sys.executable, "-P", "-c", _WORKER.format(path=path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )

    def judge(self, jobs: Sequence[Job]) -> list[RecordLine] | Exception:
        """What the process makes of `jobs`, or what that raised. Raises WorkerLost."""
        requests, replies = self.process.stdin, self.process.stdout
        assert requests is not None  # noqa: S101 - piped
        assert replies is not None  # noqa: S101
        try:
            pickle.dump((self._task, jobs), requests)
            requests.flush()
            outcome: list[RecordLine] | Exception = pickle.load(replies)  # noqa: S301
        except (EOFError, OSError, pickle.UnpicklingError):
            raise WorkerLost from None
        return outcome


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
