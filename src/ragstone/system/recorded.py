"""file: entrypoints: recorded answers, in JSON Lines, as one JSON list, in a table, or in a run's samples.jsonl.

The file is never loaded into memory as a whole. One pass finds the start of each record, at 24 bytes per record, and a
record is read again when its sample is asked.
"""

from __future__ import annotations

import asyncio
import bisect
import hashlib
import tempfile
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import BinaryIO

from pydantic import TypeAdapter, ValidationError

from ragstone.errors import SystemUnderTestError, disk_errors, first_problem
from ragstone.files import open_regular
from ragstone.golden.aliases import FIELDS, RECORDED, normal
from ragstone.golden.rows import SourceFile
from ragstone.golden.sample import Sample
from ragstone.settings.settings import SystemSettings
from ragstone.system import worker
from ragstone.system.json_records import CONTEXTS_NAMES, Record, is_table, record_at, records, table_records
from ragstone.system.kind import EntrypointKind, Surroundings, answer_fields
from ragstone.system.payload import failed, read
from ragstone.system.response import Response, System, SystemFailureKind

MAX_FILE_BYTES = 8 * 1024 * 1024 * 1024
"""Maximum size of a file of recorded answers, which is never loaded into memory as a whole."""

QUESTION_NAMES = ("question", "query", "input", "user_input", "prompt")
_ID = "id"
_QUESTION = "question"
_QUESTIONS = (*QUESTION_NAMES, *FIELDS["question"].strong, *FIELDS["question"].weak)
_ANSWERS = (*RECORDED["answer"].strong, *worker.ANSWER_NAMES, *RECORDED["answer"].weak)
_RESPONSE = TypeAdapter(Response)


class RecordedAnswers:
    """The `System` for one file. Records are matched by id, or by question if a record has no id."""

    can_be_asked_again = False

    def __init__(self, source: SourceFile, settings: SystemSettings) -> None:
        self.entrypoint = f"file:{source.name}"
        self.concurrency = settings.concurrency
        self._source = source
        self._fields = answer_fields(settings)
        self._index = _Index()
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
        for kind, key in ((_ID, sample.id), (_QUESTION, _folded(sample.question))):
            for start, size, place in self._index.find(_digest(kind, key)):
                record = self._record(start, size)
                if record is not None and _keys(record) == (kind, key):
                    at = self._source.at(place)
                    return recorded_response(sample.id, record, at, fields=self._fields, rated=self._rated)
        hint = "its records have ids, and none matches" if self._index.has_ids else "no question in it matches"
        message = f"No recorded answer for this sample in {self._source.name}: {hint}."
        return failed(sample.id, SystemFailureKind.MISSING, message)

    async def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _record(self, start: int, size: int) -> Mapping[str, object] | None:
        return None if self._file is None else record_at(self._file, start, size)

    def _build(self, found: Iterator[Record]) -> None:
        for record, start, size, place in found:
            kind, key = _keys(record)
            if key == "":
                raise SystemUnderTestError(
                    "a recorded answer has neither id nor question.",
                    where=self._source.at(place),
                    hint=f"Add an 'id' to each record, or the question under one of {', '.join(QUESTION_NAMES)}.",
                )
            both = record.get("answer") is not None and _named(record, RECORDED["answer"].strong) is not None
            self._rated = self._rated or both
            self._index.add(_digest(kind, key), start, size, place, is_id=kind == _ID)
        if not len(self._index):
            raise SystemUnderTestError("the file contains no recorded answers.", where=self.entrypoint)
        self._index.sort()
        for one, other in self._index.equal_digests():
            first, second = self._record(one[0], one[1]), self._record(other[0], other[1])
            if first is not None and second is not None and _keys(first) == _keys(second):
                kind, key = _keys(first)
                raise SystemUnderTestError(
                    f"the {kind} {key[:80]!r} is recorded twice, first at {min(one[2], other[2])}.",
                    where=self._source.at(max(one[2], other[2])),
                    hint="Keep only one answer for each.",
                )


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
    fields: worker.Fields | None = None,
    rated: bool = False,
) -> Response:
    """The response in a recorded answer, or in a line of a run's samples.jsonl. One that is invalid is a failure.

    `place` is that of the response, from 0, in a line with several. Columns may have the names that a golden set's may
    have; if `rated`, the one called ``answer`` is not the system's.
    """
    if is_run_record(record):
        try:
            return replace(_RESPONSE.validate_python(_responses(record)[place]), sample_id=sample_id)
        except ValidationError as error:
            return failed(sample_id, SystemFailureKind.BAD_RETURN, f"{where}: response: {first_problem(error)}")
    answer = _named(record, [name for name in _ANSWERS if not (rated and name == "answer")])
    record = {**record, "answer": answer, "contexts": _named(record, CONTEXTS_NAMES)}
    if (ids := _named(record, worker.CONTEXT_IDS_NAMES)) is not None:
        record[worker.CONTEXT_IDS_NAMES[0]] = ids
    latency_s = worker.number(record.get("latency_s"))
    latency_s = latency_s if latency_s is not None and latency_s >= 0 else None
    error_text = record.get("error")
    if isinstance(error_text, str) and not any(record.get(name) is not None for name in worker.ANSWER_NAMES):
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


class _Index:
    """Maps the digest of a key to the places of records that may have it, in three machine words per record."""

    def __init__(self) -> None:
        self._digests = array("Q")
        self._spans = array("Q")
        self._places = array("L")
        self.has_ids = False

    def __len__(self) -> int:
        return len(self._digests)

    def add(self, digest: int, start: int, size: int, place: int, *, is_id: bool) -> None:
        self._digests.append(digest)
        self._spans.append(start << 24 | size)
        self._places.append(place)
        self.has_ids = self.has_ids or is_id

    def sort(self) -> None:
        order = array("L", sorted(range(len(self._digests)), key=self._digests.__getitem__))
        self._digests = array("Q", (self._digests[i] for i in order))
        self._spans = array("Q", (self._spans[i] for i in order))
        self._places = array("L", (self._places[i] for i in order))

    def find(self, digest: int) -> Iterator[tuple[int, int, int]]:
        at = bisect.bisect_left(self._digests, digest)
        while at < len(self._digests) and self._digests[at] == digest:
            yield self._entry(at)
            at += 1

    def equal_digests(self) -> Iterator[tuple[tuple[int, int, int], tuple[int, int, int]]]:
        for at in range(1, len(self._digests)):
            if self._digests[at - 1] == self._digests[at]:
                yield self._entry(at - 1), self._entry(at)

    def _entry(self, at: int) -> tuple[int, int, int]:
        span = self._spans[at]
        return span >> 24, span & 0xFFFFFF, self._places[at]


def _keys(record: Mapping[str, object]) -> tuple[str, str]:
    """The kind and value of a record's key: its id, or its question if it has no id ("" if it has neither)."""
    sample = record.get("sample")
    identity = sample.get("id") if isinstance(sample, dict) and is_run_record(record) else record.get("id")
    if isinstance(identity, (str, int)) and not isinstance(identity, bool) and identity != "":
        return _ID, str(identity)
    question = _named(record, _QUESTIONS)
    return _QUESTION, _folded(question) if isinstance(question, str) else ""


def _named(record: Mapping[str, object], names: Sequence[str]) -> object | None:
    """The value of the column of the first of `names` that `record` has, compared as a golden set's columns are."""
    found = {normal(name): value for name, value in record.items() if value is not None}
    return next((found[name] for name in names if name in found), None)


def _folded(question: str) -> str:
    return " ".join(question.split())


def _digest(kind: str, key: str) -> int:
    data = f"{kind}\0{key}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big")
