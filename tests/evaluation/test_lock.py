"""One run at a time writes to a run directory, and no lock outlives the run that took it."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ragstone.errors import RunDirectoryError
from ragstone.evaluation.directory import LOCK, RunDirectory
from ragstone.evaluation.lock import run_lock
from ragstone.evaluation.writer import RunWriter
from tests.evaluation.builders import manifest, samples

HOLDER = """
import sys
from pathlib import Path
from ragstone.evaluation.lock import run_lock
with run_lock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextlib.contextmanager
def another_run(path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lock of `path` until its standard input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "held\n"
        yield process
    finally:
        process.stdin.close()
        process.wait(timeout=60)
        process.stdout.close()


@pytest.mark.usefixtures("processes")
def test_a_directory_that_another_process_writes_to_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run"
    with another_run(path):
        with pytest.raises(RunDirectoryError, match="another run is writing") as refused, run_lock(path):
            pytest.fail("two at once")
        assert (refused.value.exit_code, refused.value.where) == (2, str(path))


@pytest.mark.usefixtures("processes")
def test_a_lock_of_a_killed_process_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "run"
    with another_run(path) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert (path / LOCK).exists()
        with run_lock(path):
            pass
    assert not (path / LOCK).exists()


def test_two_threads_of_one_process_are_two_runs(tmp_path: Path) -> None:
    def attempt() -> None:
        with run_lock(tmp_path):
            pytest.fail("two at once")

    with run_lock(tmp_path), ThreadPoolExecutor(1) as pool:
        second = pool.submit(attempt)
        with pytest.raises(RunDirectoryError, match="another run is writing"):
            second.result()


def test_nothing_is_left_of_a_run_that_wrote_nothing_and_of_one_that_did_only_its_files(tmp_path: Path) -> None:
    with run_lock(tmp_path / "a" / "run"):
        assert (tmp_path / "a" / "run" / LOCK).is_file()
    assert not (tmp_path / "a" / "run").exists()
    golden = samples(1)
    with run_lock(tmp_path / "run"):
        RunWriter.create(tmp_path / "run", manifest(golden)).finish((), wall_s=0)
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["manifest.json", "samples.jsonl"]
    assert RunDirectory.open(tmp_path / "run").manifest.state == "finished"


@pytest.mark.parametrize("kind", ["link", "dangling link", "pipe", "directory"])
def test_what_stands_in_place_of_the_lock_is_neither_followed_nor_waited_for(tmp_path: Path, kind: str) -> None:
    other = tmp_path / "other"
    other.write_text("kept")
    path = tmp_path / "run"
    path.mkdir()
    if kind == "pipe":
        os.mkfifo(path / LOCK)
    elif kind == "directory":
        (path / LOCK).mkdir()
    else:
        (path / LOCK).symlink_to(other if kind == "link" else tmp_path / "nowhere")
    with pytest.raises(RunDirectoryError, match="can't be written"), run_lock(path):
        pytest.fail("taken")
    assert other.read_text() == "kept"
    assert not (tmp_path / "nowhere").exists()


def test_a_file_system_without_locks_is_named_as_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_descriptor: int, _operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", refuse)  # no such file system can be mounted in a test
    with pytest.raises(RunDirectoryError, match=r"does not support locks(.|\n)*--out"), run_lock(tmp_path / "run"):
        pytest.fail("taken")
