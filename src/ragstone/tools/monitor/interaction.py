"""A logged interaction, read from a record of any shape."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from ragstone.files import read_table
from ragstone.golden import cells
from ragstone.golden.aliases import FIELDS, RECORDED, SYSTEM_NAMES, normal
from ragstone.golden.sample import Turn
from ragstone.system.worker.returns import MAX_ANSWER_CHARACTERS, MAX_CONTEXTS, at_path, number

_QUESTION = FIELDS["question"]
_ANSWER = RECORDED["answer"]
_CORE = {
    "query": (*_QUESTION.strong, *_QUESTION.weak),
    "answer": (*SYSTEM_NAMES["answer"], *_ANSWER.strong, *_ANSWER.weak),
    "sources": (*SYSTEM_NAMES["contexts"], *RECORDED["contexts"].strong),
}
_TABLES = read_table("fields.toml", __package__)
NAMES: Mapping[str, tuple[str, ...]] = {
    field: _CORE.get(field, tuple(names)) for field, names in _TABLES["names"].items()
}
"""Names of each field, best first, as `golden.aliases.normal` writes them."""

_MAX_LABEL = 80
_MAX_LATENCY_S = 86_400.0


class Problem(StrEnum):
    NOT_JSON = "not valid JSON"
    NOT_OBJECT = "not a JSON object"
    TOO_LONG = "longer than 10 MB"
    NO_TIME = "without a time"
    BAD_TIME = "with a time that can't be read"
    FUTURE = "with a time in the future"
    TOO_OLD = "with a time more than 800 days ago"
    EMPTY = "with neither query, answer, error nor feedback"
    BAD_SOURCES = "with contexts that begin like a list, and can't be read as one"
    NO_MATCH = "with feedback on no known interaction"
    TOO_LATE = "too late: their window is decided"


class BadRecord(Exception):  # noqa: N818 - counted, not raised to anyone
    """A record that is not an interaction."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.value)
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Interaction:
    """One interaction. `key` identifies it by id, time and query, or else by all it says; `ref` is its id alone.

    `user` and `session` are hashes. `sources` are texts or documents, in order (None: not logged), `results` how many
    documents were found, if that is logged. `abstained` None: not logged. `feedback` is 1 for good, 0 for bad.
    `version` is that of the system. `history` are the earlier turns of a conversation, if they are in the record.
    """

    key: bytes
    ref: bytes | None
    time: datetime
    query: str
    answer: str
    sources: tuple[object, ...] | None
    results: int | None
    latency_s: float | None
    user: bytes | None
    session: bytes | None
    error: str | None
    abstained: bool | None
    feedback: float | None
    route: str
    version: str = ""
    history: tuple[Turn, ...] = ()

    @property
    def only_feedback(self) -> bool:
        """Whether it says something about an earlier interaction with the same id."""
        return self.ref is not None and self.feedback is not None and not (self.query or self.answer or self.error)


