"""file: entrypoints: recorded answers, in JSON Lines, as one JSON list, in a table, or in a run's samples.jsonl.

The file is never loaded into memory as a whole. One pass finds the start of each record, which is read again when its
sample is asked.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import BinaryIO, NamedTuple

from pydantic import TypeAdapter, ValidationError

from ragstone.errors import SystemUnderTestError, disk_errors, first_problem
from ragstone.files import open_regular
from ragstone.golden import cells
from ragstone.golden.aliases import FIELDS, RECORDED, SYSTEM_NAMES, normal
from ragstone.golden.rows import SourceFile
from ragstone.golden.sample import MAX_SAMPLES, Sample
from ragstone.settings.settings import SystemSettings
from ragstone.system.json_records import CONTEXTS_NAMES, OBJECTS, Record, is_table, record_at, records, table_records
from ragstone.system.kind import EntrypointKind, Surroundings, answer_fields
from ragstone.system.payload import failed, read
from ragstone.system.response import Response, System, SystemFailureKind
from ragstone.system.worker.returns import Fields, number

MAX_FILE_BYTES = 8 * 1024 * 1024 * 1024
"""Maximum size of a file of recorded answers, which is never loaded into memory as a whole."""

_ID = "id"
_QUESTION = "question"
_QUESTIONS = (*FIELDS["question"].strong, *FIELDS["question"].weak)
_COMMON_NAMES = ", ".join(FIELDS["question"].strong)
_ANSWERS = (*RECORDED["answer"].strong, *SYSTEM_NAMES["answer"], *RECORDED["answer"].weak)


class _Place(NamedTuple):
    """Where a record is: its first byte, its size, and its line, or its number in a list, from 1."""

    start: int
    size: int
    line: int


class RecordedAnswers:
    """The `System` for one file. Records are matched by id, or else by a question that no other record has."""

    can_be_asked_again = False

    def __init__(self, source: SourceFile, settings: SystemSettings) -> None:
        self.entrypoint = f"file:{source.name}"
        self.concurrency = settings.concurrency
        self._source = source
        self._fields = answer_fields(settings)
        self._places: dict[tuple[str, str], _Place] = {}
        """By the kind and value of the record's key."""
        self._ids_by_question: dict[str, str | None] = {}
        """None if several records have the question."""
        self._has_ids = False
        self._file: BinaryIO | None = None
        self._rated = False
        """Whether ``answer`` is the right answer, because a record has another column for the system's."""

    async def start(self) -> None:
        """Index the file. Raises SystemUnderTestError with the line of an invalid, duplicate or unusable record."""
        with disk_errors(
            self.entrypoint,
            "the recorded answers can't be read",
            kind=SystemUnderTestError,
            hint=f"Looked for {self._source.path}. Paths start from the folder of ragstone.toml.",
        ):
            self._file, found = open_records(self._source)
        await asyncio.to_thread(self._build, found)

    async def ask(self, sample: Sample) -> Response:
        key = self._key_of(sample)
        place = self._places.get(key)
        record = None if place is None else self._record(place)
        if place is not None and record is not None and _keys(record) == key:
            at = self._source.at(place.line)
            return recorded_response(sample.id, record, at, fields=self._fields, rated=self._rated)
        hint = "no id in it matches, and no question" if self._has_ids else "no question in it matches"
        message = f"No recorded answer for this sample in {self._source.name}: {hint}."
        return failed(sample.id, SystemFailureKind.MISSING, message)

    async def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _key_of(self, sample: Sample) -> tuple[str, str]:
        question = _folded(sample.question)
        if (_ID, sample.id) in self._places:
            return _ID, sample.id
        # Traces have ids of their own. In a conversation, the same words may ask something else.
        traced = None if sample.history else self._ids_by_question.get(question)
        return (_QUESTION, question) if traced is None else (_ID, traced)

    def _record(self, place: _Place) -> Mapping[str, object] | None:
        return None if self._file is None else record_at(self._file, place.start, place.size)

    def _build(self, found: Iterator[Record]) -> None:
        for record, start, size, line in found:
            kind, key = _keys(record)
            where = self._source.at(line)
            if key == "":
                raise SystemUnderTestError(
                    "a recorded answer has neither id nor question.",
                    where=where,
                    hint=f"Add an 'id' to each record, or the question under one of {_COMMON_NAMES}.",
                )
            first = self._places.setdefault((kind, key), _Place(start, size, line))
            if first.start != start:
                raise SystemUnderTestError(
                    f"the {kind} {key[:80]!r} is recorded twice, first at {first.line}.",
                    where=where,
                    hint="Keep only one answer for each.",
                )
            if len(self._places) > MAX_SAMPLES:
                raise SystemUnderTestError(
                    f"the file has more than {MAX_SAMPLES:,} recorded answers.",
                    where=where,
                    hint="Split it, with the golden set, and evaluate each part in a run of its own.",
                )
            self._has_ids = self._has_ids or kind == _ID
            if kind == _ID and (question := _question(record)):
                self._ids_by_question[question] = None if question in self._ids_by_question else key
            both = record.get("answer") is not None and _named(record, RECORDED["answer"].strong) is not None
            self._rated = self._rated or both
        if not self._places:
            raise SystemUnderTestError("the file contains no recorded answers.", where=self.entrypoint)


