"""Opens the baseline in a directory: its run, or the baseline that this run carries."""

from __future__ import annotations

import os
from pathlib import Path

from ragstone.errors import BaselineError, ConfigError, RunDirectoryError
from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.lineage import eligible_run


def open_baseline(path: Path) -> RunDirectory:
    """The run in `path` if it can be a baseline, else the baseline that it carries.

    Raises BaselineError if there is neither.
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


def refuse_overlap(baseline: Path, out: Path) -> None:
    """Raise ConfigError if the directories of the baseline and of the new run are the
    same, or one is inside the other."""
    real_baseline = Path(os.path.realpath(baseline))
    real_out = Path(os.path.realpath(out))
    is_inside = real_baseline.is_relative_to(real_out)
    if is_inside or real_out.is_relative_to(real_baseline):
        raise ConfigError(
            f"the new run ({out}) and its baseline ({baseline}) must be in directories of their own.",
            hint="Move the baseline (mv ragstone-run baseline), or use another directory for --out.",
        )
