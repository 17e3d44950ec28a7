"""Passages of documents: divided, spread over the documents, related to each other, and
quotes found in them."""

from __future__ import annotations

import math
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct

from ragstone.tools.generate.near_duplicates import words_of

PASSAGE = 1_500
"""Characters that a passage has at most."""

MIN_LETTERS = 80
"""Letters and digits that a passage has at least: less is a heading or a caption."""

_BLOCK = re.compile(
    r"\S(?:.{0,1499}?(?=\n\s*\n|\Z)|.{750,1499}(?=\n)|.{750,1499}(?<=[.!?。！？])|.{750,1499}(?=\s)|.{1499})",
    re.DOTALL,
)
"""A paragraph; of one longer than `PASSAGE`, a part that ends after a line, a sentence
or a word."""
_COMMON = 2_000
"""A term in more passages tells them apart too little for the time that it takes."""
_WIDE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_ALIKE = (
    "'\u2018\u2019\u201a\u201b\u2032\u00b4`",
    '"\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb',
    "-\u2010\u2011\u2012\u2013\u2014\u2015\u2212",
)
_SIGNS: dict[str, str] = {}
for _signs in _ALIKE:
    _SIGNS.update(dict.fromkeys(_signs, f"[{_signs}]"))
"""What a quotation mark, an apostrophe or a hyphen of a quote may stand for, as a
pattern."""


class Passage(Struct, frozen=True):
    """A part of a document, word for word. `number` is its place among the document's
    passages, from 1."""

    document: str
    number: int
    text: str

    @property
    def name(self) -> str:
        return f"{self.document}:{self.number}"


def passages_of(documents: Mapping[str, str]) -> list[Passage]:
    """The passages of all documents, texts by id, in order: whole paragraphs, up to
    `PASSAGE` characters, from heading to heading.

    Passages with hardly any text, and those that repeat an earlier one word for word,
    are left out.
    """
    passages: dict[str, Passage] = {}
    numbers = Counter[str]()
    for document, content in documents.items():
        for text in _divided(content):
            words = words_of(text)
            if _letters(text) >= MIN_LETTERS and words not in passages:
                numbers[document] += 1
                number = numbers[document]
                passages[words] = Passage(document, number, text)
    return list(passages.values())


def _divided(text: str) -> Iterator[str]:
    start = end = 0
    for block in _BLOCK.finditer(text):
        is_heading = block[0].startswith("#")
        is_new = is_heading and _letters(text[start:end]) >= MIN_LETTERS
        is_too_long = block.end() - start > PASSAGE
        if is_new or is_too_long:
            yield text[start:end].strip()
            start = block.start()
        end = block.end()
    yield text[start:end].strip()


def _letters(text: str) -> int:
    return sum(map(str.isalnum, text))


def spread_order(passages: Sequence[Passage], seed: int) -> list[Passage]:
    """All passages, in an order drawn by `seed`: every document has a turn before any
    has a second one."""
    order = list(passages)
    random.Random(seed).shuffle(order)  # noqa: S311 - a sample, not a secret
    turns = Counter[str]()
    turn_of = {}
    for passage in order:
        turns[passage.document] += 1
        turn_of[passage] = turns[passage.document]
    return sorted(order, key=turn_of.__getitem__)


class Related:
    """Finds passages that share rare words with a text."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self._sizes: dict[Passage, int] = {}
        self._having: dict[str, list[Passage]] = defaultdict(list)
        for passage in passages:
            terms = set(_terms(passage.text))
            self._sizes[passage] = len(terms)
            for term in terms:
                self._having[term].append(passage)

    def to(
        self, text: str, *, most: int, among: Callable[[Passage], bool]
    ) -> list[Passage]:
        """At most `most` of the passages `among` which to look that share terms with
        `text`, the closest first.

        A term weighs the logarithm of passages ÷ passages that have it; one that most
        passages have is not counted.
        """
        count = len(self._sizes)
        max_having = min(count / 2, _COMMON)
        weights: dict[Passage, float] = defaultdict(float)
        terms = sorted(set(_terms(text)))
        for term in terms:
            having = self._having.get(term, [])
            if count > 4 and len(having) > max_having:
                continue
            for passage in having:
                weight = math.log((count + 0.5) / len(having))
                length = math.sqrt(self._sizes[passage])
                weights[passage] += weight / length
        closest_first = sorted(
            filter(among, weights),
            key=lambda passage: (-weights[passage], passage.name),
        )
        return closest_first[:most]


def _terms(text: str) -> Iterator[str]:
    """Words of three letters and more; of scripts without spaces, each two signs."""
    for word in words_of(text).split():
        if _WIDE.search(word):
            starts = range(max(1, len(word) - 1))
            yield from (word[start : start + 2] for start in starts)
        elif len(word) > 2:
            yield word


def find_quote(quote: str, text: str) -> str | None:
    """The words of `quote` as they stand in `text`; None if they don't.

    Quotation marks, apostrophes, hyphens and spaces may differ; case and everything
    else counts.
    """
    words = []
    for word in quote.split():
        signs = [_SIGNS.get(sign, re.escape(sign)) for sign in word]
        words.append("".join(signs))
    if not words:
        return None
    pattern = r"\s+".join(words)
    place = re.search(pattern, text)
    return None if place is None else place[0]
