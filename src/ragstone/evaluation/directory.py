"""Reads a run directory and validates every field."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from ragstone.errors import RunDirectoryError, disk_errors, parse_errors
from ragstone.evaluation.gather import Gathering
from ragstone.evaluation.manifest import Manifest
from ragstone.evaluation.record import SampleRecord
from ragstone.evaluation.round_facts import FACTS_FILES, RoundFacts, read_facts
from ragstone.evaluation.scores import RunScores
from ragstone.evaluation.serialise import MAX_LINE_BYTES, record_from_line
from ragstone.files import open_regular, read_regular
from ragstone.golden.sample import MAX_SAMPLES

MANIFEST = "manifest.json"
SAMPLES = "samples.jsonl"
ASIDE = f"{SAMPLES}.stored"
"""A copy of a run's records, from which it is scored again; removed when the run is finished."""
CACHE = "judgements.sqlite"
SPENT = "spent.json"
"""What judging the run has cost so far (`evaluation/spent.py`)."""
LOCK = ".lock"
HISTORY = "history.jsonl"
VERDICT = "verdict.json"
"""The verdict of a gate, for its reports."""
PAGE = "page.txt"
"""What the HTML report of a gate holds on every sample."""
SYSTEM_LOG = "system.log"
BASE_COMMIT = "base-commit"
"""The folder in a run directory for the run of the base commit, asked in the same job."""
ORACLE = "oracle"
"""The folder in a run directory for its oracle half: the same questions, with the reference contexts given."""
RUN_FILES = (MANIFEST, SAMPLES, *FACTS_FILES)
"""What is read of a run that is compared with another; a run can do without the facts of its rounds."""
MAX_MANIFEST_BYTES = 4 * 1024 * 1024
FINGERPRINT_DIGITS = 16


Check = Callable[[SampleRecord], None]
Lookup = Callable[[str], SampleRecord | None]
"""The record of a sample by its id; None if there is none."""


@dataclass(frozen=True, slots=True)
class _Places:
    """Where the record of each sample is in samples.jsonl, as the file was then: its line, from 1, and its offset."""

    stamp: tuple[int, int]
    by_sample: Mapping[str, tuple[int, int]]


