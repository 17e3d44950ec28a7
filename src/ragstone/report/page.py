"""What the HTML page holds on every sample: rows of its table, and the texts that it unpacks when a sample is opened.

A page of 5,000 samples has megabytes of texts. They are packed: compressed JSON as lines of base64, which the page
carries in inert elements. Nothing in a line can end its element. The same lines are kept in the run directory, so that
`ragstone report` writes the same page without the baseline.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ragstone import formatting
from ragstone.golden.sample import Origin
from ragstone.printable import clean
from ragstone.report.escape import url
from ragstone.report.parts import Cell, Links, SampleRow
from ragstone.report.texts import Json, Redact

MAX_PACKED = 32 * 1024 * 1024
"""Characters of packed texts in a page. The samples that come last, which are the best, have none beyond that."""
MAX_TEXTS = 2000
"""Samples with texts; the worst have them."""

_ROWS_AT_ONCE = 2000
_CHUNK = 128 * 1024
_MAX_UNPACKED = 64 * 1024 * 1024
_LINE = re.compile(r"[rt] [A-Za-z0-9+/]+={0,2}")


@dataclass(frozen=True, slots=True)
class PackedLine:
    """One line: rows of the table ("r"), or texts ("t"), in base64."""

    kind: str
    body: str


def pack(samples: Iterable[tuple[SampleRow, Callable[[], Json | None] | None]], redact: Redact) -> Iterator[str]:
    """Lines for a page with `samples`, in their order, each with what makes its texts, if it has some: called only if
    there is room.

    The texts are redacted already, the rows are not. A row names the place of its texts: the number of their line, and
    the place in it. One after another, samples are dropped from memory.
    """
    rows: list[list[Any]] = []
    texts: list[bytes] = []
    size = packed = chunk = made = 0
    for row, make_texts in samples:
        place: list[int] = []
        found = make_texts() if make_texts is not None and made < MAX_TEXTS and packed < MAX_PACKED else None
        if found is not None:
            place = [chunk, len(texts)]
            texts.append(_json(found))
            size, made = size + len(texts[-1]), made + 1
        rows.append([*row_values(row, redact), place])
        if size >= _CHUNK:
            line = f"t {_packed(b'[' + b','.join(texts) + b']')}"
            yield line
            packed += len(line)
            texts, size, chunk = [], 0, chunk + 1
        if len(rows) == _ROWS_AT_ONCE:
            yield f"r {_packed(_json(rows))}"
            rows = []
    if texts:
        yield f"t {_packed(b'[' + b','.join(texts) + b']')}"
    if rows:
        yield f"r {_packed(_json(rows))}"


def read_line(line: str) -> PackedLine | None:
    """The parts of a line of a page; None if it is none. Lines of an untrusted run are read here."""
    text = line.rstrip("\n")
    return PackedLine(text[0], text[2:]) if _LINE.fullmatch(text) else None


def with_row_links(line: str, links: Links) -> str:
    """`line` with the places of its rows linked by `links`. Raises ValueError if it can't be unpacked."""
    found = read_line(line)
    if found is None or found.kind != "r":
        return line
    try:
        body = base64.b64decode(found.body, validate=True)
        reader = zlib.decompressobj(wbits=31)
        rows = json.loads(reader.decompress(body, _MAX_UNPACKED))
        for row in rows:
            row[5] = None if row[3] is None else url(links.origin(Origin(str(row[3]), row[4])))
    except (binascii.Error, zlib.error, IndexError, TypeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    return f"r {_packed(_json(rows))}"


def row_values(row: SampleRow, redact: Redact) -> list[Any]:
    """A row for the page: id, question, tags, file, line, address, cells, latency, failure, cause, what changed."""

    def shown(text: str) -> str:
        return clean(redact(text))

    place = row.place
    return [
        shown(row.id),
        shown(row.question),
        [shown(tag) for tag in row.tags],
        None if place is None else shown(place.file),
        None if place is None else place.line,
        None if place is None else url(place.url),
        [_cell_values(cell, shown) for cell in row.cells],
        [formatting.seconds(row.latency_s), -1 if row.latency_s is None else row.latency_s],
        None if row.failure is None else shown(row.failure),
        None if row.cause is None else shown(row.cause),
        list(row.changed),
    ]


def _cell_values(found: Cell, shown: Redact) -> list[Any]:
    values = cell(found)
    given = [values["text"], float(values["sort"]), values["kind"], values["change"], shown(values["reason"])]
    while given[-1] == "":
        given.pop()
    return given


def cell(found: Cell) -> dict[str, str]:
    """Text and sort key of a cell in the table of samples."""
    if found.value is None:
        text = {"failed": "failed", "not_applicable": "n/a", "absent": formatting.NONE}[found.state]
        order = "-1" if found.state == "failed" else "2"
        return {"text": text, "sort": order, "kind": found.state, "change": "", "reason": found.reason or ""}
    moved = "" if not found.change else formatting.change(found.change)
    kind = "worse" if found.worse else "better" if found.change else "scored"
    text, order = formatting.score(found.value), f"{found.value:.6f}"
    return {"text": text, "sort": order, "kind": kind, "change": moved, "reason": ""}


def state(row: SampleRow) -> str:
    """The state of a sample in one word: ``failed``, ``worse``, ``better``, ``changed``, ``same``; empty if unknown."""
    kinds = {cell(one)["kind"] for one in row.cells}
    if row.failure is not None or "failed" in kinds:
        return "failed"
    for kind in ("worse", "better"):
        if kind in kinds:
            return kind
    compared = any(one.change is not None for one in row.cells)
    return "changed" if row.changed else "same" if compared else ""


def _json(value: object) -> bytes:
    body = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return body.encode("utf-8", "replace")


def _packed(body: bytes) -> str:
    packer = zlib.compressobj(level=4, wbits=31)  # 5 % larger than with 6, in a third of the time
    return base64.b64encode(packer.compress(body) + packer.flush()).decode("ascii")
