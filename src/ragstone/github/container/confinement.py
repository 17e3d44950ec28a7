"""Runs the user's code in the container as the owner of the workspace, and makes sure
that none of its processes survives."""

from __future__ import annotations

import ctypes
import itertools
import os
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path

from msgspec import Struct

from ragstone.errors import ConfigError, SystemUnderTestError
from ragstone.evaluation.placing import put_run
from ragstone.formatting import join_first
from ragstone.system.environment import RunAs

NOBODY = 65_532
"""The user for the user's code if the workspace belongs to root, and the first choice
for its group."""

BASE_USER = 65_530
"""The user for the code of the base commit, if it is asked too."""

DOCKER_SOCKETS = (Path("/var/run/docker.sock"), Path("/run/docker.sock"))
SAFE_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PR_SET_NO_NEW_PRIVS = 38
# Field 50 of /proc/self/stat, counted from the one after the command's name.
_ENV_START = 47


class Confinement(Struct, frozen=True):
    """The user that runs the user's code."""

    run_as: RunAs
    folder: Path
    """The folder that this user can write to besides the workspace."""
    root_owns: bool = False
    """Whether the workspace belongs to root."""

    def call(self, argv: Sequence[str]) -> subprocess.CompletedProcess[bytes]:
        """Run a program of the image as that user until it ends; links can't misdirect
        file operations done this way.
        """
        return subprocess.run(  # noqa: S603 - programs of the image, by absolute path
            list(argv),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            env={"PATH": SAFE_PATH, "HOME": str(self.run_as.home)},
            cwd="/",
            user=self.run_as.uid,
            group=self.run_as.gid,
            extra_groups=[],
        )

    @contextmanager
    def acting(self) -> Iterator[None]:
        """Create and remove files as that user within the block. Call only while none
        of their processes is alive."""
        groups = os.getgroups()
        os.setgroups([])
        os.setegid(self.run_as.gid)
        os.seteuid(self.run_as.uid)
        try:
            yield
        finally:
            os.seteuid(0)
            os.setegid(0)
            os.setgroups(groups)


def confine(
    workspace: Path, temporary: Path, *, sockets: Iterable[Path] = DOCKER_SOCKETS
) -> Confinement | None:
    """The user to run the user's code as; None if we are not root and can't change
    users.

    Their group owns nothing here, because the workspace's group may be Docker's. From
    here on, no started program gains privileges through a setuid bit. Raises
    ConfigError if that user could access Docker's socket, which is equivalent to being
    root, or has processes that are not ours.
    """
    if os.geteuid() != 0:
        return None
    owner = workspace.stat()
    root_owns = owner.st_uid == 0
    uid = NOBODY if root_owns else owner.st_uid
    others = (owner.st_gid, temporary.stat().st_gid)
    gid = _group_for(uid, others, sockets, itertools.count(NOBODY))
    if processes := living(uid):
        pid, name = min(processes.items())
        raise ConfigError(
            f"another process runs as the user that your system would run as ({uid}): {pid} ({name}). "
            "Your system could read its memory.",
            hint="Run the container in its own process namespace.",
        )
    # Setuid bits and file capabilities, for us and everything we start.
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise ConfigError(
            f"the kernel refuses no_new_privs: {os.strerror(ctypes.get_errno())}."
        )
    return _confinement(uid, gid, "system-under-test-", root_owns=root_owns)


def confine_base(
    head: Confinement, *, sockets: Iterable[Path] = DOCKER_SOCKETS
) -> Confinement:
    """A second user, to run the code of the base commit as, so that neither can change
    or signal the other.

    Call after `confine`, before any user code runs. Raises ConfigError.
    """
    uid = next(
        uid
        for uid in itertools.count(BASE_USER, -1)
        if uid != head.run_as.uid and not living(uid)
    )
    gid = _group_for(uid, (head.run_as.gid,), sockets, itertools.count(uid, -1))
    return _confinement(uid, gid, "ragstone-base-")


