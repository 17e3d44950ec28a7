"""A file of records, such as samples.jsonl: read line by line, or looked up by the id
of a sample."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from ragstone.errors import RunDirectoryError, disk_errors
from ragstone.evaluation.record import MAX_LINE_BYTES, SampleRecord, record_from_line
from ragstone.files import open_regular
from ragstone.golden.sample import MAX_SAMPLES

Lookup = Callable[[str], SampleRecord | None]
"""The record of a sample by its id; None if there is none."""


class RecordsFile:
    """The records in `path`. `whole`: the last line is one too; else it may have been
    cut off when a run was killed."""

    def __init__(self, path: Path, *, whole: bool) -> None:
        self.path = path
        self._whole = whole
        self._places: dict[str, tuple[int, int]] = {}
        """Where the record of each sample is: its line, from 1, and its offset."""
        self.end = 0
        """Where the last record ends, once all were read."""

    def __iter__(self) -> Iterator[SampleRecord]:
        """Every record, one at a time. Raises RunDirectoryError with the line of a bad
        one, or for too many."""
        for record, _ in self.read():
            yield record

    def read(
        self, digest: Callable[[bytes], None] = lambda _line: None
    ) -> Iterator[tuple[SampleRecord, str]]:
        """Every record and its place; `digest` gets each line. A later look-up needs no
        reading of its own."""
        places: dict[str, tuple[int, int]] = {}
        number, offset = 0, 0
        with self._stream() as stream:
            while line := stream.readline(MAX_LINE_BYTES + 1):
                number += 1
                where = f"{self.path}:{number}"
                if len(line) > MAX_LINE_BYTES:
                    raise RunDirectoryError("a line longer than 64 MiB.", where=where)
                if number > MAX_SAMPLES:
                    raise RunDirectoryError(
                        f"the run has more than {MAX_SAMPLES:,} samples.",
                        where=where,
                        hint="Split the golden set, and evaluate each part in a run of its own, or use --limit.",
                    )
                if not line.endswith(b"\n") and not self._whole:
                    break  # the record that was being written when the run was killed
                digest(line)
                record = record_from_line(line, where)
                places.setdefault(record.sample.id, (number, offset))
                yield record, where
                offset += len(line)
        self._places, self.end = places, offset

    @contextmanager
    def lookup(self) -> Iterator[Lookup]:
        """Look up any number of records by id; the file is opened once, and no record
        is kept.

        Raises RunDirectoryError for a bad record, here or when it is looked up.
        """
        with self._stream() as stream:
            if not self._places:
                deque(self.read(), maxlen=0)
            places = self._places

            def record_of(sample_id: str) -> SampleRecord | None:
                if sample_id not in places:
                    return None
                number, offset = places[sample_id]
                where = f"{self.path}:{number}"
                stream.seek(offset)
                record = record_from_line(stream.readline(MAX_LINE_BYTES + 1), where)
                if record.sample.id != sample_id:
                    raise RunDirectoryError(
                        "the file was changed while it was read.", where=where
                    )
                return record

            yield record_of

    def offsets(self) -> dict[str, int]:
        """Where the record of each sample begins, once all were read."""
        return {name: offset for name, (_, offset) in self._places.items()}

    def _stream(self) -> BinaryIO:
        with disk_errors(self.path, kind=RunDirectoryError):
            return open_regular(self.path)
