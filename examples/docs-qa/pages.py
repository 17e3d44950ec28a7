"""Markdown pages as passages: one per heading, with an id like ``backup.md#check-a-backup``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).resolve().parent / "docs"

_HEADING = re.compile(r"^(#{1,3}) (.+)$")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9])")
_SUBJECT = re.compile(r"([^:.!?]{1,60}):\s")
_LIST_ITEM = re.compile(r"^\s*(?:[-*]|\d+\.)\s+")


@dataclass(frozen=True)
class Passage:
    """A section of a page: its id, its title, and its sentences as plain text."""

    id: str
    title: str
    sentences: tuple[str, ...]

    @property
    def text(self) -> str:
        return "\n".join(self.sentences)

    @property
    def subjects(self) -> str:
        """The terms that the passage defines: the names before a colon, in definitions and table rows."""
        return "\n".join(subject(sentence) for sentence in self.sentences)


def subject(sentence: str) -> str:
    """The term that a sentence starts with and defines, or ""."""
    definition = _SUBJECT.match(sentence)
    return definition.group(1) if definition else ""


def read_passages(folder: Path = DOCS) -> list[Passage]:
    """Every section of every page in `folder`, with pages sorted by name."""
    return [passage for page in sorted(folder.glob("*.md")) for passage in _sections(page)]


def _sections(page: Path) -> Iterator[Passage]:
    heading, title, lines = page.stem, page.stem, []
    for line in page.read_text(encoding="utf-8").splitlines():
        match = _HEADING.match(line)
        if match is None:
            lines.append(line)
            continue
        yield from _passage(page, heading, title, lines)
        heading = match.group(2)
        is_first = len(match.group(1)) == 1
        title = heading if is_first else f"{page.stem.replace('-', ' ')}: {heading}"
        lines = []
    yield from _passage(page, heading, title, lines)


def _passage(page: Path, heading: str, title: str, lines: list[str]) -> Iterator[Passage]:
    sentences = tuple(_sentences(lines))
    if sentences:
        yield Passage(f"{page.name}#{_slug(heading)}", title, sentences)


def _sentences(lines: list[str]) -> Iterator[str]:
    """Sentences of the prose, and one per table row."""
    paragraph: list[str] = []
    for line in [*lines, ""]:
        text = line.strip()
        if text.startswith("|"):
            yield from _row(text)
        elif not text or _LIST_ITEM.match(line):
            yield from _split(paragraph)
            paragraph = [_LIST_ITEM.sub("", line)] if text else []
        else:
            paragraph.append(text)


def _split(paragraph: list[str]) -> list[str]:
    text = _plain(" ".join(paragraph))
    return _SENTENCE_END.split(text) if text else []


def _row(line: str) -> Iterator[str]:
    cells = [_plain(cell) for cell in line.strip("|").split("|")]
    is_rule = set("".join(cells)) <= set("-: ")
    if not is_rule:
        yield f"{cells[0]}: {'; '.join(cells[1:])}."


def _plain(text: str) -> str:
    return text.replace("`", "").strip()


def _slug(heading: str) -> str:
    return re.sub(r"[^\w-]", "", heading.lower().replace(" ", "-"))
