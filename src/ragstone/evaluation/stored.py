"""Stored answers: samples and what a system answered them, to be judged again, or for
the first time.

They are in a file of records, such as that of a run. Recorded interactions are written
as records first, without scores. Records stay in their file: what is kept in memory is
the samples, and where the record of each begins.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from ragstone.errors import ConfigError, RunDirectoryError, disk_errors
from ragstone.evaluation.directory import ASIDE, MANIFEST, SAMPLES, RunDirectory
from ragstone.evaluation.files import open_new, writing_to
from ragstone.evaluation.record import Answer, SampleRecord
from ragstone.evaluation.records_file import Lookup, RecordsFile
from ragstone.evaluation.serialise import record_from_line, record_to_line
from ragstone.formatting import counted
from ragstone.golden.aliases import RECORDED, SYSTEM_NAMES, normal
from ragstone.golden.columns import ColumnPlan, plan_columns
from ragstone.golden.profile import profile_rows
from ragstone.golden.reader import SampleReader, derived_id
from ragstone.golden.rows import Row, SourceFile
from ragstone.golden.sample import MAX_SAMPLES, ColumnMapping, GoldenSet, Sample
from ragstone.system.given import Wrapped
from ragstone.system.payload import failed
from ragstone.system.recorded import is_run_record, open_records, recorded_response
from ragstone.system.response import Response, System, SystemFailureKind
from ragstone.system.span_file import steps_beside
from ragstone.system.worker.fields import Fields
from ragstone.system.worker.spans import trace_key

_ANSWER_COLUMNS = frozenset(
    {*SYSTEM_NAMES["answer"], *RECORDED["answer"].strong, *RECORDED["answer"].weak}
)
_CONTEXT_COLUMNS = frozenset({*SYSTEM_NAMES["contexts"], *RECORDED["contexts"].strong})
_RESPONSE_COLUMNS = frozenset(
    {
        *SYSTEM_NAMES["answer"],
        *SYSTEM_NAMES["contexts"],
        *SYSTEM_NAMES["steps"],
        "latency_s",
        "error",
        "usage",
    }
)


class StoredAnswers:
    """A `System` that plays the answers in a file of records back, and the samples that
    they answer.

    `answers` is how many each sample has, `entrypoint` the name of their source in a
    manifest. Always `close` it.
    """

    concurrency = 16
    can_be_asked_again = False

    def __init__(
        self,
        records: AbstractContextManager[Lookup],
        samples: dict[str, Sample],
        *,
        answers: int,
        mappings: Iterable[ColumnMapping],
        entrypoint: str = "",
    ) -> None:
        self.entrypoint = entrypoint
        self.answers = answers
        self._samples = samples
        self._mappings = tuple(mappings)
        self._asked: Counter[str] = Counter()
        self._number: int | None = None
        self._open = ExitStack()
        self._record_of = self._open.enter_context(records)

    @classmethod
    def of(cls, run: RunDirectory) -> StoredAnswers:
        """The answers of `run`. Raises RunDirectoryError."""
        samples = {record.sample.id: record.sample for record in run.records()}
        manifest = run.manifest
        return cls(
            run.lookup(),
            samples,
            answers=manifest.answers,
            mappings=_mappings_of(run),
            entrypoint=manifest.system.entrypoint,
        )

    def __len__(self) -> int:
        return len(self._samples)

    def __contains__(self, sample_id: str) -> bool:
        return sample_id in self._samples

    @property
    def golden(self) -> GoldenSet:
        """The samples, in the order in which they were read."""
        return GoldenSet(tuple(self._samples.values()), self._mappings)

    def join(self, golden: GoldenSet) -> int:
        """Replace the samples by those of `golden` with the same id, or else the same
        question; returns how many.

        Several answers to one golden question become one group, because they are not
        independent.
        """
        by_id = {sample.id: sample for sample in golden}
        by_question = {
            " ".join(sample.question.split()): sample
            for sample in golden
            if not sample.history
        }
        matches: dict[str, Sample] = {}
        for sample_id, sample in self._samples.items():
            match = by_id.get(sample_id) or by_question.get(
                " ".join(sample.question.split())
            )
            if match is not None:
                matches[sample_id] = match
        answers = Counter(match.id for match in matches.values())
        for sample_id, match in matches.items():
            own_group = (
                match.id if answers[match.id] > 1 else self._samples[sample_id].group
            )
            self._samples[sample_id] = replace(
                match, id=sample_id, group=match.group or own_group
            )
        return len(matches)

    def response(self, sample_id: str, number: int = 0) -> Response:
        """The stored response to the sample `sample_id`: the one with this `number`,
        from 0.

        Raises KeyError for a sample that has none, and RunDirectoryError if the file
        can't be read, or was changed.
        """
        record = self._record_of(sample_id)
        if record is None:
            raise KeyError(sample_id)
        if len(record.answers) != self.answers:
            have = counted(len(record.answers), "answer")
            raise RunDirectoryError(
                f"sample '{sample_id}' has {have}, but the others have {self.answers}."
            )
        return record.answers[number].response

    def to(self, sample: Sample) -> Response | None:
        """The first stored response to `sample`, if it has the same question here."""
        stored = self._samples.get(sample.id)
        if stored is None or stored.part_hashes()[0] != sample.part_hashes()[0]:
            return None
        return self.response(sample.id)

    async def start(self) -> None: ...

    async def ask(self, sample: Sample) -> Response:
        """The stored response; of several, the next one each time."""
        return self.numbered(sample, self.next_number(sample) % self.answers)

    def numbered(self, sample: Sample, number: int) -> Response:
        """The response with this number, from 0. An earlier turn that is not stored has
        failed."""
        if sample.id not in self._samples and sample.turn is not None:
            return failed(
                sample.id, SystemFailureKind.MISSING, "its answer is not stored"
            )
        return self.response(sample.id, number)

    def next_number(self, sample: Sample) -> int:
        """How often the sample was asked before. All turns of a session have one
        number: that of their conversation."""
        if sample.turn is not None and self._number is not None:
            return self._number
        name = sample.id if sample.turn is None else f"{sample.turn.id}/"
        number = self._asked[name]
        self._asked[name] += 1
        if sample.turn is not None:
            self._number = number
        return number

    @asynccontextmanager
    async def session(self) -> AsyncIterator[StoredAnswers]:
        """A session, in which the answers to all turns were given together."""
        yield copy(self)

    async def close(self) -> None:
        self._open.close()


class PlaysBack(Wrapped):
    """A `System` that plays back answers that are stored."""

    def __init__(self, stored: StoredAnswers, system: System) -> None:
        super().__init__(system)
        self._stored = stored

    @asynccontextmanager
    async def session(self) -> AsyncIterator[System]:
        async with super().session() as session, self._stored.session() as stored:
            cast(PlaysBack, session)._stored = stored
            yield session


class AnswersFirst(PlaysBack):
    """A `System` that plays back the answers that are stored, and asks `system` for the
    rest of `golden`.

    `system` is started only if an answer is missing. If a turn of a conversation is,
    its other turns are asked too, so that the session has had them.
    """

    def __init__(
        self, stored: StoredAnswers, system: System, golden: GoldenSet
    ) -> None:
        super().__init__(stored, system)
        missing = [sample for sample in golden if sample.id not in stored]
        self._complete = not missing
        self._continued = {
            sample.turn.id for sample in missing if sample.turn is not None
        }

    async def start(self) -> None:
        if not self._complete:
            await self._system.start()

    async def ask(self, sample: Sample) -> Response:
        if sample.id not in self._stored:
            return await self._system.ask(sample)
        if sample.turn is not None and sample.turn.id in self._continued:
            await self._system.ask(sample)
        return await self._stored.ask(sample)

    async def close(self) -> None:
        await self._stored.close()
        await self._system.close()


@dataclass(frozen=True, slots=True)
class Interactions:
    """Answers that are in memory, each to a sample of another id. `name` is that of
    their source in the manifest."""

    name: str
    answers: Iterable[tuple[Sample, Response]]


class AnswerCollector:
    """Collects the answers of runs and recorded interactions in a new file of records
    at `path`.

    It appears there when `stored` is called, whole. Always `close` it.
    """

    def __init__(self, path: Path, redact: Callable[[str], str] = str) -> None:
        self._path = path
        self._redact = redact
        self._samples: dict[str, Sample] = {}
        self._answers = 1
        self._origins: dict[str, tuple[bytes, str]] = {}
        """By sample id: the digest of sample and answers, and the place that they are
        from."""
        self._mappings: list[ColumnMapping] = []
        self._temporary = path.with_name(f".{path.name}.tmp")
        with writing_to(path):
            self._file = open_new(self._temporary)

    def stored(self) -> StoredAnswers:
        """What was collected. Raises RunDirectoryError if it can't be written."""
        with writing_to(self._path):
            self._file.close()
            self._temporary.replace(self._path)
        records = RecordsFile(self._path, whole=True)
        return StoredAnswers(
            records.lookup(),
            self._samples,
            answers=self._answers,
            mappings=self._mappings,
        )

    def __len__(self) -> int:
        return len(self._samples)

    def close(self) -> None:
        self._file.close()
        self._temporary.unlink(missing_ok=True)

    def add_path(
        self, path: Path, columns: Mapping[str, str], fields: Fields
    ) -> RunDirectory | None:
        """Add the answers in `path`: a run directory, its samples.jsonl, or a file of
        recorded interactions.

        Returns the run. `columns` maps fields of a sample to the columns of
        interactions, `fields` are those of their answers. Raises ConfigError if there
        is nothing, or if an id is already taken by a different answer, and
        GoldenSetError or SystemUnderTestError with the line of a broken interaction.
        """
        folder = (
            path.parent
            if path.name == SAMPLES and (path.parent / MANIFEST).is_file()
            else path
        )
        if folder.is_dir():
            run = RunDirectory.open(folder)
            self.add_run(run)
            return run
        with disk_errors(
            path,
            hint="Expected a run directory, its samples.jsonl, or a file of recorded interactions.",
        ):
            self._add_file(SourceFile(path, str(path)), columns, fields)
        return None

    def add_interactions(self, interactions: Interactions) -> None:
        """Add answers that are in memory."""
        self._mappings.append(ColumnMapping(interactions.name, "interactions", {}))
        for sample, response in interactions.answers:
            self._add(sample, (response,), interactions.name)

    def add_run(self, run: RunDirectory, *, only_new: bool = False) -> None:
        """Add the answers of `run`; `only_new`: only to samples that have none yet.
        Raises ConfigError."""
        self._add_records(
            RecordsFile(run.path / SAMPLES, whole=run.manifest.state == "finished"),
            only_new=only_new,
        )
        self._mappings += _mappings_of(run)

    def add_aside(self, directory: Path) -> None:
        """Add the answers to other samples that an attempt which was stopped has left
        in `directory`, if any."""
        path = directory / ASIDE
        if path.is_file():
            self._add_records(RecordsFile(path, whole=False), only_new=True)

    def _add_records(self, records: RecordsFile, *, only_new: bool) -> None:
        for number, record in enumerate(records, start=1):
            if not (only_new and record.sample.id in self._origins):
                self._add(record.sample, record.responses, records.where(number))

    def _add_file(
        self, source: SourceFile, columns: Mapping[str, str], fields: Fields
    ) -> None:
        profile = profile_rows(source, _rows(source), columns.values())
        if not profile.rows:
            raise source.error(
                "contains no interactions.",
                hint='Expected {"question": "…", "answer": "…"} per line.',
            )
        reader: _InteractionReader | None = None
        for row in _rows(source):
            where = source.at(row.line)
            if is_run_record(row.values):
                record = record_from_line(json.dumps(row.values), where)
                self._add(record.sample, record.responses, where)
                continue
            if reader is None:
                reader = _InteractionReader(
                    source, plan_columns(source, profile, columns), fields
                )
                self._mappings.append(reader.mapping)
            sample, response = reader.read(row)
            self._add(sample, (response,), where)

    def _add(self, sample: Sample, responses: tuple[Response, ...], where: str) -> None:
        record = SampleRecord(sample, tuple(map(Answer, responses)), {})
        line = self._redact(record_to_line(record)).encode("utf-8", "replace") + b"\n"
        digest = hashlib.sha256(line).digest()
        if sample.id in self._origins:
            known_digest, known_where = self._origins[sample.id]
            if known_digest == digest:
                return
            raise ConfigError(
                f"the id '{sample.id}' is already used by another answer, at {known_where}.",
                where=where,
                hint="Give each interaction its own id, or none. Score runs of the same golden set one at a time, each "
                "with its own --out.",
            )
        self._refuse_more(len(responses), where)
        self._origins[sample.id] = digest, where
        self._samples[sample.id] = sample
        with writing_to(self._path):
            self._file.write(line)

    def _refuse_more(self, answers: int, where: str) -> None:
        if len(self._origins) == MAX_SAMPLES:
            raise ConfigError(
                f"there are more than {MAX_SAMPLES:,} stored answers to score.",
                where=where,
                hint="Score the files one at a time, or split them, each with its own --out.",
            )
        if self._origins and answers != self._answers:
            _, first_where = next(iter(self._origins.values()))
            raise ConfigError(
                f"has {counted(answers, 'answer')} to its question, but {first_where} has {self._answers}.",
                where=where,
                hint="Score runs with different --answers one at a time, each with its own --out.",
            )
        self._answers = answers


