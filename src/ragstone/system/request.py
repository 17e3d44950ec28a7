"""The fields in the body of a request to a service."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ragstone.errors import ConfigError
from ragstone.golden.sample import Sample
from ragstone.settings.settings import SystemSettings
from ragstone.system.response import history_messages, question_extras
from ragstone.system.worker.fields import at_path

_POSITION = re.compile(r"-?\d{1,9}")


class MissingPositionError(ValueError):
    """A list in the body of a request has no such position."""


def with_value_at(fields: object, path: str, value: object) -> Any:
    """Copy `fields`, with `value` at a dotted path; an empty path is `value` itself.

    Objects on the path are created as needed. Lists keep their length; a position in a
    list may be negative, to count from the end. Raises MissingPositionError.
    """
    if not path:
        return value
    head, _, tail = path.partition(".")
    if isinstance(fields, list):
        if not _POSITION.fullmatch(head) or not -len(fields) <= int(head) < len(fields):
            raise MissingPositionError(head)
        items = list(fields)
        items[int(head)] = with_value_at(items[int(head)], tail, value)
        return items
    table = dict(fields) if isinstance(fields, Mapping) else {}
    table[head] = with_value_at(table.get(head), tail, value)
    return table


def request_fields(settings: SystemSettings, sample: Sample) -> Mapping[str, Any]:
    """The fields of the request for `sample`. Raises MissingPositionError."""
    http = settings.http
    fields: Mapping[str, Any]
    fields = with_value_at(http.body, http.question_field, sample.question)
    extras = question_extras(sample, settings.part)
    # If the question is in a message of the list that takes the history, such as
    # messages.0.content, the earlier turns are inserted before this message, each in
    # the shape that it has.
    pattern = re.escape(http.history_field) + r"\.(-?\d+)\.(.+)"
    match = re.fullmatch(pattern, http.question_field)
    if match is not None and sample.history:
        messages = at_path(fields, http.history_field)
        position = int(match[1])
        text_path = match[2]
        turns = []
        for turn in history_messages(sample):
            message = {**messages[position], "role": turn["role"]}
            turns.append(with_value_at(message, text_path, turn["content"]))
        extras["history"] = [*messages[:position], *turns, *messages[position:]]
    paths = {"history": http.history_field, "session": http.session_field}
    for name, value in extras.items():
        fields = with_value_at(fields, paths.get(name, name), value)
    return fields


def check_request_paths(settings: SystemSettings) -> None:
    """Raise ConfigError if the path of a field leads to a position that a list in the
    body doesn't have."""
    for name in ("question_field", "history_field", "session_field"):
        path = getattr(settings.http, name)
        try:
            with_value_at(settings.http.body, path, "")
        except MissingPositionError as error:
            raise ConfigError(
                f"'{path}' can't be set: a list in the body has no position '{error}'.",
                where=f"system.http.{name}",
                hint="Write the list as the service takes it, such as "
                'body = { messages = [{ role = "user", content = "" }] }.',
            ) from None
