"""Sentences of running text, lists and headings."""

from __future__ import annotations

import re

import sentencex

_BULLET = re.compile(r"^\s*(?:[-*+•◦▪‣·]|\(?\d{1,3}[.)](?!\d)|\(?[a-zA-Z][.)](?=\s))\s+")
_MARKUP = re.compile(r"^[#>\s]+|[*_]{2,}|`{1,3}|<[a-zA-Z/][^<>]{0,80}>")
_TABLE_RULE = re.compile(r"^[\s|:=+-]+$")
_WORD = re.compile(r"\w")
_MAX_SENTENCE = 4_000


def split_sentences(text: str, language: str) -> list[str]:
    """The sentences of normalised `text`, bullets and light markup taken off, in order; none is empty.

    `language` is an ISO 639-1 code. Lines of a list or a table stand alone; wrapped lines are joined.
    """
    sentences: list[str] = []
    for block in _blocks(text):
        for piece in sentencex.segment(language, block):
            sentence = piece.strip()
            if _WORD.search(sentence):
                sentences.extend(_bounded(sentence))
    return sentences


def _blocks(text: str) -> list[str]:
    """Paragraphs, list items and headings, each on one line."""
    if "\n" not in text:
        bare = _strip(text)
        return [bare] if bare else []
    blocks: list[str] = []
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
            blocks[-1] = f"{blocks[-1]} {bare}"
        else:
            blocks.append(bare)
            open_block = not line.lstrip().startswith(("#", "|"))
    return blocks


def _strip(line: str) -> str:
    return _BULLET.sub("", _MARKUP.sub("", line)).strip()


def _bounded(sentence: str) -> list[str]:
    """Text without any full stop (logs, minified data) is cut at spaces, so that no sentence is endless."""
    if len(sentence) <= _MAX_SENTENCE:
        return [sentence]
    parts = []
    while len(sentence) > _MAX_SENTENCE:
        cut = sentence.rfind(" ", _MAX_SENTENCE // 2, _MAX_SENTENCE)
        cut = cut if cut > 0 else _MAX_SENTENCE
        parts.append(sentence[:cut])
        sentence = sentence[cut:].strip()
    return [*parts, sentence] if sentence else parts
