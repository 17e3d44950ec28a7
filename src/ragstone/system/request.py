"""What a service is sent: the question in its address, or in the fields of a body."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from ragstone.errors import ConfigError
from ragstone.golden.sample import Sample
from ragstone.settings.settings import SystemSettings
from ragstone.system.response import beside_question, messages_before
from ragstone.system.worker.fields import at_path

QUESTION = "{question}"
"""Stands for the question in the path or the query string of an address."""
_PLACES = ("question_field", "history_field", "session_field")
_POSITION = re.compile(r"-?\d{1,9}")


def request_address(url: str, question: str) -> str:
    """`url` with the question in its place, quoted."""
    return url.replace(QUESTION, quote(question.encode("utf-8", "replace"), safe=""))


class NoPlaceError(ValueError):
    """There is no such place in the fields of a request."""


def placed(fields: object, path: str, value: object) -> Any:
    """A copy of `fields` with `value` at a dotted path. Tables are created as needed;
    lists keep their length.

    A position in a list may be negative, counted from the end. Raises NoPlaceError.
    """
    head, _, tail = path.partition(".")
    if isinstance(fields, list):
        if not _POSITION.fullmatch(head) or not -len(fields) <= int(head) < len(fields):
            raise NoPlaceError(head)
        items = list(fields)
        items[int(head)] = placed(items[int(head)], tail, value) if tail else value
        return items
    table = dict(fields) if isinstance(fields, Mapping) else {}
    table[head] = placed(table.get(head), tail, value) if tail else value
    return table


def request_fields(settings: SystemSettings, sample: Sample) -> Mapping[str, Any]:
    """The fields of the request for `sample`. Raises NoPlaceError."""
    names = settings.http
    fields: dict[str, Any]
    fields = placed(names.body, names.question_field, sample.question)
    beside = beside_question(sample, settings.part)
    if sample.history:
        turns = _turns_beside_question(settings, sample, fields) or beside["history"]
        fields = placed(fields, names.history_field, turns)
    if "session" in beside:
        fields = placed(fields, names.session_field, beside["session"])
    if "contexts" in beside:
        fields = placed(fields, "contexts", beside["contexts"])
    return fields


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
        try:
            placed(settings.http.body, path, "")
        except NoPlaceError as error:
            raise ConfigError(
                f"'{path}' can't be set: a list in the body has no position '{error}'.",
                where=f"system.http.{name}",
                hint="Write the list as the service takes it, such as "
                'body = { messages = [{ role = "user", content = "" }] }.',
            ) from None
