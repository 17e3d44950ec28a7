"""The body of a request to a service: where the question goes, and what a refusal says
of it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from ragstone.errors import ConfigError
from ragstone.formatting import counted, some
from ragstone.golden.aliases import SYSTEM_NAMES
from ragstone.golden.sample import Sample
from ragstone.settings.settings import SystemSettings
from ragstone.system.response import GENERATION, messages_before, session_id
from ragstone.system.worker.fields import at_path

_PLACES = (
    "question_field",
    "history_field",
    "session_field",
    "given_contexts_field",
    "id_field",
)
IN_HEADER = "header:"
"""Begins the name of a header that takes the session."""
_LIST = 'body = { messages = [{ role = "user", content = "" }] }'
QUESTION = "{question}"
"""Stands for the question in the path or the query string of an address."""
MAX_NAMED = 3


def request_address(url: str, question: str) -> str:
    """`url` with the question in its place, quoted."""
    return url.replace(QUESTION, quote(question.encode("utf-8", "replace"), safe=""))


class NoPlaceError(ValueError):
    """There is no such place in the fields of a request."""


def placed(fields: object, path: str, value: object, within: str = "") -> Any:
    """A copy of `fields` with `value` at a dotted path. Tables are created as needed;
    lists keep their length.

    A position in a list may be negative, counted from the end. Raises NoPlaceError.
    `within` is the path of `fields`.
    """
    head, _, tail = path.partition(".")
    is_position = re.fullmatch(r"-?\d{1,9}", head) is not None
    inner_path = f"{within}.{head}".lstrip(".")
    if isinstance(fields, list):
        if not is_position or not -len(fields) <= int(head) < len(fields):
            size = counted(len(fields), "element") if is_position else "no names"
            raise NoPlaceError(
                f"'{within}' is a list with {size}, so '{head}' is nowhere in it"
            )
        items = list(fields)
        items[int(head)] = (
            placed(items[int(head)], tail, value, inner_path) if tail else value
        )
        return items
    if is_position and within and fields is None:
        raise NoPlaceError(
            f"'{within}' is not in the body, so '{head}' is no position in it"
        )
    table = fields if isinstance(fields, Mapping) else {}
    return {
        **table,
        head: placed(table.get(head), tail, value, inner_path) if tail else value,
    }


def request_fields(
    settings: SystemSettings, sample: Sample, *, asks: bool = True
) -> Mapping[str, Any]:
    """The fields of the request for `sample`; if `asks`, its question is one of them.
    Raises NoPlaceError."""
    names = settings.http
    fields: dict[str, Any] = dict(names.body)
    if names.id_field:
        fields = placed(fields, names.id_field, sample.id)
    if asks:
        fields = placed(fields, names.question_field, sample.question)
    if sample.history:
        turns = _turns_beside_question(settings, sample, fields) if asks else None
        fields = placed(fields, names.history_field, turns or messages_before(sample))
    if (
        names.session_field
        and not names.session_field.startswith(IN_HEADER)
        and (session := session_id(sample))
    ):
        fields = placed(fields, names.session_field, session)
    if settings.part == GENERATION:
        fields = placed(
            fields, names.given_contexts_field, list(sample.reference_contexts)
        )
    return fields


def session_header(settings: SystemSettings, sample: Sample) -> dict[str, str]:
    """The header with the id of the session, if it goes into one."""
    name = settings.http.session_field
    session = session_id(sample)
    if session is None or not name.startswith(IN_HEADER):
        return {}
    return {name.removeprefix(IN_HEADER): session}


def _turns_beside_question(
    settings: SystemSettings, sample: Sample, fields: Mapping[str, Any]
) -> list[dict[str, Any]] | None:
    """The list that has the question, with the earlier turns before it in its shape;
    None if it is in no list."""
    history_field = settings.http.history_field
    inside = re.fullmatch(
        re.escape(history_field) + r"\.(-?\d+)\.(.+)", settings.http.question_field
    )
    if inside is None:
        return None
    position, text_path = int(inside[1]), inside[2]
    messages = at_path(fields, history_field)
    turns = []
    for turn in messages_before(sample):
        message = {**messages[position], "role": turn["role"]}
        turns.append(placed(message, text_path, turn["content"]))
    return [*messages[:position], *turns, *messages[position:]]


def refuse_misplaced(settings: SystemSettings) -> None:
    """Raise ConfigError if a field of the request has no place in the body."""
    for name in _PLACES:
        path = getattr(settings.http, name)
        if not path or path.startswith(IN_HEADER):
            continue
        try:
            placed(settings.http.body, path, "")
        except NoPlaceError as error:
            raise ConfigError(
                f"'{path}' can't be set: {error}.",
                where=f"system.http.{name}",
                hint=f"Write the list as the service takes it, such as {_LIST}.",
            ) from None


def refusal(body: bytes, settings: SystemSettings) -> str:
    """What a service that refused a request misses in it, by its reply, and which
    setting mends that."""
    names = settings.http
    sent = dict.fromkeys(
        [*names.body, names.id_field, names.question_field.split(".")[0]]
    )
    try:
        complaints = [
            _Complaint(entry["loc"], entry["type"])
            for entry in json.loads(body)["detail"]
        ]
    except (ValueError, RecursionError, LookupError, TypeError):
        complaints = []
    sentences = [
        complaint.sentence(names.id_field, is_only=len(complaints) == 1)
        for complaint in complaints[:MAX_NAMED]
    ]
    reason = (
        "; ".join(sentences)
        or "question_field and body under [system.http] say what is sent"
    )
    return f"{reason}. Sent: {some([name for name in sent if name])}."


class _Complaint:
    """One complaint of FastAPI. Raises LookupError and TypeError for anything else."""

    def __init__(self, place: list[object], kind: object) -> None:
        if not isinstance(place, list):
            raise TypeError(place)
        self._holder = place[0]
        self._path = ".".join(str(part) for part in place[1:])
        self._kind = str(kind)

    def sentence(self, id_field: str, *, is_only: bool) -> str:
        """What is wrong, and the setting for it."""
        path = self._path
        if self._holder == "query" and self._kind == "missing":
            return f"it takes '{path}' in the address: end the entrypoint with ?{path}={QUESTION}, if that is the question"
        if path == id_field and self._kind == "extra_forbidden":
            return 'it takes no id: set id_field = "" under [system.http]'
        if self._kind != "missing" or not path:
            return f"it expects something else at '{path or 'the body'}' ({self._kind}): see body under [system.http]"
        if path == "messages":
            return f"it requires 'messages': set question_field = \"messages.-1.content\" and {_LIST} under [system.http]"
        if is_only or path in SYSTEM_NAMES["question"]:
            return f"it requires '{path}': set question_field = \"{path}\" under [system.http]"
        return f"it requires '{path}': set body = {{ {path} = … }} under [system.http]"
