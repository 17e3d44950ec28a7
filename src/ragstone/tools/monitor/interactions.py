"""Reads a logged interaction from a record with names of any convention."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
)
from pydantic.functional_validators import WrapValidator

from ragstone.files import read_table
from ragstone.gate.policy_table import LogField
from ragstone.golden import cells
from ragstone.golden.aliases import FIELDS, RECORDED, SYSTEM_NAMES, normalise_name
from ragstone.golden.sample import Message
from ragstone.history.lines import Time
from ragstone.judge.offline.statements import answer_abstains
from ragstone.system.worker.contexts import MAX_CONTEXTS
from ragstone.system.worker.fields import at_path

BAD_FIELD = "lines whose {} can't be read"
EMPTY = "lines with neither question, answer, error nor feedback"

_MAX_LABEL_CHARACTERS = 80
_MAX_LATENCY_S = 86_400.0

_TABLES = read_table("fields.toml", __package__)

_RECORDED_NAMES = {
    "question": (*FIELDS["question"].strong, *FIELDS["question"].weak),
    "answer": (
        *SYSTEM_NAMES["answer"],
        *RECORDED["answer"].strong,
        *RECORDED["answer"].weak,
    ),
    "sources": (*SYSTEM_NAMES["contexts"], *RECORDED["contexts"].strong),
}
"""The names of these fields in golden sets and recorded answers."""

NAMES: Mapping[LogField, tuple[str, ...]] = MappingProxyType(
    {
        field: (*_RECORDED_NAMES.get(field, ()), *names)
        for field, names in _TABLES["names"].items()
    }
)
"""The names of each field in logs, as `golden.aliases.normalise_name` writes them. If a record
has more than one, the first counts."""


class BadRecord(Exception):  # noqa: N818 - callers count it, and go on
    """A record is not an interaction. The text says how such lines are counted, such as
    "lines whose timestamp can't be read"."""


def _label(value: object) -> str:
    """`value` as a short text on one line."""
    utf8 = str(value).encode("utf-8", "replace")  # a lone surrogate becomes "?"
    words = utf8.decode("utf-8").split()
    line = " ".join(words)
    return line[:_MAX_LABEL_CHARACTERS]


def _parse_or_none(value: object, parse: ValidatorFunctionWrapHandler) -> Any:
    """The parsed value; None if it can't be read, as if it were not logged."""
    try:
        return parse(value)
    except ValidationError:
        return None


def _feedback(value: object) -> object:
    """A user's word as a number; another value as it is."""
    if isinstance(value, str):
        word = normalise_name(value) or value.strip()
        return _TABLES["feedback"].get(word, value)
    return value


def _is_error(value: object) -> bool:
    """Whether the value of the field `error` says that there was one."""
    if isinstance(value, str):
        return value not in _TABLES["no_error"]
    return bool(value)


def _sources(value: object) -> tuple[object, ...]:
    """The first MAX_CONTEXTS of the passages in `value`."""
    passages = cells.to_passages(value, split_bars=False)
    return tuple(passages)[:MAX_CONTEXTS]


_OrNone = WrapValidator(_parse_or_none)
_Label = Annotated[str, BeforeValidator(_label)]
_Latency = Annotated[float | None, Field(ge=0.0, le=_MAX_LATENCY_S), _OrNone]


class Interaction(BaseModel):
    """A question to the application in production, and what became of it. What is not
    logged is None or empty."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    key: str = ""
    """A hash of id, time and question, or of the whole record if it has no id: the same
    for an interaction that is logged twice."""
    id: _Label = ""
    timestamp: Time
    question: Annotated[str | None, BeforeValidator(cells.to_question)] = None
    history: tuple[Any, ...] = ()
    """The turns of the conversation before the question."""
    answer: Annotated[str | None, BeforeValidator(cells.to_text)] = None
    sources: Annotated[tuple[Any, ...] | None, BeforeValidator(_sources)] = None
    """The retrieved texts or documents, in their order."""
    results: Annotated[int | None, Field(ge=0), _OrNone] = None
    """How many documents were found."""
    latency_ms: _Latency = None
    latency_s: _Latency = None
    user_id: _Label = ""
    session_id: _Label = ""
    error: Annotated[bool, BeforeValidator(_is_error)] = False
    feedback: Annotated[float | None, BeforeValidator(_feedback), _OrNone] = None
    """What the user thought of the answer, as a number: more is better."""
    abstained: Annotated[bool | None, _OrNone] = None

    @property
    def latency(self) -> float | None:
        """How long the answer took, in seconds."""
        if self.latency_ms is None:
            return self.latency_s
        return self.latency_ms / 1000.0

    @property
    def is_abstention(self) -> bool | None:
        """Whether the answer is "I don't know": as it is logged, or else by the offline
        judge's rules; None without an answer."""
        if self.abstained is None and self.answer:
            return answer_abstains(self.answer)
        return self.abstained

    @property
    def is_feedback(self) -> bool:
        """Whether this is a line of its own with a user's feedback on the interaction
        with the same id."""
        return not (self.question or self.answer or self.error)


def read_interaction(
    record: Mapping[str, Any], columns: Mapping[LogField, str]
) -> Interaction:
    """Read the interaction in `record`. Raises BadRecord.

    Fields in `columns` are read from the dotted paths there, others by their names.
    """
    by_name = {normalise_name(str(name)): value for name, value in record.items()}
    fields: dict[str, Any] = {}
    for field, names in NAMES.items():
        values = list(map(by_name.get, names))
        if field in columns:
            values = [at_path(record, columns[field])]
        for value in values:
            if value not in (None, ""):
                fields[field] = value
                break
    try:
        interaction = Interaction.model_validate(fields)
    except ValidationError as error:
        first_error = error.errors(include_url=False)[0]
        field_name = first_error["loc"][0]
        raise BadRecord(BAD_FIELD.format(field_name)) from None
    if interaction.is_feedback and (not interaction.id or interaction.feedback is None):
        raise BadRecord(EMPTY)
    history: tuple[Message, ...] = ()
    with suppress(cells.CellError):
        history = cells.to_earlier_messages(fields.get("question"))
    key = _key(record, interaction)
    return interaction.model_copy(update={"key": key, "history": history})


def _key(record: Mapping[str, Any], interaction: Interaction) -> str:
    """The `key` of the interaction that was read from `record`."""
    identity: object = record
    if interaction.id:
        time = interaction.timestamp.isoformat()
        identity = [interaction.id, time, interaction.question]
    content = json.dumps(identity, sort_keys=True, default=str)
    digest = hashlib.blake2b(content.encode(), digest_size=16)
    return digest.hexdigest()
