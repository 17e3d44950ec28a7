"""The run directory: written as the run goes, read with every field checked."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from pathlib import Path
from typing import IO

from pydantic import ValidationError

from ragstone.errors import RunDirectoryError
from ragstone.files import open_regular
from ragstone.metrics.score import Failed, NotApplicable, Scored
from ragstone.run.files import open_new, replace_text, writing_to
from ragstone.run.manifest import SCHEMA_VERSION, Cost, Counts, Manifest
from ragstone.run.record import SampleRecord
from ragstone.run.scores import MetricScores, RunScores, SampleFacts, SystemFacts
from ragstone.run.scoring import sample_state
from ragstone.run.serialise import (
    MAX_LINE_BYTES,
    facts_from_line,
    is_complete_line,
    record_from_line,
    record_to_line,
)

MANIFEST = "manifest.json"
SAMPLES = "samples.jsonl"
CACHE = "judgements.sqlite"
LOCK = ".lock"
HISTORY = "history.jsonl"
MAX_MANIFEST_BYTES = 4 * 1024 * 1024
_QUESTION_CHARS = 300


class RunDirectory:
    """A run on disk, for reading."""

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest

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
        for number, line in self._lines():
            if len(found) == len(wanted):
                break
            where = f"{self.path / SAMPLES}:{number}"
            sample_id = facts_from_line(line, where).sample_id
            if sample_id in wanted:
                found[sample_id] = record_from_line(line, where)
        return found

    def scores(self) -> RunScores:
        """The run as the gate reads it.

        Raises RunDirectoryError for a double id, or when a finished run holds fewer samples than it counted.
        """
        names = self.manifest.metrics
        values: dict[str, dict[str, float]] = {name: {} for name in names}
        not_applicable: dict[str, dict[str, str]] = {name: {} for name in names}
        failed: dict[str, dict[str, Failed]] = {name: {} for name in names}
        samples: dict[str, SampleFacts] = {}
        latencies: dict[str, float] = {}
        failures: dict[str, str] = {}
        answers: dict[str, str] = {}
        for number, line in self._lines():
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

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        path = self.path / SAMPLES
        try:
            stream = open_regular(path)
        except OSError as error:
            raise RunDirectoryError(f"can't be read: {error.strerror}.", where=str(path)) from None
        with stream:
            number = 0
            while line := stream.readline(MAX_LINE_BYTES + 1):
                number += 1
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


class RunWriter:
    """A run being written. Every record is on disk when `append` returns; `finish` puts them in golden order."""

    def __init__(
        self, path: Path, manifest: Manifest, stream: IO[bytes], offsets: dict[str, int], redact: Callable[[str], str]
    ) -> None:
        self.path = path
        self.manifest = manifest
        self._stream = stream
        self._offsets = offsets
        self._redact = redact

    @classmethod
    def create(cls, path: Path, manifest: Manifest, *, redact: Callable[[str], str] = str) -> RunWriter:
        """Begin a run in `path`. An earlier run there is replaced, its judgement cache kept.

        The records of an unfinished run are kept beside the new ones as samples.jsonl.previous. Raises
        RunDirectoryError when `path` holds something that is not a run.
        """
        refuse_foreign(path)
        with writing_to(path):
            path.mkdir(parents=True, exist_ok=True)
            _put_aside(path)
            write_manifest(path, manifest)
            stream = open_new(path / SAMPLES)
        return cls(path, manifest, stream, {}, redact)

    @classmethod
    def resume(cls, path: Path, manifest: Manifest, *, redact: Callable[[str], str] = str) -> RunWriter:
        """Go on with the run in `path`, whose manifest must describe the same evaluation as `manifest`.

        A line that a killed run left half-written is cut off. Raises RunDirectoryError that says what differs.
        """
        if not (path / MANIFEST).exists():
            return cls.create(path, manifest, redact=redact)
        earlier = read_manifest(path)
        differing = [
            name
            for name in ("golden", "judge", "metrics", "repeats")
            if getattr(earlier, name) != getattr(manifest, name)
        ]
        if earlier.system.entrypoint != manifest.system.entrypoint:
            differing.append("entrypoint")
        if differing:
            raise RunDirectoryError(
                f"can't resume: {' and '.join(differing)} differ from the run that is there.",
                where=str(path),
                hint="Take the settings of that run, or start anew without --resume.",
            )
        if (path / SAMPLES).is_symlink():
            raise RunDirectoryError("is a link, which is not written through.", where=str(path / SAMPLES))
        try:
            offsets, counts, cost = _finished_part(path)
        except OSError as error:
            raise RunDirectoryError(f"can't be resumed: {error.strerror}.", where=str(path / SAMPLES)) from None
        kept = manifest.model_copy(
            update={"counts": counts, "cost": cost, "wall_s": earlier.wall_s, "created_at": earlier.created_at}
        )
        write_manifest(path, kept)
        with writing_to(path / SAMPLES):
            stream = (path / SAMPLES).open("ab")
        return cls(path, kept, stream, offsets, redact)

    @property
    def finished_ids(self) -> Set[str]:
        """The samples that are on disk."""
        return self._offsets.keys()

    def append(self, record: SampleRecord) -> None:
        """Write `record` and hand it to the operating system. Raises RunDirectoryError when the disk refuses it."""
        line = self._redact(record_to_line(record)).encode("utf-8", "replace") + b"\n"
        with writing_to(self.path / SAMPLES):
            offset = self._stream.tell()
            self._stream.write(line)
            self._stream.flush()
        self._offsets[record.sample.id] = offset
        state = sample_state(record.scores, record.response)
        counts = self.manifest.counts
        self.manifest = self.manifest.model_copy(
            update={
                "counts": counts.model_copy(update={state: getattr(counts, state) + 1}),
                "cost": _add_cost(self.manifest.cost, record),
            }
        )

    def close(self) -> None:
        """Leave the run as it is on disk: running, as after a kill."""
        self._stream.close()

    def stop(self, reason: str, *, wall_s: float) -> None:
        """End a run that could not be finished; it can be resumed."""
        with contextlib.suppress(OSError):  # the end of a line that found no room, and is cut off on resume
            self._stream.close()
        self._write(state="stopped", stop_reason=reason, wall_s=self.manifest.wall_s + wall_s)

    def finish(self, order: Iterable[str], *, wall_s: float) -> RunDirectory:
        """End the run: records in the order of the golden set, so that equal runs are equal files."""
        with writing_to(self.path / SAMPLES):
            self._stream.close()
            _sort_records(self.path / SAMPLES, self._offsets, order)
        self._write(state="finished", wall_s=self.manifest.wall_s + wall_s)
        (self.path / f"{SAMPLES}.previous").unlink(missing_ok=True)
        return RunDirectory(self.path, self.manifest)

    def _write(self, **update: object) -> None:
        self.manifest = self.manifest.model_copy(update=update)
        write_manifest(self.path, self.manifest)


def write_manifest(path: Path, manifest: Manifest) -> None:
    """Replace the manifest in one step, so that no reader sees half of it."""
    replace_text(path / MANIFEST, manifest.model_dump_json(indent=2) + "\n")


def _add_cost(cost: Cost, record: SampleRecord) -> Cost:
    ledger = record.ledger
    usd = None if cost.usd is None or ledger.cost_usd is None else cost.usd + ledger.cost_usd
    return Cost(
        calls=cost.calls + ledger.calls,
        cached_calls=cost.cached_calls + ledger.cached_calls,
        input_tokens=cost.input_tokens + ledger.input_tokens,
        cached_input_tokens=cost.cached_input_tokens + ledger.cached_input_tokens,
        output_tokens=cost.output_tokens + ledger.output_tokens,
        usd=usd,
    )


def refuse_foreign(path: Path) -> None:
    """Raise RunDirectoryError where `path`, or what it leads to, is no place for a run: it holds something else."""
    hint = "Choose another place with --out, or `out` under [run]."
    try:
        if path.is_symlink() and not path.exists():
            raise RunDirectoryError("it is a link that leads nowhere.", where=str(path), hint=hint)
        place = path.resolve()
        if place.exists() and not place.is_dir():
            raise RunDirectoryError("that is a file.", where=str(path), hint=hint)
        foreign = place.is_dir() and any(entry.name != LOCK for entry in place.iterdir()) and not _holds_run(place)
    except OSError as error:
        raise RunDirectoryError(f"can't be read: {error.strerror}.", where=str(path)) from None
    if foreign:
        raise RunDirectoryError("the directory exists and does not hold a run.", where=str(path), hint=hint)
    if ".git" in place.parts:
        raise RunDirectoryError("it is git's own folder, or lies in it.", where=str(path), hint=hint)


def _holds_run(place: Path) -> bool:
    """Whether a run was written there. A manifest.json alone may be anybody's."""
    if any((place / name).exists() for name in (SAMPLES, CACHE)):
        return True
    try:
        with open_regular(place / MANIFEST) as stream:
            return b'"ragstone_version"' in stream.read(MAX_MANIFEST_BYTES)
    except FileNotFoundError:
        return False


