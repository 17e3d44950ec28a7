"""Reads a run directory, and validates all of it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from copy import copy
from pathlib import Path

from msgspec.structs import replace

from ragstone.errors import RunDirectoryError, disk_errors, parse_errors
from ragstone.evaluation.gather import ScoreCollector
from ragstone.evaluation.manifest import Manifest
from ragstone.evaluation.record import SampleRecord
from ragstone.evaluation.records_file import Lookup, RecordsFile
from ragstone.evaluation.round_facts import FACTS_FILES, RoundFacts, read_facts
from ragstone.evaluation.scores import RunScores
from ragstone.files import read_regular

MANIFEST = "manifest.json"
SAMPLES = "samples.jsonl"
CACHE = "judgements.sqlite"
SPENT = "spent.json"
"""What judging the run has cost so far (`evaluation/spent.py`)."""
LOCK = ".lock"
HISTORY = "history.jsonl"
REPORT = "report.json"
"""The report of a gate, from which other formats can be rendered later."""
SYSTEM_LOG = "system.log"
BASE_COMMIT = "base-commit"
"""The folder in a run directory for the run of the base commit, evaluated in the same
job."""
ORACLE = "oracle"
"""The folder in a run directory for its oracle half: the run of the same questions with
the reference contexts given to the system."""
RUN_FILES = (MANIFEST, SAMPLES, *FACTS_FILES)
"""The files that are read of a run to compare it with another; the facts of rounds are
optional."""
MAX_MANIFEST_BYTES = 4 * 1024 * 1024
FINGERPRINT_DIGITS = 16

CheckRecord = Callable[[SampleRecord], None]


class RunDirectory:
    """A stored run. Its scores and its fingerprint are read together when one of them
    is first needed, and cached."""

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest
        self._scores: RunScores | None = None
        self._fingerprint = ""
        is_complete = manifest.state == "finished"
        self._records = RecordsFile(path / SAMPLES, is_complete=is_complete)
        self._rounds: RoundFacts | None = None

    @classmethod
    def open(cls, path: Path) -> RunDirectory:
        """The run in the folder `path`. Raises RunDirectoryError if there is none, or
        it can't be read."""
        return cls(path, read_manifest(path))

    def records(self) -> Iterator[SampleRecord]:
        """Every record, one at a time, without a last line that was cut off when the
        run was killed.

        Raises RunDirectoryError with the line of an invalid one.
        """
        return iter(self._records)

    def find(self, ids: Iterable[str]) -> dict[str, SampleRecord]:
        """The records of the samples with these ids; unknown ids are left out."""
        records: dict[str, SampleRecord] = {}
        with self.lookup() as record_of:
            for sample_id in ids:
                record = record_of(sample_id)
                if record is not None:
                    records[sample_id] = record
        return records

    def lookup(self) -> AbstractContextManager[Lookup]:
        """Look up any number of records by id. The file is opened once, and no record
        stays in memory.

        Raises RunDirectoryError for an invalid record, here or when it is looked up.
        """
        return self._records.lookup()

    def with_manifest(self, manifest: Manifest) -> RunDirectory:
        """This run with another manifest, without reading its records again."""
        run = copy(self)
        run.manifest = manifest
        return run

    def with_rounds(self, rounds: RoundFacts) -> RunDirectory:
        """This run with other facts of its rounds, without reading its records
        again."""
        run = copy(self)
        run._rounds = rounds
        return run

    @property
    def rounds(self) -> RoundFacts:
        """The facts that the rounds added to the run. Raises RunDirectoryError."""
        if self._rounds is None:
            self._rounds = read_facts(self.path)
        return self._rounds

    @property
    def fingerprint(self) -> str:
        """An id of this run: 16 hexadecimal digits of a hash of its start time and its
        records."""
        self.scores()
        return self._fingerprint

    def scores(self, check: CheckRecord | None = None) -> RunScores:
        """The scores of the run, for the gate. `check` is called with each record, and
        may raise.

        Raises RunDirectoryError for a duplicate id, or if a finished run does not have
        as many samples as it counted.
        """
        if self._scores is None or check is not None:
            self._scores = self._read_scores(check)
        return replace(self._scores, manifest=self.manifest, rounds=self.rounds)

    def _read_scores(self, check: CheckRecord | None) -> RunScores:
        """Read the scores, and set the fingerprint. The facts of rounds are left
        out."""
        digest = hashlib.sha256(self.manifest.created_at.encode())
        collector = ScoreCollector(self.manifest)
        for record, where in self._records.read(digest.update):
            collector.add(record, where)
            if check is not None:
                check(record)
        scores = collector.scores(self.path)
        expected = self.manifest.counts.total
        if self.manifest.state == "finished" and len(scores.samples) != expected:
            raise RunDirectoryError(
                f"the manifest counts {expected} samples, but the file has {len(scores.samples)}.",
                where=str(self.path / SAMPLES),
                hint="The directory was changed or only partly copied; run the evaluation again.",
            )
        self._fingerprint = digest.hexdigest()[:FINGERPRINT_DIGITS]
        return scores


def read_manifest(path: Path) -> Manifest:
    """The manifest in the run directory `path`. Raises RunDirectoryError."""
    file = path / MANIFEST
    if not os.path.lexists(file):
        problem = f"no {MANIFEST}, so this is not a run directory."
        if not path.exists():
            problem = "there is no such directory."
        raise RunDirectoryError(
            problem,
            where=str(path),
            hint="Use a directory written by `ragstone run` or `ragstone gate`.",
        )
    with disk_errors(file, kind=RunDirectoryError):
        body = read_regular(file, limit=MAX_MANIFEST_BYTES)
    hint = "Run the evaluation again with this version of Ragstone."
    with parse_errors(file, "not a valid manifest", kind=RunDirectoryError, hint=hint):
        return Manifest.model_validate_json(body)
