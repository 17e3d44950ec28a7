"""Markdown pages as passages: one per heading, with an id like ``golden-sets.md#aliases``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"

_HEADING = re.compile(r"^(#{1,3}) (.+)$")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_EMPHASIS = re.compile(r"(?<![\w*/])(\*{1,2})(?=\S)([^*]+?)(?<=\S)\1(?![\w*])")
_LEAD_IN = re.compile(r"^\*\*([^*.]+)\.\*\*(?=\s)")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9\"“])")
_SUBJECT = re.compile(r"([^:.!?]{1,60}):\s")
_LIST_ITEM = re.compile(r"^\s*(?:[-*]|\d+\.)\s+")


@dataclass(frozen=True)
class Passage:
    """A section of a page: its id and title, its sentences as plain text, and which of them are code."""

    id: str
    title: str
    sentences: tuple[str, ...]
    code: frozenset[str]

    @property
    def text(self) -> str:
        return "\n".join(self.sentences)

    @property
    def subjects(self) -> str:
        """The terms that the passage defines: the names before a colon, in definitions and table rows."""
        return "\n".join(subject(sentence) for sentence in self.sentences if sentence not in self.code)


def subject(sentence: str) -> str:
    """The term that a sentence starts with and defines, or ""."""
    found = _SUBJECT.match(sentence)
    return found.group(1) if found else ""


def read_passages(folder: Path = DOCS) -> list[Passage]:
    """Every section of every page in `folder`, with pages sorted by name."""
    return [passage for page in sorted(folder.glob("*.md")) for passage in _sections(page)]


def _sections(page: Path) -> Iterator[Passage]:
    title = name = page.stem
    lines: list[str] = []
    fenced = False
    for line in _COMMENT.sub("", page.read_text(encoding="utf-8")).splitlines():
        fenced ^= line.lstrip().startswith("```")
        heading = None if fenced else _HEADING.match(line)
        if heading is None:
            lines.append(line)
            continue
        yield from _passage(page, name, title, lines)
        name = _plain(heading.group(2))
        title = name if len(heading.group(1)) == 1 else f"{page.stem.replace('-', ' ')}: {name}"
        lines = []
    yield from _passage(page, name, title, lines)


def _passage(page: Path, heading: str, title: str, lines: list[str]) -> Iterator[Passage]:
    code: set[str] = set()
    if sentences := tuple(_sentences(lines, code)):
        yield Passage(f"{page.name}#{_slug(heading)}", title, sentences, frozenset(code))


def _sentences(lines: list[str], blocks: set[str]) -> Iterator[str]:
    """Sentences of the prose, and one per table row and code block; code blocks are also added to `blocks`."""
    paragraph: list[str] = []
    code: list[str] | None = None
    for line in [*lines, ""]:
        stripped = line.strip()
        if stripped.startswith("```"):
            yield from _split(paragraph)
            paragraph = []
            if code:
                blocks.add("\n".join(code))
                yield "\n".join(code)
            code = [] if code is None else None
        elif code is not None:
            code.append(line.rstrip())
        elif stripped.startswith("|"):
            yield from _row(stripped)
        elif not stripped or _LIST_ITEM.match(line):
            yield from _split(paragraph)
            paragraph = [_LIST_ITEM.sub("", line)] if stripped else []
        else:
            paragraph.append(stripped)


def _split(paragraph: list[str]) -> Iterator[str]:
    # "**Golden set.** The questions that ..." is one sentence, about the term in bold.
    text = _plain(_LEAD_IN.sub(r"\1:", " ".join(paragraph)))
    if text:
        yield from _SENTENCE_END.split(f"{text[:-1]}." if text.endswith(":") else text)


def _row(line: str) -> Iterator[str]:
    cells = [_plain(cell) for cell in line.strip("|").split("|")]
    if set("".join(cells)) <= set("-: ") or len(cells) < 2:
        return
    yield f"{cells[0]}: {'; '.join(cell for cell in cells[1:] if cell).rstrip('.')}."


def _plain(text: str) -> str:
    return _EMPHASIS.sub(r"\2", _LINK.sub(r"\1", text)).replace("`", "").strip()


def _slug(heading: str) -> str:
    return re.sub(r"[^\w-]", "", heading.lower().replace(" ", "-"))
