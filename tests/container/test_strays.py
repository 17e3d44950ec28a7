"""What the user's code leaves running is ended, however it hides. With processes of a user that nobody else is."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ragstone.errors import SystemUnderTestError
from ragstone.github.container import confinement
from ragstone.github.container.confinement import end_strays, kill_all_of, living
from tests.container.sleeping import sleeping
from tests.needs import needs_root

pytestmark = [
    needs_root,
    pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="processes are listed by Linux's /proc"),
]

KINDS = {
    "in a session of its own": """
        if os.fork(): os._exit(0)
        os.setsid()
        if os.fork(): os._exit(0)
        ready()
        while True: time.sleep(1)
    """,
    "without its first thread": """
        def live():
            time.sleep(0.2)
            ready()
            while True: time.sleep(1)
        threading.Thread(target=live).start()
        ctypes.CDLL(None).pthread_exit(None)
    """,
    "chain of forks": """
        ready()
        while True:
            if os.fork(): os._exit(0)
    """,
    "stopped": "ready(); os.kill(os.getpid(), signal.SIGSTOP)",
    "killing all it can": """
        ready()
        while True:
            try: os.kill(-1, signal.SIGKILL)
            except OSError: pass
    """,
}


class Stranger:
    """A user of their own, whose processes are all ended at the end."""

    def __init__(self, folder: Path) -> None:
        self.uid = 1_000_000 + os.getpid()
        self._started: list[subprocess.Popen[bytes]] = []
        self._sign = folder / "ready"
        folder.chmod(0o777)

    def start(self, kind: str) -> None:
        """Start a process of this kind, and wait until it says that it is ready."""
        # It changes users by itself: the interpreter may be one that others can't run.
        head = (
            "import ctypes, os, signal, threading, time\n"
            f"os.setgroups([]); os.setgid({self.uid}); os.setuid({self.uid})\n"
            f"def ready(): open({str(self._sign)!r}, 'w').close()\n"
        )
        command = [sys.executable, "-I", "-S", "-c", head + textwrap.dedent(KINDS[kind])]
        silent: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._started.append(subprocess.Popen(command, cwd="/", start_new_session=True, **silent))
        deadline = time.monotonic() + 20
        while not self._sign.exists():
            assert time.monotonic() < deadline, "it did not start"
            time.sleep(0.01)

    def end(self) -> None:
        kill_all_of(self.uid)
        for process in self._started:
            process.wait()
        # What they started is not ours to wait for, and the next test may want the same user.
        deadline = time.monotonic() + 30
        while living(self.uid):
            assert time.monotonic() < deadline, "it did not end"
            time.sleep(0.01)


@pytest.fixture
def stranger(open_folder: Path) -> Iterator[Stranger]:
    found = Stranger(open_folder)
    yield found
    found.end()


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_ended(kind: str, stranger: Stranger) -> None:
    stranger.start(kind)
    with sleeping(0, 0) as own:
        end_strays(stranger.uid)
        assert living(stranger.uid) == {}
        assert own.poll() is None, "what is ours is left alone"
        assert os.getresuid() == (0, 0, 0)


@pytest.mark.usefixtures("processes")
def test_a_process_without_its_first_thread_counts_as_living(stranger: Stranger) -> None:
    stranger.start("without its first thread")
    (pid,) = living(stranger.uid)
    assert "State:\tZ" in Path(f"/proc/{pid}/status").read_text(encoding="utf-8")


@pytest.mark.usefixtures("processes")
def test_where_one_does_not_end_it_is_named(stranger: Stranger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confinement, "kill_all_of", lambda _uid: None)
    stranger.start("in a session of its own")
    with pytest.raises(SystemUnderTestError, match=r"don't end, though they were killed: \d+ \(python.*nothing is pub"):
        end_strays(stranger.uid, patience_s=0.0)
