"""What a service is sent: the fields of a body."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ragstone.errors import ConfigError
from ragstone.golden.sample import Sample
from ragstone.settings.settings import SystemSettings
from ragstone.system.response import beside_question, messages_before
from ragstone.system.worker.fields import at_path

_POSITION = re.compile(r"-?\d{1,9}")


class NoPlaceError(ValueError):
    """There is no such place in the fields of a request."""


def placed(fields: object, path: str, value: object) -> Any:
    """A copy of `fields` with `value` at a dotted path, or just that without a path.
    Tables are created as needed; lists keep their length.

    A position in a list may be negative, counted from the end. Raises NoPlaceError.
    """
    if not path:
        return value
    head, _, tail = path.partition(".")
    if isinstance(fields, list):
        if not _POSITION.fullmatch(head) or not -len(fields) <= int(head) < len(fields):
            raise NoPlaceError(head)
        items = list(fields)
        items[int(head)] = placed(items[int(head)], tail, value)
        return items
    table = dict(fields) if isinstance(fields, Mapping) else {}
    table[head] = placed(table.get(head), tail, value)
    return table


def request_fields(settings: SystemSettings, sample: Sample) -> Mapping[str, Any]:
    """The fields of the request for `sample`. Raises NoPlaceError."""
    names = settings.http
    fields: Mapping[str, Any]
    fields = placed(names.body, names.question_field, sample.question)
    beside = beside_question(sample, settings.part)
    # A question in a list has the earlier turns before it there, in its shape.
    pattern = re.escape(names.history_field) + r"\.(-?\d+)\.(.+)"
    inside = re.fullmatch(pattern, names.question_field)
    if inside is not None and sample.history:
        messages = at_path(fields, names.history_field)
        place = int(inside[1])
        turns = []
        for turn in messages_before(sample):
            message = {**messages[place], "role": turn["role"]}
            turns.append(placed(message, inside[2], turn["content"]))
        beside["history"] = [*messages[:place], *turns, *messages[place:]]
    paths = {"history": names.history_field, "session": names.session_field}
    for name, value in beside.items():
        fields = placed(fields, paths.get(name, name), value)
    return fields


def refuse_misplaced(settings: SystemSettings) -> None:
    """Raise ConfigError if a field of the request has no place in the body."""
    for name in ("question_field", "history_field", "session_field"):
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