def _confinement(
    uid: int, gid: int, prefix: str, *, root_owns: bool = False
) -> Confinement:
    """That of user `uid`, with a new folder that is closed to everybody else."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    confinement = Confinement(RunAs(uid, gid, folder / "home"), folder, root_owns)
    for name in ("home", "tmp"):
        (folder / name).mkdir()
    give_to(confinement, folder)
    return confinement


def _group_for(
    uid: int, others: Iterable[int], sockets: Iterable[Path], candidates: Iterator[int]
) -> int:
    """The first of `candidates` that is none of `others` and owns no socket. Raises
    ConfigError if user `uid` can write to one all the same."""
    sockets = [socket for socket in sockets if socket.exists()]
    other_gids = {*others, *(socket.stat().st_gid for socket in sockets)}
    gid = next(gid for gid in candidates if gid not in other_gids)
    for socket in sockets:
        if may_write(socket, uid, gid):
            raise ConfigError(
                f"the user that your system runs as ({uid}) can write to {socket}, and could become root with it.",
                hint="On the runner's host, change the owner of the socket, and remove its permissions for others.",
            )
    return gid


def give_to(confinement: Confinement, folder: Path) -> None:
    """Make everything in `folder` belong to that user. Links are not followed. Call
    only while none of their code runs."""
    for path in (folder, *folder.rglob("*")):
        os.chown(
            path, confinement.run_as.uid, confinement.run_as.gid, follow_symlinks=False
        )


def may_write(path: Path, uid: int, gid: int) -> bool:
    """Whether the mode of `path` lets a user without supplementary groups write to
    it."""
    status = path.stat()
    bit = stat.S_IWOTH
    if status.st_uid == uid:
        bit = stat.S_IWUSR
    elif status.st_gid == gid:
        bit = stat.S_IWGRP
    return bool(status.st_mode & bit)


def wipe_environment(names: Iterable[str]) -> None:
    """Blank the values of `names` in the memory behind ``/proc/self/environ``, and
    remove them from os.environ.

    Defence in depth: as root, we might follow a link that a pull request puts in place
    of a file.
    """
    names_to_wipe = set(map(os.fsencode, names))
    for name in names_to_wipe:
        os.environb.pop(name, None)
    try:
        process = Path("/proc/self/stat").read_text(encoding="utf-8")
        fields = process.rpartition(")")[2].split()
        start, end = map(int, fields[_ENV_START : _ENV_START + 2])
        block = ctypes.string_at(start, end - start)
    except (OSError, ValueError):
        return
    address = start
    for entry in block.split(b"\0"):
        name, _, value = entry.partition(b"=")
        if name in names_to_wipe:
            ctypes.memset(address + len(name) + 1, ord("x"), len(value))
        address += len(entry) + 1


def hand_over(confinement: Confinement, source: Path, target: Path) -> None:
    """Copy the run in `source`, which is ours, to `target` in the workspace as its
    owner, replacing a run there.

    Call only when no user code runs any more. Raises RunDirectoryError if `target` is
    not suitable for a run, or if the owner can't write there.
    """
    with ExitStack() as stack:
        files = {
            path.relative_to(source): stack.enter_context(path.open("rb"))
            for path in source.rglob("*")
            if path.is_file() and not path.is_symlink()
        }
        with nullcontext() if confinement.root_owns else confinement.acting():
            put_run(files, target)


# An unused user id: the gate switches to it while killing processes, so that they can't
# kill the gate.
_STAND_IN = 65_531


def end_strays(uid: int, *, patience_s: float = 10.0) -> None:
    """Kill every process of `uid`, and wait until none is left.

    Raises SystemUnderTestError that names those that don't die within `patience_s`.
    """
    deadline = time.monotonic() + patience_s
    while True:
        # A killed process can't fork any more, so what is not found afterwards doesn't
        # exist.
        kill_all_of(uid)
        survivors = living(uid)
        if not survivors:
            return
        if time.monotonic() >= deadline:
            processes = [f"{pid} ({name})" for pid, name in sorted(survivors.items())]
            process_list = join_first(processes)
            raise SystemUnderTestError(
                f"processes of your system don't end, though they were killed: {process_list}. They could still change "
                "what the gate found, so nothing is published.",
                hint="Look for what blocks them, such as a network file system or a device that hangs.",
            )
        time.sleep(0.01)


def kill_all_of(uid: int) -> None:
    """Send SIGKILL to every process of `uid` in one step of the kernel's, which no
    chain of forks outruns.

    That is what `kill(-1)` does for a process that may signal them and nobody else. We
    keep a saved id of root's, which bars them from signalling us and lets us come back.
    """
    os.setresuid(_STAND_IN if uid != _STAND_IN else _STAND_IN - 1, uid, 0)
    try:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(-1, signal.SIGKILL)
    finally:
        os.setresuid(0, 0, 0)


def living(uid: int) -> dict[int, str]:
    """The processes of `uid` that have a thread which is not dead, by pid, with their
    names.

    A process whose first thread has ended is shown as a zombie while the others run on.
    """
    processes = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            fields = _status(entry)
            if str(uid) in fields.get("Uid", "").split():
                threads = list(map(_state, (entry / "task").iterdir()))
                if not set(threads) <= {"Z", "X"}:
                    processes[int(entry.name)] = fields.get("Name", "?")
    return processes


def _state(task: Path) -> str:
    """The letter for the state of a thread; "X", for dead, if it is gone."""
    try:
        return _status(task).get("State", "Z")[:1]
    except OSError:
        return "X"


def _status(entry: Path) -> dict[str, str]:
    text = (entry / "status").read_text(encoding="utf-8", errors="replace")
    fields = (line.partition(":") for line in text.splitlines())
    return {name: value.strip() for name, _, value in fields}
