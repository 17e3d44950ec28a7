"""The labelled data sets that some benchmarks read. They are public third-party data, so not in this repository."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

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


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a file of JSON Lines, compressed or not."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as lines:
        yield from (json.loads(line) for line in lines if line.strip())
