"""Reads the archive of a run in memory: only the named members, each up to a size limit.
Nothing is written or executed."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import PurePosixPath

MAX_ENTRIES = 1_000
_CHUNK_BYTES = 64 * 1024
_ENCRYPTED_FLAG = 0x1
_COMPRESSION_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


class ArchiveRefused(Exception):  # noqa: N818 - an outcome to report, not a program error
    """The archive is not one that Ragstone wrote. `reason` is a clause."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def read_members(archive: bytes, limits: Mapping[str, int]) -> dict[str, bytes]:
    """The members named in `limits`, of which each value is the maximum size in bytes
    when decompressed. Missing members are left out.

    Sizes stated in the archive are not trusted. Raises ArchiveRefused for an archive
    with a path that leads out of it, a repeated name, encryption, a compression method
    other than store and deflate, or more than MAX_ENTRIES entries.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as zip_file:
            entries = zip_file.infolist()
            if len(entries) > MAX_ENTRIES:
                raise ArchiveRefused(f"it has {len(entries)} entries")
            entries_by_name = _find_named(entries, limits)
            return {
                name: _read(zip_file, entry, limits[name])
                for name, entry in entries_by_name.items()
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


def _find_named(
    entries: list[zipfile.ZipInfo], limits: Mapping[str, int]
) -> dict[str, zipfile.ZipInfo]:
    """The entries that `limits` names. Raises ArchiveRefused if any entry has an unsafe
    path, or a named one can't be read safely."""
    entries_by_name: dict[str, zipfile.ZipInfo] = {}
    for entry in entries:
        # The name as the archive has it; `filename` is what zipfile makes of it.
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
        if name in entries_by_name:
            raise ArchiveRefused(f"it contains {name} twice")
        if entry.flag_bits & _ENCRYPTED_FLAG:
            raise ArchiveRefused(f"{name} is encrypted")
        if entry.compress_type not in _COMPRESSION_METHODS:
            raise ArchiveRefused(f"{name} is compressed with an unknown method")
        entries_by_name[name] = entry
    return entries_by_name


def _read(zip_file: zipfile.ZipFile, entry: zipfile.ZipInfo, limit: int) -> bytes:
    """The content of an entry. Raises ArchiveRefused if it has more than `limit`
    bytes."""
    chunks: list[bytes] = []
    size = 0
    with zip_file.open(entry) as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            size += len(chunk)
            if size > limit:
                raise ArchiveRefused(
                    f"{entry.orig_filename} is larger than {limit:,} bytes when decompressed"
                )
            chunks.append(chunk)
    return b"".join(chunks)
