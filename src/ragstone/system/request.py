"""The body of a request to a service: where the question goes, and what a refusal says of it."""

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
from ragstone.system.response import GENERATION, turns_of
from ragstone.system.worker.returns import at_path

_PLACES = ("question_field", "history_field", "given_contexts_field", "id_field")
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
    """A copy of `fields` with `value` at a dotted path. Tables are created as needed; lists keep their length.

    A position in a list may be negative, counted from the end. Raises NoPlaceError. `within` is the path of `fields`.
    """
    head, _, rest = path.partition(".")
    number = re.fullmatch(r"-?\d{1,9}", head) is not None
    if isinstance(fields, list):
        if not number or not -len(fields) <= int(head) < len(fields):
            has = counted(len(fields), "element") if number else "no names"
            raise NoPlaceError(f"'{within}' is a list with {has}, so '{head}' is nowhere in it")
        changed = list(fields)
        changed[int(head)] = placed(fields[int(head)], rest, value, f"{within}.{head}") if rest else value
        return changed
    if number and within and fields is None:
        raise NoPlaceError(f"'{within}' is not in the body, so '{head}' is no position in it")
    table = fields if isinstance(fields, Mapping) else {}
    inner = placed(table.get(head), rest, value, f"{within}.{head}".lstrip(".")) if rest else value
    return {**table, head: inner}


def request_fields(settings: SystemSettings, sample: Sample, *, asks: bool = True) -> Mapping[str, Any]:
    """The fields of the request for `sample`; if `asks`, its question is one of them. Raises NoPlaceError.

    Earlier turns that go into the list which has the question come before it, in the shape of its element.
    """
    names = settings.http
    fields: dict[str, Any] = placed(names.body, names.id_field, sample.id) if names.id_field else dict(names.body)
    fields = placed(fields, names.question_field, sample.question) if asks else fields
    if sample.history:
        turns: list[Any] = turns_of(sample)
        inside = re.fullmatch(re.escape(names.history_field) + r"\.(-?\d+)\.(.+)", names.question_field)
        if inside is not None and asks:
            messages, at = at_path(fields, names.history_field), int(inside[1])
            asked = messages[at]
            turns = [placed({**asked, "role": turn["role"]}, inside[2], turn["content"]) for turn in turns]
            turns = [*messages[:at], *turns, *messages[at:]]
        fields = placed(fields, names.history_field, turns)
    if settings.part == GENERATION:
        fields = placed(fields, names.given_contexts_field, list(sample.reference_contexts))
    return fields


def refuse_misplaced(settings: SystemSettings) -> None:
    """Raise ConfigError if a field of the request has no place in the body."""
    for name in _PLACES:
        path = getattr(settings.http, name)
        try:
            placed(settings.http.body, path, "") if path else None
        except NoPlaceError as error:
            raise ConfigError(
                f"'{path}' can't be set: {error}.",
                where=f"system.http.{name}",
                hint=f"Write the list as the service takes it, such as {_LIST}.",
            ) from None


def refusal(body: bytes, settings: SystemSettings) -> str:
    """What a service that refused a request misses in it, by its reply, and which setting mends that."""
    names = settings.http
    sent = [name for name in dict.fromkeys([*names.body, names.id_field, names.question_field.split(".")[0]]) if name]
    try:
        detail = json.loads(body)["detail"]
        found = [(one["loc"], str(one["type"])) for one in detail if isinstance(one["loc"], list) and one["loc"]]
    except (ValueError, RecursionError, LookupError, TypeError):
        found = []
    says = [_said(place, kind, names.id_field, len(found) == 1) for place, kind in found[:MAX_NAMED]]
    says = says or ["question_field and body under [system.http] say what is sent"]
    return f"{'; '.join(says)}. Sent: {some(sent)}."


def _said(place: list[object], kind: str, id_field: str, only: bool) -> str:
    """One complaint of FastAPI: what is wrong at `place`, and the setting for it."""
    path = ".".join(str(part) for part in place[1:])
    if place[0] == "query" and kind == "missing":
        return f"it takes '{path}' in the address: end the entrypoint with ?{path}={QUESTION}, if that is the question"
    if path == id_field and kind == "extra_forbidden":
        return 'it takes no id: set id_field = "" under [system.http]'
    if kind != "missing" or not path:
        return f"it expects something else at '{path or 'the body'}' ({kind}): see body under [system.http]"
    if path == "messages":
        return f"it requires 'messages': set question_field = \"messages.-1.content\" and {_LIST} under [system.http]"
    if only or path in SYSTEM_NAMES["question"]:
        return f"it requires '{path}': set question_field = \"{path}\" under [system.http]"
    return f"it requires '{path}': set body = {{ {path} = … }} under [system.http]"
