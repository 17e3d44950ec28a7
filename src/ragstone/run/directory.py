"""Reads a run directory and validates every field."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from pydantic import ValidationError

from ragstone.errors import RunDirectoryError
from ragstone.files import open_regular
from ragstone.formatting import counted
from ragstone.metrics.alignment import UsedContexts
from ragstone.metrics.score import Failed, NotApplicable, Score, Scored
from ragstone.run.manifest import SCHEMA_VERSION, Manifest
from ragstone.run.record import SampleRecord
from ragstone.run.scores import MetricScores, RunScores, SampleFacts, SystemFacts
from ragstone.run.serialise import MAX_LINE_BYTES, RecordFacts, facts_from_line, record_from_line
from ragstone.system.response import TokenUsage

MANIFEST = "manifest.json"
SAMPLES = "samples.jsonl"
ASIDE = f"{SAMPLES}.stored"
"""A copy of a run's records, from which it is scored again; removed when the run is finished."""
CACHE = "judgements.sqlite"
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
REJUDGED = "rejudged"
"""The folder in a shard for its part of the baseline, judged again."""
PERTURBED = "perturbed"
"""The folder in a run directory for the perturbed partners of some of its questions: a run of their own."""
MAX_MANIFEST_BYTES = 4 * 1024 * 1024
FINGERPRINT_DIGITS = 16
_QUESTION_CHARS = 300


Check = Callable[[SampleRecord, RecordFacts], None]
Lookup = Callable[[str], SampleRecord | None]
"""The record of a sample by its id; None if there is none."""


@dataclass(frozen=True, slots=True)
class _Places:
    """Where each sample is in samples.jsonl, as it was then: its offset and the number of its line."""

    stamp: tuple[int, int]
    by_id: dict[str, tuple[int, int]]


