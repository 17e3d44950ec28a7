"""Opens files named by untrusted input: a config, a checkout, a run directory from
anywhere.

One function opens them all, and only regular files of bounded size inside the expected
folder. A pipe can't block the reader, a device is never opened, a link can't lead out,
and the file that was checked is the file that is read, even if it is replaced in the
meantime. Another one refuses to write where a link is.
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
_SELF = "/proc/self/fd"


def open_regular(
    path: Path, *, within: Path | None = None, limit: int | None = None
) -> BinaryIO:
    """`path` opened for reading, links followed.

    Raises OSError with a `strerror` that fits after "can't be read:", also if the file
    is not regular, is outside `within` (None: anywhere), or is larger than `limit`
    bytes. A file may still grow while it is read.
    """
    try:
        descriptor = _checked(path, within, limit)
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
    """Raise OSError if `path` is a link, wherever it leads: a checkout may contain it,
    and lead to anything.

    /dev/stdout is a link, and no checkout's.
    """
    if path.is_symlink() and path.parent != Path("/dev"):
        raise OSError(
            errno.ELOOP, "it is a link, and nothing is written through links", str(path)
        )


def shipped(name: str, package: str) -> Path:
    """The file `name` in the folder of `package`, which is one of Ragstone's."""
    return _PACKAGE.joinpath(*package.split(".")[1:], name)


def read_table(name: str, package: str) -> Any:
    """The TOML file `name` that `package` ships."""
    return tomllib.loads(shipped(name, package).read_text(encoding="utf-8"))


def _checked(path: Path, within: Path | None, limit: int | None) -> int:
    if not _O_PATH or not os.path.isdir(_SELF):  # noqa: PTH112 - as cheap as it gets
        return _checked_by_name(path, within, limit)
    # A handle to the file itself, without opening it: type and location are determined
    # from the handle.
    handle = os.open(path, _O_PATH | os.O_CLOEXEC)
    try:
        _check(os.fstat(handle), path, limit)
        if within is not None and not Path(
            os.readlink(f"{_SELF}/{handle}")  # noqa: PTH115
        ).is_relative_to(os.path.realpath(within)):
            raise _outside(path)
        return os.open(f"{_SELF}/{handle}", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(handle)


def _checked_by_name(path: Path, within: Path | None, limit: int | None) -> int:
    """For systems without O_PATH."""
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
