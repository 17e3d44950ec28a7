"""In the container: the user's code runs as the owner of the workspace, and leaves nothing behind that acts."""

from __future__ import annotations

import ctypes
import itertools
import os
import stat
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ragstone.container.strays import living
from ragstone.errors import ConfigError
from ragstone.run.placing import put_run
from ragstone.system.environment import RunAs

NOBODY = 65_532
"""Who the user's code runs as when the workspace belongs to root, and the first choice for its group."""

DOCKER_SOCKETS = (Path("/var/run/docker.sock"), Path("/run/docker.sock"))
SAFE_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PR_SET_NO_NEW_PRIVS = 38
_ENV_START = 47
"""Field 50 of /proc/self/stat, counted from the one after the command's name."""


@dataclass(frozen=True, slots=True)
class Confinement:
    """Whom the user's code runs as, and the folder that it may write to beside the workspace."""

    run_as: RunAs
    folder: Path
    notices: tuple[str, ...] = ()
    root_owns: bool = False

    def call(self, argv: Sequence[str]) -> subprocess.CompletedProcess[bytes]:
        """Run a program of the image as that user, to its end; file work done so can't be led astray by links."""
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
        """Within the block, files are made and removed as that user. Only while none of their processes lives."""
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


def confine(workspace: Path, temporary: Path, *, sockets: Iterable[Path] = DOCKER_SOCKETS) -> Confinement | None:
    """The user to run the user's code as; None where we are not root and can't change users.

    Their group is one that owns nothing here: the workspace's may be Docker's. From here on, no program that is started
    gains rights by a setuid bit. Raises ConfigError where that user could reach Docker's socket, which is as good as
    being root, or has processes that are not ours.
    """
    if os.geteuid() != 0:
        return None
    owner = workspace.stat()
    notices: tuple[str, ...] = ()
    uid = owner.st_uid
    root_owns = uid == 0
    if root_owns:
        uid = NOBODY
        notices = (
            "The workspace belongs to root, so your system runs as an unprivileged user who can read it but not write "
            "to it.",
        )
    sockets = tuple(sockets)
    gid = _group_apart([owner.st_gid, temporary.stat().st_gid, *(s.stat().st_gid for s in sockets if s.exists())])
    for socket in sockets:
        if may_write(socket, uid, gid):
            raise ConfigError(
                f"{socket} may be written to by the user that your system runs as ({uid}), who would be root with it.",
                hint="On the runner's host, let it belong to another user, and take its world rights away.",
            )
    if others := living(uid):
        pid, name = min(others.items())
        raise ConfigError(
            f"a process that is not the gate's runs as the user that your system would run as ({uid}): {pid} ({name}). "
            "Your system could read its memory.",
            hint="Give the container a process namespace of its own.",
        )
    _gain_no_rights()
    folder = temporary / f"ragstone-{uid}"
    confinement = Confinement(RunAs(uid, gid, folder / "home"), folder, notices, root_owns)
    made = confinement.call(["/bin/mkdir", "-p", str(folder / "home"), str(folder / "tmp")])
    if made.returncode != 0:
        folder = Path("/tmp") / f"ragstone-{uid}"  # noqa: S108 - inside the container, for the user's code only
        confinement = Confinement(RunAs(uid, gid, folder / "home"), folder, notices, root_owns)
        made = confinement.call(["/bin/mkdir", "-p", str(folder / "home"), str(folder / "tmp")])
    if made.returncode != 0:
        raise ConfigError(f"no folder can be made for your system: {made.stderr.decode('utf-8', 'replace').strip()}")
    return confinement


def may_write(path: Path, uid: int, gid: int) -> bool:
    """Whether a user without supplementary groups may write to `path`, by its mode."""
    try:
        found = path.stat()
    except OSError:
        return False
    if found.st_uid == uid:
        return bool(found.st_mode & stat.S_IWUSR)
    if found.st_gid == gid:
        return bool(found.st_mode & stat.S_IWGRP)
    return bool(found.st_mode & stat.S_IWOTH)


def wipe_environment(names: Iterable[str]) -> None:
    """Blank the values of `names` in the block that ``/proc/self/environ`` shows, and forget them in os.environ.

    Defence in depth: as root we follow a link that a pull request put in place of a file of its own.
    """
    wanted = {os.fsencode(name) for name in names}
    for name in wanted:
        os.environb.pop(name, None)
    try:
        fields = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        start, end = int(fields[_ENV_START]), int(fields[_ENV_START + 1])
        block = ctypes.string_at(start, end - start)
    except (OSError, ValueError, IndexError):
        return
    place = start
    for entry in block.split(b"\0"):
        name, _, value = entry.partition(b"=")
        if name in wanted and value:
            ctypes.memset(place + len(name) + 1, ord("x"), len(value))
        place += len(entry) + 1


def hand_over(confinement: Confinement, source: Path, target: Path) -> None:
    """Put the run in `source`, which is ours, to `target` in the workspace as its owner, in place of a run there.

    For when none of the user's code runs any more. Raises RunDirectoryError when that is no place for a run, or when
    the owner may not write there.
    """
    with ExitStack() as stack:
        files: dict[Path, BinaryIO] = {
            path.relative_to(source): stack.enter_context(path.open("rb"))
            for path in source.rglob("*")
            if path.is_file() and not path.is_symlink()
        }
        with nullcontext() if confinement.root_owns else confinement.acting():
            put_run(files, target)


def _group_apart(taken: Iterable[int]) -> int:
    return next(gid for gid in itertools.count(NOBODY) if gid not in set(taken))


def _gain_no_rights() -> None:
    """For us and all that we start: setuid bits and file capabilities mean nothing. Raises ConfigError."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise ConfigError(f"the kernel refuses no_new_privs: {os.strerror(ctypes.get_errno())}.")
