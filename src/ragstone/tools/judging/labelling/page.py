"""Pages for people: labelling answers, and reviewing drafts. Self-contained HTML that works from a file.

Everything is in the page, its content security policy allows nothing else, and foreign text is only ever set as text.
What a person did there is saved as a file, which `read_saved` reads.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from ragstone.errors import disk_errors, parse_errors
from ragstone.files import read_regular
from ragstone.printable import clean
from ragstone.report.html_page import render_page
from ragstone.report.templates import read_template
from ragstone.tools.judging.labels import MAX_LABELS_BYTES

MAX_CHARACTERS = 200_000
"""Longer texts are cut, which the page says."""

_MAX_EVIDENCE = 5_000
_PACKAGE = "ragstone.tools.judging.labelling"
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class PageItem:
    """What a page shows of one sample, which is `name` there and `key` in the file that it saves.

    `contexts` are id and text; `evidence` is marked in them. `others` is what other people said, by metric. `fields`
    are the values that a review can edit, as they are; all else is made harmless for display.
    """

    key: str
    name: str
    question: str
    answer: str = ""
    reference: str = ""
    contexts: tuple[tuple[str | None, str], ...] = ()
    evidence: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    statements: tuple[tuple[str, str], ...] = ()
    others: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    fields: Mapping[str, str | bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PageMetric:
    name: str
    title: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class LabellingPage:
    """A page of `kind` ``label`` or ``review``. `key` identifies what it was made from; `file` is the name to save."""

    kind: str
    title: str
    key: str
    items: tuple[PageItem, ...]
    metrics: tuple[PageMetric, ...] = ()
    scale: str = "pass-fail"
    annotator: str = ""
    contexts: str = "Context"
    file: str = ""
    footer: str = ""


class SavedRow(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    key: str
    comment: str = Field(default="", max_length=100_000)


class SavedFile(BaseModel):
    """A file that a page saved."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    schema_version: Literal[1]
    annotator: str


_Model = TypeVar("_Model", bound=BaseModel)


def read_saved(
    model: type[_Model], path: Path, hint: str | None = None, what: str = "a file that a page saved"
) -> _Model:
    """The file `path`, which is `what`. Raises ConfigError."""
    with disk_errors(path, hint=hint), parse_errors(path, f"not {what}", hint=hint):
        return model.model_validate_json(read_regular(path, limit=MAX_LABELS_BYTES))


def render_labelling(page: LabellingPage) -> str:
    data = {
        **{name: getattr(page, name) for name in ("kind", "key", "scale", "annotator", "contexts", "file")},
        "metrics": [asdict(one) | {"title": clean(one.title), "hint": clean(one.hint)} for one in page.metrics],
        "items": [_item(item) for item in page.items],
    }
    return render_page(
        "labelling.html.j2",
        package=_PACKAGE,
        styles=(read_template("labelling.css", _PACKAGE),),
        script=read_template("labelling.js", _PACKAGE),
        title=page.title,
        footer=page.footer,
        data=data,
    )


def _item(item: PageItem) -> dict[str, object]:
    return {
        "key": item.key,
        "id": clean(item.name),
        "question": _shown(item.question),
        "answer": _shown(item.answer),
        "reference": _shown(item.reference),
        "contexts": [
            {"id": clean(name or ""), "parts": marked(_shown(text), item.evidence)} for name, text in item.contexts
        ],
        "tags": [clean(tag) for tag in item.tags],
        "statements": [{"id": name, "text": _shown(text)} for name, text in item.statements],
        "others": {name: [clean(text) for text in texts] for name, texts in item.others.items()},
        "fields": dict(item.fields),
    }


def _shown(text: str) -> str:
    if len(text) > MAX_CHARACTERS:
        text = f"{text[:MAX_CHARACTERS]}\n[cut: {len(text):,} characters]"
    return clean(text)


def marked(text: str, evidence: Sequence[str]) -> list[tuple[str, bool]]:
    """`text` in parts, those that are `evidence` marked: its words in order, whatever is between them."""
    spans: list[tuple[int, int]] = []
    for passage in evidence:
        words = _WORD.findall(passage[:_MAX_EVIDENCE])
        if words:
            pattern = re.compile(r"\W+".join(map(re.escape, words)), re.IGNORECASE)
            spans += [found.span() for found in pattern.finditer(text)]
    parts: list[tuple[str, bool]] = []
    at = 0
    for start, end in sorted(spans):
        if end <= at:
            continue
        start = max(start, at)
        if start > at:
            parts.append((text[at:start], False))
        parts.append((text[start:end], True))
        at = end
    if at < len(text) or not parts:
        parts.append((text[at:], False))
    return parts
