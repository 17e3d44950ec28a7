"""Opening files that others name: a config, a checkout, a run directory from anywhere.

One function opens them all. What it opens is a regular file of bounded size, below the folder that it must lie in: a
pipe can't keep a reader for ever, a device is never touched, a link can't lead out, and what was checked is what is
read, whatever is put in its place meanwhile.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

_O_PATH = getattr(os, "O_PATH", 0)
_SELF = "/proc/self/fd"


def open_regular(path: Path, *, within: Path | None = None, limit: int | None = None) -> BinaryIO:
    """`path` opened for reading, links followed.

    Raises OSError whose `strerror` reads as a sentence after "can't be read:", also for what is no regular file, lies
    outside of `within` (None: anywhere), or is larger than `limit` bytes. A file may still grow while it is read.
    """
    try:
        descriptor = _checked(path, within, limit)
    except ValueError:  # a null character
        raise OSError(errno.EINVAL, "no file can have such a name", str(path)) from None
    return os.fdopen(descriptor, "rb")


def read_regular(path: Path, *, limit: int, within: Path | None = None) -> bytes:
    """The whole of `path`, of at most `limit` bytes. Raises OSError as `open_regular` does."""
    with open_regular(path, within=within, limit=limit) as stream:
        body = stream.read(limit + 1)
    if len(body) > limit:
        raise _too_large(path, limit)
    return body


def _checked(path: Path, within: Path | None, limit: int | None) -> int:
    if not _O_PATH or not os.path.isdir(_SELF):  # noqa: PTH112 - as cheap as it gets
        return _checked_by_name(path, within, limit)
    # A handle to the very file, got without opening it: what it is and where it lies is told from the handle.
    handle = os.open(path, _O_PATH | os.O_CLOEXEC)
    try:
        _check(os.fstat(handle), path, limit)
        if within is not None and not Path(os.readlink(f"{_SELF}/{handle}")).is_relative_to(os.path.realpath(within)):  # noqa: PTH115
            raise _outside(path)
        return os.open(f"{_SELF}/{handle}", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(handle)


def _checked_by_name(path: Path, within: Path | None, limit: int | None) -> int:
    """For systems without O_PATH."""
    real = Path(os.path.realpath(path)) if within is not None else path
    if within is not None and not real.is_relative_to(os.path.realpath(within)):
        raise _outside(path)
    descriptor = os.open(real, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        _check(os.fstat(descriptor), path, limit)
        if within is not None and os.path.realpath(real) != str(real):
            raise _outside(path)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _check(found: os.stat_result, path: Path, limit: int | None) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    if limit is not None and found.st_size > limit:
        raise _too_large(path, limit)


def _too_large(path: Path, limit: int) -> OSError:
    return OSError(errno.EFBIG, f"it is larger than {limit:,} bytes", str(path))


def _outside(path: Path) -> OSError:
    return OSError(errno.EXDEV, "it lies outside of the workspace", str(path))
