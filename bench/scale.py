"""How the cost of a run grows with its size: recorded answers, the offline judge, one process, worker processes, and a
Dask cluster.

    python bench/scale.py --samples 1000 --samples 10000 --samples 100000
    python bench/scale.py --samples 10000 --workers 1 --workers 2 --dask 2 --runs-only
    python bench/scale.py --samples 10000 --workers 1 --side-by-side 2 --runs-only
    python bench/scale.py --samples 1000000 --workers 2 --keep FOLDER
    python bench/scale.py --samples 1000000 --unjudged

For each size: `ragstone run` with each number of workers (of which 1 is held to one core), with a Dask cluster of so
many workers of one thread (on loopback, started before), and `--side-by-side` so many runs of one process at the same
time, each on a core of its own: as fast as so many cores can be. Then, unless `--runs-only`, on the finished run
`resume` of the last 100 samples, `gate` without evaluating anything (with a baseline), and `report --format html`.
Each step is a process of its own. Prints a line of JSON for each step, and tables in Markdown.

CPU is user and system time of all processes of a step, those of a cluster included; `workers_cpu_s` is the part of
the worker processes, or of the cluster. Memory is the largest sum of PSS (the proportional set size, in
/proc/PID/smaps_rollup) of all these processes, sampled all the time: memory that two processes share counts once.
Linux only. Records are also compressed with zstd, if pyarrow is installed, to compare sizes and times. With
`--unjudged`, only metrics that need no judgements are computed: what remains is the cost of everything but judging.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from engine import write_world

from ragstone.evaluation.directory import MANIFEST, SAMPLES
from ragstone.evaluation.serialise import facts_from_line

HEADLINE = ("faithfulness", "answer_relevancy", "context_recall", "context_precision")
UNJUDGED = ("token_f1", "exact_match")
LEFT = 100
"""Samples that a resumed run still has to judge."""

_TICKS = os.sysconf("SC_CLK_TCK")
_EVERY_S = 0.2


@dataclass
class Step:
    """What one step of a size has cost. Sizes in MiB, times in seconds."""

    samples: int
    step: str
    wall_s: float = 0.0
    cpu_s: float = 0.0
    workers_cpu_s: float = 0.0
    peak_mib: float = 0.0
    disk_mib: float = 0.0
    load: float = 0.0
    records: str = ""


class Watch:
    """Samples the memory of a process and its descendants, and the CPU time of the worker processes among them.

    `others` are processes whose memory and CPU time count too.
    """

    def __init__(self, pid: int, others: Sequence[int] = ()) -> None:
        self._pid = pid
        self._others = {other: cpu_s(other) for other in others}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.peak_kib = 0
        self.workers: dict[int, float] = {}

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        started = time.monotonic()
        while not self._over.wait(max(_EVERY_S, (time.monotonic() - started) / 100)):
            pids = [*tree_of(self._pid), *self._others]
            self.peak_kib = max(self.peak_kib, sum(map(_pss_kib, pids)))
            for pid in pids:
                if (cpu := _worker_cpu(pid)) is not None:
                    self.workers[pid] = cpu

    @property
    def others_cpu_s(self) -> float:
        """What the others have needed since."""
        return sum(cpu_s(pid) - before for pid, before in self._others.items())


def tree_of(pid: int) -> Iterator[int]:
    """A process and its descendants."""
    wanted = [pid]
    while wanted:
        pid = wanted.pop()
        yield pid
        for task in _listed(Path(f"/proc/{pid}/task")):
            wanted += [int(child) for child in _text(task / "children").split()]


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:  # the process has ended
        return ""


def _pss_kib(pid: int) -> int:
    lines = _text(Path(f"/proc/{pid}/smaps_rollup")).splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def _worker_cpu(pid: int) -> float | None:
    if "spawn_main" not in _text(Path(f"/proc/{pid}/cmdline")):
        return None
    return cpu_s(pid)


def cpu_s(pid: int, *, reaped: bool = False) -> float:
    """The CPU time of a process; with `reaped`, and of its children that have ended."""
    numbers = _text(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return sum(map(int, numbers[11 : 15 if reaped else 13])) / _TICKS


@contextmanager
def dask_cluster(workers: int, folder: Path, cores: int) -> Iterator[tuple[str, list[int]]]:
    """A scheduler and `workers` workers of one thread on the first `cores` cores: its address, and the processes."""
    file = folder / "scheduler.json"
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    dask = [sys.executable, "-m", "dask"]
    words = ["scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file)]
    started = [subprocess.Popen([*dask, *words], **quiet)]  # type: ignore[call-overload]
    try:
        while not _text(file):
            time.sleep(0.1)
        address = json.loads(_text(file))["address"]
        words = ["worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", str(folder)]
        started += [subprocess.Popen([*dask, *words], **quiet) for _ in range(workers)]  # type: ignore[call-overload]
        pids = [process.pid for process in started]
        for pid in pids:
            os.sched_setaffinity(pid, sorted(os.sched_getaffinity(0))[:cores])
        _wait_for(workers, address)
        yield address, pids
    finally:
        for process in started:
            process.kill()
            process.wait()


def _wait_for(workers: int, address: str) -> None:
    from distributed import Client

    with Client(address, set_as_default=False) as client:
        client.wait_for_workers(workers)


def measured(
    samples: int,
    step: str,
    folder: Path,
    arguments: Sequence[str],
    *,
    cores: int | None = None,
    after: int = 0,
    others: Sequence[int] = (),
    variables: Mapping[str, str] | None = None,
) -> Step:
    """Run `ragstone` with `arguments` and `variables`, on `cores` cores only, `after` so many others.

    Raises SystemExit if it fails.
    Where there are fewer cores, they are shared. What the processes `others` need meanwhile counts too.
    """
    usable = sorted(os.sched_getaffinity(0))
    load, started = os.getloadavg()[0], time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "ragstone", *arguments],
        cwd=folder,
        env={**os.environ, **(variables or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    if cores is not None:
        os.sched_setaffinity(process.pid, usable[after % len(usable) :][:cores])
    assert process.stderr is not None
    with Watch(process.pid, others) as watch, process.stderr as said:
        errors = said.read()
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):  # 1: the gate fails
        raise SystemExit(f"{' '.join(arguments)}: {errors.decode(errors='replace')}")
    return Step(
        samples,
        step,
        wall_s=round(time.perf_counter() - started, 2),
        cpu_s=round(usage.ru_utime + usage.ru_stime + watch.others_cpu_s, 2),
        workers_cpu_s=round(sum(watch.workers.values()) + watch.others_cpu_s, 2),
        peak_mib=round(watch.peak_kib / 1024),
        load=round(load, 1),
    )


def bytes_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def written(step: Step, run: Path) -> Step:
    step.disk_mib = round(bytes_of(run) / 2**20, 1)
    with (run / SAMPLES).open("rb") as stream:
        step.records = hashlib.file_digest(stream, "sha256").hexdigest()[:12]
    return step


def cut_short(run: Path, samples: int) -> None:
    """Make `run` one that was killed before its last samples."""
    path = run / SAMPLES
    with path.open("rb") as stream:
        for _ in range(max(0, samples - LEFT)):
            stream.readline()
        end = stream.tell()
    os.truncate(path, end)
    manifest = json.loads((run / MANIFEST).read_text(encoding="utf-8"))
    (run / MANIFEST).write_text(json.dumps({**manifest, "state": "running"}), encoding="utf-8")


def compressed(samples: int, run: Path) -> Iterator[Step]:
    """The size of the records, and the time to read them, plain and with zstd."""
    try:
        import pyarrow
    except ImportError:
        return
    packed = run.with_suffix(".zst")
    plain = Step(samples, "read plain", load=round(os.getloadavg()[0], 1))
    with _timed(plain), (run / SAMPLES).open("rb") as lines:
        for line in lines:
            facts_from_line(line, "")
    plain.disk_mib = round((run / SAMPLES).stat().st_size / 2**20, 1)
    yield plain
    writing = Step(samples, "compress with zstd", load=round(os.getloadavg()[0], 1))
    with (
        _timed(writing),
        (run / SAMPLES).open("rb") as stream,
        pyarrow.CompressedOutputStream(str(packed), "zstd") as out,
    ):
        shutil.copyfileobj(stream, out, 2**20)
    writing.disk_mib = round(packed.stat().st_size / 2**20, 1)
    yield writing
    reading = Step(samples, "read with zstd", load=round(os.getloadavg()[0], 1))
    with _timed(reading), pyarrow.CompressedInputStream(str(packed), "zstd") as stream:
        rest = b""
        while chunk := stream.read(2**20):
            *lines_found, rest = (rest + chunk).split(b"\n")
            for line in lines_found:
                facts_from_line(line, "")
    reading.disk_mib = writing.disk_mib
    yield reading
    packed.unlink()


@contextmanager
def _timed(step: Step) -> Iterator[None]:
    wall, cpu = time.perf_counter(), time.process_time()
    yield
    step.wall_s, step.cpu_s = round(time.perf_counter() - wall, 2), round(time.process_time() - cpu, 2)


def steps(
    n: int,
    folder: Path,
    workers: Sequence[int],
    metrics: Sequence[str],
    *,
    dask: Sequence[int] = (),
    side_by_side: int = 0,
    runs_only: bool = False,
) -> Iterator[Step]:
    """All steps for `n` samples, in an empty folder. `dask` are the numbers of workers of Dask clusters."""
    write_world(folder, n)
    policy = "[gate]\nonly_named = true\n" + "".join(
        f"[metrics.{name}]\nmin = 0.01\nmax_drop = 0.05\n" for name in metrics
    )
    (folder / "thresholds.toml").write_text(policy, encoding="utf-8")
    given = ["--golden", "golden.jsonl", "--entrypoint", "file:out.jsonl", "--metrics", ",".join(metrics)]
    run = folder / "run"
    for count in workers:
        shutil.rmtree(run, ignore_errors=True)
        name = f"run, {count} workers" if count > 1 else "run, one process"
        asked = ["run", *given, "--out", "run"]
        variables = {"RAGSTONE_WORKERS": str(count)}
        yield written(measured(n, name, folder, asked, cores=count, variables=variables), run)
    for count in dask:
        shutil.rmtree(run, ignore_errors=True)
        with tempfile.TemporaryDirectory() as scratch, dask_cluster(count, Path(scratch), count) as (address, pids):
            asked = ["run", *given, "--out", "run"]
            name, variables = f"run, {count} Dask workers", {"RAGSTONE_DASK": address}
            yield written(measured(n, name, folder, asked, cores=count, others=pids, variables=variables), run)
    with ThreadPoolExecutor(max(side_by_side, 1)) as begun:
        outs = [folder / f"run-{number}" for number in range(1, side_by_side + 1)]
        asked, variables = ["run", *given, "--out"], {"RAGSTONE_WORKERS": "1"}
        at_once = [
            begun.submit(
                measured,
                n,
                f"{out.name} of {side_by_side}",
                folder,
                [*asked, out.name],
                cores=1,
                after=at,
                variables=variables,
            )
            for at, out in enumerate(outs)
        ]
        for step, out in zip(at_once, outs, strict=True):
            yield written(step.result(), out)
    if runs_only:
        return
    yield from compressed(n, run)
    shutil.copytree(run, folder / "baseline")
    manifest = json.loads((folder / "baseline" / MANIFEST).read_text(encoding="utf-8"))
    manifest["created_at"] = "2026-01-01T00:00:00+00:00"
    (folder / "baseline" / MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
    cut_short(run, n)
    yield written(measured(n, "resume", folder, ["run", *given, "--out", "run", "--resume"]), run)
    deciding = ["gate", *given, "--out", "run", "--resume", "--baseline", "baseline"]
    yield measured(n, "gate", folder, deciding)
    yield measured(n, "report", folder, ["report", "run", "--format", "html", "-o", "report.html"])


def table(found: Sequence[Step]) -> str:
    """The steps as a table in Markdown."""
    lines = [
        "| samples | step | wall | CPU | of it workers | CPU per sample | peak memory | disk | load |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for one in found:
        workers = f"{one.workers_cpu_s:,.1f} s" if one.workers_cpu_s else ""
        memory = f"{one.peak_mib:,.0f} MiB" if one.peak_mib else ""
        disk = f"{one.disk_mib:,.1f} MiB" if one.disk_mib else ""
        lines.append(
            f"| {one.samples:,} | {one.step} | {one.wall_s:,.1f} s | {one.cpu_s:,.1f} s | {workers} | "
            f"{1000 * one.cpu_s / one.samples:.2f} ms | {memory} | {disk} | {one.load} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, action="append")
    parser.add_argument("--workers", type=int, action="append", help="1 is one process on one core; default: 1 and 2")
    parser.add_argument("--dask", type=int, action="append", default=[], help="workers of a Dask cluster")
    parser.add_argument("--side-by-side", type=int, default=0, metavar="N", help="runs of one process at the same time")
    parser.add_argument("--runs-only", action="store_true", help="only `ragstone run`, not what follows on it")
    parser.add_argument("--unjudged", action="store_true", help="only metrics that need no judgements")
    parser.add_argument("--keep", type=Path, help="an empty folder to work in, which is kept")
    given = parser.parse_args()
    found: list[Step] = []
    for n in given.samples or [1000, 10_000]:
        with tempfile.TemporaryDirectory(prefix="scale-") as temporary:
            folder = given.keep / str(n) if given.keep else Path(temporary)
            folder.mkdir(parents=True, exist_ok=True)
            metrics = UNJUDGED if given.unjudged else HEADLINE
            workers = given.workers or ([] if given.dask else [1, 2])
            more = {"dask": given.dask, "side_by_side": given.side_by_side, "runs_only": given.runs_only}
            for step in steps(n, folder, workers, metrics, **more):
                print(json.dumps(asdict(step)), flush=True)
                found.append(step)
            digests = {one.records for one in found if one.samples == n and one.records}
            if len(digests) > 1:
                raise SystemExit(f"{n} samples: the records differ: {sorted(digests)}")
    print(table(found))


if __name__ == "__main__":
    main()
