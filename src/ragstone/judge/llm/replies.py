"""From what a model wrote to checked values: every field that the form asks for is valid, or it is missing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pydantic_core import from_json

from ragstone.judge.llm.provider import Stop

Path = tuple[str, ...]
_MAX_REPLY = 2_000_000
_FENCED = re.compile(r"\A\s*```(?:json)?\s*\n(.*?)\n\s*```\s*\Z", re.DOTALL)
_NOTHING = object()


@dataclass(frozen=True, slots=True)
class Field:
    """One thing that a reply must hold.

    `path` is where (a group and an id, or a name alone), `schema` its JSON schema, `check` returns the value in
    canonical form or raises ValueError.
    """

    path: Path
    schema: Mapping[str, object]
    check: Callable[[object], object]


def schema_of(fields: Iterable[Field]) -> dict[str, object]:
    """The closed JSON schema of an object that holds exactly `fields`."""
    properties: dict[str, object] = {}
    groups: dict[str, dict[str, object]] = {}
    for field in fields:
        if len(field.path) == 1:
            properties[field.path[0]] = field.schema
        else:
            properties.setdefault(field.path[0], None)
            groups.setdefault(field.path[0], {})[field.path[1]] = field.schema
    return closed(properties | {name: closed(inside) for name, inside in groups.items()})


def closed(properties: Mapping[str, object]) -> dict[str, object]:
    """An object schema with exactly `properties`, all required: what strict modes ask for."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def read_reply(text: str, stop: Stop, fields: Sequence[Field]) -> dict[Path, object]:
    """The valid ones of `fields` in a model's reply, by path; whatever is wrong with the rest, it is not there.

    A truncated reply counts up to the last value that is surely whole.
    """
    if stop is Stop.TRUNCATED:
        document = _partial(text)
        last = _last_path(document)
        found = read_document(document, fields)
        return {path: value for path, value in found.items() if path != last and path[:1] != last}
    return read_document(_whole(text), fields)


def read_document(document: object, fields: Iterable[Field]) -> dict[Path, object]:
    """The valid ones of `fields` in a parsed reply, or in a cache entry, which is read by the same rules."""
    found: dict[Path, object] = {}
    for field in fields:
        value = _at(document, field.path)
        if value is _NOTHING:
            continue
        try:
            found[field.path] = field.check(value)
        except (ValueError, TypeError, KeyError):
            continue
    return found


def document_of(values: Mapping[Path, object]) -> dict[str, object]:
    """The reply that would hold exactly `values`: what the cache stores."""
    document: dict[str, object] = {}
    groups: dict[str, dict[str, object]] = {}
    for path, value in values.items():
        if len(path) == 1:
            document[path[0]] = value
        else:
            groups.setdefault(path[0], {})[path[1]] = value
    return document | groups


def _whole(text: str) -> object:
    """The one JSON object of a reply; prose around it is tolerated, a second object is not."""
    if len(text) > _MAX_REPLY:
        return None
    block = _FENCED.match(text)
    if block:
        text = block.group(1)
    start = text.find("{")
    if start < 0:
        return None
    try:
        document, end = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    return document if "{" not in text[end:] else None


def _partial(text: str) -> object:
    start = text.find("{")
    if start < 0 or len(text) > _MAX_REPLY:
        return None
    try:
        return from_json(text[start:], allow_partial=True, allow_inf_nan=False)
    except (ValueError, RecursionError):
        return None


def _last_path(document: object) -> Path:
    """Where the cut fell: the last group, and the last id in it."""
    if not isinstance(document, dict) or not document:
        return ()
    group = next(reversed(document))
    inside = document[group]
    return (group, next(reversed(inside))) if isinstance(inside, dict) and inside else (group,)


def _at(document: object, path: Path) -> object:
    for name in path:
        if not isinstance(document, dict) or name not in document:
            return _NOTHING
        document = document[name]
    return document


def _no_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An id that is given twice is given not at all: neither of the two can be believed."""
    found: dict[str, object] = {}
    for name, value in pairs:
        found[name] = _NOTHING if name in found else value
    return found


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON number")


_DECODER = json.JSONDecoder(object_pairs_hook=_no_duplicates, parse_constant=_refuse_constant)
