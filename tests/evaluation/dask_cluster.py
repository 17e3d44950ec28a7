"""A Dask cluster on loopback: a real scheduler and real workers, each a process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

_END = ("--idle-timeout", "10 minutes")
"""A cluster whose tests are killed ends by itself."""

QUIET = {"DASK_DISTRIBUTED__WORKER__MEMORY__TERMINATE": "False", "DASK_DISTRIBUTED__WORKER__MEMORY__PAUSE": "False"}


@dataclass
class Cluster:
    folder: Path
    address: str = ""
    scheduler: subprocess.Popen[bytes] | None = None
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _all: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start_scheduler(self) -> None:
        """Start a scheduler, and wait until it listens."""
        file = self.folder / f"scheduler-{len(self._all)}.json"
        words = ("scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(file), *_END)
        self.scheduler = self._start(words)
        deadline = time.monotonic() + 120
        while not file.exists() or not file.read_text():
            assert self.scheduler.poll() is None, self.log()
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.05)
        self.address = json.loads(file.read_text())["address"]

    def start_worker(self) -> None:
        """Start a worker with one thread; whoever uses it waits for it."""
        words = ("worker", self.address, "--nthreads", "1", "--local-directory", str(self.folder), "--no-nanny")
        self.workers.append(self._start(words))

    def log(self) -> str:
        return "".join(file.read_text(errors="replace") for file in sorted(self.folder.glob("*.log")))

    def _start(self, words: tuple[str, ...]) -> subprocess.Popen[bytes]:
        with (self.folder / f"{len(self._all)}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "dask", *words, "--no-dashboard"],
                env={**os.environ, **QUIET},
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._all.append(process)
        return process

    def close(self) -> None:
        for process in self._all:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextmanager
def cluster(folder: Path, workers: int = 0) -> Iterator[Cluster]:
    """A scheduler and so many workers, killed at the end."""
    folder.mkdir(parents=True, exist_ok=True)
    found = Cluster(folder)
    try:
        found.start_scheduler()
        for _ in range(workers):
            found.start_worker()
        yield found
    finally:
        found.close()