def _put_aside(path: Path) -> None:
    samples = path / SAMPLES
    if not samples.exists():
        return
    finished = False
    with contextlib.suppress(RunDirectoryError):
        finished = read_manifest(path).state == "finished"
    if not finished and samples.stat().st_size:
        samples.replace(path / f"{SAMPLES}.previous")


def _finished_part(path: Path) -> tuple[dict[str, int], Counts, Cost]:
    samples = path / SAMPLES
    if not samples.exists():
        samples.touch()
    offsets: dict[str, int] = {}
    counts: dict[str, int] = {}
    cost = Cost()
    good = 0
    with open_regular(samples) as stream:
        while line := stream.readline(MAX_LINE_BYTES):
            if not is_complete_line(line):
                break
            record = record_from_line(line, str(samples))
            offsets[record.sample.id] = good
            good += len(line)
            state = sample_state(record.scores, record.response)
            counts[state] = counts.get(state, 0) + 1
            cost = _add_cost(cost, record)
    os.truncate(samples, good)
    return offsets, Counts(**counts), cost


def _sort_records(path: Path, offsets: Mapping[str, int], order: Iterable[str]) -> None:
    wanted = [offsets[sample_id] for sample_id in order if sample_id in offsets]
    if wanted == sorted(wanted):
        return
    temporary = path.with_name(f".{SAMPLES}.tmp")
    with path.open("rb") as stream, open_new(temporary) as out:
        for offset in wanted:
            stream.seek(offset)
            out.write(stream.readline())
    temporary.replace(path)
