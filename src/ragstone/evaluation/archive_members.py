"""Run directories in archives: which files to read, which run in them can be a
baseline, and how to write them."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from pydantic import ValidationError

from ragstone.archive import ArchiveRefused
from ragstone.errors import RunDirectoryError, disk_errors
from ragstone.evaluation.directory import (
    CACHE,
    HISTORY,
    MANIFEST,
    MAX_MANIFEST_BYTES,
    RUN_FILES,
    SAMPLES,
    RunDirectory,
)
from ragstone.evaluation.lineage import CARRIED, fingerprint_of
from ragstone.evaluation.manifest import Manifest
from ragstone.evaluation.replay import confirm
from ragstone.evaluation.round_facts import FACTS_FILES, MAX_FACTS_BYTES
from ragstone.files import read_regular
from ragstone.metrics.metric import Metric

_RUN_LIMITS = {
    MANIFEST: MAX_MANIFEST_BYTES,
    SAMPLES: 512 * 1024 * 1024,
    **dict.fromkeys(FACTS_FILES, MAX_FACTS_BYTES),
}
MEMBER_LIMITS = {
    **_RUN_LIMITS,
    CACHE: 512 * 1024 * 1024,
    HISTORY: 64 * 1024 * 1024,
    **{f"{CARRIED}/{name}": limit for name, limit in _RUN_LIMITS.items()},
}
"""The files to read from a run directory, and their maximum decompressed size."""


class EligibleRun(Struct, frozen=True):
    """A run in an archive that can be a baseline: its manifest, and its files by
    name."""

    manifest: Manifest
    files: Mapping[str, bytes]


def manifest_of(files: Mapping[str, bytes]) -> Manifest:
    """The manifest of the archive's own run. Raises ArchiveRefused."""
    try:
        return _run_in(files, "").manifest
    except (KeyError, ValidationError):
        raise ArchiveRefused("it contains no run that this version can read") from None


def own_run(files: Mapping[str, bytes]) -> EligibleRun | None:
    """The archive's own run, if it can be a baseline. Raises ArchiveRefused."""
    is_eligible = manifest_of(files).standing.eligible
    return _run_in(files, "") if is_eligible else None


def carried_run(files: Mapping[str, bytes]) -> EligibleRun | None:
    """The baseline that the archive's own run carries, if any. Raises ArchiveRefused if
    it is not the one it used."""
    used = manifest_of(files).used
    try:
        carried = _run_in(files, f"{CARRIED}/")
    except (KeyError, ValidationError):
        return None
    if used is None:
        return None
    fingerprint = fingerprint_of(carried.manifest, carried.files[SAMPLES])
    if fingerprint != used.fingerprint or not carried.manifest.standing.eligible:
        raise ArchiveRefused("it carries a different run from the baseline it used")
    return carried


def _run_in(files: Mapping[str, bytes], folder: str) -> EligibleRun:
    """The run in `folder` of an archive, with the archive's judgements. Raises KeyError
    or ValidationError if there is none."""
    manifest = Manifest.model_validate_json(files[f"{folder}{MANIFEST}"])
    names = [name for name in RUN_FILES if f"{folder}{name}" in files]
    run = {name: files[f"{folder}{name}"] for name in (*names, SAMPLES)}
    if CACHE in files:
        run[CACHE] = files[CACHE]
    return EligibleRun(manifest, run)


def open_members(
    files: Mapping[str, bytes], directory: Path, custom: Sequence[Metric] = ()
) -> RunDirectory:
    """Write the members to `directory` and open it as a run, recomputing every score,
    `custom` metrics too.

    Raises RunDirectoryError if it is not a run that this version can read and confirm.
    """
    write_members(files, directory)
    return confirm(RunDirectory.open(directory), custom)


def read_members(run: Path, within: Path | None) -> dict[str, bytes]:
    """The files of the run directory `run` that a comparison needs; all must be in the
    folder `within`.

    Raises OSError for one that is missing, too large or elsewhere; a run can do without
    the facts of its rounds.
    """
    return {
        name: read_regular(run / name, within=within, limit=MEMBER_LIMITS[name])
        for name in RUN_FILES
        if name not in FACTS_FILES or os.path.lexists(run / name)
    }


def write_members(files: Mapping[str, bytes], directory: Path) -> None:
    directory.mkdir(mode=0o700, parents=True)
    for name in (*RUN_FILES, CACHE):
        if name in files:
            # Our own names in our own directory: the archive can't choose any path.
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            with os.fdopen(os.open(directory / name, flags, 0o600), "wb") as stream:
                stream.write(files[name])


def pack_run(directory: Path) -> bytes:
    """A zip archive of the files of a run directory that a reader of MEMBER_LIMITS
    takes.

    Raises RunDirectoryError if the run can't be read.
    """
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, limit in MEMBER_LIMITS.items():
            path = directory / name
            if not path.is_file():
                continue
            with disk_errors(path, kind=RunDirectoryError):
                content = read_regular(path, within=directory, limit=limit)
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return packed.getvalue()