class RunDirectory:
    """A stored run, for reading. Its scores and fingerprint are read once, together, and cached."""

    def __init__(
        self,
        path: Path,
        manifest: Manifest,
        scores: RunScores | None = None,
        fingerprint: str = "",
        places: _Places | None = None,
        rounds: RoundFacts | None = None,
    ) -> None:
        self.path = path
        self._file = str(path / SAMPLES)
        self.manifest = manifest
        self._scores = scores
        self._fingerprint = fingerprint
        self._places = places
        self._rounds = rounds

    @classmethod
    def open(cls, path: Path) -> RunDirectory:
        """The run in `path`. Raises RunDirectoryError if there is none, or if it can't be read."""
        return cls(path, read_manifest(path))

    def records(self) -> Iterator[SampleRecord]:
        """Every record, one at a time. Raises RunDirectoryError with the line of a bad one."""
        for number, line in self.lines():
            yield record_from_line(line, f"{self._file}:{number}")

    def find(self, ids: Iterable[str]) -> dict[str, SampleRecord]:
        wanted = dict.fromkeys(ids)
        if not wanted:
            return {}
        with self.lookup() as record_of:
            found = {sample_id: record_of(sample_id) for sample_id in wanted}
        return {sample_id: record for sample_id, record in found.items() if record is not None}

    @contextmanager
    def lookup(self) -> Iterator[Lookup]:
        """Look up any number of records by id; samples.jsonl is opened once, and no record is kept.

        Raises RunDirectoryError for a bad record, here or when it is looked up.
        """
        with self._stream() as stream:
            if self._places is None or self._places.stamp != _stamp(stream):
                self._places = self._located(stream)
            places = self._places

            def record_of(sample_id: str) -> SampleRecord | None:
                if sample_id not in places.by_sample:
                    return None
                number, offset = places.by_sample[sample_id]
                stream.seek(offset)
                where = f"{self._file}:{number}"
                record = record_from_line(stream.readline(MAX_LINE_BYTES + 1), where)
                if record.sample.id != sample_id:
                    raise RunDirectoryError("the file was changed while it was read.", where=where)
                return record

            yield record_of

    def _located(self, stream: BinaryIO) -> _Places:
        by_sample: dict[str, tuple[int, int]] = {}
        offset = 0
        for number, line in self._lines_of(stream):
            sample_id = record_from_line(line, f"{self._file}:{number}").sample.id
            by_sample.setdefault(sample_id, (number, offset))
            offset += len(line)
        return _Places(_stamp(stream), by_sample)

    def with_manifest(self, manifest: Manifest) -> RunDirectory:
        """These records with another manifest; cached data is kept."""
        scores = None if self._scores is None else replace(self._scores, manifest=manifest)
        return RunDirectory(self.path, manifest, scores, self._fingerprint, self._places, self._rounds)

    def with_rounds(self, rounds: RoundFacts) -> RunDirectory:
        """These records with other facts of the rounds; cached data is kept."""
        scores = None if self._scores is None else replace(self._scores, rounds=rounds)
        return RunDirectory(self.path, self.manifest, scores, self._fingerprint, self._places, rounds)

    @property
    def rounds(self) -> RoundFacts:
        """What the rounds added to the run. Raises RunDirectoryError."""
        if self._rounds is None:
            self._rounds = read_facts(self.path)
        return self._rounds

    @property
    def fingerprint(self) -> str:
        """A unique id of this run: 16 hexadecimal digits, from its records and start time."""
        self.scores()
        return self._fingerprint

    def scores(self, check: Check | None = None) -> RunScores:
        """The gate's view of the run. `check` is called with each record; an exception in it stops reading.

        Raises RunDirectoryError for a duplicate id, or if a finished run has fewer samples than it counted.
        """
        if self._scores is None or check is not None:
            digest = hashlib.sha256(self.manifest.created_at.encode())
            self._scores = self._read(digest.update, check)
            self._fingerprint = digest.hexdigest()[:FINGERPRINT_DIGITS]
        return self._scores

    def _read(self, digest: Callable[[bytes], None], check: Check | None) -> RunScores:
        gathering = Gathering(self.manifest)
        by_sample: dict[str, tuple[int, int]] = {}
        offset = 0
        with self._stream() as stream:
            stamp = _stamp(stream)
            for number, line in self._lines_of(stream):
                digest(line)
                where = f"{self._file}:{number}"
                record = record_from_line(line, where)
                gathering.add(record, where)
                if check is not None:
                    check(record)
                by_sample[record.sample.id] = (number, offset)
                offset += len(line)
        self._check_whole(len(by_sample))
        self._places = _Places(stamp, by_sample)
        return replace(gathering.scores(self.path), rounds=self.rounds)

    def _check_whole(self, found: int) -> None:
        counted = self.manifest.counts.total
        if self.manifest.state == "finished" and found != counted:
            raise RunDirectoryError(
                f"the manifest counts {counted} samples, but the file has {found}.",
                where=self._file,
                hint="The directory was changed or only partly copied; run the evaluation again.",
            )

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Every line of samples.jsonl with its number, from 1. Raises RunDirectoryError.

        A last line that was being written when the run was killed is left out.
        """
        with self._stream() as stream:
            yield from self._lines_of(stream)

    def _stream(self) -> BinaryIO:
        path = self.path / SAMPLES
        with disk_errors(path, kind=RunDirectoryError):
            return open_regular(path)

    def _lines_of(self, stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
        number = 0
        while line := stream.readline(MAX_LINE_BYTES + 1):
            number += 1
            if len(line) > MAX_LINE_BYTES:
                raise RunDirectoryError("a line longer than 64 MiB.", where=f"{self._file}:{number}")
            if number > MAX_SAMPLES:
                raise RunDirectoryError(
                    f"the run has more than {MAX_SAMPLES:,} samples.",
                    where=f"{self._file}:{number}",
                    hint="Split the golden set, and evaluate each part in a run of its own, or use --limit.",
                )
            if not line.endswith(b"\n") and self.manifest.state != "finished":
                return  # the record that was being written when the run was killed
            yield number, line


def _stamp(stream: BinaryIO) -> tuple[int, int]:
    """What changes when an open file does."""
    found = os.fstat(stream.fileno())
    return found.st_size, found.st_mtime_ns


def read_manifest(path: Path) -> Manifest:
    file = path / MANIFEST
    if not os.path.lexists(file):
        raise RunDirectoryError(
            f"no {MANIFEST}, so this is not a run directory." if path.exists() else "there is no such directory.",
            where=str(path),
            hint="Use a directory written by `ragstone run` or `ragstone gate`.",
        )
    with disk_errors(file, kind=RunDirectoryError):
        body = read_regular(file, limit=MAX_MANIFEST_BYTES)
    hint = "Run the evaluation again with this version of Ragstone."
    with parse_errors(file, "not a valid manifest", kind=RunDirectoryError, hint=hint):
        return Manifest.model_validate_json(body)
