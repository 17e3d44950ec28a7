"""file: entrypoints: recorded answers, in any format of a golden set.

Lines and tables are never loaded into memory as a whole. One pass writes each answer to
a temporary file, from which it is read when its sample is asked.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Iterable, Mapping
from typing import BinaryIO, NamedTuple

from ragstone.errors import SystemUnderTestError, disk_errors
from ragstone.golden import cells
from ragstone.golden.aliases import FIELDS, RECORDED, SYSTEM_NAMES, normalise_name
from ragstone.golden.rows import SourceFile, Values
from ragstone.golden.sample import MAX_SAMPLES, Sample
from ragstone.settings.settings import SystemSettings
from ragstone.system.json_records import (
    CONTEXTS_NAMES,
    MAX_RECORD_BYTES,
    OBJECTS,
    read_records,
)
from ragstone.system.kind import EntrypointKind, Surroundings, answer_fields
from ragstone.system.payload import failed, read
from ragstone.system.response import Response, System, SystemFailureKind
from ragstone.system.span_file import Steps, steps_beside
from ragstone.system.worker.fields import NO_PATHS, Fields, named, seconds
from ragstone.system.worker.spans import trace_key

_ID = "id"
_QUESTION = "question"
_QUESTION_OF_ID = "question of a record with an id"
_QUESTIONS = (*FIELDS["question"].strong, *FIELDS["question"].weak)
_ANSWERS = (
    *RECORDED["answer"].strong,
    *SYSTEM_NAMES["answer"],
    *RECORDED["answer"].weak,
)
_SYSTEM_ANSWERS = tuple(name for name in _ANSWERS if name != "answer")
"""Names of the system's answer where ``answer`` is the right one."""


class _Place(NamedTuple):
    """Where an answer is in the temporary file, and its line in the recorded one, or
    its number in a list, from 1."""

    start: int
    size: int
    line: int


class RecordedAnswers:
    """The `System` for one file. Records are matched by id, or else by a question that
    no other record has."""

    can_be_asked_again = False

    def __init__(self, source: SourceFile, settings: SystemSettings) -> None:
        self.entrypoint = f"file:{source.name}"
        self.concurrency = settings.concurrency
        self._source = source
        self._fields = answer_fields(settings)
        self._file: BinaryIO | None = None
        self._count = 0
        self._places: dict[tuple[str, str], _Place | None] = {}
        """By the kind and value of the record's key; None if several records with ids
        have the question."""
        self._steps: dict[str, Steps] = {}
        """By the trace of the record."""
        self._has_trace_with_steps = False
        self._has_right_answers = False
        """Whether ``answer`` is the right answer, because a record has another column
        for the system's."""

    async def start(self) -> None:
        """Index the file. Raises SystemUnderTestError with the line of an invalid,
        duplicate or unusable record."""
        with disk_errors(
            self.entrypoint,
            "the recorded answers can't be read",
            kind=SystemUnderTestError,
            hint=f"Looked for {self._source.path}. Paths start from the folder of ragstone.toml.",
        ):
            self._steps = await asyncio.to_thread(steps_beside, self._source)
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
            await asyncio.to_thread(self._index, self._file)

    async def ask(self, sample: Sample) -> Response:
        question = _without_spaces(sample.question)
        keys = [(_ID, sample.id), (_QUESTION, question)]
        if not sample.history:
            # Traces have ids of their own. In a conversation, the same words may ask
            # something else.
            keys.insert(1, (_QUESTION_OF_ID, question))
        place = next(filter(None, map(self._places.get, keys)), None)
        if place is None:
            message = (
                f"No recorded answer in {self._source.name} has its id or question."
            )
            return failed(sample.id, SystemFailureKind.MISSING, message)
        assert self._file is not None  # noqa: S101 - it was started
        self._file.seek(place.start)
        record: Values = json.loads(self._file.read(place.size))
        return recorded_response(
            sample.id,
            record,
            self._source.location(place.line),
            fields=self._fields,
            answer_names=_SYSTEM_ANSWERS if self._has_right_answers else _ANSWERS,
            steps=self._steps.get(trace_key(record.get("trace_id"))),
        )

    async def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _index(self, file: BinaryIO) -> None:
        start = 0
        for record, line in read_records(self._source):
            size = file.write(json.dumps(record, default=str).encode("ascii"))
            if size > MAX_RECORD_BYTES:
                raise SystemUnderTestError(
                    f"a record is longer than {MAX_RECORD_BYTES:,} bytes.",
                    where=self._source.location(line),
                )
            self._add(record, _Place(start, size, line))
            start += size
        if not self._places:
            raise SystemUnderTestError(
                "the file contains no recorded answers.", where=self.entrypoint
            )
        if self._steps and not self._has_trace_with_steps:
            raise SystemUnderTestError(
                "no recorded answer has the trace_id of a trace in the file of spans beside it.",
                where=self.entrypoint,
                hint='Write the id of its trace into each record: "trace_id": "…"',
            )

    def _add(self, record: Values, place: _Place) -> None:
        where = self._source.location(place.line)
        identity, question = _identity(record), _question(record)
        kind, key = (_ID, identity) if identity else (_QUESTION, question)
        if key == "":
            names = ", ".join(FIELDS["question"].strong)
            raise SystemUnderTestError(
                "a recorded answer has neither id nor question.",
                where=where,
                hint=f"Add an 'id' to each record, or the question under one of {names}.",
            )
        earlier = self._places.setdefault((kind, key), place)
        if earlier is not None and earlier != place:
            raise SystemUnderTestError(
                f"the {kind} {key[:80]!r} is recorded twice, first at {earlier.line}.",
                where=where,
                hint="Keep only one answer for each.",
            )
        self._count += 1
        if self._count > MAX_SAMPLES:
            raise SystemUnderTestError(
                f"the file has more than {MAX_SAMPLES:,} recorded answers.",
                where=where,
                hint="Split it, with the golden set, and evaluate each part in a run of its own.",
            )
        if identity:
            words = (_QUESTION_OF_ID, question)
            self._places[words] = None if words in self._places else place
        own_answer = _named(record, RECORDED["answer"].strong)
        if own_answer is not None and record.get("answer") is not None:
            self._has_right_answers = True
        if trace_key(record.get("trace_id")) in self._steps:
            self._has_trace_with_steps = True


