"""A logged interaction, read from a record of any shape."""

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
from ragstone.golden.aliases import FIELDS, RECORDED, SYSTEM_NAMES, normal
from ragstone.golden.sample import Message
from ragstone.history.lines import Time
from ragstone.judge.offline.statements import answer_abstains
from ragstone.system.worker.contexts import MAX_CONTEXTS
from ragstone.system.worker.fields import at_path

BAD_FIELD = "lines whose {} can't be read"
EMPTY = "lines with neither question, answer, error nor feedback"

_MAX_LABEL = 80
_MAX_LATENCY_S = 86_400.0

_TABLES = read_table("fields.toml", __package__)
_CORE_NAMES = {
    "question": (*FIELDS["question"].strong, *FIELDS["question"].weak),
    "answer": (
        *SYSTEM_NAMES["answer"],
        *RECORDED["answer"].strong,
        *RECORDED["answer"].weak,
    ),
    "sources": (*SYSTEM_NAMES["contexts"], *RECORDED["contexts"].strong),
}

NAMES: Mapping[LogField, tuple[str, ...]] = MappingProxyType(
    {
        field: (*_CORE_NAMES.get(field, ()), *names)
        for field, names in _TABLES["names"].items()
    }
)
"""Names of each field in logs, the best first, as `golden.aliases.normal` writes
them."""


class BadRecord(Exception):  # noqa: N818 - counted, not raised to anyone
    """A record that is not an interaction; its text names such lines."""


def _label(value: object) -> str:
    """A short text on one line."""
    body = str(value).encode("utf-8", "replace")
    text = body.decode("utf-8")
    line = " ".join(text.split())
    return line[:_MAX_LABEL]


def _or_none(value: object, parse: ValidatorFunctionWrapHandler) -> Any:
    """The parsed value; None for one that can't be read, which says nothing."""
    try:
        return parse(value)
    except ValidationError:
        return None


def _feedback(value: object) -> object:
    """What a word of a user means as a number."""
    if isinstance(value, str):
        word = normal(value) or value.strip()
        return _TABLES["feedback"].get(word, value)
    return value


def _is_error(value: object) -> bool:
    if isinstance(value, str):
        return value not in _TABLES["no_error"]
    return bool(value)


def _sources(value: object) -> tuple[object, ...]:
    passages = cells.passages(value, split_bars=False)
    return tuple(passages)[:MAX_CONTEXTS]


_OrNone = WrapValidator(_or_none)
_Label = Annotated[str, BeforeValidator(_label)]
_Latency = Annotated[float | None, Field(ge=0.0, le=_MAX_LATENCY_S), _OrNone]


class Interaction(BaseModel):
    """One interaction. `key` identifies it by id, time and question, or else by all
    that it says.

    `sources` are texts or documents, in order, and `results` how many documents were
    found; None if that is not logged. `feedback` is what the user said, as a number.
    """

    model_config = ConfigDict(frozen=True, defer_build=True)

    key: str = ""
    id: _Label = ""
    timestamp: Time
    question: Annotated[str | None, BeforeValidator(cells.question)] = None
    history: tuple[Any, ...] = ()
    answer: Annotated[str | None, BeforeValidator(cells.text)] = None
    sources: Annotated[tuple[Any, ...] | None, BeforeValidator(_sources)] = None
    results: Annotated[int | None, Field(ge=0), _OrNone] = None
    latency_ms: _Latency = None
    latency_s: _Latency = None
    user_id: _Label = ""
    session_id: _Label = ""
    error: Annotated[bool, BeforeValidator(_is_error)] = False
    feedback: Annotated[float | None, BeforeValidator(_feedback), _OrNone] = None
    abstained: Annotated[bool | None, _OrNone] = None

    @property
    def latency(self) -> float | None:
        """In seconds."""
        if self.latency_ms is None:
            return self.latency_s
        return self.latency_ms / 1000.0

    @property
    def is_abstention(self) -> bool | None:
        """As it is logged, else by the offline judge's rules; None without an
        answer."""
        if self.abstained is None and self.answer:
            return answer_abstains(self.answer)
        return self.abstained

    @property
    def is_feedback(self) -> bool:
        """Whether it only says what a user thought of an earlier interaction with the
        same id."""
        return not (self.question or self.answer or self.error)


def read_interaction(
    record: Mapping[str, Any], columns: Mapping[LogField, str]
) -> Interaction:
    """The interaction in `record`, with `columns` (field to dotted path) before the
    known names. Raises BadRecord."""
    by_name = {normal(str(name)): value for name, value in record.items()}
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
        details = error.errors(include_url=False)[0]
        place = details["loc"][0]
        raise BadRecord(BAD_FIELD.format(place)) from None
    if interaction.is_feedback and (not interaction.id or interaction.feedback is None):
        raise BadRecord(EMPTY)
    identity: object = record
    if interaction.id:
        time = interaction.timestamp.isoformat()
        identity = [interaction.id, time, interaction.question]
    content = json.dumps(identity, sort_keys=True, default=str)
    digest = hashlib.blake2b(content.encode(), digest_size=16)
    key = digest.hexdigest()
    history: tuple[Message, ...] = ()
    with suppress(cells.CellError):
        history = cells.earlier_turns(fields.get("question"))
    update = {"key": key, "history": history}
    return interaction.model_copy(update=update)
