"""Splits texts into sentences: running text, lists, headings, tables and code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum

import sentencex

_BULLET = re.compile(
    r"^\s*(?:[-*+•◦▪‣·→\u2600-\u27bf\U0001f300-\U0001faff]|\(?\d{1,3}[.)](?!\d)|\(?[a-zA-Z][.)](?=\s))\s+"
)
"""The bullet, symbol, number or letter before a list item."""
_LINE_MARK = re.compile(r"^\s*(?:#{1,6}\s+|>(?![>=])\s*)*")
"""The marks of headings and quotations at the beginning of a line."""
_MARKUP = re.compile(
    r"(?P<code>(?<!`)(?P<ticks>`+)(?!`).*?(?<!`)(?P=ticks)(?!`))"
    r"|(?<![A-Za-z0-9_*\\/])(?P<stars>\*{2,3})(?P<strong>[^\s*/](?:(?!\*\*).)*?)(?<![\s/])(?P=stars)(?![A-Za-z0-9_*])"
    r"|(?<!\w)(?P<lows>_{2,3})(?![A-Za-z0-9_]+__)(?P<bold>[^\s_](?:(?!__).)*?)(?<!\s)(?P=lows)(?!\w)"
    r"|</?(?P<tag>[a-zA-Z][a-zA-Z0-9]*)(?P<attributes>(?:\s[^<>]{0,200})?)/?>"
)
"""Code, which is left unchanged, and markup, which is removed: pairs of emphasis marks,
unless they are part of a name (``__init__``), an argument (``**kwargs``) or a glob
(``src/**``), and HTML tags."""

_CLOSING_TAG = re.compile(r"</([a-zA-Z][a-zA-Z0-9]*)\s*>")
_NOTE = re.compile(r"^\s*\[\^?\d{1,3}\]:?\s")
_CODE_FENCE = re.compile(r"(```|~~~)")
_HTML_NAME = re.compile(
    r"a|abbr|b|big|blockquote|br|center|cite|code|dd|del|details|div|dl|dt|em|font|h[1-6r]|i|img|ins|kbd|li|mark|ol|p|pre"
    r"|q|s|samp|small|span|strike|strong|su[bp]|summary|table|tbody|t[dhrt]|tfoot|thead|ul?|var"
)
_VOID_TAGS = frozenset({"br", "hr", "img"})
"""HTML tags that are never closed."""
_WORD_CHARACTER = re.compile(r"\w")
MAX_SENTENCE_CHARACTERS = 4_000
_MAX_PART_CHARACTERS = 128_000
_MAX_PART_CHARACTERS_WITH_QUOTED_STOPS = 32_000
"""For text with wide full stops, each of which closes a quotation."""
_MAX_PART_CHARACTERS_WITH_WIDE_STOPS = 4_000
"""For text with other wide full stops, or with code. sentencex takes longest for these
texts."""
_FULL_STOP = re.compile(r"[.!?।؟](?=\s)")
_WIDE_STOPS = frozenset("。！？｡")
"""The full stops of Chinese and Japanese, which need no space after them."""
_WIDE_STOP_NOT_IN_QUOTATION = re.compile(r"[。！？｡](?![。！？｡」』”’）\"')])")


class Kind(Enum):
    """What a block of a text is. A note is the text of a footnote, such as "[1]
    Handbook, page 3"."""

    TEXT, ITEM, HEADING, ROW, TABLE_HEAD, CODE, NOTE = range(7)


_RULE = re.compile(r"[\s|:=+-]*$")
"""A line that is blank, underlines a heading, or divides a table."""
_BOLD_LINE = re.compile(
    r" {0,3}(?:\*\*|__(?!\w+__))[^\n*_]{0,79}[^\n*_.!。](?:\*\*:?|__:?)\s*$"
)
"""A short line in bold without a full stop, which is a heading."""
_BEGINNINGS = (
    (re.compile(r"\s*#"), Kind.HEADING),
    (_BOLD_LINE, Kind.HEADING),
    (re.compile(r"\s*\|"), Kind.ROW),
    (_BULLET, Kind.ITEM),
    (_NOTE, Kind.NOTE),
)
"""How the first line of a block of each kind begins; the first that matches counts."""


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
    returns them, with the kind of the block."""
    return [(kind, _split_block(block, language)) for kind, block in _blocks(text)]


def _split_block(block: str, language: str) -> list[str]:
    sentences: list[str] = []
    for part in _split_long_block(block):
        for segment in sentencex.segment(language, part):
            sentence = segment.strip()
            if _WORD_CHARACTER.search(sentence):
                sentences.extend(_cut_long_sentence(sentence))
    return sentences


def _blocks(text: str) -> list[tuple[Kind, str]]:
    """The paragraphs, list items, headings, rows of tables and lines of code, each on
    one line, without markup."""
    closed_tags = frozenset(map(str.lower, _CLOSING_TAG.findall(text)))
    if "\n" not in text:
        return [(Kind.TEXT, _strip_markup(text, closed_tags))]
    blocks: list[tuple[Kind, str]] = []
    lines_of_block: list[str] = []
    kind = Kind.TEXT
    open_fence = ""
    # The empty line at the end finishes the last block.
    for line in (*text.split("\n"), ""):
        stripped = line.strip()
        fence = _CODE_FENCE.match(stripped)
        rule = _RULE.match(stripped)
        new_kind = _kind_of_beginning(line)
        if lines_of_block and (fence or rule or new_kind):
            blocks.append((kind, _strip_markup(" ".join(lines_of_block), closed_tags)))
            lines_of_block = []
        if fence and open_fence in ("", fence[1]):
            open_fence = "" if open_fence else fence[1]
        elif open_fence:
            blocks.append((Kind.CODE, stripped))
        elif rule:
            # A line between the first row of a table and the others.
            last_kinds = [last_kind for last_kind, _ in blocks[-2:]]
            follows_row = last_kinds[-1:] == [Kind.ROW]
            is_first_row = last_kinds != [Kind.ROW, Kind.ROW]
            if "|" in stripped and follows_row and is_first_row:
                blocks[-1] = (Kind.TABLE_HEAD, blocks[-1][1])
        elif new_kind in (Kind.HEADING, Kind.ROW):
            blocks.append((new_kind, _strip_markup(stripped, closed_tags)))
        else:
            if not lines_of_block:
                kind = new_kind or Kind.TEXT
            lines_of_block.append(_LINE_MARK.sub("", stripped, count=1))
    return blocks


def _kind_of_beginning(line: str) -> Kind | None:
    """The kind of the block that begins with `line`; None for a line of text, which may
    continue a block."""
    for beginning, kind in _BEGINNINGS:
        if beginning.match(line):
            return kind
    return None


def _split_long_block(block: str) -> Iterator[str]:
    """The parts of a long `block`, split at the ends of sentences: sentencex may take
    quadratic time."""
    if len(block) <= _MAX_PART_CHARACTERS_WITH_WIDE_STOPS:
        yield block
        return
    stop = _FULL_STOP
    max_characters = _MAX_PART_CHARACTERS
    if _WIDE_STOP_NOT_IN_QUOTATION.search(block):
        stop = _WIDE_STOP_NOT_IN_QUOTATION
        max_characters = _MAX_PART_CHARACTERS_WITH_WIDE_STOPS
    elif "`" in block:
        max_characters = _MAX_PART_CHARACTERS_WITH_WIDE_STOPS
    elif not _WIDE_STOPS.isdisjoint(block):
        max_characters = _MAX_PART_CHARACTERS_WITH_QUOTED_STOPS
    start = 0
    while len(block) - start > max_characters:
        end = start + max_characters
        # The last full stop in the second half, if there is one.
        for match in stop.finditer(block, start + max_characters // 2, end):
            end = match.end()
        yield block[start:end]
        start = end
    yield block[start:]


def _strip_markup(block: str, closed_tags: frozenset[str]) -> str:
    """`block` without bullet, emphasis and HTML tags. A tag without attributes is HTML
    if it is among the `closed_tags` of the text; others may be placeholders."""

    def replace(match: re.Match[str]) -> str:
        tag = (match["tag"] or "").lower()
        if not tag:
            return match["code"] or match["strong"] or match["bold"]
        may_be_html = (
            tag in _VOID_TAGS or tag in closed_tags or "=" in match["attributes"]
        )
        if may_be_html and _HTML_NAME.fullmatch(tag):
            return ""
        return match[0]

    block = _LINE_MARK.sub("", block, count=1)
    if "**" in block or "__" in block or "<" in block:
        block = _MARKUP.sub(replace, block)
    return _BULLET.sub("", block)


def _cut_long_sentence(sentence: str) -> list[str]:
    """`sentence`, cut at spaces if it is long: text without full stops, such as a log
    or minified data."""
    parts = []
    remainder = sentence
    while len(remainder) > MAX_SENTENCE_CHARACTERS:
        end = remainder.rfind(
            " ", MAX_SENTENCE_CHARACTERS // 2, MAX_SENTENCE_CHARACTERS
        )
        if end < 0:
            end = MAX_SENTENCE_CHARACTERS
        parts.append(remainder[:end])
        remainder = remainder[end:].lstrip()
    return [*parts, remainder]
