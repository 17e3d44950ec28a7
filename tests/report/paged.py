"""A page with the texts of its samples, and what is packed in it."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Literal

from ragstone.evaluation.record import SampleRecord
from ragstone.report.page import PackedChunk, pack
from ragstone.report.parts import Document
from ragstone.report.render import render
from ragstone.report.texts import sample_texts

NONE: Mapping[str, SampleRecord] = {}


def packed_samples(
    report: Document,
    now: Mapping[str, SampleRecord],
    then: Mapping[str, SampleRecord] = NONE,
    redact: Callable[[str], str] = str,
) -> list[PackedChunk]:
    """The rows of `report` and the texts of the records, by sample id, packed for a page."""
    samples = (
        (row, partial(sample_texts, now[row.id], then.get(row.id), redact) if row.id in now else None)
        for row in report.samples.rows
    )
    return list(pack(samples, redact))


def paged(report: Document, now: Mapping[str, SampleRecord], then: Mapping[str, SampleRecord] = NONE) -> str:
    return render(report, "html", packed_samples=packed_samples(report, now, then))


def unpacked(chunks: Iterable[PackedChunk], kind: Literal["rows", "texts"]) -> list[Any]:
    """All rows or texts in the chunks of a page."""
    found = [chunk.data for chunk in chunks if chunk.kind == kind]
    return [one for data in found for one in json.loads(gzip.decompress(base64.b64decode(data)))]


def packed_in(html: str) -> list[PackedChunk]:
    """The chunks of a page."""
    return [PackedChunk(*found) for found in re.findall(r'data-packed="(.*?)">([^<]*)</script>', html)]
