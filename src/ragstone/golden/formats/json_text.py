"""Reads JSON: one document, or one object per line."""

from __future__ import annotations

import json
import json.decoder
import json.scanner
from collections import Counter
from collections.abc import Iterator
from typing import Any, NoReturn

from ragstone.golden.rows import LocatedDict, Row, SourceFile


class NotJsonError(ValueError):
    """The text is not JSON that Ragstone reads."""

    def __init__(self, message: str, position: int | None = None) -> None:
        super().__init__(message)
        self.position = position
        """The offset of the fault in the text, None if it isn't known."""


class _RefusedError(ValueError):
    """The decoder accepts the text, but its meaning is unclear, such as that of an object
    with two equal keys."""


def _object_of_unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    items = dict(pairs)
    if len(items) != len(pairs):
        counts = Counter(key for key, _ in pairs)
        key = max(counts, key=counts.__getitem__)
        raise _RefusedError(f"duplicate key {json.dumps(key)} in one object")
    return items


def _refuse_constant(name: str) -> NoReturn:
    raise _RefusedError(f"{name} is not a JSON number")


def _nan_as_none(name: str) -> None:
    if name != "NaN":
        _refuse_constant(name)


STRICT = json.JSONDecoder(
    object_pairs_hook=_object_of_unique_keys, parse_constant=_refuse_constant
)
"""Refuses NaN and Infinity, which JSON doesn't have."""

LENIENT = json.JSONDecoder(
    object_pairs_hook=_object_of_unique_keys, parse_constant=_nan_as_none
)
"""Reads NaN, which Python writes for a missing number, as null."""


class _LocatingDecoder(json.JSONDecoder):
    """Decodes objects as `LocatedDict`, each with the line that it begins on.

    The standard library's scanner in Python calls `parse_object` for each object; the
    faster one in C does not, so it can't be used.
    """

    def __init__(self) -> None:
        super().__init__(
            object_pairs_hook=_object_of_unique_keys, parse_constant=_nan_as_none
        )
        self.parse_object = self._parse_located_object
        self.scan_once = json.scanner.py_make_scanner(self)  # type: ignore[attr-defined]
        self._line = 1
        self._counted_characters = 0
        """The number of characters whose line breaks are counted in `_line`."""

    def _parse_located_object(
        self, text_and_start: tuple[str, int], *options: Any
    ) -> Any:
        text, start = text_and_start
        self._line += text.count("\n", self._counted_characters, start)
        self._counted_characters = start
        line = self._line  # before the objects inside this one move it
        fields, end = json.decoder.JSONObject(text_and_start, *options)  # type: ignore[attr-defined]
        return LocatedDict(fields, line), end


def decode(text: str, decoder: json.JSONDecoder = LENIENT) -> Any:
    """Return the only value in `text`. Raises NotJsonError."""
    start = len(text) - len(text.lstrip(" \t\r\n"))
    try:
        value, end = decoder.raw_decode(text, start)
    except json.JSONDecodeError as error:
        raise NotJsonError(f"not valid JSON: {error.msg}", error.pos) from None
    except _RefusedError as error:
        raise NotJsonError(str(error)) from None
    except RecursionError:
        raise NotJsonError("nested too deeply") from None
    except ValueError as error:  # an integer with more digits than Python converts
        message = f"not a number that can be read: {error}"
        raise NotJsonError(message.splitlines()[0]) from None
    remainder = text[end:].lstrip(" \t\r\n")
    if remainder:
        position = len(text) - len(remainder)
        raise NotJsonError("more text after the value", position)
    return value


def read_document(source: SourceFile) -> Any:
    """Return the document in `source`. Raises GoldenSetError with the line of the
    fault."""
    text = source.decode(source.read_bytes())
    try:
        return decode(text, _LocatingDecoder())
    except NotJsonError as error:
        line = None
        if error.position is not None:
            line = text.count("\n", 0, error.position) + 1
        raise source.error(f"{error}.", line) from None


def read_rows(source: SourceFile) -> Iterator[Row]:
    """Yield the object on each line that isn't blank. Raises GoldenSetError with the
    line of the fault."""
    for line, raw in source.lines():
        text = source.decode(raw, line)
        if not text.strip():
            continue
        try:
            value = decode(text)
        except NotJsonError as error:
            position = ""
            if error.position is not None:
                position = f" (column {error.position + 1})"
            raise source.error(
                f"{error}{position}.",
                line,
                hint="Each line of a JSON Lines file must be one complete JSON object.",
            ) from None
        if not isinstance(value, dict):
            type_name = type(value).__name__
            raise source.error(
                f"found a value of type {type_name}, expected an object.",
                line,
                hint='Write each sample as one line like {"id": "…", "question": "…"}.',
            )
        yield Row(value, line)
