"""A page with the texts of its samples, and what is packed in it."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from ragstone.evaluation.record import SampleRecord
from ragstone.report.page import pack
from ragstone.report.parts import Document
from ragstone.report.render import render
from ragstone.report.texts import sample_texts

NONE: Mapping[str, SampleRecord] = {}


def page_lines(
    report: Document,
    now: Mapping[str, SampleRecord],
    then: Mapping[str, SampleRecord] = NONE,
    redact: Callable[[str], str] = str,
) -> list[str]:
    """The lines of a page with the rows of `report` and the texts of the records, by sample id."""
    samples = (
        (row, partial(sample_texts, now[row.id], then.get(row.id), redact) if row.id in now else None)
        for row in report.samples.rows
    )
    return list(pack(samples, redact))


def paged(report: Document, now: Mapping[str, SampleRecord], then: Mapping[str, SampleRecord] = NONE) -> str:
    return render(report, "html", page=page_lines(report, now, then))


def unpacked(lines: Iterable[str], kind: str) -> list[Any]:
    """All rows ("r") or texts ("t") in the lines of a page."""
    found = [line[2:] for line in lines if line.startswith(kind)]
    return [one for body in found for one in json.loads(gzip.decompress(base64.b64decode(body)))]


def packed_in(html: str) -> list[str]:
    """The lines of a page again."""
    return [f"{kind} {body}" for kind, body in re.findall(r'data-packed="(.)">([^<]*)</script>', html)]
