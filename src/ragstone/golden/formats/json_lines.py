"""JSON Lines: one object a line, read line by line."""

from __future__ import annotations

from collections.abc import Iterator

from ragstone.golden.formats.json_text import NotJsonError, decode
from ragstone.golden.rows import Row, SourceFile


def read_rows(source: SourceFile) -> Iterator[Row]:
    """The rows of `source`; blank lines are passed over. Raises GoldenSetError with the line."""
    for number, raw in source.lines():
        text = source.decode(raw, number)
        if text and not text.isspace():
            yield Row(_object(source, text, number), number)


def _object(source: SourceFile, text: str, line: int) -> dict[str, object]:
    try:
        value = decode(text)
    except NotJsonError as error:
        column = "" if error.position is None else f" (column {error.position + 1})"
        raise source.error(
            f"{error}{column}.", line, hint="Each line of a JSON Lines file must be one complete JSON object."
        ) from None
    if not isinstance(value, dict):
        raise source.error(
            f"a JSON object is expected, found {type(value).__name__}.",
            line,
            hint='Write each sample as one line like {"id": "…", "question": "…"}.',
        )
    return value
