"""The baseline in a directory: its run, or the baseline that this run carries."""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import Struct

from ragstone.errors import BaselineError, ConfigError, RunDirectoryError
from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.lineage import CARRIED, carried_run, carry, eligible_run


def open_baseline(path: Path) -> RunDirectory:
    """The run in `path` to compare with: itself, or the baseline that it carries if it
    can't be one.

    Raises BaselineError if there is none.
    """
    try:
        run = RunDirectory.open(path)
        baseline = eligible_run(run)
    except RunDirectoryError as error:
        raise BaselineError.of(error, "the baseline can't be used: ") from None
    if baseline is not None:
        return baseline
    if run.manifest.state != "finished":
        raise BaselineError(
            f"the baseline run was {run.manifest.state}, not finished.",
            where=str(path),
            hint="Use a finished run as the baseline.",
        )
    raise BaselineError(
        f"this run can't be a baseline: {run.manifest.standing.reason}.",
        where=str(path),
        hint="Use a run that did not fail.",
    )


class NamedRun(Struct, frozen=True):
    """The baseline in a run directory that the user named."""

    path: Path
    name: str


class NamedBaseline(Struct, frozen=True):
    """The run to compare with, from a named directory.

    `is_kept`: it is in the run directory that is about to be written. `stands_in`: the
    named run can't be a baseline, and this is the one that it carries.
    """

    run: RunDirectory
    is_kept: bool = False
    stands_in: bool = False


def baseline_beside(
    path: Path, out: Path, *, resume: bool, writes: bool = True
) -> NamedBaseline:
    """The baseline in `path` for a run that is about to be written to `out`.

    If both are the same directory, the baseline is moved to its folder `baseline`
    before anything is written, if the run `writes`. Raises BaselineError if there is
    none, ConfigError if one is inside the other.
    """
    baseline, own = Path(os.path.realpath(path)), Path(os.path.realpath(out))
    is_inside = baseline.is_relative_to(own) or own.is_relative_to(baseline)
    if is_inside and baseline not in (own, own / CARRIED):
        raise ConfigError(
            f"the run directory ({out}) and its baseline ({path}) must not contain each other.",
            hint="Use a separate directory for --out.",
        )
    run = open_baseline(path)
    is_itself = run.path == path
    if baseline != own:
        return NamedBaseline(
            run, is_kept=baseline == own / CARRIED, stands_in=not is_itself
        )
    if is_itself and resume:
        # The existing run is the one being resumed: only the baseline it carries is
        # older.
        carried = carried_run(run)
        if carried is None:
            raise BaselineError(
                "a resumed run can't be its own baseline.",
                where=str(path),
                hint="Use another --baseline, or start over without --resume.",
            )
        return NamedBaseline(carried, is_kept=True)
    carried_baseline = carry(run, out) if writes else run
    return NamedBaseline(carried_baseline, is_kept=True, stands_in=not is_itself)
