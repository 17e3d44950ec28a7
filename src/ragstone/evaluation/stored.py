"""Stored answers: the samples and responses of runs and recorded interactions, to be scored again.

A set of stored answers is a golden set and a `System` that plays the responses back, so it is evaluated like any other.
Responses stay in their files: what is kept in memory is the samples, and where the response of each begins.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from ragstone.errors import ConfigError, disk_errors
from ragstone.evaluation.directory import ASIDE, MANIFEST, SAMPLES, RunDirectory
from ragstone.evaluation.files import open_new, writing_to
from ragstone.evaluation.record import SampleRecord
from ragstone.evaluation.serialise import record_from_line
from ragstone.files import open_regular
from ragstone.formatting import counted
from ragstone.golden.aliases import RECORDED, SYSTEM_NAMES, normal
from ragstone.golden.columns import ColumnPlan, plan_columns
from ragstone.golden.profile import profile_rows
from ragstone.golden.reader import SampleReader, derived_id
from ragstone.golden.rows import Row, SourceFile
from ragstone.golden.sample import MAX_SAMPLES, ColumnMapping, GoldenSet, Sample
from ragstone.system.given import Wrapped
from ragstone.system.json_records import record_at
from ragstone.system.payload import failed
from ragstone.system.recorded import is_run_record, open_records, recorded_response
from ragstone.system.response import Response, System, SystemFailureKind
from ragstone.system.worker.returns import Fields

_ANSWER_COLUMNS = frozenset({*SYSTEM_NAMES["answer"], *RECORDED["answer"].strong, *RECORDED["answer"].weak})
_CONTEXT_COLUMNS = frozenset({*SYSTEM_NAMES["contexts"], *RECORDED["contexts"].strong})
_RESPONSE_COLUMNS = frozenset({*SYSTEM_NAMES["answer"], *SYSTEM_NAMES["contexts"], "latency_s", "error", "usage"})


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a response is, or several: file, first byte, size, line for messages; `digest` of what it says."""

    file: BinaryIO
    start: int
    size: int
    where: str
    digest: bytes
    used: frozenset[str] | None = None
    """The columns of an interaction that are not extra; None for a line of a run."""
    answers: int = 1


