"""Sentences of running text, lists and headings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum

import sentencex

_BULLET = re.compile(
    r"^\s*(?:[-*+•◦▪‣·→\u2600-\u27bf\U0001f300-\U0001faff]|\(?\d{1,3}[.)](?!\d)|\(?[a-zA-Z][.)](?=\s))\s+"
)
_LINE_MARK = re.compile(r"^\s*(?:#{1,6}\s+|>(?![>=])\s*)*")
_MARKUP = re.compile(
    r"(?P<code>(?<!`)(?P<ticks>`+)(?!`).*?(?<!`)(?P=ticks)(?!`))"
    r"|(?<![A-Za-z0-9_*\\/])(?P<stars>\*{2,3})(?P<strong>[^\s*/](?:(?!\*\*).)*?)(?<![\s/])(?P=stars)(?![A-Za-z0-9_*])"
    r"|(?<!\w)(?P<lows>_{2,3})(?![A-Za-z0-9_]+__)(?P<bold>[^\s_](?:(?!__).)*?)(?<!\s)(?P=lows)(?!\w)"
    r"|</?(?P<tag>[a-zA-Z][a-zA-Z0-9]*)(?P<attributes>(?:\s[^<>]{0,200})?)/?>"
)
"""Code, which stays as it is, and marks that go: emphasis in pairs, unless it is a name
(``__init__``), an argument (``**kwargs``) or a glob (``src/**``), and HTML tags."""

_CLOSED = re.compile(r"</([a-zA-Z][a-zA-Z0-9]*)\s*>")
_NOTE = re.compile(r"^\s*\[\^?\d{1,3}\]:?\s")
_FENCE = re.compile(r"(```|~~~)")
_HTML = re.compile(
    r"a|abbr|b|big|blockquote|br|center|cite|code|dd|del|details|div|dl|dt|em|font|h[1-6r]|i|img|ins|kbd|li|mark|ol|p|pre"
    r"|q|s|samp|small|span|strike|strong|su[bp]|summary|table|tbody|t[dhrt]|tfoot|thead|ul?|var"
)
_ALONE = frozenset({"br", "hr", "img"})
_WORD = re.compile(r"\w")
MAX_SENTENCE = 4_000
_LONG, _LONG_QUOTED, _LONG_WIDE = 128_000, 32_000, 4_000
"""Longer paragraphs are split into parts. Those with Chinese and Japanese full stops,
which need no space after them, are split into shorter parts, or into longer ones where
each such stop closes a quotation."""
_FULL_STOP = re.compile(r"[.!?।؟](?=\s)")
_WIDE_STOPS = frozenset("。！？｡")
_WIDE_STOP = re.compile(r"[。！？｡](?![。！？｡」』”’）\"')])")


class Kind(Enum):
    """What a part of a text is. A note is a footnote's text: "[1] Handbook, page 3"."""

    TEXT, ITEM, HEADING, ROW, TABLE_HEAD, CODE, NOTE = range(7)


_RULE = re.compile(r"[\s|:=+-]*$")
"""A line that is blank, underlines a heading, or divides a table."""
_BOLD_LINE = re.compile(
    r" {0,3}(?:\*\*|__(?!\w+__))[^\n*_]{0,79}[^\n*_.!。](?:\*\*:?|__:?)\s*$"
)
_BEGINNINGS = (
    (re.compile(r"\s*#"), Kind.HEADING),
    (_BOLD_LINE, Kind.HEADING),
    (re.compile(r"\s*\|"), Kind.ROW),
    (_BULLET, Kind.ITEM),
    (_NOTE, Kind.NOTE),
)
"""How a line begins that is of a kind; the first that matches counts."""


def split_sentences(text: str, language: str) -> list[str]:
    """The sentences of normalised `text` in order, without bullets and light markup;
    none is empty.

    `language` is an ISO 639-1 code. Each line of a list, a table or a block of code is
    separate; wrapped lines are joined. Code, names like ``__init__``, placeholders like
    ``<branch>`` and globs keep their marks.
    """
    sentences: list[str] = []
    for _, block_sentences in split_blocks(text, language):
        sentences += block_sentences
    return sentences


def split_blocks(text: str, language: str) -> list[tuple[Kind, list[str]]]:
    """The sentences of each paragraph, list item, heading or row, as `split_sentences`
    gives them."""
    return [(kind, _sentences(block, language)) for kind, block in _blocks(text)]


def _sentences(block: str, language: str) -> list[str]:
    sentences: list[str] = []
    for part in _parts(block):
        for piece in sentencex.segment(language, part):
            sentence = piece.strip()
            if _WORD.search(sentence):
                sentences.extend(_bounded(sentence))
    return sentences


def _blocks(text: str) -> list[tuple[Kind, str]]:
    """Paragraphs, list items, headings, and rows of tables and of code, each on one
    line."""
    closed = frozenset(map(str.lower, _CLOSED.findall(text)))
    if "\n" not in text:
        return [(Kind.TEXT, _bare(text, closed))]
    blocks: list[tuple[Kind, str]] = []
    block: list[str] = []
    kind = Kind.TEXT
    fence = ""
    for line in (*text.split("\n"), ""):
        plain = line.strip()
        mark = _FENCE.match(plain)
        rule = _RULE.match(plain)
        new_kind = _kind_begun(line)
        if block and (mark or rule or new_kind):
            blocks.append((kind, _bare(" ".join(block), closed)))
            block = []
        if mark and fence in ("", mark[1]):
            fence = "" if fence else mark[1]
        elif fence:
            blocks.append((Kind.CODE, plain))
        elif rule:
            last_kinds = [last_kind for last_kind, _ in blocks[-2:]]
            follows_row = last_kinds[-1:] == [Kind.ROW]
            is_first_row = last_kinds != [Kind.ROW, Kind.ROW]
            if "|" in plain and follows_row and is_first_row:
                blocks[-1] = (Kind.TABLE_HEAD, blocks[-1][1])
        elif new_kind in (Kind.HEADING, Kind.ROW):
            blocks.append((new_kind, _bare(plain, closed)))
        else:
            if not block:
                kind = new_kind or Kind.TEXT
            block.append(_LINE_MARK.sub("", plain, count=1))
    return blocks


def _kind_begun(line: str) -> Kind | None:
    """The kind of part that begins with `line`; None for a line of text."""
    for beginning, kind in _BEGINNINGS:
        if beginning.match(line):
            return kind
    return None


def _parts(block: str) -> Iterator[str]:
    """`block`, split into parts at sentence ends if it is long: sentencex may take
    quadratic time."""
    if len(block) <= _LONG_WIDE:
        yield block
        return
    stop = _FULL_STOP
    most = _LONG
    if _WIDE_STOP.search(block):
        stop = _WIDE_STOP
        most = _LONG_WIDE
    elif "`" in block:
        most = _LONG_WIDE
    elif not _WIDE_STOPS.isdisjoint(block):
        most = _LONG_QUOTED
    start = 0
    while len(block) - start > most:
        end = start + most
        for match in stop.finditer(block, start + most // 2, end):
            end = match.end()
        yield block[start:end]
        start = end
    yield block[start:]


def _bare(block: str, closed: frozenset[str]) -> str:
    """`block` without bullet and markup; `closed` are the names of the tags that the
    text closes."""

    def unmarked(match: re.Match[str]) -> str:
        tag = (match["tag"] or "").lower()
        if not tag:
            return match["code"] or match["strong"] or match["bold"]
        is_markup = tag in _ALONE or tag in closed or "=" in match["attributes"]
        if is_markup and _HTML.fullmatch(tag):
            return ""
        return match[0]

    block = _LINE_MARK.sub("", block, count=1)
    if "**" in block or "__" in block or "<" in block:
        block = _MARKUP.sub(unmarked, block)
    return _BULLET.sub("", block)


def _bounded(sentence: str) -> list[str]:
    """Text without a full stop (logs, minified data), cut at spaces to limit the length
    of a sentence."""
    parts = []
    remainder = sentence
    while len(remainder) > MAX_SENTENCE:
        cut = remainder.rfind(" ", MAX_SENTENCE // 2, MAX_SENTENCE)
        if cut < 0:
            cut = MAX_SENTENCE
        parts.append(remainder[:cut])
        remainder = remainder[cut:].lstrip()
    return [*parts, remainder]
