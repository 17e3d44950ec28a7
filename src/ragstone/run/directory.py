"""Reading a run directory, with every field checked."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from pydantic import ValidationError

from ragstone.errors import RunDirectoryError
from ragstone.files import open_regular
from ragstone.metrics.score import Failed, NotApplicable, Scored
from ragstone.run.manifest import SCHEMA_VERSION, Manifest
from ragstone.run.record import SampleRecord
from ragstone.run.scores import MetricScores, RunScores, SampleFacts, SystemFacts
from ragstone.run.serialise import MAX_LINE_BYTES, RecordFacts, facts_from_line, record_from_line

MANIFEST = "manifest.json"
SAMPLES = "samples.jsonl"
CACHE = "judgements.sqlite"
LOCK = ".lock"
HISTORY = "history.jsonl"
SYSTEM_LOG = "system.log"
MAX_MANIFEST_BYTES = 4 * 1024 * 1024
FINGERPRINT_DIGITS = 16
_QUESTION_CHARS = 300


Check = Callable[[SampleRecord, RecordFacts], None]


class RunDirectory:
    """A run on disk, for reading. Its scores and its fingerprint are read once, together, and kept."""

    def __init__(self, path: Path, manifest: Manifest, scores: RunScores | None = None, fingerprint: str = "") -> None:
        self.path = path
        self.manifest = manifest
        self._scores = scores
        self._fingerprint = fingerprint

    @classmethod
    def open(cls, path: Path) -> RunDirectory:
        """The run in `path`. Raises RunDirectoryError when there is none, or when it is not readable as one."""
        return cls(path, read_manifest(path))

    def records(self) -> Iterator[SampleRecord]:
        """Every record, one at a time. Raises RunDirectoryError with the line of a bad one."""
        for number, line in self._lines():
            yield record_from_line(line, f"{self.path / SAMPLES}:{number}")

    def find(self, ids: Iterable[str]) -> dict[str, SampleRecord]:
        """The records of `ids`, read in one pass; ids that are not there are left out."""
        wanted = set(ids)
        found: dict[str, SampleRecord] = {}
        if not wanted:
            return found
        for number, line in self._lines():
            where = f"{self.path / SAMPLES}:{number}"
            sample_id = facts_from_line(line, where).sample_id
            if sample_id in wanted:
                found[sample_id] = record_from_line(line, where)
                if len(found) == len(wanted):
                    break
        return found

    def with_manifest(self, manifest: Manifest) -> RunDirectory:
        """The same records under another manifest; what was read of them is kept."""
        scores = None if self._scores is None else replace(self._scores, manifest=manifest)
        return RunDirectory(self.path, manifest, scores, self._fingerprint)

    @property
    def fingerprint(self) -> str:
        """What tells this run from every other: 16 hexadecimal digits, from its records and when it was begun."""
        self.scores()
        return self._fingerprint

    def scores(self, check: Check | None = None) -> RunScores:
        """The run as the gate reads it. `check` is given each record as it is read; what it raises ends the reading.

        Raises RunDirectoryError for a double id, or when a finished run holds fewer samples than it counted.
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
        latencies: dict[str, float] = {}
        failures: dict[str, str] = {}
        answers: dict[str, str] = {}
        for number, line in self._lines(digest):
            where = f"{self.path / SAMPLES}:{number}"
            facts = facts_from_line(line, where)
            sample_id = facts.sample_id
            if sample_id in samples:
                raise RunDirectoryError(f"sample '{sample_id}' stands there twice.", where=where)
            samples[sample_id] = SampleFacts(
                facts.question[:_QUESTION_CHARS],
                facts.tags,
                facts.group,
                facts.origin,
                facts.content_hash,
                facts.answerable,
                facts.reference,
            )
            if facts.answer is not None:
                answers[sample_id] = facts.answer
            if facts.latency_s is not None:
                latencies[sample_id] = facts.latency_s
            if facts.failure is not None:
                failures[sample_id] = facts.failure
            for name, score in facts.scores.items():
                if name not in names:
                    raise RunDirectoryError(f"metric '{name}' is not in the manifest.", where=where)
                match score:
                    case Scored(value):
                        values[name][sample_id] = value
                    case NotApplicable(reason):
                        not_applicable[name][sample_id] = reason
                    case Failed():
                        failed[name][sample_id] = score
            if check is not None:
                check(record_from_line(line, where), facts)
        self._check_whole(len(samples))
        return RunScores(
            label=str(self.path),
            metrics={
                name: MetricScores(values[name], not_applicable[name], failed[name], version)
                for name, version in names.items()
            },
            samples=samples,
            system=SystemFacts(latencies, failures, answers),
            manifest=self.manifest,
        )

    def _check_whole(self, found: int) -> None:
        counts = self.manifest.counts
        counted = counts.scored + counts.partly_failed + counts.system_failed
        if self.manifest.state == "finished" and found != counted:
            raise RunDirectoryError(
                f"the manifest counts {counted} samples, the file holds {found}.",
                where=str(self.path / SAMPLES),
                hint="The directory was changed or copied in part; run the evaluation again.",
            )

    def _lines(self, digest: Callable[[bytes], None] | None = None) -> Iterator[tuple[int, bytes]]:
        path = self.path / SAMPLES
        try:
            stream = open_regular(path)
        except OSError as error:
            raise RunDirectoryError(f"can't be read: {error.strerror}.", where=str(path)) from None
        with stream:
            number = 0
            while line := stream.readline(MAX_LINE_BYTES + 1):
                number += 1
                if digest is not None:
                    digest(line)
                if len(line) > MAX_LINE_BYTES:
                    raise RunDirectoryError("a line longer than 64 MiB.", where=f"{path}:{number}")
                if not line.endswith(b"\n") and self.manifest.state != "finished":
                    return  # the sample that was being written when the run was killed
                yield number, line


def read_manifest(path: Path) -> Manifest:
    """The manifest of the run in `path`, checked against the schema."""
    file = path / MANIFEST
    try:
        with open_regular(file) as stream:
            body = stream.read(MAX_MANIFEST_BYTES + 1)
    except FileNotFoundError:
        raise RunDirectoryError(
            f"no {MANIFEST}, so this is not a run directory.",
            where=str(path),
            hint="Name a directory that `ragstone run` or `ragstone gate` wrote.",
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
                f"written in another schema than version {SCHEMA_VERSION}.", where=str(file), hint=hint
            ) from None
        raise RunDirectoryError(
            f"not a valid manifest: {place or 'document'}: {first['msg']}.", where=str(file), hint=hint
        ) from None
