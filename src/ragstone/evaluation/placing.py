"""Copies a run to another folder, replacing only a run that is there."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

from ragstone.evaluation.directory import (
    BASE_COMMIT,
    CACHE,
    HISTORY,
    ORACLE,
    REPORT,
    RUN_FILES,
    SPENT,
)
from ragstone.evaluation.files import open_new, writing_to
from ragstone.evaluation.lineage import CARRIED, drop_carried
from ragstone.evaluation.writer import refuse_foreign

JUDGED = (*(f"{CACHE}{end}" for end in ("", "-wal", "-shm", "-journal")), SPENT)
"""The judge's files in a run directory. SQLite stores additional files next to the
database."""

_PARTS = (*RUN_FILES, HISTORY, REPORT, *JUDGED)


def put_run(files: Mapping[Path, BinaryIO], target: Path) -> None:
    """Write `files`, the parts of a run by their relative paths, to `target`. Other
    files are not touched.

    Follows no link below `target`. Raises RunDirectoryError if `target` contains
    something other than a run, or can't be written.
    """
    refuse_foreign(target)
    with writing_to(target):
        target.mkdir(parents=True, exist_ok=True)
        for folder in (CARRIED, BASE_COMMIT, ORACLE):
            drop_carried(target, folder)
        for part in _PARTS:
            (target / part).unlink(missing_ok=True)
        for name, source in sorted(files.items()):
            place = target
            for part in name.parent.parts:
                place /= part
                if place.is_symlink():
                    place.unlink()
                place.mkdir(exist_ok=True)
            with open_new(target / name) as out:
                shutil.copyfileobj(source, out)
