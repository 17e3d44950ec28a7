"""A file of records, such as samples.jsonl, which is read line by line, or by the id of
a sample."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from ragstone.errors import RunDirectoryError, disk_errors
from ragstone.evaluation.record import MAX_LINE_BYTES, SampleRecord, record_from_line
from ragstone.files import open_regular
from ragstone.golden.sample import MAX_SAMPLES

Lookup = Callable[[str], SampleRecord | None]
"""Returns the record of the sample with an id; None if there is none."""


class RecordsFile:
    """The records in the file `path`.

    `is_complete` says whether the run that wrote the file has finished. If not, the last
    line may be cut off, and is then left out.
    """

    def __init__(self, path: Path, *, is_complete: bool) -> None:
        self.path = path
        self._is_complete = is_complete
        self._positions: dict[str, tuple[int, int]] = {}
        """The line number, from 1, and the offset of each sample's record."""
        self.end = 0
        """The offset of the end of the last record; 0 until all were read."""

    def __iter__(self) -> Iterator[SampleRecord]:
        """Every record, one at a time. Raises RunDirectoryError with the line of an
        invalid one, or if there are too many."""
        for record, _ in self.read():
            yield record

    def read(
        self, digest: Callable[[bytes], None] = lambda _line: None
    ) -> Iterator[tuple[SampleRecord, str]]:
        """Yield every record with the file and line that it is from, and call `digest`
        with each line. Afterwards, `lookup` knows where the records are."""
        positions: dict[str, tuple[int, int]] = {}
        number = 0
        offset = 0
        with self._stream() as stream:
            while line := stream.readline(MAX_LINE_BYTES + 1):
                number += 1
                where = f"{self.path}:{number}"
                if len(line) > MAX_LINE_BYTES:
                    raise RunDirectoryError(
                        f"the line is longer than {MAX_LINE_BYTES:,} bytes.",
                        where=where,
                        hint="The file is damaged: evaluate again.",
                    )
                if number > MAX_SAMPLES:
                    raise RunDirectoryError(
                        f"the run has more than {MAX_SAMPLES:,} samples.",
                        where=where,
                        hint="Split the golden set, and evaluate each part in a run of its own, or use --limit.",
                    )
                if not line.endswith(b"\n") and not self._is_complete:
                    break  # the record that was being written when the run was killed
                digest(line)
                record = record_from_line(line, where)
                # Of records with the same id, the first counts.
                positions.setdefault(record.sample.id, (number, offset))
                yield record, where
                offset += len(line)
        self._positions, self.end = positions, offset

    @contextmanager
    def lookup(self) -> Iterator[Lookup]:
        """Look up any number of records by id, without keeping them in memory. If the
        file was not read before, it is read from start to end first.

        Raises RunDirectoryError for an invalid record, here or when it is looked up.
        """
        with self._stream() as stream:
            if not self._positions:
                for _ in self.read():
                    pass  # only for the positions
            positions = self._positions

            def record_of(sample_id: str) -> SampleRecord | None:
                if sample_id not in positions:
                    return None
                number, offset = positions[sample_id]
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
        """The offset of each sample's record; empty until all were read."""
        return {sample_id: offset for sample_id, (_, offset) in self._positions.items()}

    def _stream(self) -> BinaryIO:
        with disk_errors(self.path, kind=RunDirectoryError):
            return open_regular(self.path)