class AnswersFile(EntrypointKind):
    schemes = ("file",)
    form = "file:outputs.jsonl"
    can_be_asked_again = RecordedAnswers.can_be_asked_again
    runs_users_code = False

    def build(self, rest: str, settings: SystemSettings, around: Surroundings) -> System:
        return RecordedAnswers(SourceFile(around.root / rest, rest, around.within), settings)


def open_records(source: SourceFile) -> tuple[BinaryIO, Iterator[Record]]:
    """The file to read the records of `source` from, open, and the records. The caller closes the file.

    Raises OSError if it can't be opened; the iterator raises SystemUnderTestError with the line of a broken record.
    """
    file = open_regular(source.path, within=source.within, limit=MAX_FILE_BYTES)
    if not is_table(file, source.path.suffix):
        return file, records(file, source.name)
    file.close()
    rewritten: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115 - closed by the caller
    return rewritten, table_records(source, rewritten)


def recorded_response(
    sample_id: str,
    record: Mapping[str, object],
    where: str,
    *,
    place: int = 0,
    fields: Fields | None = None,
    rated: bool = False,
) -> Response:
    """The response in a recorded answer, or in a line of a run's samples.jsonl. One that is invalid is a failure.

    `place` is that of the response, from 0, in a line with several. Columns may have the names that a golden set's may
    have; if `rated`, the one called ``answer`` is not the system's.
    """
    if is_run_record(record):
        try:
            return replace(_response_adapter().validate_python(_responses(record)[place]), sample_id=sample_id)
        except ValidationError as error:
            return failed(sample_id, SystemFailureKind.BAD_RETURN, f"{where}: response: {first_problem(error)}")
    answer = _inside(record, [name for name in _ANSWERS if not (rated and name == "answer")])
    if isinstance(answer, bool | int | float):
        answer = cells.text(answer)
    record = {**record, "answer": answer, "contexts": _inside(record, CONTEXTS_NAMES)}
    if (ids := _named(record, SYSTEM_NAMES["context_ids"])) is not None:
        record[SYSTEM_NAMES["context_ids"][0]] = ids
    latency_s = number(record.get("latency_s"))
    latency_s = latency_s if latency_s is not None and latency_s >= 0 else None
    error_text = record.get("error")
    if isinstance(error_text, str) and not any(record.get(name) is not None for name in SYSTEM_NAMES["answer"]):
        return failed(sample_id, SystemFailureKind.RAISED, f"{where}: {error_text}", latency_s=latency_s)
    response = read(sample_id, record, latency_s, fields=fields)
    if response.failure is not None:
        return failed(sample_id, response.failure.kind, f"{where}: {response.failure.message}")
    return response


def is_run_record(record: Mapping[str, object]) -> bool:
    sample = record.get("sample")
    return isinstance(sample, dict) and isinstance(sample.get("id"), str) and bool(_responses(record))


def _responses(record: Mapping[str, object]) -> list[object]:
    """The responses in a line of samples.jsonl, not validated: one, or that of each answer; empty if it is none."""
    answers = record.get("answers", [record])
    found = [one.get("response") for one in answers if isinstance(one, dict)] if isinstance(answers, list) else []
    return found if found and all(isinstance(one, dict) for one in found) else []


def _keys(record: Mapping[str, object]) -> tuple[str, str]:
    """The kind and value of a record's key: its id, or its question if it has no id ("" if it has neither)."""
    sample = record.get("sample")
    identity = sample.get("id") if isinstance(sample, dict) and is_run_record(record) else record.get("id")
    if isinstance(identity, (str, int)) and not isinstance(identity, bool) and identity != "":
        return _ID, str(identity)
    return _QUESTION, _question(record)


@cache
def _response_adapter() -> TypeAdapter[Response]:
    return TypeAdapter(Response)


def _named(record: Mapping[str, object], names: Sequence[str]) -> object | None:
    """The value of the column of the first of `names` that `record` has, compared as a golden set's columns are."""
    found = {normal(name): value for name, value in record.items() if value is not None}
    return next((found[name] for name in names if name in found), None)


def _question(record: Mapping[str, object]) -> str:
    try:
        return _folded(cells.question(_inside(record, _QUESTIONS)) or "")
    except cells.CellError:
        return ""


def _inside(record: Mapping[str, object], names: Sequence[str]) -> object | None:
    """The value of the column of the first of `names` in `record`, or else in one of its OBJECTS."""
    by_name = {normal(name): value for name, value in record.items()}
    objects = {name: value for name in OBJECTS if isinstance(value := by_name.get(name), Mapping)}
    columns = {name: value for name, value in by_name.items() if name not in objects}
    for holder in (columns, *objects.values()):
        value = _named(holder, names)
        if value is not None:
            return value
    return _named(record, names)


def _folded(question: str) -> str:
    return " ".join(question.split())
