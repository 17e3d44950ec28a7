"""Copies a run to another folder, and replaces a run that is there, but nothing else."""

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
from ragstone.evaluation.lineage import CARRIED, remove_inner_run
from ragstone.evaluation.run_files import open_new, writing_to
from ragstone.evaluation.writer import refuse_foreign

JUDGE_FILES = (*(f"{CACHE}{end}" for end in ("", "-wal", "-shm", "-journal")), SPENT)
"""The judge's files in a run directory, with those that SQLite puts beside its
database."""

_REPLACED_FILES = (*RUN_FILES, HISTORY, REPORT, *JUDGE_FILES)


def put_run(files: Mapping[Path, BinaryIO], target: Path) -> None:
    """Write `files`, the files of a run by their relative paths, to `target`, in place
    of a run there. Other files are not touched.

    Follows no link below `target`. Raises RunDirectoryError if `target` contains
    something other than a run, or can't be written.
    """
    refuse_foreign(target)
    with writing_to(target):
        target.mkdir(parents=True, exist_ok=True)
        for carried in (CARRIED, BASE_COMMIT, ORACLE):
            remove_inner_run(target, carried)
        for name in _REPLACED_FILES:
            (target / name).unlink(missing_ok=True)
        for path, source in sorted(files.items()):
            folder = target
            for part in path.parent.parts:
                folder /= part
                if folder.is_symlink():
                    folder.unlink()
                folder.mkdir(exist_ok=True)
            with open_new(target / path) as out:
                shutil.copyfileobj(source, out)
