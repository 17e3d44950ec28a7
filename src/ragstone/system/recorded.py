"""file: entrypoints: recorded answers, in any format of a golden set.

The answers are never all in memory. `start` reads the file once, and writes each record
to a temporary file, from which it is read when its sample is asked.
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
    OBJECT_COLUMNS,
    read_records,
)
from ragstone.system.kind import EntrypointKind, Surroundings, answer_fields
from ragstone.system.payload import failed, read
from ragstone.system.response import Response, System, SystemFailureKind
from ragstone.system.span_file import Steps, steps_beside
from ragstone.system.worker.fields import NO_PATHS, Fields, field_of_part, seconds
from ragstone.system.worker.spans import trace_key

# The kinds of keys that records are found by.
_ID = "id"
_QUESTION = "question"
_QUESTION_OF_ID = "question of a record with an id"

_QUESTION_NAMES = (*FIELDS["question"].strong, *FIELDS["question"].weak)
_ANSWER_NAMES = (
    *RECORDED["answer"].strong,
    *SYSTEM_NAMES["answer"],
    *RECORDED["answer"].weak,
)
# Names of the system's answer in files whose ``answer`` is the reference.
_OTHER_ANSWER_NAMES = tuple(name for name in _ANSWER_NAMES if name != "answer")


class _Location(NamedTuple):
    """Where a record is."""

    # Offset in the temporary file, in bytes.
    start: int
    # In bytes.
    size: int
    # Line in the file of recorded answers, or number in a list, from 1.
    line: int


class RecordedAnswers:
    """The `System` for one file. The record of a sample has its id, or else its
    question, if no other record has it."""

    can_be_asked_again = False

    def __init__(self, source: SourceFile, settings: SystemSettings) -> None:
        self.entrypoint = f"file:{source.name}"
        self.concurrency = settings.concurrency
        self._source = source
        self._fields = answer_fields(settings)
        self._file: BinaryIO | None = None
        self._count = 0
        # By the kind and the value of a record's key; None if several records with ids
        # have the same question.
        self._locations: dict[tuple[str, str], _Location | None] = {}
        # By the key of the record's trace.
        self._steps: dict[str, Steps] = {}
        self._has_trace_with_steps = False
        # Whether ``answer`` is the reference, because a record also has a column for
        # the system's answer.
        self._has_references = False

    async def start(self) -> None:
        """Index the file. Raises SystemUnderTestError with the line of an invalid or
        duplicate record."""
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
            # The id of a record may be that of a trace, not of a sample. In a
            # conversation, the same words may ask something else.
            keys.insert(1, (_QUESTION_OF_ID, question))
        location = next(filter(None, map(self._locations.get, keys)), None)
        if location is None:
            message = f"No recorded answer in {self._source.name} has the id or the question of this sample."
            return failed(sample.id, SystemFailureKind.MISSING, message)
        assert self._file is not None  # noqa: S101 - it was started
        self._file.seek(location.start)
        record: Values = json.loads(self._file.read(location.size))
        return recorded_response(
            sample.id,
            record,
            self._source.location(location.line),
            fields=self._fields,
            answer_names=_OTHER_ANSWER_NAMES if self._has_references else _ANSWER_NAMES,
            steps=self._steps.get(trace_key(record.get("trace_id"))),
        )

    async def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _index(self, file: BinaryIO) -> None:
        """Write the records to `file`, and note where each is. Raises
        SystemUnderTestError."""
        start = 0
        for record, line in read_records(self._source):
            size = file.write(json.dumps(record, default=str).encode("ascii"))
            if size > MAX_RECORD_BYTES:
                raise SystemUnderTestError(
                    f"a record is longer than {MAX_RECORD_BYTES:,} bytes.",
                    where=self._source.location(line),
                )
            self._add(record, _Location(start, size, line))
            start += size
        if not self._locations:
            raise SystemUnderTestError(
                "the file contains no recorded answers.", where=self.entrypoint
            )
        if self._steps and not self._has_trace_with_steps:
            raise SystemUnderTestError(
                "no recorded answer has the trace_id of a trace in the file of spans beside it.",
                where=self.entrypoint,
                hint='Write the id of its trace into each record: "trace_id": "…"',
            )

    def _add(self, record: Values, location: _Location) -> None:
        """Note where `record` is. Raises SystemUnderTestError."""
        where = self._source.location(location.line)
        identity = _identity(record)
        question = _question(record)
        kind, key = (_ID, identity) if identity else (_QUESTION, question)
        if key == "":
            names = ", ".join(FIELDS["question"].strong)
            raise SystemUnderTestError(
                "a recorded answer has neither id nor question.",
                where=where,
                hint=f"Add an 'id' to each record, or the question under one of {names}.",
            )
        earlier = self._locations.setdefault((kind, key), location)
        if earlier is not None and earlier != location:
            raise SystemUnderTestError(
                f"the {kind} {key[:80]!r} is recorded twice, first at {earlier.line}.",
                where=where,
                hint=f"Keep only one answer for each {kind}.",
            )
        self._count += 1
        if self._count > MAX_SAMPLES:
            raise SystemUnderTestError(
                f"the file has more than {MAX_SAMPLES:,} recorded answers.",
                where=where,
                hint="Split it, with the golden set, and evaluate each part in a run of its own.",
            )
        if identity:
            question_key = (_QUESTION_OF_ID, question)
            is_repeated = question_key in self._locations
            self._locations[question_key] = None if is_repeated else location
        system_answer = _first_column(record, RECORDED["answer"].strong)
        if system_answer is not None and record.get("answer") is not None:
            self._has_references = True
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
        path = surroundings.root / target
        source = SourceFile(path, target, surroundings.within)
        return RecordedAnswers(source, settings)


def recorded_response(
    sample_id: str,
    record: Values,
    where: str,
    *,
    fields: Fields = NO_PATHS,
    answer_names: Iterable[str] = _ANSWER_NAMES,
    steps: Steps | None = None,
) -> Response:
    """Read the response in a recorded answer. An invalid record gives a failure.

    The system's answer is in the column that comes first in `answer_names`. A record
    without steps gets `steps`. `where` is the record's place, for messages.
    """
    latency_s = seconds(record.get("latency_s"))
    error_text = record.get("error")
    if isinstance(error_text, str) and field_of_part(record, "answer") is None:
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
        "context_ids": _first_column(record, SYSTEM_NAMES["context_ids"]),
    }
    response = read(sample_id, parts, latency_s, fields=fields)
    failure = response.failure
    if failure is not None:
        return failed(sample_id, failure.kind, f"{where}: {failure.message}")
    return response


def _identity(record: Values) -> str:
    """The id of a record; "" if it has none."""
    match record.get("id"):
        case bool():  # which is an int too
            return ""
        case str() | int() as identity:
            return str(identity)
        case _:
            return ""


def _question(record: Values) -> str:
    """The question of a record; "" if it has none."""
    try:
        value = _column(record, _QUESTION_NAMES)
        return _without_spaces(cells.to_question(value) or "")
    except cells.CellError:
        return ""


def _column(record: Values, names: Iterable[str]) -> object | None:
    """The value of a column with one of `names`: of the record itself, or else of an
    object in one of the columns OBJECT_COLUMNS, or else such an object itself."""
    plain = {normalise_name(name): value for name, value in record.items()}
    objects = {}
    for name in OBJECT_COLUMNS:
        value = plain.get(name)
        if isinstance(value, Mapping):
            objects[name] = value
            del plain[name]
    for columns in (plain, *objects.values(), objects):
        value = _first_column(columns, names)
        if value is not None:
            return value
    return None


def _first_column(columns: Values, names: Iterable[str]) -> object | None:
    """The value of the first of `names` that is a column with a value. Names of columns
    are compared in normal form."""
    values = {
        normalise_name(name): value
        for name, value in columns.items()
        if value is not None
    }
    return next((values[name] for name in names if name in values), None)


def _without_spaces(question: str) -> str:
    """`question` with single spaces between its words."""
    return " ".join(question.split())
