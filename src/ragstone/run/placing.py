"""Putting a whole run into another folder, in place of the run that is there and of nothing else."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

from ragstone.judge.cache import BATCHES
from ragstone.run.directory import CACHE, HISTORY, MANIFEST, SAMPLES
from ragstone.run.files import open_new, writing_to
from ragstone.run.lineage import drop_carried
from ragstone.run.writer import refuse_foreign

JUDGED = (*(f"{CACHE}{end}" for end in ("", "-wal", "-shm", "-journal")), BATCHES)
"""What a run directory keeps of its judge. The database goes with the files that SQLite puts beside it."""

_PARTS = (MANIFEST, SAMPLES, f"{SAMPLES}.previous", HISTORY, *JUDGED)


def put_run(files: Mapping[Path, BinaryIO], target: Path) -> None:
    """Make `target` hold `files`, the parts of a run by their relative paths. What else is there is left alone.

    Follows no link below `target`. Raises RunDirectoryError where something that is not a run stands there, or where it
    can't be written.
    """
    refuse_foreign(target)
    with writing_to(target):
        target.mkdir(parents=True, exist_ok=True)
        drop_carried(target)
        for part in _PARTS:
            (target / part).unlink(missing_ok=True)
        for name, source in sorted(files.items()):
            folder = target
            for part in name.parent.parts:
                folder /= part
                if folder.is_symlink():
                    folder.unlink()
                folder.mkdir(exist_ok=True)
            with open_new(target / name) as out:
                shutil.copyfileobj(source, out)
