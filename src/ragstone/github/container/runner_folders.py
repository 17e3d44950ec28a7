"""Closes the folders of GitHub's runner to the user's code while it runs."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path

from ragstone.errors import ConfigError
from ragstone.github.api.commands import COMMAND_FILES
from ragstone.github.container.confinement import Confinement
from ragstone.settings.variables import Environ

_CLOSED_MODE = 0o770
# For folders above the workspace, which the user's code must pass through.
_PASSABLE_MODE = 0o771


class RunnerFolders:
    """The runner's own folders, which the user's code could otherwise access, because
    the runner has the same user.

    From `close` to `give_back` they belong to root, so that nothing in them can be
    written, replaced or read. Their group keeps its permissions, and the user's code is
    in another group: if the gate is killed, the runner can continue, and finds only our
    files.
    """

    def __init__(self, environ: Environ, workspace: Path) -> None:
        self._workspace = workspace.resolve()
        names = (*COMMAND_FILES, "GITHUB_EVENT_PATH")
        paths = {name: _resolved(environ[name]) for name in names if environ.get(name)}
        folders = [path.parent for path in paths.values()]
        paths.pop("GITHUB_EVENT_PATH", None)
        self._files = tuple(paths.values())
        for name in ("HOME", "RUNNER_TEMP"):
            folder = Path(environ.get(name) or self._workspace).resolve()
            if not folder.is_relative_to(self._workspace):
                folders.append(folder)
        self._folders = tuple(dict.fromkeys(folders))
        self._owners: dict[Path, os.stat_result] = {}

    def close(self, confinement: Confinement) -> None:
        """Take over the folders before any user code runs. Raises ConfigError if that
        is not possible."""
        for folder in self._folders:
            with _protecting(folder):
                self._close(folder, confinement)
        folders = set(chain.from_iterable(path.parents for path in self._files))
        for above in folders:
            if above.exists() and not _is_out_of_reach(above.stat()):
                raise _not_closed(above, "your system may replace what is in it")
        self.renew()

    def _close(self, folder: Path, confinement: Confinement) -> None:
        with _opened(folder) as descriptor:
            status = os.fstat(descriptor)
            if _is_out_of_reach(status):
                return
            self._owners.setdefault(folder, status)
            is_above_workspace = self._workspace.is_relative_to(folder)
            os.fchown(descriptor, 0, -1)
            mode = _PASSABLE_MODE if is_above_workspace else _CLOSED_MODE
            os.fchmod(descriptor, mode)
        if confinement.call(["/usr/bin/test", "-w", str(folder)]).returncode == 0:
            raise _not_closed(folder, "your system may still write to it")

    def renew(self) -> None:
        """Create the command files afresh: anything in their place is removed unread.
        Raises ConfigError."""
        for path in self._files:
            with _protecting(path), _opened(path.parent) as folder:
                with suppress(FileNotFoundError):
                    os.unlink(path.name, dir_fd=folder)
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
                descriptor = os.open(path.name, flags, 0o600, dir_fd=folder)
                os.fchown(descriptor, 0, os.fstat(folder).st_gid)
                os.fchmod(descriptor, 0o660)
                os.close(descriptor)

    def give_back(self) -> None:
        """Return folders and files to their owners. Call only when no user code runs
        any more."""
        for path in self._files:
            status = self._owners.get(path.parent)
            if status is not None:
                with suppress(OSError):
                    os.chown(path, status.st_uid, status.st_gid, follow_symlinks=False)
        while self._owners:
            folder, status = self._owners.popitem()
            with suppress(OSError), _opened(folder) as descriptor:
                os.fchown(descriptor, status.st_uid, status.st_gid)
                os.fchmod(descriptor, stat.S_IMODE(status.st_mode))


def _resolved(path: str) -> Path:
    """`path` with links in its folder resolved, but not the path itself."""
    unresolved = Path(path)
    return unresolved.parent.resolve() / unresolved.name


def _is_out_of_reach(status: os.stat_result) -> bool:
    """Whether only root can replace root's files in the folder."""
    return status.st_uid == 0 and (
        not status.st_mode & stat.S_IWOTH or bool(status.st_mode & stat.S_ISVTX)
    )


def _not_closed(path: Path, why: str) -> ConfigError:
    return ConfigError(
        f"the runner's files can't be protected from your system: {why}.",
        where=str(path),
        hint="Keep the runner's folders on a local file system, or use `ragstone gate --github` in a `run:` step.",
    )


@contextmanager
def _protecting(path: Path) -> Iterator[None]:
    """Raise ConfigError for an OSError. A folder that is missing is no error: nothing
    will be written to it."""
    try:
        yield
    except FileNotFoundError:
        pass
    except OSError as error:
        raise _not_closed(path, error.strerror or str(error)) from None


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