class Reader:
    """Reads records, with `columns` (field to dotted path) before the known names.

    `hashed` hashes an id of a person; `good_from` is the least number that is good feedback. Times without a zone are
    in UTC.
    """

    def __init__(
        self, columns: Mapping[str, str], hashed: Callable[[str], bytes], *, good_from: float | None = None
    ) -> None:
        self._columns = dict(columns)
        self.hashed = hashed
        self._good_from = good_from
        self._found: dict[tuple[str, ...], Mapping[str, tuple[str, ...]]] = {}

    def read(self, record: Mapping[str, Any]) -> Interaction:
        """The interaction in `record`. Raises BadRecord."""
        fields = self._fields(record)
        time = _time(fields("timestamp"))
        given = fields("query")
        query = _query(given)
        answer = _text(fields("answer"))
        error = fields("error")
        name = fields("id")
        feedback = self._feedback(fields("feedback"))
        ref = _digest(str(name)) if isinstance(name, str | int) and str(name) else None
        key = _digest(
            f"{name}\0{time.isoformat()}\0{query}"
            if ref is not None
            else json.dumps(record, sort_keys=True, default=str)
        )
        found = Interaction(
            key=key,
            ref=ref,
            time=time,
            query=query,
            answer=answer,
            sources=_sources(fields("sources")),
            results=_count(fields("results")),
            latency_s=_latency(fields("latency_ms"), fields("latency_s")),
            user=self._person(fields("user_id")),
            session=self._person(fields("session_id")),
            error=_error(error),
            abstained=_flag(fields("abstained")),
            feedback=feedback,
            route=_label(fields("route")),
            version=_label(fields("version")),
            history=_history(fields("history"), given),
        )
        if not (found.query or found.answer or found.error or found.only_feedback):
            raise BadRecord(Problem.EMPTY)
        return found

    def _fields(self, record: Mapping[str, Any]) -> Callable[[str], Any]:
        shape = tuple(record)
        places = self._found.get(shape)
        if places is None:
            if len(self._found) > 1000:  # a log whose every line has other keys
                self._found.clear()
            by_name: dict[str, str] = {}
            for key in shape:
                by_name.setdefault(normal(str(key)), key)
            places = {
                field: tuple(by_name[name] for name in names if name in by_name) for field, names in NAMES.items()
            }
            self._found[shape] = places

        def field(name: str) -> Any:
            path = self._columns.get(name)
            if path is not None:
                return at_path(record, path)
            return next((record[key] for key in places[name] if record[key] not in (None, "")), None)

        return field

    def _person(self, value: object) -> bytes | None:
        if value is None or isinstance(value, bool | list | dict) or str(value).strip() == "":
            return None
        return self.hashed(str(value).strip())

    def _feedback(self, value: object) -> float | None:
        if isinstance(value, Mapping):
            value = next((value[key] for key in ("value", "score", "rating") if key in value), None)
        if isinstance(value, str):
            word = value.strip().lower().replace("-", "_").replace(" ", "_")
            words = _TABLES["feedback"]
            if word in words["good"] or word in words["bad"]:
                return float(word in words["good"])
            try:
                value = float(word)
            except ValueError:
                return None
        if isinstance(value, bool):
            return float(value)
        if isinstance(value, int | float) and math.isfinite(value):
            return float(value > 0 if self._good_from is None else value >= self._good_from)
        return None


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _time(value: object) -> datetime:
    if value is None:
        raise BadRecord(Problem.NO_TIME)
    try:
        if isinstance(value, str):
            text = value.strip()
            if text.replace(".", "", 1).isdigit() and len(text) >= 9:
                value = float(text)
            else:
                found = datetime.fromisoformat(text)
                return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
        if isinstance(value, datetime):
            return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            seconds = float(value)
            for _ in range(3):  # milliseconds, microseconds or nanoseconds
                seconds = seconds / 1000.0 if seconds > 1e11 else seconds
            return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        pass
    raise BadRecord(Problem.BAD_TIME)


def _query(value: object) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):  # a chat: its last turn of the user
        turns = [one for one in value if isinstance(one, Mapping) and one.get("role", "user") in ("user", "human")]
        value = turns[-1].get("content") if turns else None
    return _text(value)


def _history(value: object, query: object) -> tuple[Turn, ...]:
    try:
        return cells.turns(value) if value is not None else cells.earlier_turns(query)
    except cells.CellError:
        return ()


def _text(value: object) -> str:
    if isinstance(value, Mapping):
        names = ("content", *SYSTEM_NAMES["answer"], *_QUESTION.strong)
        value = next((value[name] for name in names if isinstance(value.get(name), str)), None)
    if not isinstance(value, str):
        return ""
    return value.encode("utf-8", "replace").decode("utf-8").strip()[:MAX_ANSWER_CHARACTERS]


def _sources(value: object) -> tuple[object, ...] | None:
    if isinstance(value, str):
        try:
            value = cells.passages(value, split_bars=False) if value.strip() else []
        except cells.CellError:
            raise BadRecord(Problem.BAD_SOURCES) from None
    return tuple(value)[:MAX_CONTEXTS] if isinstance(value, list | tuple) else None


def _count(value: object) -> int | None:
    if isinstance(value, list):
        return len(value)
    found = number(value)
    return int(found) if found is not None and 0 <= found < 1e9 else None


def _latency(milliseconds: object, seconds: object) -> float | None:
    for value, unit in ((milliseconds, 1000.0), (seconds, 1.0)):
        if isinstance(value, str):
            try:
                value = float(value)
            except ValueError:
                continue
        found = number(value)
        if found is not None and 0.0 <= found / unit <= _MAX_LATENCY_S:
            return found / unit
    return None


def _error(value: object) -> str | None:
    if isinstance(value, bool):
        return "error" if value else None
    if isinstance(value, Mapping):
        value = value.get("message") or value.get("type") or ("error" if value else None)
    return None if value in (None, "", 0, []) else str(value)[:1000]


def _flag(value: object) -> bool | None:
    if isinstance(value, str):
        return {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}.get(value.lower())
    return bool(value) if isinstance(value, bool | int) else None


def _label(value: object) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    if isinstance(value, Iterable) and not isinstance(value, str | Mapping):
        value = next((one for one in value if isinstance(one, str)), None)
    return " ".join(value.split())[:_MAX_LABEL].encode("utf-8", "replace").decode() if isinstance(value, str) else ""