class StoredAnswers:
    """A `System` that plays stored responses back, and `samples`, the questions that they answer.

    `entrypoint` is the name of the source in the manifest. Always `close` it.
    """

    concurrency = 16
    can_be_asked_again = False

    def __init__(self, entrypoint: str = "") -> None:
        self.entrypoint = entrypoint
        self._samples: dict[str, Sample] = {}
        self._places: dict[str, _Place] = {}
        self._given: dict[str, Response] = {}
        self._asked: dict[str, int] = {}
        self._mappings: list[ColumnMapping] = []
        self._fields = Fields()
        self._open = ExitStack()

    @classmethod
    def of(cls, run: RunDirectory) -> StoredAnswers:
        """The answers of `run`. Raises RunDirectoryError."""
        stored = cls(run.manifest.system.entrypoint)
        stored.read_run(run)
        return stored

    @classmethod
    def given(cls, name: str, answers: Iterable[tuple[Sample, Response]]) -> StoredAnswers:
        """Answers that are in memory, each of another id; `name` is that of their source in the manifest."""
        stored = cls()
        stored._mappings.append(ColumnMapping(name, "interactions", {}))
        for sample, response in answers:
            stored._samples[sample.id] = sample
            stored._given[sample.id] = response
        return stored

    def __len__(self) -> int:
        return len(self._samples)

    def __contains__(self, sample_id: str) -> bool:
        return sample_id in self._places or sample_id in self._given

    @property
    def golden(self) -> GoldenSet:
        """The samples, in the order in which they were read."""
        return GoldenSet(tuple(self._samples.values()), tuple(self._mappings))

    @property
    def answers(self) -> int:
        """How many answers each sample has. Raises ConfigError if some have more than others."""
        counts = {place.answers for place in self._places.values()}
        if len(counts) > 1:
            fewest, most = (
                next(one for one in self._places.values() if one.answers == n) for n in (min(counts), max(counts))
            )
            raise ConfigError(
                f"has {counted(most.answers, 'answer')} to its question, but {fewest.where} has {fewest.answers}.",
                where=most.where,
                hint="Score runs with different --answers one at a time, each with its own --out.",
            )
        return max(counts, default=1)

    def read(
        self,
        path: Path,
        *,
        columns: Mapping[str, str] | None = None,
        fields: Fields | None = None,
    ) -> RunDirectory | None:
        """Add the answers in `path`: a run directory, its samples.jsonl, or a file of recorded interactions.

        Returns the run. `columns` maps fields of a sample to the columns of interactions, `fields` are those of their
        answers. Raises ConfigError if there is nothing, or if an id is already taken by a different answer, and
        GoldenSetError or SystemUnderTestError with the line of a broken interaction.
        """
        folder = path.parent if path.name == SAMPLES and (path.parent / MANIFEST).is_file() else path
        if folder.is_dir():
            run = RunDirectory.open(folder)
            self.read_run(run)
            return run
        self._fields = fields or self._fields
        with disk_errors(path, hint="Expected a run directory, its samples.jsonl, or a file of recorded interactions."):
            self._read_interactions(SourceFile(path, str(path)), columns or {})
        return None

    def read_run(self, run: RunDirectory, *, only_new: bool = False) -> None:
        """Add the answers of `run`; `only_new`: only to samples that have none yet. Raises ConfigError."""
        self._read_lines(run.lines(), run.path / SAMPLES, only_new=only_new)
        self._mappings += [ColumnMapping(file, "run", {}) for file in run.manifest.golden.files]

    def read_aside(self, directory: Path) -> None:
        """Add the answers that were set aside in `directory`, if any (`set_aside`)."""
        path = directory / ASIDE
        if path.is_file():
            self._read_lines(_lines_of(path), path, only_new=True)

    def _read_lines(self, lines: Iterator[tuple[int, bytes]], path: Path, *, only_new: bool) -> None:
        file = self._open.enter_context(open_regular(path))
        start = 0
        for number, line in lines:
            where = f"{path}:{number}"
            record = record_from_line(line, where)
            if not (only_new and record.sample.id in self):
                self._add_record(record, file, start, len(line), where)
            start += len(line)

    def _read_interactions(self, source: SourceFile, columns: Mapping[str, str]) -> None:
        profile = profile_rows(source, _rows(source), columns.values())
        if not profile.rows:
            raise source.error("contains no interactions.", hint='Expected {"question": "…", "answer": "…"} per line.')
        reader: SampleReader | None = None
        used: frozenset[str] = frozenset()
        file, found = open_records(source)
        self._open.callback(file.close)
        for record, start, size, line in found:
            where = source.at(line)
            if is_run_record(record):
                self._add_record(record_from_line(json.dumps(record), where), file, start, size, where)
                continue
            if reader is None:
                plan = _without_responses(plan_columns(source, profile, columns))
                reader = SampleReader(source, plan)
                taken = (*(name for paths in plan.fields.values() for name in paths), *self._fields.paths())
                used = _RESPONSE_COLUMNS | {name.partition(".")[0] for name in taken}
                names = {name: paths[0] for name, paths in plan.fields.items()}
                self._mappings.append(ColumnMapping(source.name, "interactions", names))
            sample = reader.sample(Row(record, line))
            body = json.dumps(record, sort_keys=True, default=str).encode("utf-8", "surrogatepass")
            digest = hashlib.sha256(body).digest()
            if sample.id == derived_id(sample.question, sample.reference, sample.reference_contexts, sample.history):
                # The same question may be asked many times: what tells two interactions apart is all that they say.
                sample = replace(sample, id=f"i-{digest.hex()[:16]}")
            self._add(sample, _Place(file, start, size, where, digest, used))

    def _add_record(self, record: SampleRecord, file: BinaryIO, start: int, size: int, where: str) -> None:
        said = repr((record.sample.content_hash(), record.responses)).encode("utf-8", "surrogatepass")
        digest = hashlib.sha256(said).digest()
        self._add(record.sample, _Place(file, start, size, where, digest, answers=len(record.answers)))

    def _add(self, sample: Sample, place: _Place) -> None:
        known = self._places.get(sample.id)
        if known is None:
            if len(self._samples) == MAX_SAMPLES:
                raise ConfigError(
                    f"there are more than {MAX_SAMPLES:,} stored answers to score.",
                    where=place.where,
                    hint="Score the files one at a time, or split them, each with its own --out.",
                )
            self._samples[sample.id] = sample
            self._places[sample.id] = place
        elif known.digest != place.digest:
            raise ConfigError(
                f"the id '{sample.id}' is already used by another answer, at {known.where}.",
                where=place.where,
                hint="Give each interaction its own id, or none. Score runs of the same golden set one at a time, each "
                "with its own --out.",
            )

    def join(self, golden: GoldenSet) -> int:
        """Replace the samples by those of `golden` with the same id, or else the same question; returns how many.

        Several answers to one golden question become one group, because they are not independent.
        """
        by_id = {sample.id: sample for sample in golden}
        by_question = {" ".join(sample.question.split()): sample for sample in golden}
        found: dict[str, Sample] = {}
        for sample_id, sample in self._samples.items():
            match = by_id.get(sample_id) or by_question.get(" ".join(sample.question.split()))
            if match is not None:
                found[sample_id] = match
        answers: dict[str, int] = {}
        for match in found.values():
            answers[match.id] = answers.get(match.id, 0) + 1
        for sample_id, match in found.items():
            group = match.group or (match.id if answers[match.id] > 1 else self._samples[sample_id].group)
            self._samples[sample_id] = replace(match, id=sample_id, group=group)
        return len(found)

    def response(self, sample_id: str, number: int = 0) -> Response:
        """The stored response to the sample `sample_id`: the one with this `number`, from 0. Raises KeyError."""
        if sample_id in self._given:
            return self._given[sample_id]
        place = self._places[sample_id]
        record = record_at(place.file, place.start, place.size)
        if record is None:
            return failed(sample_id, SystemFailureKind.MISSING, f"{place.where}: the file was changed.")
        found = recorded_response(sample_id, record, place.where, place=number, fields=self._fields)
        if place.used is None:
            return found
        return replace(found, extra={name: value for name, value in record.items() if name not in place.used})

    def to(self, sample: Sample) -> Response | None:
        """The first stored response to `sample`, if it has the same question here."""
        known = self._samples.get(sample.id)
        if known is None or known.part_hashes()[0] != sample.part_hashes()[0]:
            return None
        return self.response(sample.id)

    async def start(self) -> None: ...

    async def ask(self, sample: Sample) -> Response:
        """The stored response; of several, the next one each time."""
        asked = self._asked.get(sample.id, 0)
        self._asked[sample.id] = asked + 1
        place = self._places.get(sample.id)
        return self.response(sample.id, 0 if place is None else asked % place.answers)

    async def close(self) -> None:
        self._open.close()


