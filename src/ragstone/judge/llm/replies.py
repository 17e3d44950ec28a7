"""Parses model replies into checked values: every requested field is either valid or missing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ragstone.judge.llm.provider import Stop

READING = "6"
"""Changes with the parsing rules, so that nothing accepted by earlier rules is read from the cache."""

Path = tuple[str, ...]
_MAX_REPLY = 2_000_000
_FENCED = re.compile(r"\A\s*```(?:json)?\s*\n(.*?)\n\s*```\s*\Z", re.DOTALL)
_THOUGHTS = re.compile(
    r"\s*(?:<(?:think|thinking|thought|reasoning|reflection)>|\[think\]|<\|(?:start\|>assistant<\|)?channel\|>)",
    re.IGNORECASE,
)
_THOUGHTS_END = re.compile(
    r"</(?:think|thinking|thought|reasoning|reflection)>|\[/think\]|<\|channel\|>final[^<]{0,99}<\|message\|>",
    re.IGNORECASE,
)
_SPACE = re.compile(r"[ \t\r\n]*")
_MEMBER = re.compile(r'[ \t\r\n]*("[^"\\]*+(?:\\.[^"\\]*+)*+")[ \t\r\n]*:[ \t\r\n]*', re.DOTALL)
_EMPTY = re.compile(r"\{[ \t\r\n]*\}")
_LINE = re.compile(
    r"""[\s*_`"'“”(\[|]*([^\W_]+)[*_`"'“”)\]]*\s*(?:[:;,.|：，、→]|[-–—=]+>?(?![\d-]))?\s*(.*)""", re.DOTALL
)
_ANY_ORDER = frozenset({"questions"})
"""Groups whose items are alike, so that lines without ids may take them in order."""
_NOTHING = object()


@dataclass(frozen=True, slots=True)
class Field:
    """One value that a reply must contain.

    `path` is its position (a group and an id, or just a name); `check` returns the value in canonical form or raises
    ValueError. `tokens` is the usual upper limit of the value's length.
    """

    path: Path
    check: Callable[[object], object]
    tokens: int = 64


def read_reply(text: str, stop: Stop, fields: Sequence[Field]) -> dict[Path, object]:
    """The valid ones of `fields` in a model's reply, by path; invalid values are left out.

    In a reply that was cut off, only values count that the model closed before the cut: half a list is never taken for
    a list. A reply that was refused or filtered has no values.
    """
    paths = [field.path for field in fields if len(field.path) > 1]
    groups = {name: [path[1] for path in paths if path[0] == name] for name in {path[0] for path in paths}}
    text = _without_thoughts(text)
    if stop is Stop.COMPLETE:
        return read_document(_by_id(_whole(text), groups), fields)
    if stop is Stop.TRUNCATED:
        return read_document(_by_id(_closed_values(text, groups), groups), fields)
    return {}


def read_document(document: object, fields: Iterable[Field]) -> dict[Path, object]:
    """The valid ones of `fields` in a reply by id, or in a cache entry, which follows the same rules."""
    found: dict[Path, object] = {}
    for field in fields:
        value = _at(document, field.path)
        if value is _NOTHING:
            continue
        try:
            found[field.path] = field.check(value)
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            continue
    return found


def document_of(values: Mapping[Path, object]) -> dict[str, object]:
    """`values` by name and id, as stored in the cache."""
    document: dict[str, object] = {}
    groups: dict[str, dict[str, object]] = {}
    for path, value in values.items():
        if len(path) == 1:
            document[path[0]] = value
        else:
            groups.setdefault(path[0], {})[path[1]] = value
    return document | groups


def _without_thoughts(text: str) -> str:
    """What follows the thoughts in `text`, from a server that does not separate the two; nothing if they don't end."""
    if text.lstrip().startswith("{"):  # what a verdict quotes is no mark
        return text
    if ends := [found.end() for found in _THOUGHTS_END.finditer(text)]:
        return text[ends[-1] :]
    return "" if _THOUGHTS.match(text) else text


