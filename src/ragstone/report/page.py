"""Packs the samples of an HTML page: the rows of its table, and the texts that it unpacks
when a sample is opened.

A page of 5,000 samples has megabytes of texts. They are packed into chunks: compressed
JSON as base64, which the page carries in elements that the browser doesn't run. Nothing
in a chunk can end its element.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import astuple

from ragstone import formatting
from ragstone.report.escape import safe_url
from ragstone.report.parts import Cell, Place, SampleRow
from ragstone.report.texts import Json, Redact, TextPreparer

MAX_PACKED_CHARACTERS = 32 * 1024 * 1024
"""Maximum length of all packed texts in a page. The samples that come last, which are the
best, have none beyond that."""

MAX_SAMPLES_WITH_TEXTS = 2000
"""Maximum number of samples with texts: the first, which are the worst."""

_ROWS_PER_CHUNK = 2000
_SAMPLES_PER_TEXT_CHUNK = 20


class PackedChunk(Struct, frozen=True):
    """Some rows of the table, or the texts of some samples."""

    kind: Literal["rows", "texts"]
    data: str
    """A list in JSON, compressed, as base64."""


def pack(
    samples: Iterable[tuple[SampleRow, Callable[[], Json | None] | None]],
    redact: Redact,
) -> Iterator[PackedChunk]:
    """Yield the chunks of a page with `samples`, one after another, so that not all are
    in memory.

    Each sample comes with a function that returns its texts, if it has some; it is called
    only if the page has room for them. The texts are redacted already, the rows are not.
    The last value of a row is the place of its texts: the number of their chunk, and the
    position in the chunk; empty if it has none.
    """
    rows: list[list[Any]] = []
    texts: list[Json] = []
    packed_characters = 0
    text_chunk_number = 0
    for row, make_texts in samples:
        samples_with_texts = text_chunk_number * _SAMPLES_PER_TEXT_CHUNK + len(texts)
        has_room = (
            samples_with_texts < MAX_SAMPLES_WITH_TEXTS
            and packed_characters < MAX_PACKED_CHARACTERS
        )
        sample_texts = make_texts() if make_texts is not None and has_room else None
        place_of_texts: list[int] = []
        if sample_texts is not None:
            place_of_texts = [text_chunk_number, len(texts)]
            texts.append(sample_texts)
        rows.append([*row_values(row, redact), place_of_texts])
        if len(texts) == _SAMPLES_PER_TEXT_CHUNK:
            chunk = _pack_chunk("texts", texts)
            yield chunk
            packed_characters += len(chunk.data)
            texts = []
            text_chunk_number += 1
        if len(rows) == _ROWS_PER_CHUNK:
            yield _pack_chunk("rows", rows)
            rows = []
    if texts:
        yield _pack_chunk("texts", texts)
    if rows:
        yield _pack_chunk("rows", rows)


def row_values(row: SampleRow, redact: Redact) -> Any:
    """Return a row as `rowOf` of report.js takes it apart: id, question, tags, file,
    line, address, cells, latency, failure, cause."""
    place = row.place or Place("")
    latency_sort_key = -1 if row.latency_s is None else row.latency_s
    values = [
        row.id,
        row.question,
        list(row.tags),
        place.file or None,
        place.line,
        safe_url(place.url),
        [[*astuple(shown_cell(cell)), cell.reason] for cell in row.cells],
        [formatting.seconds(row.latency_s), latency_sort_key],
        row.failure,
        row.cause,
    ]
    return TextPreparer(redact).prepare(values)


class ShownCell(Struct, frozen=True):
    """A cell as the table of samples shows it; report.js takes its values in this
    order."""

    text: str
    sort_key: float
    kind: str
    """``worse``, ``better``, or the state of the cell."""
    change: str


def shown_cell(cell: Cell) -> ShownCell:
    text_by_state = {"failed": "failed", "not_applicable": "n/a"}
    # Failed cells come before all scores, others without a score after them.
    sort_key: float = -1 if cell.state == "failed" else 2
    if cell.value is not None:
        sort_key = round(cell.value, 6)
    kind: str = cell.state
    if cell.change:
        kind = "worse" if cell.worse else "better"
    return ShownCell(
        text=text_by_state.get(cell.state, formatting.score(cell.value)),
        sort_key=sort_key,
        kind=kind,
        change=formatting.change(cell.change) if cell.change else "",
    )


def _pack_chunk(kind: Literal["rows", "texts"], items: object) -> PackedChunk:
    text = json.dumps(items, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    # Level 4 is 5 % larger than level 6, in a third of the time; 31 means gzip, which
    # browsers can unpack.
    compressed = zlib.compress(text.encode("utf-8", "replace"), level=4, wbits=31)
    return PackedChunk(kind, base64.b64encode(compressed).decode("ascii"))
