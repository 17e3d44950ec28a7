"""One JSON document, with the lines of what stands in its outer levels.

The outer levels are walked here, so that each row's line is known; what lies deeper is left to the decoder in C.
"""

from __future__ import annotations

import re
from typing import Any

from ragstone.golden.formats.json_text import NotJsonError, decode_at
from ragstone.golden.rows import LocatedDict, LocatedList, SourceFile

_WALKED_LEVELS = 3
_SPACE = re.compile(r"[ \t\r\n]*")


class _Walker:
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
        match = _SPACE.match(self.text, position)
        return match.end() if match else position

    def value(self, position: int, level: int) -> tuple[Any, int]:
        opening = self.text[position : position + 1]
        if level < _WALKED_LEVELS and opening == "[":
            return self._list(position + 1)
        if level < _WALKED_LEVELS and opening == "{":
            return self._object(position + 1, level)
        return decode_at(self.text, position)

    def _list(self, position: int) -> tuple[LocatedList, int]:
        """The items of a list, each decoded as it stands: only the line that it starts on is of interest."""
        found = LocatedList()
        position = self.skip(position)
        if self.text[position : position + 1] == "]":
            return found, position + 1
        while True:
            found.lines.append(self.line(position))
            item, position = decode_at(self.text, position)
            found.append(item)
            position, more = self._separator(self.skip(position), "]")
            if not more:
                return found, position

    def _object(self, position: int, level: int) -> tuple[LocatedDict, int]:
        found = LocatedDict()
        position = self.skip(position)
        if self.text[position : position + 1] == "}":
            return found, position + 1
        while True:
            if self.text[position : position + 1] != '"':
                raise NotJsonError("not valid JSON: a key in double quotes is expected", position)
            start = position
            key, position = decode_at(self.text, position)
            if key in found:
                raise NotJsonError(f'duplicate key "{key}" in one object', start)
            position = self.skip(position)
            if self.text[position : position + 1] != ":":
                raise NotJsonError("not valid JSON: ':' is expected", position)
            position = self.skip(position + 1)
            found.lines[key] = self.line(position)
            found[key], position = self.value(position, level + 1)
            position, more = self._separator(self.skip(position), "}")
            if not more:
                return found, position

    def _separator(self, position: int, closing: str) -> tuple[int, bool]:
        sign = self.text[position : position + 1]
        if sign == closing:
            return position + 1, False
        if sign != ",":
            raise NotJsonError(f"not valid JSON: ',' or '{closing}' is expected", position)
        return self.skip(position + 1), True


def parse(text: str) -> Any:
    """The document in `text`, outer lists and objects located. Raises NotJsonError."""
    walker = _Walker(text)
    value, end = walker.value(walker.skip(0), 0)
    end = walker.skip(end)
    if end != len(text):
        raise NotJsonError("more text after the end of the document", end)
    return value


def read_document(source: SourceFile) -> Any:
    """The document in `source`. Raises GoldenSetError with the line of the fault."""
    text = source.decode(source.read_bytes())
    try:
        return parse(text)
    except NotJsonError as error:
        line = None if error.position is None else text.count("\n", 0, error.position) + 1
        raise source.error(f"{error}.", line) from None
