"""JSON: one document, or one object per line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from ragstone.golden.rows import LocatedDict, LocatedList, Row, SourceFile

_WALKED_LEVELS = 3
_SPACE = re.compile(r"[ \t\r\n]*")


class _Walker:
    """Reads a document with the lines of what is in its outer lists and objects."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._line = 1
        self._counted = 0

    def line(self, position: int) -> int:
        """The line of `position`; positions must not decrease from call to call."""
        self._line += self.text.count("\n", self._counted, position)
        self._counted = position
        return self._line

    def skip(self, position: int) -> int:
        """The first position from `position` on that is not white space."""
        match = _SPACE.match(self.text, position)
        return match.end() if match else position

    def value(self, position: int, level: int) -> tuple[Any, int]:
        """The value that begins at `position`, and the position behind it."""
        opening = self.text[position : position + 1]
        if level == _WALKED_LEVELS or opening not in ("[", "{"):
            return decode_at(self.text, position)
        items, fields = LocatedList(), LocatedDict()
        closing = "}"
        if opening == "[":
            closing = "]"
        position = self.skip(position + 1)
        is_closed = self.text.startswith(closing, position)
        while not is_closed:
            if opening == "[":
                # Decoded as it stands: only the line that it starts on is of interest.
                items.lines.append(self.line(position))
                item, position = decode_at(self.text, position)
                items.append(item)
            else:
                position = self._field(fields, position, level)
            position = self.skip(position)
            is_closed = self.text.startswith(closing, position)
            if not is_closed:
                position = self._behind(",", position, f"',' or '{closing}'")
        return (items if opening == "[" else fields), position + 1

    def _field(self, fields: LocatedDict, position: int, level: int) -> int:
        self._behind('"', position, "a key in double quotes")
        key, end = decode_at(self.text, position)
        if key in fields:
            raise NotJsonError(f'duplicate key "{key}" in one object', position)
        position = self._behind(":", self.skip(end), "':'")
        fields.lines[key] = self.line(position)
        fields[key], end = self.value(position, level + 1)
        return end

    def _behind(self, sign: str, position: int, expected: str) -> int:
        if not self.text.startswith(sign, position):
            raise NotJsonError(f"not valid JSON: {expected} is expected", position)
        return self.skip(position + 1)


def read_document(source: SourceFile) -> Any:
    """The document in `source`. Raises GoldenSetError with the line of the fault."""
    text = source.decode(source.read_bytes())
    walker = _Walker(text)
    try:
        value, end = walker.value(walker.skip(0), 0)
        end = walker.skip(end)
        if end != len(text):
            raise NotJsonError("more text after the end of the document", end)
    except NotJsonError as error:
        position = error.position
        line = None if position is None else text.count("\n", 0, position) + 1
        raise source.error(f"{error}.", line) from None
    return value


class NotJsonError(ValueError):
    """The text is not JSON; `position` is the offset of the fault, or None where it
    isn't known."""

    def __init__(self, message: str, position: int | None = None) -> None:
        super().__init__(message)
        self.position = position


class _RefusedError(ValueError):
    """Valid JSON for the decoder, but nothing that can be trusted."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    items = dict(pairs)
    if len(items) != len(pairs):
        keys: set[str] = set()
        for key, _ in pairs:
            if key in keys:
                raise _RefusedError(f"duplicate key {json.dumps(key)} in one object")
            keys.add(key)
    return items


def _no_constant(name: str) -> float:
    raise _RefusedError(f"{name} is not a JSON number")


def _null_or_refused(name: str) -> None:
    if name != "NaN":
        _no_constant(name)


_STRICT = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)
_LENIENT = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_null_or_refused)
"""Reads NaN, which Python writes for a number that is missing, as null."""


def decode_at(
    text: str, position: int, decoder: json.JSONDecoder = _LENIENT
) -> tuple[Any, int]:
    """The value that starts at `position`, and the offset behind it. Raises
    NotJsonError."""
    try:
        return decoder.raw_decode(text, position)
    except json.JSONDecodeError as error:
        raise NotJsonError(f"not valid JSON: {error.msg}", error.pos) from None
    except _RefusedError as error:
        raise NotJsonError(str(error)) from None
    except RecursionError:
        raise NotJsonError("nested too deeply") from None
    except ValueError as error:
        raise NotJsonError(
            f"not a number that can be read: {error}".splitlines()[0]
        ) from None


def decode(text: str, *, strict: bool = False) -> Any:
    """The one value in `text`, in which NaN is null unless `strict`. Raises
    NotJsonError."""
    start = len(text) - len(text.lstrip(" \t\r\n"))
    value, end = decode_at(text, start, _STRICT if strict else _LENIENT)
    remainder = text[end:].lstrip(" \t\r\n")
    if remainder:
        raise NotJsonError("more text after the value", len(text) - len(remainder))
    return value


def read_rows(source: SourceFile) -> Iterator[Row]:
    """The rows of `source`; blank lines are passed over. Raises GoldenSetError with the
    line."""
    for line, raw in source.lines():
        text = source.decode(raw, line)
        if not text or text.isspace():
            continue
        try:
            value = decode(text)
        except NotJsonError as error:
            column = "" if error.position is None else f" (column {error.position + 1})"
            raise source.error(
                f"{error}{column}.",
                line,
                hint="Each line of a JSON Lines file must be one complete JSON object.",
            ) from None
        if not isinstance(value, dict):
            raise source.error(
                f"found a {type(value).__name__}, expected an object.",
                line,
                hint='Write each sample as one line like {"id": "…", "question": "…"}.',
            )
        yield Row(value, line)