class RunDirectory:
    """A stored run, for reading. Its scores and fingerprint are read once, together, and cached."""

    def __init__(
        self,
        path: Path,
        manifest: Manifest,
        scores: RunScores | None = None,
        fingerprint: str = "",
        places: _Places | None = None,
    ) -> None:
        self.path = path
        self.manifest = manifest
        self._scores = scores
        self._fingerprint = fingerprint
        self._places = places

    @classmethod
    def open(cls, path: Path) -> RunDirectory:
        """The run in `path`. Raises RunDirectoryError if there is none, or if it can't be read."""
        return cls(path, read_manifest(path))

    def records(self) -> Iterator[SampleRecord]:
        """Every record, one at a time. Raises RunDirectoryError with the line of a bad one."""
        for number, line in self.lines():
            yield record_from_line(line, f"{self.path / SAMPLES}:{number}")

    def find(self, ids: Iterable[str]) -> dict[str, SampleRecord]:
        """The records of `ids`; missing ids are left out."""
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
                self._places = _Places(_stamp(stream), self._located(stream))
            by_id = self._places.by_id

            def record_of(sample_id: str) -> SampleRecord | None:
                if sample_id not in by_id:
                    return None
                offset, number = by_id[sample_id]
                stream.seek(offset)
                where = f"{self.path / SAMPLES}:{number}"
                record = record_from_line(stream.readline(MAX_LINE_BYTES + 1), where)
                if record.sample.id != sample_id:
                    raise RunDirectoryError("the file was changed while it was read.", where=where)
                return record

            yield record_of

    def _located(self, stream: BinaryIO) -> dict[str, tuple[int, int]]:
        found: dict[str, tuple[int, int]] = {}
        offset = 0
        for number, line in self._lines_of(stream):
            found.setdefault(facts_from_line(line, f"{self.path / SAMPLES}:{number}").sample_id, (offset, number))
            offset += len(line)
        return found

    def with_manifest(self, manifest: Manifest) -> RunDirectory:
        """The same records with another manifest; cached data is kept."""
        scores = None if self._scores is None else replace(self._scores, manifest=manifest)
        return RunDirectory(self.path, manifest, scores, self._fingerprint, self._places)

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
        names = self.manifest.metrics
        values: dict[str, dict[str, float]] = {name: {} for name in names}
        not_applicable: dict[str, dict[str, str]] = {name: {} for name in names}
        failed: dict[str, dict[str, Failed]] = {name: {} for name in names}
        samples: dict[str, SampleFacts] = {}
        each: dict[str, dict[str, tuple[float | None, ...]]] = {name: {} for name in names}
        readings: dict[str, dict[str, tuple[tuple[float, ...], ...]]] = {name: {} for name in names}
        latencies: dict[str, float] = {}
        failures: dict[str, str] = {}
        failed_answers: dict[str, int] = {}
        answers: dict[str, tuple[str, ...]] = {}
        used: dict[str, UsedContexts] = {}
        usage: dict[str, TokenUsage] = {}
        places: dict[str, tuple[int, int]] = {}
        offset = 0
        stamps: list[tuple[int, int]] = []
        for number, line in self.lines(digest, lambda stream: stamps.append(_stamp(stream))):
            where = f"{self.path / SAMPLES}:{number}"
            facts = facts_from_line(line, where)
            sample_id = facts.sample_id
            places[sample_id] = (offset, number)
            offset += len(line)
            if sample_id in samples:
                raise RunDirectoryError(f"duplicate sample '{sample_id}'.", where=where)
            samples[sample_id] = SampleFacts(
                facts.question[:_QUESTION_CHARS],
                facts.tags,
                facts.group,
                facts.origin,
                facts.content_hash,
                facts.answerable,
                facts.reference,
                facts.draft,
            )
            if len(facts.answers) != self.manifest.answers:
                raise RunDirectoryError(
                    f"sample '{sample_id}' has {counted(len(facts.answers), 'answer')}, but the manifest says "
                    f"{self.manifest.answers}.",
                    where=where,
                )
            given = tuple(one.answer for one in facts.answers if one.answer is not None)
            if given:
                answers[sample_id] = given
            if facts.answers[0].latency_s is not None:
                latencies[sample_id] = facts.answers[0].latency_s
            if facts.answers[0].used is not None:
                used[sample_id] = facts.answers[0].used
            if facts.answers[0].usage is not None:
                usage[sample_id] = facts.answers[0].usage
            broken = [one.failure for one in facts.answers if one.failure is not None]
            if broken:
                several = f"{len(broken)} of {len(facts.answers)} answers: " if len(facts.answers) > 1 else ""
                failures[sample_id] = several + broken[0]
                failed_answers[sample_id] = len(broken)
            for name, score in facts.scores.items():
                if name not in names:
                    raise RunDirectoryError(f"metric '{name}' is not in the manifest.", where=where)
                match score:
                    case Scored(value):
                        values[name][sample_id] = value
                        answer_values = tuple(_value(one.scores.get(name)) for one in facts.answers)
                        rounds = tuple(one.readings(name) for one in facts.answers)
                        if len(facts.answers) > 1 and any(one is not None for one in answer_values):
                            each[name][sample_id] = answer_values
                        if sum(map(len, rounds)) > 1:
                            readings[name][sample_id] = tuple(one for one in rounds if one)
                    case NotApplicable(reason):
                        not_applicable[name][sample_id] = reason
                    case Failed():
                        failed[name][sample_id] = score
            if check is not None:
                check(record_from_line(line, where), facts)
        self._check_whole(len(samples))
        self._places = _Places(stamps[0], places)
        return RunScores(
            label=str(self.path),
            metrics={
                name: MetricScores(
                    values[name], not_applicable[name], failed[name], version, each[name], readings[name]
                )
                for name, version in names.items()
            },
            samples=samples,
            system=SystemFacts(latencies, failures, failed_answers, answers, used, usage),
            manifest=self.manifest,
        )

    def _check_whole(self, found: int) -> None:
        counted = self.manifest.counts.total
        if self.manifest.state == "finished" and found != counted:
            raise RunDirectoryError(
                f"the manifest counts {counted} samples, but the file has {found}.",
                where=str(self.path / SAMPLES),
                hint="The directory was changed or only partly copied; run the evaluation again.",
            )

    def lines(
        self, digest: Callable[[bytes], None] | None = None, opened: Callable[[BinaryIO], None] | None = None
    ) -> Iterator[tuple[int, bytes]]:
        """Every line of samples.jsonl with its number, from 1; `digest` is called with each. Raises RunDirectoryError.

        A last line that was being written when the run was killed is left out. `opened` is called with the open file.
        """
        with self._stream() as stream:
            if opened is not None:
                opened(stream)
            yield from self._lines_of(stream, digest)

    def _stream(self) -> BinaryIO:
        path = self.path / SAMPLES
        try:
            return open_regular(path)
        except OSError as error:
            raise RunDirectoryError(f"can't be read: {error.strerror}.", where=str(path)) from None

    def _lines_of(self, stream: BinaryIO, digest: Callable[[bytes], None] | None = None) -> Iterator[tuple[int, bytes]]:
        number = 0
        while line := stream.readline(MAX_LINE_BYTES + 1):
            number += 1
            if digest is not None:
                digest(line)
            if len(line) > MAX_LINE_BYTES:
                raise RunDirectoryError("a line longer than 64 MiB.", where=f"{self.path / SAMPLES}:{number}")
            if not line.endswith(b"\n") and self.manifest.state != "finished":
                return  # the record that was being written when the run was killed
            yield number, line


def _stamp(stream: BinaryIO) -> tuple[int, int]:
    """What changes when an open file does."""
    found = os.fstat(stream.fileno())
    return found.st_size, found.st_mtime_ns


def _value(score: Score | None) -> float | None:
    return score.value if isinstance(score, Scored) else None


def read_manifest(path: Path) -> Manifest:
    """The validated manifest of the run in `path`."""
    file = path / MANIFEST
    try:
        with open_regular(file) as stream:
            body = stream.read(MAX_MANIFEST_BYTES + 1)
    except FileNotFoundError:
        raise RunDirectoryError(
            f"no {MANIFEST}, so this is not a run directory." if path.exists() else "there is no such directory.",
            where=str(path),
            hint="Use a directory written by `ragstone run` or `ragstone gate`.",
        ) from None
    except OSError as error:
        raise RunDirectoryError(f"can't be read: {error.strerror}.", where=str(file)) from None
    if len(body) > MAX_MANIFEST_BYTES:
        raise RunDirectoryError("larger than 4 MiB.", where=str(file))
    try:
        return Manifest.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        hint = "Run the evaluation again with this version of Ragstone."
        if place == "schema_version":
            raise RunDirectoryError(
                f"the schema version is not {SCHEMA_VERSION}.", where=str(file), hint=hint
            ) from None
        raise RunDirectoryError(
            f"not a valid manifest: {place or 'document'}: {first['msg']}.", where=str(file), hint=hint
        ) from None
