"""What the HTML page holds on every sample: rows of its table, and the texts that it
unpacks when a sample is opened.

A page of 5,000 samples has megabytes of texts. They are packed: compressed JSON as
lines of base64, which the page carries in inert elements. Nothing in a line can end its
element.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ragstone import formatting
from ragstone.report.escape import url
from ragstone.report.parts import Cell, Place, SampleRow
from ragstone.report.texts import Json, Redact, Texts

MAX_PACKED = 32 * 1024 * 1024
"""Characters of packed texts in a page. The samples that come last, which are the best,
have none beyond that."""
MAX_TEXTS = 2000
"""Samples with texts; the worst have them."""

_ROWS_AT_ONCE = 2000
_TEXTS_AT_ONCE = 20


def pack(
    samples: Iterable[tuple[SampleRow, Callable[[], Json | None] | None]],
    redact: Redact,
) -> Iterator[str]:
    """Lines for a page with `samples`, in their order, each with what makes its texts,
    if it has some: called only if there is room.

    The texts are redacted already, the rows are not. A row names the place of its
    texts: the number of their line, and the place in it. One after another, samples are
    dropped from memory.
    """
    rows: list[list[Any]] = []
    texts: list[Json] = []
    size = 0
    chunk = 0
    for row, make_texts in samples:
        packed_texts = chunk * _TEXTS_AT_ONCE + len(texts)
        has_room = packed_texts < MAX_TEXTS and size < MAX_PACKED
        sample_texts = make_texts() if make_texts is not None and has_room else None
        place: list[int] = []
        if sample_texts is not None:
            place = [chunk, len(texts)]
            texts.append(sample_texts)
        rows.append([*row_values(row, redact), place])
        if len(texts) == _TEXTS_AT_ONCE:
            line = _packed("t", texts)
            yield line
            size += len(line)
            texts = []
            chunk += 1
        if len(rows) == _ROWS_AT_ONCE:
            yield _packed("r", rows)
            rows = []
    if texts:
        yield _packed("t", texts)
    if rows:
        yield _packed("r", rows)


def row_values(row: SampleRow, redact: Redact) -> Any:
    """A row for the page: id, question, tags, file, line, address, cells, latency,
    failure, cause."""
    place = row.place or Place("")
    latency = -1 if row.latency_s is None else row.latency_s
    values = [
        row.id,
        row.question,
        list(row.tags),
        place.file or None,
        place.line,
        url(place.url),
        [[*cell(value).values(), value.reason] for value in row.cells],
        [formatting.seconds(row.latency_s), latency],
        row.failure,
        row.cause,
    ]
    return Texts(redact).shown(values)


def cell(value: Cell) -> dict[str, str | float]:
    """Text, sort key, kind and change of a cell in the table of samples."""
    texts = {"failed": "failed", "not_applicable": "n/a"}
    shown: dict[str, str | float] = {
        "text": texts.get(value.state, formatting.score(value.value)),
        "sort": -1 if value.state == "failed" else 2,
        "kind": value.state,
        "change": "",
    }
    if value.value is not None:
        shown["sort"] = round(value.value, 6)
    if value.change:
        shown["change"] = formatting.change(value.change)
        shown["kind"] = "worse" if value.worse else "better"
    return shown


def _packed(kind: str, value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    # 5 % larger than with level 6, in a third of the time.
    packed = zlib.compress(text.encode("utf-8", "replace"), level=4, wbits=31)
    return f"{kind} {base64.b64encode(packed).decode('ascii')}"
