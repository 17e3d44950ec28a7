"""Judges and scores in other processes: worker processes of this machine, or workers of
a Dask cluster.

Workers get batches of samples with their responses, and return lines of records. This
process asks the system under test, and writes the run. Workers get neither environment
variables nor keys nor the user's code.

If a worker is lost, the samples of its batch are judged again, one at a time. A sample
over which a second worker is lost fails; the others don't.
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

BATCH_SIZE = 16
"""Samples in a batch: about 40 ms of judging."""

MAX_LOST_PROCESSES = 10
"""If more worker processes are lost, no single sample is to blame."""

DASK_TIMEOUT_S = 300.0
"""How long a Dask cluster may take for one batch, or to have its first worker."""

CLOSE_TIMEOUT_S = 10.0
CONNECTION_CHECK_S = 2.0
"""How long Dask may take to notice that its scheduler is gone."""
MAX_DASK_BATCHES = 64
"""Maximum number of batches to send to a cluster, whose workers may become more."""

PACKAGES = (
    "ragstone",
    "google-re2",
    "numpy",
    "pydantic-core",
    "PyStemmer",
    "sentencex",
)
"""Packages that scores depend on: workers must have the same versions as this
process."""

_KEPT_VARIABLES = ("SYSTEMROOT", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""Environment variables that an interpreter may need to start."""

_WORKER_PROGRAM = """
import sys
sys.path[:] = {path!r}
from ragstone.evaluation.executors import judge_in_process
judge_in_process()
"""

_RESUME_HINT = "Finished samples are saved: continue with --resume"
_LOST_TWICE = "the worker that judged it was lost, and so was a second one; there may be too little memory"


class Task(Struct, frozen=True):
    """What a worker does with every sample."""

    build_judge: PortableJudge
    metrics: tuple[Metric, ...]
    repeats: int
    """How often each answer is judged."""
    identity: JudgeIdentity
    """The identity of this process's judge, which the worker's judge must have too."""
    versions: Mapping[str, str] = field(default_factory=lambda: versions())
    """The `versions` of this process, which the worker must have too."""
    id: str = field(default_factory=lambda: uuid4().hex)


# -- in a worker -----------------------------------------------------------------------


_judge_by_task: dict[str, Judge] = {}
"""The judge of the newest task, by the task's id."""
_judging_lock = threading.Lock()
"""Taken while a batch is judged: a judge is not thread-safe, and threads would be no
faster."""


def judge_in_process() -> None:
    """Serve as a worker process: read pairs of a task and its jobs from standard input,
    and write their records to standard output, or the exception that was raised."""
    requests, replies = sys.stdin.buffer, sys.stdout.buffer
    # What a library prints must not get among the replies.
    sys.stdout = sys.stderr
    outcome: list[RecordLine] | Exception
    # The pipes are closed when the run needs no more, or its process ends.
    with suppress(EOFError, OSError):
        while True:
            # The run's process wrote it, which started this one.
            task, jobs = pickle.load(requests)  # noqa: S301
            try:
                outcome = judge_jobs(task, jobs)
            except Exception as error:
                outcome = error
            pickle.dump(outcome, replies)
            replies.flush()


def judge_jobs(task: Task, jobs: Sequence[Job]) -> list[RecordLine]:
    """The records of `jobs`. Raises JudgeError if this worker would judge otherwise
    than the run's process."""
    with _judging_lock:
        if task.id not in _judge_by_task:
            differing = sorted(versions().items() - task.versions.items())
            if differing:
                raise JudgeError(
                    f"a worker has other versions than this process: {', '.join(map(' '.join, differing))}.",
                    hint="Scores depend on them: install the same versions everywhere, for example in the same image.",
                )
            judge = task.build_judge()
            if judge.identity != task.identity:
                raise JudgeError("a worker built a different judge than this process.")
            _judge_by_task.clear()
            _judge_by_task[task.id] = judge
        return asyncio.run(_judge_in_turn(_judge_by_task[task.id], task, jobs))


async def _judge_in_turn(
    judge: Judge, task: Task, jobs: Sequence[Job]
) -> list[RecordLine]:
    lines: list[RecordLine] = []
    for sample, responses in jobs:
        record = await judge_sample(
            judge, task.metrics, sample, responses, repeats=task.repeats
        )
        lines.append(record_line(record))
    return lines


def versions() -> dict[str, str]:
    """The versions of Python and of PACKAGES in this process; ``none`` for a package
    that is not installed."""
    installed = {"Python": ".".join(platform.python_version_tuple()[:2])}
    for package in PACKAGES:
        try:
            installed[package] = version(package)
        except PackageNotFoundError:
            installed[package] = "none"
    return installed


# -- in the run's process --------------------------------------------------------------


class WorkerLost(Exception):  # noqa: N818 - its samples are judged again
    """A worker ended while it was judging a batch."""


class Workers(ABC):
    """A `BatchJudge` whose workers judge for one task. Call `start` first, and always
    `close`."""

    max_batches: int
    batch_size = BATCH_SIZE

    def __init__(self, task: Task) -> None:
        self._task = task
        self._second_attempt = asyncio.Lock()
        """Taken while a sample is judged again, so that only one can end a worker."""

    @abstractmethod
    async def start(self) -> None:
        """Start the workers, or connect with them. Raises JudgeError if there are
        none."""

    @abstractmethod
    async def close(self) -> None:
        """Abandon what is not finished, whatever the state of the workers."""

    async def judge(self, jobs: Sequence[Job]) -> list[RecordLine]:
        """The records of `jobs`, in their order. Raises JudgeError if no more can be
        judged."""
        with suppress(WorkerLost):
            return await self._submit(jobs)
        records: list[RecordLine] = []
        for job in jobs:
            async with self._second_attempt:
                try:
                    records += await self._submit((job,))
                except WorkerLost:
                    failing = cast(Judge, _FailingJudge())
                    records += await _judge_in_turn(failing, self._task, (job,))
        return records

    @abstractmethod
    async def _submit(self, jobs: Sequence[Job]) -> list[RecordLine]:
        """Return what `judge_jobs` returns in a worker.

        Raises WorkerLost, and JudgeError if no more can be judged.
        """