class AnswersFile(EntrypointKind):
    schemes = ("file",)
    example = "file:outputs.jsonl"
    can_be_asked_again = RecordedAnswers.can_be_asked_again
    runs_users_code = False

    def build(
        self, target: str, settings: SystemSettings, surroundings: Surroundings
    ) -> System:
        return RecordedAnswers(
            SourceFile(surroundings.root / target, target, surroundings.within),
            settings,
        )


def recorded_response(
    sample_id: str,
    record: Values,
    where: str,
    *,
    fields: Fields = NO_PATHS,
    answer_names: Iterable[str] = _ANSWERS,
    steps: Steps | None = None,
) -> Response:
    """The response in a recorded answer. One that is invalid is a failure.

    Columns may have the names that a golden set's may have; the system's answer is in
    the first of `answer_names`. `steps` are those of a record without any.
    """
    latency_s = seconds(record.get("latency_s"))
    error_text = record.get("error")
    if isinstance(error_text, str) and named(record, "answer") is None:
        message = f"{where}: {error_text}"
        return failed(sample_id, SystemFailureKind.RAISED, message, latency_s=latency_s)
    answer = _column(record, answer_names)
    if isinstance(answer, bool | int | float):
        answer = cells.to_text(answer)
    parts = {
        **record,
        "answer": answer,
        "contexts": _column(record, CONTEXTS_NAMES),
        "steps": _column(record, SYSTEM_NAMES["steps"]) or steps,
        "context_ids": _named(record, SYSTEM_NAMES["context_ids"]),
    }
    response = read(sample_id, parts, latency_s, fields=fields)
    failure = response.failure
    if failure is not None:
        return failed(sample_id, failure.kind, f"{where}: {failure.message}")
    return response


def _identity(record: Values) -> str:
    """The id of a record; "" if it has none."""
    match record.get("id"):
        case bool():
            return ""
        case str() | int() as identity:
            return str(identity)
        case _:
            return ""


def _question(record: Values) -> str:
    """The question of a record; "" if it has none."""
    try:
        return _without_spaces(cells.to_question(_column(record, _QUESTIONS)) or "")
    except cells.CellError:
        return ""


def _column(record: Values, names: Iterable[str]) -> object | None:
    """The value of the column of the first of `names`: a plain one, one inside an
    object of OBJECTS, or an object."""
    plain = {normalise_name(name): value for name, value in record.items()}
    objects = {}
    for name in OBJECTS:
        value = plain.get(name)
        if isinstance(value, Mapping):
            objects[name] = value
            del plain[name]
    for columns in (plain, *objects.values(), objects):
        value = _named(columns, names)
        if value is not None:
            return value
    return None


def _named(columns: Values, names: Iterable[str]) -> object | None:
    """The value of the column of the first of `names` that there is, compared as a
    golden set's columns are."""
    values = {
        normalise_name(name): value
        for name, value in columns.items()
        if value is not None
    }
    return next((values[name] for name in names if name in values), None)


def _without_spaces(question: str) -> str:
    return " ".join(question.split())
