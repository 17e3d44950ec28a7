"""Judging in other processes: the same run to the last byte, whatever happens to the workers."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ragstone.errors import JudgeError
from ragstone.evaluation import executors
from ragstone.evaluation.engine import Work, run_samples
from ragstone.evaluation.executors import DaskWorkers, ProcessWorkers, Task, Workers, versions
from ragstone.evaluation.record import RecordLine, record_from_line
from ragstone.golden.sample import GoldenSet, Sample
from ragstone.judge.factory import build_judge
from ragstone.judge.judgements import StatementList
from ragstone.judge.offline import OfflineJudge
from ragstone.judge.portable import portable_judge
from ragstone.judge.protocol import Call, Judge
from ragstone.metrics.metric import Metric
from ragstone.metrics.registry import select_metrics
from ragstone.settings.settings import JudgeSettings
from ragstone.system.response import Context, Response, SystemFailure, SystemFailureKind
from tests.evaluation.builders import Answering, samples
from tests.processes import all_end
from tests.processes import workers_of as worker_processes_of

pytestmark = pytest.mark.usefixtures("processes")

METRICS: tuple[Metric, ...] = (*select_metrics(), *select_metrics(["answer_stability"]))
POISON = "Answer 70."


def answer(sample: Sample) -> Response:
    number = int(sample.id[1:])
    if number % 17 == 3:
        return Response(sample.id, failure=SystemFailure(SystemFailureKind.RAISED, "ValueError: é\nno"))
    contexts = (Context(f"Answer {number}. It was built in {1900 + number}."), Context("Nothing of the kind."))
    return Response(sample.id, f"Answer {number}. It was built in {1901 + number} 🏠.", contexts)


def offline(golden: GoldenSet) -> Judge:
    return build_judge(JudgeSettings(), golden_set=golden, cache=None, environ={})


def task_for(judge: Judge, **more: Any) -> Task:
    portable = portable_judge(judge)
    assert portable is not None
    given = {"metrics": METRICS, "repeats": 1, "identity": judge.identity, "versions": versions()}
    return Task(portable, **{**given, **more})


def here(golden: GoldenSet, **more: Any) -> list[str]:
    """The lines of a run in this process."""
    lines: list[str] = []
    work = Work(golden, Answering(answer), offline(golden), METRICS, **more)
    asyncio.run(run_samples(work, lambda record: lines.append(record.line)))
    return sorted(lines)


async def judged(
    workers: Workers,
    golden: GoldenSet,
    sink: Callable[[RecordLine], None],
    system: Answering | None = None,
    **more: Any,
) -> None:
    try:
        await workers.start()
        work = Work(golden, system or Answering(answer), offline(golden), METRICS, **more)
        await run_samples(work, sink, workers)
    finally:
        await workers.close()


def there(golden: GoldenSet, *, task: Task | None = None, repeats: int = 1, **more: Any) -> list[str]:
    """The lines of a run in two worker processes."""
    lines: list[str] = []
    workers = ProcessWorkers(2, task or task_for(offline(golden), repeats=repeats))
    asyncio.run(judged(workers, golden, lambda record: lines.append(record.line), repeats=repeats, **more))
    return sorted(lines)


class DangerousJudge(OfflineJudge):
    """The offline judge, which ends its process over some answers."""

    def __init__(self, fatal: str) -> None:
        super().__init__()
        self._fatal = fatal

    async def statements(self, question: str, answer: str, *, call: Call) -> StatementList:
        if self._fatal in answer:
            os._exit(3)
        return await super().statements(question, answer, call=call)


def dangerous(golden: GoldenSet, fatal: str) -> Task:
    return replace(task_for(offline(golden)), build_judge=partial(DangerousJudge, fatal))


# -- the same results --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [{}, {"answers_per_sample": 2, "repeats": 3}], ids=str)
def test_records_are_those_of_one_process_to_the_last_byte(more: dict[str, Any]) -> None:
    golden = samples(150)
    assert there(golden, **more) == here(golden, **more)


# -- workers that are lost ---------------------------------------------------------------------------------------------


def test_a_sample_over_which_a_worker_is_lost_twice_fails_and_no_other_one() -> None:
    golden = samples(150)
    found = there(golden, task=dangerous(golden, POISON))
    others = [line for line in here(golden) if '"id":"q70"' not in line]
    assert [line for line in found if '"id":"q70"' not in line] == others
    (lost,) = (record_from_line(line, "") for line in found if '"id":"q70"' in line)
    reasons = {getattr(score, "reason", "") for name, score in lost.scores.items() if name == "faithfulness"}
    assert reasons == {"the worker that judged it was lost, and so was a second one; there may be too little memory"}


@dataclass(frozen=True, slots=True)
class EndingInMidReply:
    """The offline judge, which ends its process when half of its first reply is sent."""

    marker: str

    def __call__(self) -> Judge:
        dump = pickle.dump

        def dump_half(reply: object, stream: Any) -> None:
            if reply and Path(self.marker).exists():
                Path(self.marker).unlink()
                message = pickle.dumps(reply)
                stream.write(message[: len(message) // 2])
                stream.flush()
                os._exit(3)
            dump(reply, stream)

        pickle.dump = dump_half  # type: ignore[assignment]
        return OfflineJudge()


def test_a_worker_that_ends_in_the_middle_of_its_reply_is_lost(tmp_path: Path) -> None:
    golden = samples(150)
    (tmp_path / "once").touch()
    task = replace(task_for(offline(golden)), build_judge=EndingInMidReply(str(tmp_path / "once")))
    assert there(golden, task=task) == here(golden)
    assert not (tmp_path / "once").exists()


def test_a_run_ends_if_workers_are_lost_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "MAX_LOST_PROCESSES", 1)
    golden = samples(150)
    with pytest.raises(JudgeError, match=r"worker processes ended 2 times\.(.|\n)*--resume, with fewer workers"):
        there(golden, task=dangerous(golden, "Answer"))


def test_a_worker_that_judges_otherwise_is_not_believed() -> None:
    golden = samples(3)
    other = type(offline(golden).identity)("offline", "embedded", "another")
    with pytest.raises(JudgeError, match="built a different judge"):
        there(golden, task=task_for(offline(golden), identity=other))
    newer = {**versions(), "ragstone": "99"}
    with pytest.raises(JudgeError, match=r"other versions than this process: ragstone \d"):
        there(golden, task=task_for(offline(golden), versions=newer))


def test_no_process_is_left_when_the_run_is_cancelled() -> None:
    pids: list[int] = []
    runs: list[asyncio.Task[None]] = []
    golden = samples(150)
    workers = ProcessWorkers(2, task_for(offline(golden)))

    def behave(sample: Sample) -> Response:
        if sample.id == "q100":
            pids[:] = worker_processes_of(os.getpid())
            runs[0].cancel()
        return answer(sample)

    async def cancelled() -> None:
        runs.append(asyncio.create_task(judged(workers, golden, lambda _: None, system=Answering(behave))))
        await runs[0]

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())
    assert len(pids) == 2
    assert all_end(pids)


# -- what a worker gets ------------------------------------------------------------------------------------------------


def test_a_worker_has_no_environment_and_reads_no_code_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, name in enumerate(("json", "multiprocessing", "sitecustomize")):
        (tmp_path / f"{name}.py").write_text(f"import os; os._exit({77 + number})")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PYTHONSTARTUP", str(tmp_path / "json.py"))
    monkeypatch.setenv("RAGSTONE_JUDGE_API_KEY", "sk-very-private")
    main = sys.modules["__main__"]
    found: list[str] = []
    golden = samples(20)
    workers = ProcessWorkers(2, task_for(offline(golden)))

    def behave(sample: Sample) -> Response:
        for pid in worker_processes_of(os.getpid()):
            found.append(Path(f"/proc/{pid}/environ").read_text() + Path(f"/proc/{pid}/cmdline").read_text())
        return answer(sample)

    lines: list[str] = []
    asyncio.run(judged(workers, golden, lambda one: lines.append(one.line), system=Answering(behave)))
    assert sorted(lines) == here(golden)
    assert len(found) == 40
    assert not any("private" in text or "PYTHONPATH" in text or "HOME=" in text for text in found)
    assert os.environ["RAGSTONE_JUDGE_API_KEY"] == "sk-very-private"
    assert sys.modules["__main__"] is main


def test_no_secret_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGSTONE_JUDGE_API_KEY", "sk-mine-0")
    settings = JudgeSettings.model_validate(
        {"api_key": "sk-mine-1", "headers": "X: sk-mine-2", "embeddings_api_key": "sk-mine-3"}
    )
    judge = build_judge(settings, golden_set=samples(1), cache=None, environ=dict(os.environ))
    assert b"sk-mine" not in pickle.dumps(task_for(judge))


# -- a Dask cluster ----------------------------------------------------------------------------------------------------

END = ("--idle-timeout", "10 minutes")
"""A cluster whose tests are killed ends by itself."""
QUIET = {"DASK_DISTRIBUTED__WORKER__MEMORY__TERMINATE": "False", "DASK_DISTRIBUTED__WORKER__MEMORY__PAUSE": "False"}


@contextmanager
def cluster(folder: Path, workers: int = 0) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """The address of a Dask cluster on loopback, and its processes: the scheduler, then the workers."""
    folder.mkdir()
    file, processes = folder / "scheduler.json", list[subprocess.Popen[bytes]]()

    def start(*words: str) -> None:
        command = [sys.executable, "-m", "dask", *words, "--no-dashboard"]
        with (folder / f"{len(processes)}.log").open("wb") as log:
            streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
            environ = {**os.environ, **QUIET}
            processes.append(subprocess.Popen(command, env=environ, cwd=folder, start_new_session=True, **streams))

    try:
        start("scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(file), *END)
        deadline = time.monotonic() + 120
        while not file.exists() or not file.read_text():
            assert processes[0].poll() is None, (folder / "0.log").read_text()
            assert time.monotonic() < deadline, (folder / "0.log").read_text()
            time.sleep(0.05)
        address = json.loads(file.read_text())["address"]
        for _ in range(workers):
            start("worker", address, "--nthreads", "1", "--local-directory", str(folder), "--no-nanny")
        yield address, processes
    finally:
        for process in processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def on_cluster(
    address: str, golden: GoldenSet, sink: Callable[[RecordLine], None], *, patience_s: float = 120.0
) -> None:
    asyncio.run(judged(DaskWorkers(address, task_for(offline(golden)), timeout_s=patience_s), golden, sink))


@pytest.mark.heavy
def test_a_cluster_gives_the_records_of_one_process_also_if_a_worker_is_killed(tmp_path: Path) -> None:
    golden = samples(600)
    lines: list[str] = []
    with cluster(tmp_path / "cluster", workers=2) as (address, processes):

        def sink(record: RecordLine) -> None:
            lines.append(record.line)
            if len(lines) == 100:
                processes[1].kill()

        on_cluster(address, golden, sink)
    assert sorted(lines) == here(golden)


@pytest.mark.heavy
def test_a_cluster_without_workers_or_without_its_scheduler_ends_the_run(tmp_path: Path) -> None:
    golden = samples(600)
    with cluster(tmp_path / "empty") as (address, _):
        silent = r"no result for 1 second\.(.|\n)*dask worker tcp://127"
        with pytest.raises(JudgeError, match=silent):
            on_cluster(address, golden, lambda _: None, patience_s=1.0)
    lines: list[str] = []
    with cluster(tmp_path / "cluster", workers=1) as (address, processes):

        def sink(record: RecordLine) -> None:
            lines.append(record.line)
            if len(lines) == 100:
                processes[0].kill()

        with pytest.raises(JudgeError, match="the connection with the Dask scheduler was lost"):
            on_cluster(address, golden, sink)
    assert 100 <= len(lines) < 600
