"""How much sooner workers judge: worker processes, and workers of a Dask cluster, against this process alone.

    python bench/workers.py --answers 2000 --workers 2

Judges and scores the same answers with the offline judge each way, one after the other, and compares the records. What
is timed begins when the workers are ready and ends with the last record. Prints a row of a table for each way.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine import write_world

from ragstone.evaluation.engine import Work, run_samples
from ragstone.evaluation.executors import DaskWorkers, ProcessWorkers, Task, Workers, versions
from ragstone.golden.load import load_golden_set
from ragstone.golden.rows import SourceFile
from ragstone.golden.sample import GoldenSet
from ragstone.judge.offline import OfflineJudge
from ragstone.judge.portable import portable_judge
from ragstone.metrics.registry import select_metrics
from ragstone.settings.settings import SystemSettings
from ragstone.system.recorded import RecordedAnswers


@contextmanager
def dask_cluster(workers: int, folder: Path) -> Iterator[str]:
    """The address of a scheduler with `workers` workers of one thread, each a process."""
    file = folder / "scheduler.json"
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    dask = [sys.executable, "-m", "dask"]
    words = ["scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file)]
    started = [subprocess.Popen([*dask, *words], **quiet)]  # type: ignore[call-overload]
    try:
        while not file.is_file() or not file.stat().st_size:
            time.sleep(0.1)
        address = json.loads(file.read_text(encoding="utf-8"))["address"]
        words = ["worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", str(folder)]
        started += [subprocess.Popen([*dask, *words], **quiet) for _ in range(workers)]  # type: ignore[call-overload]
        _wait_for(workers, address)
        yield address
    finally:
        for process in started:
            process.kill()
            process.wait()


def _wait_for(workers: int, address: str) -> None:
    from distributed import Client

    with Client(address, set_as_default=False) as client:
        client.wait_for_workers(workers)


async def seconds_of(workers: Workers | None, golden: GoldenSet, answers: RecordedAnswers) -> tuple[float, list[str]]:
    """How long judging takes once the workers are ready, and the lines of the records."""
    judge = OfflineJudge()
    await answers.start()
    work, lines = Work(golden, answers, judge, select_metrics()), list[str]()
    if workers is None:
        started = time.perf_counter()
        await run_samples(work, lambda record: lines.append(record.line))
        return time.perf_counter() - started, sorted(lines)
    try:
        await workers.start()
        await asyncio.gather(*(workers.judge(()) for _ in range(workers.max_batches)))
        started = time.perf_counter()
        await run_samples(work, lambda record: lines.append(record.line), workers)
        return time.perf_counter() - started, sorted(lines)
    finally:
        await workers.close()


def task_of(golden: GoldenSet) -> Task:
    """What the workers do."""
    judge = OfflineJudge()
    portable = portable_judge(judge)
    assert portable is not None
    return Task(portable, tuple(select_metrics()), 1, judge.identity, versions())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", type=int, default=2000)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="workers-") as temporary:
        folder = Path(temporary)
        write_world(folder, given.answers)
        golden = load_golden_set([folder / "golden.jsonl"])
        answers = RecordedAnswers(SourceFile(folder / "out.jsonl", "out.jsonl"), SystemSettings())
        alone, expected = asyncio.run(seconds_of(None, golden, answers))
        processes, found = asyncio.run(seconds_of(ProcessWorkers(given.workers, task_of(golden)), golden, answers))
        assert found == expected
        with dask_cluster(given.workers, folder) as address:
            on_cluster = DaskWorkers(address, task_of(golden))
            dask, found = asyncio.run(seconds_of(on_cluster, golden, answers))
        assert found == expected
    print("| answers judged by | seconds | times as fast |")
    print("|---|---|---|")
    for name, took in (("this process", alone), (f"{given.workers} processes", processes), ("Dask workers", dask)):
        print(f"| {name} | {took:.1f} | {alone / took:.2f} |")
    print(f"load average {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
