"""Sentences of running text, lists and headings."""

from __future__ import annotations

import re
from collections.abc import Iterator

import sentencex

_BULLET = re.compile(r"^\s*(?:[-*+•◦▪‣·]|\(?\d{1,3}[.)](?!\d)|\(?[a-zA-Z][.)](?=\s))\s+")
_MARKUP = re.compile(r"^[#>\s]+|[*_]{2,}|`{1,3}|<[a-zA-Z/][^<>]{0,80}>")
_MARKUP_MARKS = "#>*_`<"
_TABLE_RULE = re.compile(r"^[\s|:=+-]+$")
_WORD = re.compile(r"\w")
MAX_SENTENCE = 4_000
_LONG, _LONG_QUOTED, _LONG_WIDE = 128_000, 32_000, 4_000
"""Longer paragraphs are split into parts. Those with Chinese and Japanese full stops, which need no space after them,
are split into shorter parts, or into longer ones where each such stop closes a quotation."""
_FULL_STOP = re.compile(r"[.!?।؟](?=\s)")
_WIDE_STOPS = frozenset("。！？｡")
_WIDE_STOP = re.compile(r"[。！？｡](?![。！？｡」』”’）\"')])")


def split_sentences(text: str, language: str) -> list[str]:
    """The sentences of normalised `text` in order, without bullets and light markup; none is empty.

    `language` is an ISO 639-1 code. Each line of a list or a table is separate; wrapped lines are joined.
    """
    sentences: list[str] = []
    for block in _blocks(text):
        for part in _parts(block):
            for piece in sentencex.segment(language, part):
                sentence = piece.strip()
                if _WORD.search(sentence):
                    sentences.extend(_bounded(sentence))
    return sentences


def _blocks(text: str) -> list[str]:
    """Paragraphs, list items and headings, each on one line."""
    if "\n" not in text:
        bare = _strip(text)
        return [bare] if bare else []
    blocks: list[list[str]] = []
    open_block = False
    for line in text.split("\n"):
        if not line.strip() or _TABLE_RULE.match(line):
            open_block = False
            continue
        starts_item = bool(_BULLET.match(line)) or line.lstrip().startswith(("#", "|"))
        bare = _strip(line)
        if not bare:
            open_block = False
        elif open_block and not starts_item:
            blocks[-1].append(bare)
        else:
            blocks.append([bare])
            open_block = not line.lstrip().startswith(("#", "|"))
    return [" ".join(lines) for lines in blocks]


def _parts(block: str) -> Iterator[str]:
    """`block`, split into parts at sentence ends if it is long: sentencex may take quadratic time."""
    if len(block) <= _LONG_WIDE:
        yield block
        return
    if _WIDE_STOP.search(block):
        stop, most = _WIDE_STOP, _LONG_WIDE
    else:
        stop, most = _FULL_STOP, _LONG_QUOTED if _WIDE_STOPS & set(block) else _LONG
    start = 0
    while len(block) - start > most:
        end = start + most
        for found in stop.finditer(block, start + most // 2, end):
            end = found.end()
        yield block[start:end]
        start = end
    yield block[start:]


def _strip(line: str) -> str:
    if line[:1].isspace() or any(mark in line for mark in _MARKUP_MARKS):
        line = _MARKUP.sub("", line)
    return _BULLET.sub("", line).strip()


def _bounded(sentence: str) -> list[str]:
    """Text without a full stop (logs, minified data), cut at spaces to limit the length of a sentence."""
    if len(sentence) <= MAX_SENTENCE:
        return [sentence]
    parts = []
    start = 0
    while len(sentence) - start > MAX_SENTENCE:
        cut = sentence.rfind(" ", start + MAX_SENTENCE // 2, start + MAX_SENTENCE)
        cut = cut if cut > 0 else start + MAX_SENTENCE
        parts.append(sentence[start:cut])
        start = cut
        while start < len(sentence) and sentence[start].isspace():
            start += 1
    rest = sentence[start:]
    return [*parts, rest] if rest else parts
