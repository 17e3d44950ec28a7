"""Packs run directories into archives, and unpacks them; says which files an archive may
have."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path

from ragstone.errors import RunDirectoryError, disk_errors
from ragstone.evaluation.directory import (
    CACHE,
    HISTORY,
    MANIFEST,
    MAX_MANIFEST_BYTES,
    SAMPLES,
    RunDirectory,
)
from ragstone.evaluation.lineage import CARRIED
from ragstone.evaluation.round_facts import FACTS_FILES, MAX_FACTS_BYTES
from ragstone.files import read_regular

RUN_LIMITS = {
    MANIFEST: MAX_MANIFEST_BYTES,
    SAMPLES: 512 * 1024 * 1024,
    **dict.fromkeys(FACTS_FILES, MAX_FACTS_BYTES),
}
"""The files of a run, and their maximum sizes in bytes."""

MEMBER_LIMITS = {
    **RUN_LIMITS,
    **{f"{CARRIED}/{name}": limit for name, limit in RUN_LIMITS.items()},
    CACHE: 512 * 1024 * 1024,
    HISTORY: 64 * 1024 * 1024,
}
"""The files of a trusted run: also the baseline that it carries, its judgements and its
history."""


def read_members(
    run: Path, within: Path | None, limits: Mapping[str, int]
) -> dict[str, bytes]:
    """The files of the run directory `run` that are named in `limits`. Raises OSError
    for a file that is too large, or not in the folder `within`."""
    return {
        name: read_regular(run / name, within=within, limit=limit)
        for name, limit in limits.items()
        if os.path.lexists(run / name)
    }


def unpack_run(files: Mapping[str, bytes], directory: Path) -> RunDirectory:
    """Write the members of an archive to the new `directory`, and open it as a run,
    whose scores are not verified yet. Raises RunDirectoryError."""
    directory.mkdir(mode=0o700, parents=True)
    for name in MEMBER_LIMITS:
        if name in files:
            # Only names that are in MEMBER_LIMITS: an archive can't choose a path.
            path = directory / name
            path.parent.mkdir(mode=0o700, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            with os.fdopen(os.open(path, flags, 0o600), "wb") as stream:
                stream.write(files[name])
    return RunDirectory.open(directory)


def pack_run(directory: Path) -> bytes:
    """A zip archive of the files in a run directory that MEMBER_LIMITS name.

    Raises RunDirectoryError if the run can't be read.
    """
    with disk_errors(directory, kind=RunDirectoryError):
        files = read_members(directory, directory, MEMBER_LIMITS)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            # A ZipInfo has a fixed time, so that equal runs have equal archives.
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return packed.getvalue()