def _by_id(document: object, groups: Mapping[str, Sequence[str]]) -> object:
    """A reply with its `groups`, arrays of items, as objects by id. Ids that occur twice are left out.

    An item is a line that begins with its id, or an object with such a line as its `id`; the rest is its `line`. A line
    may be a list of its parts, and a group an object by id.
    """
    if not isinstance(document, dict):
        return None
    found = dict(document)
    for name in document.keys() & groups:
        items, ids = document[name], groups[name]
        if isinstance(items, dict):
            members = ((key, one if isinstance(one, list) else [one]) for key, one in items.items())
            items = [{"id": key, **one[0]} if isinstance(one[0], dict) else [key, *one] for key, one in members if one]
        owns = [one if isinstance(one, dict) else {"id": one} for one in (items if isinstance(items, list) else [])]
        lines = [(own, _LINE.match(_joined(own.get("id")))) for own in owns]
        pairs = [(line[1].lower(), {**own, "line": line[2]}) for own, line in lines if line]
        if name in _ANY_ORDER and len(owns) == len(ids) and not any(key in ids for key, _ in pairs):
            texts = [_joined(own.get("id")).strip() for own in owns]
            pairs = [(ids[at], {"line": text.removeprefix(f"{at + 1}.")}) for at, text in enumerate(texts)]
        found[name] = _no_duplicates(pairs)
    return found


def _joined(value: object) -> str:
    """A line, or a list of its parts, as text."""
    parts = value if isinstance(value, list) else [value]
    return " ".join(map(str, parts)) if all(isinstance(part, str | int) for part in parts) else ""


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


def _closed_values(text: str, groups: Container[str]) -> object:
    """The complete values of a cut-off reply: the members that were closed, and those of a group that was not.

    Prose before the object may be the start of a quotation, and an object that is complete although the reply was cut
    off was closed by something else (a gateway that repairs JSON): neither can be relied on.
    """
    text = text.strip().removeprefix("```json").lstrip()
    if not text.startswith("{") or len(text) > _MAX_REPLY:
        return None
    members, end = _members(text, 0)
    if end is not None:
        return None
    found: list[tuple[str, object]] = []
    for name, value, at in members:
        if value is not _NOTHING:
            found.append((name, value))
        elif name in groups and text.startswith("[", at):
            found.append((name, _items(text, at)))
    return _no_duplicates(found)


def _items(text: str, at: int) -> list[object]:
    """The closed objects and strings in the array that opens at `at`."""
    items: list[object] = []
    while (at := _SPACE.match(text, at + 1).end()) < len(text) and text[at] in '{"':  # type: ignore[union-attr]
        try:
            item, at = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            break
        items.append(item)
        at = _SPACE.match(text, at).end()  # type: ignore[union-attr]
        if not text.startswith(",", at):
            break
    return items


def _members(text: str, at: int) -> tuple[list[tuple[str, object, int]], int | None]:
    """Name, value and position of each member of the object that opens at `at`, and where the object ends.

    A member that is not closed is the last one and has the value _NOTHING. An object that is not closed ends at None.
    """
    members: list[tuple[str, object, int]] = []
    while match := _MEMBER.match(text, at + 1):
        try:
            name = str(_DECODER.decode(match.group(1)))
        except ValueError:
            return members, None
        try:
            value, at = _DECODER.raw_decode(text, match.end())
        except (ValueError, RecursionError):
            return [*members, (name, _NOTHING, match.end())], None
        at = _SPACE.match(text, at).end()  # type: ignore[union-attr]
        if not text.startswith((",", "}"), at):  # a number may go on after the cut
            return [*members, (name, _NOTHING, match.end())], None
        members.append((name, value, match.end()))
        if text[at] == "}":
            return members, at + 1
    empty = _EMPTY.match(text, at)
    return members, empty.end() if empty else None


def _at(document: object, path: Path) -> object:
    for name in path:
        if not isinstance(document, dict) or name not in document:
            return _NOTHING
        document = document[name]
    return document


def _no_duplicates(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    """Drop ids that occur twice: neither value can be trusted."""
    found: dict[str, object] = {}
    for name, value in pairs:
        found[name] = _NOTHING if name in found else value
    return found


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON number")


_DECODER = json.JSONDecoder(object_pairs_hook=_no_duplicates, parse_constant=_refuse_constant)
