"""The run that a run was compared with, and how that run is carried inside it.

A run that can't be a baseline keeps the baseline it used in its folder `baseline/`. So
the newest run of a branch always leads to the latest good one, however many runs are in
between, and whatever has expired. Only manifest, records and the facts of the rounds
are kept: the judgements of a baseline are already in the run's own cache, and a run
that can be a baseline keeps none, so a run directory contains at most one other run.
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
"""The folder in a run directory for the baseline of a run that can't be one."""

MAX_LINEAGE = 100
"""Maximum number of earlier baselines to remember."""

_CHUNK = 1024 * 1024
_UNFINISHED = tuple(f".{name}.tmp" for name in RUN_FILES)
"""What a process leaves that is killed while it writes."""


def used(
    baseline: RunDirectory,
    *,
    run_id: int | None = None,
    artifact: tuple[int, str] | None = None,
) -> BaselineUsed:
    """`baseline` as the run that is compared with it remembers it. `artifact`: the run
    and name of its artifact."""
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
    """The fingerprint by which later runs know `baseline`.

    The run of a base commit is made anew in each job, so it is known by what its
    lineage starts with.
    """
    fact = baseline.manifest.baseline
    if baseline.manifest.same_job and fact is not None and fact.lineage:
        return fact.lineage[0]
    return baseline.fingerprint


def lineage(baseline: RunDirectory) -> tuple[str, ...]:
    """The fingerprints of `baseline` and of the baselines before it, the newest first,
    at most MAX_LINEAGE."""
    fact = baseline.manifest.baseline
    before = () if fact is None else fact.lineage
    return (baseline.fingerprint, *before)[:MAX_LINEAGE]


def eligible_run(run: RunDirectory) -> RunDirectory | None:
    """`run` itself if it can be a baseline, else the one it carries, else None."""
    return run if run.manifest.standing.eligible else carried_run(run)


def carried_run(run: RunDirectory) -> RunDirectory | None:
    """The baseline that `run` carries, if any. Raises RunDirectoryError if it is not
    the one it used."""
    folder = run.path / CARRIED
    used = run.manifest.used
    if used is None or not (folder / MANIFEST).is_file():
        return None
    carried = RunDirectory.open(folder)
    if used.fingerprint != carried.fingerprint:
        raise RunDirectoryError(
            "this is not the baseline that the run was compared with.",
            where=str(folder),
            hint="It was overwritten: use another baseline.",
        )
    return carried if carried.manifest.standing.eligible else None


def oracle_half(run: RunDirectory) -> RunDirectory | None:
    """The oracle half in the folder of `run`, if it has one and that is its own. Raises
    RunDirectoryError."""
    folder = run.path / ORACLE
    if run.rounds.oracle is None or not (folder / MANIFEST).is_file():
        return None
    half, whole = RunDirectory.open(folder), run.manifest
    is_own = half.manifest.oracle_of == whole.created_at
    return half if is_own and half.manifest.judge == whole.judge else None


def carry(baseline: RunDirectory, directory: Path) -> RunDirectory:
    """Put `baseline` into the run directory `directory`, in place of another that is
    carried there."""
    target = directory / CARRIED
    fresh = directory / f".{CARRIED}.tmp"
    with disk_errors(target, "can't store the baseline", kind=RunDirectoryError):
        _remove(fresh)
        fresh.mkdir(parents=True)
        for name in RUN_FILES:
            part = baseline.path / name
            if name in FACTS_FILES and not os.path.lexists(part):
                continue
            with open_regular(part) as source, (fresh / name).open("xb") as out:
                shutil.copyfileobj(source, out, _CHUNK)
        _remove(target)
        fresh.replace(target)
    return RunDirectory.open(target)


def drop_carried(directory: Path, name: str = CARRIED) -> None:
    """Remove the baseline carried in `directory`, if any. A link is removed, not
    followed."""
    with disk_errors(directory / name, "can't be removed", kind=RunDirectoryError):
        _remove(directory / name)


def cache_of(baseline: RunDirectory) -> Path:
    """The judgements of `baseline`: of one that is carried, those of the run that
    carries it."""
    carrier = baseline.path.parent
    is_carried = baseline.path.name == CARRIED and (carrier / MANIFEST).is_file()
    own = baseline.path / CACHE
    return carrier / CACHE if is_carried and not own.is_file() else own


def _remove(path: Path) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        for name in (*RUN_FILES, SYSTEM_LOG, LOCK, *_UNFINISHED):
            (path / name).unlink(missing_ok=True)
        path.rmdir()  # fails if it contains anything else, which must not be removed