class _FailingJudge:
    """A judge whose every judgement fails, because the workers were lost."""

    def __getattr__(self, judgement: str) -> Callable[..., Any]:
        async def fail(*_: object, **__: object) -> None:
            raise JudgementFailed(_LOST_TWICE)

        return fail


# -- worker processes ------------------------------------------------------------------


class ProcessWorkers(Workers):
    """`count` processes of this machine. A process that ends is replaced."""

    def __init__(self, count: int, task: Task) -> None:
        super().__init__(task)
        # While a process judges a batch, another batch waits for it.
        self.max_batches = 2 * count
        self._count = count
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="ragstone-worker")
        self._idle_workers: asyncio.Queue[_WorkerProcess] = asyncio.Queue()
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
            worker.process.communicate()  # waits for it, and closes its pipes

    async def _submit(self, jobs: Sequence[Job]) -> list[RecordLine]:
        worker = await self._idle_workers.get()
        judging = asyncio.get_running_loop().run_in_executor(
            self._threads, worker.judge, jobs
        )
        try:
            outcome = await judging
        except WorkerLost:
            lost_count = len(self._processes) - self._count + 1  # with this one
            if lost_count > MAX_LOST_PROCESSES:
                raise JudgeError(
                    f"worker processes ended {counted(lost_count, 'time')}.",
                    hint=f"{_RESUME_HINT}, with fewer workers if memory is short (RAGSTONE_WORKERS=1).",
                ) from None
            self._add_process()
            raise
        self._idle_workers.put_nowait(worker)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def _add_process(self) -> None:
        worker = _WorkerProcess(self._task)
        self._processes.append(worker)
        self._idle_workers.put_nowait(worker)


class _WorkerProcess:
    """An interpreter that runs `judge_in_process`, with pipes of its own, so that half
    a reply can't be taken for part of another worker's.

    It gets neither the environment of this process, which may contain secrets, nor its
    main module. Ctrl-C and the end of the terminal don't reach it: it ends when its
    pipe is closed, at the latest when this process ends.
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        environment = {
            name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ
        }
        # Without "", which would import from the current directory.
        path = [folder for folder in sys.path if folder]
        self.process = subprocess.Popen(  # noqa: S603 - this interpreter
            [sys.executable, "-P", "-c", _WORKER_PROGRAM.format(path=path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )

    def judge(self, jobs: Sequence[Job]) -> list[RecordLine] | Exception:
        """The records of `jobs`, or the exception that judging them raised. Raises
        WorkerLost."""
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


# -- a Dask cluster --------------------------------------------------------------------


class DaskWorkers(Workers):
    """The workers of the cluster whose scheduler is at `address`. Dask gives a batch of
    a lost worker to another one.

    Whoever connects to a cluster trusts it: Dask unpickles what scheduler and workers
    send.
    """

    max_batches = MAX_DASK_BATCHES

    def __init__(
        self, address: str, task: Task, *, timeout_s: float = DASK_TIMEOUT_S
    ) -> None:
        super().__init__(task)
        self._address = address
        self._timeout_s = timeout_s
        self._client: Client | None = None

    async def start(self) -> None:
        """Connect, and wait for the first worker. Raises JudgeError."""
        from distributed import Client

        self._client = Client(
            self._address, asynchronous=True, set_as_default=False, name="ragstone"
        )
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._client
        except Exception as error:  # Dask's, of the network or of its TLS settings
            raise self._error(
                f"no connection with the Dask scheduler: {_one_line(error)}",
                "Is it running, and reachable from here? TLS and timeouts are set in Dask's own configuration.",
            ) from None
        await self.judge(())  # raises if no worker comes, or one has other versions

    async def close(self) -> None:
        if self._client is not None:
            with suppress(Exception):  # whatever the state of the cluster is
                async with asyncio.timeout(CLOSE_TIMEOUT_S):
                    await self._client.close()

    async def _submit(self, jobs: Sequence[Job]) -> list[RecordLine]:
        from distributed import KilledWorker

        assert self._client is not None  # noqa: S101 - started
        executor = self._client.get_executor(pure=False)
        result = asyncio.wrap_future(executor.submit(judge_jobs, self._task, jobs))
        try:
            finished, _ = await asyncio.wait({result}, timeout=self._timeout_s)
            if not finished:
                raise self._error(
                    f"the Dask cluster gave no result for {counted(round(self._timeout_s), 'second')}.",
                    f"Start workers with `dask worker {self._address}`. {_RESUME_HINT}.",
                )
            if result.cancelled():
                # Until then, a lost scheduler can't be told from a lost worker.
                await asyncio.sleep(CONNECTION_CHECK_S)
                if self._client.status == "running":
                    raise WorkerLost
                raise self._error(
                    "the connection with the Dask scheduler was lost.",
                    f"{_RESUME_HINT}.",
                )
            records: list[RecordLine] = result.result()
            return records
        except KilledWorker:
            raise WorkerLost from None
        except (RagstoneError, WorkerLost):
            raise
        except Exception as error:
            raise self._error(
                f"the Dask cluster could not judge: {_one_line(error)}",
                "Is Ragstone installed on the scheduler and on all workers, in this version?",
            ) from None

    def _error(self, message: str, hint: str) -> JudgeError:
        return JudgeError(message, where=self._address, hint=hint)


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())[:300]
    return f"{type(error).__name__}: {text}"
