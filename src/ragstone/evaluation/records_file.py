"""A file of records, such as samples.jsonl: read line by line, or looked up by the id
of a sample."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ragstone.errors import RunDirectoryError, disk_errors
from ragstone.evaluation.record import SampleRecord
from ragstone.evaluation.serialise import MAX_LINE_BYTES, record_from_line
from ragstone.files import open_regular
from ragstone.golden.sample import MAX_SAMPLES

Lookup = Callable[[str], SampleRecord | None]
"""The record of a sample by its id; None if there is none."""


@dataclass(frozen=True, slots=True)
class _Places:
    """Where the record of each sample is, as the file was then: its line, from 1, and
    its offset."""

    stamp: tuple[int, int]
    by_sample: Mapping[str, tuple[int, int]]


class RecordsFile:
    """The records in `path`. `whole`: the last line is one too; else it may have been
    cut off when a run was killed."""

    def __init__(self, path: Path, *, whole: bool) -> None:
        self.path = path
        self._whole = whole
        self._places: _Places | None = None

    def __iter__(self) -> Iterator[SampleRecord]:
        """Every record, one at a time. Raises RunDirectoryError with the line of a bad
        one."""
        for number, line in self.lines():
            yield record_from_line(line, self.where(number))

    def where(self, number: int) -> str:
        return f"{self.path}:{number}"

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Every line with its number, from 1. Raises RunDirectoryError for one that is
        too long, or for too many."""
        with self._stream() as stream:
            yield from self._lines_of(stream)

    @contextmanager
    def lookup(self) -> Iterator[Lookup]:
        """Look up any number of records by id; the file is opened once, and no record
        is kept.

        Raises RunDirectoryError for a bad record, here or when it is looked up.
        """
        with self._stream() as stream:
            if self._places is None or self._places.stamp != _stamp(stream):
                for _ in self._located(stream):
                    pass
            assert self._places is not None  # noqa: S101 - located
            by_sample = self._places.by_sample

            def record_of(sample_id: str) -> SampleRecord | None:
                if sample_id not in by_sample:
                    return None
                number, offset = by_sample[sample_id]
                stream.seek(offset)
                record = record_from_line(
                    stream.readline(MAX_LINE_BYTES + 1), self.where(number)
                )
                if record.sample.id != sample_id:
                    raise RunDirectoryError(
                        "the file was changed while it was read.",
                        where=self.where(number),
                    )
                return record

            yield record_of

    def read_once(
        self, digest: Callable[[bytes], None]
    ) -> Iterator[tuple[SampleRecord, str]]:
        """Every record and its place; `digest` gets each line. A later look-up needs no
        reading of its own."""
        with self._stream() as stream:
            yield from self._located(stream, digest)

    def _located(
        self, stream: BinaryIO, digest: Callable[[bytes], None] = lambda _line: None
    ) -> Iterator[tuple[SampleRecord, str]]:
        stamp, by_sample, offset = _stamp(stream), dict[str, tuple[int, int]](), 0
        for number, line in self._lines_of(stream):
            digest(line)
            record = record_from_line(line, self.where(number))
            by_sample.setdefault(record.sample.id, (number, offset))
            yield record, self.where(number)
            offset += len(line)
        self._places = _Places(stamp, by_sample)

    def _stream(self) -> BinaryIO:
        with disk_errors(self.path, kind=RunDirectoryError):
            return open_regular(self.path)

    def _lines_of(self, stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
        number = 0
        while line := stream.readline(MAX_LINE_BYTES + 1):
            number += 1
            if len(line) > MAX_LINE_BYTES:
                raise RunDirectoryError(
                    "a line longer than 64 MiB.", where=self.where(number)
                )
            if number > MAX_SAMPLES:
                raise RunDirectoryError(
                    f"the run has more than {MAX_SAMPLES:,} samples.",
                    where=self.where(number),
                    hint="Split the golden set, and evaluate each part in a run of its own, or use --limit.",
                )
            if not line.endswith(b"\n") and not self._whole:
                return  # the record that was being written when the run was killed
            yield number, line


def _stamp(stream: BinaryIO) -> tuple[int, int]:
    """What changes when an open file does."""
    status = os.fstat(stream.fileno())
    return status.st_size, status.st_mtime_ns