class AnswersFirst(Wrapped):
    """A `System` that plays back the answers that are stored, and asks `system` for the rest of `golden`.

    `system` is started only if an answer is missing.
    """

    def __init__(self, stored: StoredAnswers, system: System, golden: GoldenSet) -> None:
        super().__init__(system)
        self._stored = stored
        self._complete = all(sample.id in stored for sample in golden)

    async def start(self) -> None:
        if not self._complete:
            await self._system.start()

    async def ask(self, sample: Sample) -> Response:
        return await (self._stored if sample.id in self._stored else self._system).ask(sample)

    async def close(self) -> None:
        await self._stored.close()
        await self._system.close()


def set_aside(run: RunDirectory) -> None:
    """Copy the records of `run` to `ASIDE`, so that their answers survive while the run is rewritten.

    Answers that an earlier attempt set aside, and that the run does not have again, are kept.
    """
    path, temporary = run.path / ASIDE, run.path / f".{ASIDE}.tmp"
    with writing_to(path):
        with open_new(temporary) as out:
            known = set()
            for number, line in run.lines():
                known.add(record_from_line(line, f"{run.path / SAMPLES}:{number}").sample.id)
                out.write(line)
            if path.is_file():
                for number, line in _lines_of(path):
                    if record_from_line(line, f"{path}:{number}").sample.id not in known:
                        out.write(line)
        temporary.replace(path)


def _rows(source: SourceFile) -> Iterator[Row]:
    file, found = open_records(source)
    with file:
        for record, _, _, line in found:
            yield Row(record, line)


def _lines_of(path: Path) -> Iterator[tuple[int, bytes]]:
    with open_regular(path) as stream:
        for number, line in enumerate(stream, start=1):
            if line.endswith(b"\n"):
                yield number, line


def _without_responses(plan: ColumnPlan) -> ColumnPlan:
    """`plan` without fields read from the columns of the answer: those are what is judged, never a reference."""
    answers = {"reference": _ANSWER_COLUMNS, "reference_contexts": _CONTEXT_COLUMNS}
    kept = {
        name: paths
        for name, paths in plan.fields.items()
        if not any(normal(path) in answers.get(name, ()) for path in paths)
    }
    return replace(plan, fields=kept)
