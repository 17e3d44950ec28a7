"""JSON: one document, or one object per line."""

from __future__ import annotations

import json
import json.decoder
import json.scanner
from collections import Counter
from collections.abc import Iterator
from typing import Any

from ragstone.golden.rows import LocatedDict, Row, SourceFile


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
        counts = Counter(key for key, _ in pairs)
        key = max(counts, key=counts.__getitem__)
        raise _RefusedError(f"duplicate key {json.dumps(key)} in one object")
    return items


def _no_constant(name: str) -> float:
    raise _RefusedError(f"{name} is not a JSON number")


def _null_or_refused(name: str) -> None:
    if name != "NaN":
        _no_constant(name)


STRICT = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)
LENIENT = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_null_or_refused)
"""Reads NaN, which Python writes for a number that is missing, as null."""


class _LocatingDecoder(json.JSONDecoder):
    """Gives objects the lines that they begin on.

    The standard library decodes an object by `parse_object`, if its scanner is the one
    in Python; the one in C is faster, and knows no lines.
    """

    def __init__(self) -> None:
        super().__init__(object_pairs_hook=_unique, parse_constant=_null_or_refused)
        self.parse_object = self._object
        self.scan_once = json.scanner.py_make_scanner(self)  # type: ignore[attr-defined]
        self._line = 1
        self._counted = 0

    def _object(self, text_and_start: tuple[str, int], *options: Any) -> Any:
        text, start = text_and_start
        self._line += text.count("\n", self._counted, start)
        self._counted = start
        line = self._line
        fields, end = json.decoder.JSONObject(text_and_start, *options)  # type: ignore[attr-defined]
        return LocatedDict(fields, line), end


def decode(text: str, decoder: json.JSONDecoder = LENIENT) -> Any:
    """The one value in `text`. Raises NotJsonError."""
    start = len(text) - len(text.lstrip(" \t\r\n"))
    try:
        value, end = decoder.raw_decode(text, start)
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
    remainder = text[end:].lstrip(" \t\r\n")
    if remainder:
        position = len(text) - len(remainder)
        raise NotJsonError("more text after the value", position)
    return value


def read_document(source: SourceFile) -> Any:
    """The document in `source`. Raises GoldenSetError with the line of the fault."""
    text = source.decode(source.read_bytes())
    try:
        return decode(text, _LocatingDecoder())
    except NotJsonError as error:
        line = None
        if error.position is not None:
            line = text.count("\n", 0, error.position) + 1
        raise source.error(f"{error}.", line) from None


def read_rows(source: SourceFile) -> Iterator[Row]:
    """The rows of `source`; blank lines are passed over. Raises GoldenSetError with the
    line."""
    for line, raw in source.lines():
        text = source.decode(raw, line)
        if not text.strip():
            continue
        try:
            value = decode(text)
        except NotJsonError as error:
            column = ""
            if error.position is not None:
                column = f" (column {error.position + 1})"
            raise source.error(
                f"{error}{column}.",
                line,
                hint="Each line of a JSON Lines file must be one complete JSON object.",
            ) from None
        if not isinstance(value, dict):
            kind = type(value).__name__
            raise source.error(
                f"found a {kind}, expected an object.",
                line,
                hint='Write each sample as one line like {"id": "…", "question": "…"}.',
            )
        yield Row(value, line)
