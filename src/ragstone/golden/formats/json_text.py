"""Decoding JSON strictly: no duplicate keys, no NaN, no surprises from size or nesting."""

from __future__ import annotations

import json
from typing import Any


class NotJsonError(ValueError):
    """The text is not JSON; `position` is the offset of the fault, or None where it isn't known."""

    def __init__(self, message: str, position: int | None = None) -> None:
        super().__init__(message)
        self.position = position


class _RefusedError(ValueError):
    """Valid JSON for the decoder, but nothing that can be trusted."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _RefusedError(f"duplicate key {json.dumps(key)} in one object")
            seen.add(key)
    return found


def _no_constant(name: str) -> float:
    raise _RefusedError(f"{name} is not a JSON number")


DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)


def decode_at(text: str, position: int) -> tuple[Any, int]:
    """The value that starts at `position`, and the offset behind it. Raises NotJsonError."""
    try:
        return DECODER.raw_decode(text, position)
    except json.JSONDecodeError as error:
        raise NotJsonError(f"not valid JSON: {error.msg}", error.pos) from None
    except _RefusedError as error:
        raise NotJsonError(str(error)) from None
    except RecursionError:
        raise NotJsonError("nested too deeply") from None
    except ValueError as error:
        raise NotJsonError(f"not a number that can be read: {error}".splitlines()[0]) from None


def decode(text: str) -> Any:
    """The one value in `text`. Raises NotJsonError."""
    start = len(text) - len(text.lstrip(" \t\r\n"))
    value, end = decode_at(text, start)
    rest = text[end:].lstrip(" \t\r\n")
    if rest:
        raise NotJsonError("more text after the value", len(text) - len(rest))
    return value
