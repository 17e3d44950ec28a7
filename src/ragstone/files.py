"""Opens files that untrusted input names: a config, a checkout, a run directory from
anywhere.

`open_regular` opens all of them, and only if they are regular files of limited size in
the expected folder. A pipe can't block it, a device is never opened, a link can't lead
out of the folder, and the file that was checked is the one that is read, even if it is
replaced in the meantime. `refuse_link` keeps Ragstone from writing through links.
"""

from __future__ import annotations

import errno
import os
import stat
import tomllib
from pathlib import Path
from typing import Any, BinaryIO

_PACKAGE = Path(__file__).parent
_O_PATH = getattr(os, "O_PATH", 0)
_DESCRIPTORS = "/proc/self/fd"
"""Where Linux has a link for each file descriptor of this process."""


def open_regular(
    path: Path, *, within: Path | None = None, limit: int | None = None
) -> BinaryIO:
    """Open `path` for reading. Links are followed.

    Raises OSError if it can't be opened, is not a regular file, is outside of `within`
    (None allows any folder), or has more than `limit` bytes. The `strerror` then fits
    after "can't be read:". A file may still grow while it is read.
    """
    try:
        descriptor = _open_checked(path, within, limit)
    except ValueError:  # a null character
        raise OSError(errno.EINVAL, "not a valid file name", str(path)) from None
    return os.fdopen(descriptor, "rb")


def read_regular(path: Path, *, limit: int, within: Path | None = None) -> bytes:
    """The content of `path`, at most `limit` bytes. Raises OSError like
    `open_regular`."""
    with open_regular(path, within=within, limit=limit) as stream:
        body = stream.read(limit + 1)
    if len(body) > limit:
        raise _too_large(path, limit)
    return body


def refuse_link(path: Path) -> None:
    """Raise OSError if `path` is a link, because a link in a checkout may lead
    anywhere.

    Links in /dev, such as /dev/stdout, are not from a checkout, and are allowed.
    """
    if path.is_symlink() and path.parent != Path("/dev"):
        raise OSError(
            errno.ELOOP, "it is a link, and nothing is written through links", str(path)
        )


def shipped(name: str, package: str) -> Path:
    """The path of the file `name` that Ragstone ships in `package`."""
    return _PACKAGE.joinpath(*package.split(".")[1:], name)


def read_table(name: str, package: str) -> Any:
    """The content of the TOML file `name` that Ragstone ships in `package`."""
    return tomllib.loads(shipped(name, package).read_text(encoding="utf-8"))


def _open_checked(path: Path, within: Path | None, limit: int | None) -> int:
    """Open a file after checking it, and return the descriptor."""
    if not _O_PATH or not os.path.isdir(_DESCRIPTORS):  # noqa: PTH112 - as cheap as it gets
        return _open_by_name(path, within, limit)
    # With O_PATH, the file is found but not opened. Its type and its location are
    # checked on this handle, so that nobody can replace the file after the check.
    handle = os.open(path, _O_PATH | os.O_CLOEXEC)
    try:
        _check(os.fstat(handle), path, limit)
        location = Path(os.readlink(f"{_DESCRIPTORS}/{handle}"))  # noqa: PTH115
        if within is not None and not location.is_relative_to(os.path.realpath(within)):
            raise _outside(path)
        return os.open(f"{_DESCRIPTORS}/{handle}", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(handle)


def _open_by_name(path: Path, within: Path | None, limit: int | None) -> int:
    """Open a file after checking it, on systems without O_PATH: the path is checked
    again after the file was opened."""
    real = Path(os.path.realpath(path))
    if within is not None and not real.is_relative_to(os.path.realpath(within)):
        raise _outside(path)
    descriptor = os.open(
        real, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    )
    try:
        _check(os.fstat(descriptor), path, limit)
        if within is not None and os.path.realpath(real) != str(real):
            raise _outside(path)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _check(status: os.stat_result, path: Path, limit: int | None) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    if limit is not None and status.st_size > limit:
        raise _too_large(path, limit)


def _too_large(path: Path, limit: int) -> OSError:
    return OSError(errno.EFBIG, f"it is larger than {limit:,} bytes", str(path))


def _outside(path: Path) -> OSError:
    return OSError(errno.EXDEV, "it is outside the workspace", str(path))
