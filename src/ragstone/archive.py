"""Reads an artifact's archive in memory: members by name, every size limited, nothing
written or executed."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import PurePosixPath

MAX_ENTRIES = 1_000
_CHUNK = 64 * 1024
_ENCRYPTED = 0x1
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


class ArchiveRefused(Exception):  # noqa: N818 - an outcome to report, not a program error
    """The archive is not one that Ragstone uploads; `reason` is one sentence."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def read_members(archive: bytes, limits: Mapping[str, int]) -> dict[str, bytes]:
    """The members named in `limits`, each of at most that many bytes decompressed;
    missing ones are left out.

    Sizes stated in the archive are not trusted. An archive with a path that leaves its
    folder, a duplicate name, encryption, a method other than store and deflate, or more
    than 1,000 entries is refused entirely.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as opened:
            entries = opened.infolist()
            if len(entries) > MAX_ENTRIES:
                raise ArchiveRefused(f"it has {len(entries)} entries")
            wanted = _checked(entries, limits)
            return {
                name: _read(opened, entry, limits[name])
                for name, entry in wanted.items()
            }
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        NotImplementedError,
        RuntimeError,
        ValueError,
        OSError,
    ) as error:
        raise ArchiveRefused(f"it is not a readable zip archive ({error})") from None


def _checked(
    entries: list[zipfile.ZipInfo], limits: Mapping[str, int]
) -> dict[str, zipfile.ZipInfo]:
    wanted: dict[str, zipfile.ZipInfo] = {}
    for entry in entries:
        # orig_filename is the name in the archive; filename is zipfile's version of it.
        name = entry.orig_filename
        path = PurePosixPath(name.replace("\\", "/"))
        if (
            path.is_absolute()
            or ".." in path.parts
            or ":" in name
            or "\0" in name
            or "\\" in name
        ):
            raise ArchiveRefused(
                f"it contains a path that leads out of it: {name[:80]!r}"
            )
        if name not in limits:
            continue
        if name in wanted:
            raise ArchiveRefused(f"it contains {name} twice")
        if entry.flag_bits & _ENCRYPTED:
            raise ArchiveRefused(f"{name} is encrypted")
        if entry.compress_type not in _METHODS:
            raise ArchiveRefused(f"{name} is compressed with an unknown method")
        wanted[name] = entry
    return wanted


def _read(opened: zipfile.ZipFile, entry: zipfile.ZipInfo, limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    with opened.open(entry) as stream:
        while chunk := stream.read(_CHUNK):
            size += len(chunk)
            if size > limit:
                raise ArchiveRefused(
                    f"{entry.orig_filename} is larger than {limit:,} bytes when decompressed"
                )
            parts.append(chunk)
    return b"".join(parts)