class _InteractionReader:
    """Reads rows of one file of recorded interactions."""

    def __init__(self, source: SourceFile, plan: ColumnPlan, fields: Fields) -> None:
        plan = _without_responses(plan)
        self._source = source
        self._fields = fields
        self._steps = steps_beside(source)
        self._reader = SampleReader(source, plan)
        paths = [path for paths in plan.fields.values() for path in paths] + list(
            fields.paths()
        )
        self._used = _RESPONSE_COLUMNS | {path.partition(".")[0] for path in paths}
        self.mapping = ColumnMapping(
            source.name,
            "interactions",
            {name: paths[0] for name, paths in plan.fields.items()},
        )

    def read(self, row: Row) -> tuple[Sample, Response]:
        """The sample and the response in `row`; the columns that are neither's are
        extra data of the response."""
        sample = self._reader.sample(row)
        if sample.id == derived_id(
            sample.question, sample.reference, sample.reference_contexts, sample.history
        ):
            # The same question may be asked many times: what tells two interactions
            # apart is all that they say.
            body = json.dumps(row.values, sort_keys=True, default=str).encode(
                "utf-8", "surrogatepass"
            )
            sample = replace(sample, id=f"i-{hashlib.sha256(body).hexdigest()[:16]}")
        steps = self._steps.get(trace_key(row.values.get("trace_id")))
        where = self._source.at(row.line)
        response = recorded_response(
            sample.id, row.values, where, fields=self._fields, steps=steps
        )
        extra = {
            name: value for name, value in row.values.items() if name not in self._used
        }
        return sample, replace(response, extra=extra)


def _mappings_of(run: RunDirectory) -> list[ColumnMapping]:
    return [ColumnMapping(file, "run", {}) for file in run.manifest.golden.files]


def _rows(source: SourceFile) -> Iterator[Row]:
    file, records = open_records(source)
    with file:
        for record, _, _, line in records:
            yield Row(record, line)


def _without_responses(plan: ColumnPlan) -> ColumnPlan:
    """`plan` without fields read from the columns of the answer: those are what is
    judged, never a reference."""
    answers = {"reference": _ANSWER_COLUMNS, "reference_contexts": _CONTEXT_COLUMNS}
    fields = {}
    for name, paths in plan.fields.items():
        own = answers.get(name, frozenset())
        if not any(normal(path) in own for path in paths):
            fields[name] = paths
    return replace(plan, fields=fields)
