"""The labelled data sets that some benchmarks read. They are public third-party data, so not in this repository."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

DEFAULT = Path(__file__).resolve().parents[2] / "shared" / "data"


def data_folder(files: Iterable[str], given: str | Path | None = None) -> Path:
    """The folder that contains `files`: `given`, or the default. Ends the program if any is missing."""
    folder = Path(given) if given is not None else DEFAULT
    missing = sorted(name for name in set(files) if not (folder / name).is_file())
    if missing:
        raise SystemExit(
            f"This benchmark reads data sets that are not part of the repository.\n"
            f"Not found in {folder}: {', '.join(missing)}.\n"
            "bench/README.md lists where each comes from; name their folder on the command line."
        )
    return folder
