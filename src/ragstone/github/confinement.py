"""In the container: the user's code runs as the owner of the workspace, and leaves nothing behind that acts."""

from __future__ import annotations

import ctypes
import io
import os
import signal
import stat
import subprocess
import tarfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ragstone.errors import ConfigError
from ragstone.system.environment import RunAs

NOBODY = 65_532
"""Who the user's code runs as when the workspace belongs to root."""

DOCKER_SOCKETS = (Path("/var/run/docker.sock"), Path("/run/docker.sock"))
COMMAND_FILES = ("GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_PATH", "GITHUB_STATE", "GITHUB_STEP_SUMMARY")
SAFE_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PR_SET_CHILD_SUBREAPER = 36
_ENV_START = 47
"""Field 50 of /proc/self/stat, counted from the one after the command's name."""


@dataclass(frozen=True, slots=True)
class Confinement:
    """Whom the user's code runs as, and the folder that it may write to beside the workspace."""

    run_as: RunAs
    folder: Path
    notices: tuple[str, ...] = ()
    root_owns: bool = False

    def call(
        self, argv: Sequence[str], *, stdin: bytes | None = None, as_owner: bool = False
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a program of the image as that user, to its end; file work done so can't be led astray by links.

        `as_owner`: as root where the workspace is root's, into which the user's code can't have put a link.
        """
        root = as_owner and self.root_owns
        return subprocess.run(  # noqa: S603 - programs of the image, by absolute path
            list(argv),
            input=stdin,
            capture_output=True,
            check=False,
            env={"PATH": SAFE_PATH, "HOME": str(self.run_as.home)},
            cwd="/",
            user=0 if root else self.run_as.uid,
            group=0 if root else self.run_as.gid,
            extra_groups=[],
        )


def confine(workspace: Path, temporary: Path, *, sockets: Iterable[Path] = DOCKER_SOCKETS) -> Confinement | None:
    """The user to run the user's code as; None where we are not root and can't change users.

    Raises ConfigError where that user could reach Docker's socket, which is as good as being root.
    """
    if os.geteuid() != 0:
        return None
    owner = workspace.stat()
    notices: tuple[str, ...] = ()
    uid, gid = owner.st_uid, owner.st_gid
    root_owns = uid == 0
    if root_owns:
        uid, gid = NOBODY, NOBODY
        notices = (
            "The workspace belongs to root, so your system runs as an unprivileged user who can read it but not write "
            "to it.",
        )
    for socket in sockets:
        if may_write(socket, uid, gid):
            raise ConfigError(
                f"{socket} may be written to by the user that your system runs as ({uid}), who would be root with it.",
                mend="Take its group and world rights away on the runner's host.",
            )
    _become_reaper()
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


def end_strays(confinement: Confinement, *, patience_s: float = 5.0) -> int:
    """Kill whatever of the user's code is still running below us; returns how many processes there were.

    Orphans come to us, since we asked for them, so nothing that was started can have got away.
    """
    ended: set[int] = set()
    left: set[int] = set()
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        strays = _descendants_of(os.getpid(), confinement.run_as.uid)
        for pid in strays:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        ended |= strays
        left = {pid for pid in left | strays if not _reaped(pid)}
        if not strays and not left:
            break
        time.sleep(0.01)
    return len(ended)


def _reaped(pid: int) -> bool:
    """Take the exit code of a process that came to us; False while it is still on its way."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


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


def seal_command_files(environ: Mapping[str, str]) -> None:
    """Empty the files that GitHub reads after this step. They belong to the workspace's owner, so the user's code may
    have written outputs, variables or a summary of its own into them. For a step that is ours alone."""
    for name in COMMAND_FILES:
        path = environ.get(name, "")
        if path:
            with suppress(OSError):
                # Not following links: the folder is theirs as well.
                descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW)
                os.close(descriptor)


def hand_over(confinement: Confinement, source: Path, target: Path) -> None:
    """Copy the folder `source`, which is ours, to `target` in the workspace, as its owner and in place of what
    is there.

    Raises ConfigError when the owner may not write there.
    """
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for path in sorted(source.rglob("*")):
            archive.add(path, arcname=str(path.relative_to(source)), recursive=False, filter=_as_owner)
    for argv, stdin in (
        (["/bin/rm", "-rf", "--", str(target)], None),
        (["/bin/mkdir", "-p", "--", str(target)], None),
        (["/bin/tar", "-x", "--no-same-owner", "-C", str(target)], packed.getvalue()),
    ):
        done = confinement.call(argv, stdin=stdin, as_owner=True)
        if done.returncode != 0:
            raise ConfigError(
                f"the run directory can't be written: {done.stderr.decode('utf-8', 'replace').strip()[:300]}",
                where=str(target),
            )


def _as_owner(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if not (member.isfile() or member.isdir()):
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode = 0o755 if member.isdir() else 0o644
    return member


def _become_reaper() -> None:
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _descendants_of(root: int, uid: int) -> set[int]:
    parents: dict[int, int] = {}
    owners: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                # The command's name may hold anything, so fields are counted from its closing bracket.
                fields = (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
                if fields[0] != "Z":
                    parents[int(entry.name)] = int(fields[1])
                    owners[int(entry.name)] = entry.stat().st_uid
    found = {pid for pid, owner in owners.items() if owner == uid and _is_below(pid, root, parents)}
    return found - {root}


def _is_below(pid: int, root: int, parents: Mapping[int, int]) -> bool:
    for _ in range(len(parents) + 1):
        if pid == root:
            return True
        if pid not in parents:
            return False
        pid = parents[pid]
    return False
