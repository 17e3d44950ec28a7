"""The baseline of a run, and how a run carries it.

A run that can't be a baseline carries the baseline that it was compared with in its
folder `baseline/`. So the newest run of a branch always leads to the latest good one,
however many runs are in between, and whatever has expired. Only the manifest, the
records and the facts of the rounds are carried: the judgements of the baseline are in
the run's own cache already. A run that can be a baseline carries none, so a run
directory contains at most one.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from ragstone.errors import RunDirectoryError, disk_errors
from ragstone.evaluation.directory import (
    CACHE,
    LOCK,
    MANIFEST,
    ORACLE,
    RUN_FILES,
    SYSTEM_LOG,
    RunDirectory,
)
from ragstone.evaluation.manifest import BaselineUsed
from ragstone.evaluation.round_facts import FACTS_FILES
from ragstone.files import open_regular

CARRIED = "baseline"
"""The folder in a run directory for the baseline that the run carries."""

MAX_LINEAGE = 100
"""Maximum number of baselines in a lineage."""

_CHUNK_BYTES = 1024 * 1024
_TEMPORARY_FILES = tuple(f".{name}.tmp" for name in RUN_FILES)
"""The files that a process may leave behind if it is killed while it writes."""


def describe_baseline(
    baseline: RunDirectory,
    *,
    run_id: int | None = None,
    artifact: tuple[int, str] | None = None,
) -> BaselineUsed:
    """Describe `baseline` for the manifest of the run that is compared with it.
    `artifact` has the workflow run and the name of the artifact that it is from."""
    manifest = baseline.manifest
    artifact_run_id, artifact_name = artifact or (None, None)
    return BaselineUsed(
        fingerprint=lasting_fingerprint(baseline),
        created_at=manifest.created_at,
        commit=manifest.system.commit,
        run_id=run_id,
        artifact_run_id=artifact_run_id,
        artifact=artifact_name,
    )


def lasting_fingerprint(baseline: RunDirectory) -> str:
    """The fingerprint by which later runs refer to `baseline`.

    The run of a base commit is evaluated anew in each job: for that, it is the first
    fingerprint of its lineage.
    """
    fact = baseline.manifest.baseline
    if baseline.manifest.same_job and fact is not None and fact.lineage:
        return fact.lineage[0]
    return baseline.fingerprint


def lineage(baseline: RunDirectory) -> tuple[str, ...]:
    """The fingerprints of `baseline` and of the baselines before it, the newest first,
    at most MAX_LINEAGE."""
    fact = baseline.manifest.baseline
    earlier = () if fact is None else fact.lineage
    return (baseline.fingerprint, *earlier)[:MAX_LINEAGE]


def eligible_run(run: RunDirectory) -> RunDirectory | None:
    """`run` itself if it can be a baseline, else the one that it carries; None if it
    carries none."""
    return run if run.manifest.standing.eligible else carried_run(run)


def carried_run(run: RunDirectory) -> RunDirectory | None:
    """The baseline that `run` carries; None if there is none, or it can't be a baseline
    itself. Raises RunDirectoryError if it is not the one that `run` was compared
    with."""
    folder = run.path / CARRIED
    used = run.manifest.used
    if used is None or not (folder / MANIFEST).is_file():
        return None
    carried = RunDirectory.open(folder)
    if used.fingerprint != carried.fingerprint:
        raise RunDirectoryError(
            "this is not the baseline that the run was compared with.",
            where=str(folder),
            hint="It was overwritten: compare with another baseline.",
        )
    return carried if carried.manifest.standing.eligible else None


def oracle_half(run: RunDirectory) -> RunDirectory | None:
    """The oracle half in the folder of `run`; None if there is none, or it is of
    another run or judge. Raises RunDirectoryError."""
    folder = run.path / ORACLE
    if run.rounds.oracle is None or not (folder / MANIFEST).is_file():
        return None
    half = RunDirectory.open(folder)
    is_of_run = half.manifest.oracle_of == run.manifest.created_at
    is_same_judge = half.manifest.judge == run.manifest.judge
    return half if is_of_run and is_same_judge else None


def carry(baseline: RunDirectory, directory: Path) -> RunDirectory:
    """Copy `baseline` into the run directory `directory`, in place of another that is
    carried there, and return the copy."""
    target = directory / CARRIED
    temporary = directory / f".{CARRIED}.tmp"
    with disk_errors(target, "can't store the baseline", kind=RunDirectoryError):
        _remove(temporary)
        temporary.mkdir(parents=True)
        for name in RUN_FILES:
            file = baseline.path / name
            if name in FACTS_FILES and not os.path.lexists(file):
                continue
            with open_regular(file) as source, (temporary / name).open("xb") as out:
                shutil.copyfileobj(source, out, _CHUNK_BYTES)
        _remove(target)
        temporary.replace(target)
    return RunDirectory.open(target)


def remove_inner_run(directory: Path, name: str = CARRIED) -> None:
    """Remove the run in the folder `name` of a run directory, if any: by default, the
    baseline that it carries. A link is removed, not followed."""
    with disk_errors(directory / name, "can't be removed", kind=RunDirectoryError):
        _remove(directory / name)


def cache_of(baseline: RunDirectory) -> Path:
    """The file with the judgements of `baseline`: if it is carried, the cache of the
    run that carries it."""
    carrier = baseline.path.parent
    is_carried = baseline.path.name == CARRIED and (carrier / MANIFEST).is_file()
    cache = baseline.path / CACHE
    return carrier / CACHE if is_carried and not cache.is_file() else cache


def _remove(path: Path) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        for name in (*RUN_FILES, SYSTEM_LOG, LOCK, *_TEMPORARY_FILES):
            (path / name).unlink(missing_ok=True)
        path.rmdir()  # fails if it contains anything else, which must not be removed
