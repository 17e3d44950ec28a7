"""Divides documents into passages, orders them, and finds related passages and
quotes."""

from __future__ import annotations

import math
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct

from ragstone.tools.generate.near_duplicates import words_of

MAX_CHARACTERS = 1_500
"""The greatest length of a passage."""

MIN_LETTERS = 80
"""The fewest letters and digits of a passage: less is a heading or a caption."""

_BLOCK = re.compile(
    r"\S(?:.{0,1499}?(?=\n\s*\n|\Z)|.{750,1499}(?=\n)|.{750,1499}(?<=[.!?。！？])|.{750,1499}(?=\s)|.{1499})",
    re.DOTALL,
)
"""A paragraph; of one longer than `MAX_CHARACTERS`, a part that ends after a line, a
sentence or a word."""

_MAX_PASSAGES_OF_TERM = 2_000
"""A term in more passages hardly tells them apart, and takes long."""

_WITHOUT_SPACES = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
"""Letters of scripts in which words are not separated, or are very short."""

_INTERCHANGEABLE = (
    "'\u2018\u2019\u201a\u201b\u2032\u00b4`",
    '"\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb',
    "-\u2010\u2011\u2012\u2013\u2014\u2015\u2212",
)
"""Apostrophes, quotation marks and hyphens, which models replace by each other."""

_PATTERN_BY_SIGN = {sign: f"[{signs}]" for signs in _INTERCHANGEABLE for sign in signs}


class Passage(Struct, frozen=True):
    """A part of a document, word for word."""

    document: str
    """The id of the document."""
    number: int
    """The number of the passage in the document, from 1."""
    text: str

    @property
    def name(self) -> str:
        """``guide.md:3``, for example."""
        return f"{self.document}:{self.number}"


def passages_of(documents: Mapping[str, str]) -> list[Passage]:
    """The passages of `documents`, which are texts by id, in order: whole paragraphs
    from heading to heading, of up to `MAX_CHARACTERS`.

    Passages with hardly any text, and those that repeat an earlier one word for word,
    are left out.
    """
    passage_by_wording: dict[str, Passage] = {}
    counts = Counter[str]()
    for document, content in documents.items():
        for text in _divide(content):
            wording = words_of(text)
            if _letter_count(text) >= MIN_LETTERS and wording not in passage_by_wording:
                counts[document] += 1
                passage = Passage(document, counts[document], text)
                passage_by_wording[wording] = passage
    return list(passage_by_wording.values())


def _divide(text: str) -> Iterator[str]:
    """Yield the passages of a document, also the very short ones."""
    start = 0
    end = 0
    for block in _BLOCK.finditer(text):
        is_heading = block[0].startswith("#")
        is_new_part = is_heading and _letter_count(text[start:end]) >= MIN_LETTERS
        is_too_long = block.end() - start > MAX_CHARACTERS
        if is_new_part or is_too_long:
            yield text[start:end].strip()
            start = block.start()
        end = block.end()
    yield text[start:end].strip()


def _letter_count(text: str) -> int:
    """How many letters and digits `text` has."""
    return sum(map(str.isalnum, text))


def spread_order(passages: Sequence[Passage], seed: int) -> list[Passage]:
    """All passages in an order drawn by `seed`: one of each document, then a second one
    of each, and so on."""
    order = list(passages)
    random.Random(seed).shuffle(order)  # noqa: S311 - a sample, not a secret
    counts = Counter[str]()
    round_of = {}
    for passage in order:
        counts[passage.document] += 1
        round_of[passage] = counts[passage.document]
    return sorted(order, key=round_of.__getitem__)


class RelatedPassages:
    """Finds passages that share rare terms with a text."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self._term_counts: dict[Passage, int] = {}
        self._passages_by_term: dict[str, list[Passage]] = defaultdict(list)
        for passage in passages:
            terms = set(_terms(passage.text))
            self._term_counts[passage] = len(terms)
            for term in terms:
                self._passages_by_term[term].append(passage)

    def find(
        self, text: str, *, limit: int, is_candidate: Callable[[Passage], bool]
    ) -> list[Passage]:
        """The passages that share terms with `text`, the closest first: at most `limit`
        of those for which `is_candidate`.

        A term weighs the logarithm of passages ÷ passages that have it; one that most
        passages have is not counted.
        """
        passage_count = len(self._term_counts)
        max_passages = min(passage_count / 2, _MAX_PASSAGES_OF_TERM)
        weights: dict[Passage, float] = defaultdict(float)
        terms = sorted(set(_terms(text)))
        for term in terms:
            with_term = self._passages_by_term.get(term, [])
            # Of so few passages, most may well share a rare term.
            if passage_count > 4 and len(with_term) > max_passages:
                continue
            for passage in with_term:
                weight = math.log((passage_count + 0.5) / len(with_term))
                length = math.sqrt(self._term_counts[passage])
                weights[passage] += weight / length
        closest_first = sorted(
            filter(is_candidate, weights),
            key=lambda passage: (-weights[passage], passage.name),
        )
        return closest_first[:limit]


def _terms(text: str) -> Iterator[str]:
    """Yield the words of three letters and more, and for scripts without spaces each
    two neighbouring letters."""
    for word in words_of(text).split():
        if _WITHOUT_SPACES.search(word):
            starts = range(max(1, len(word) - 1))
            yield from (word[start : start + 2] for start in starts)
        elif len(word) > 2:
            yield word


def find_quote(quote: str, text: str) -> str | None:
    """The words of `quote` as they are written in `text`; None if they aren't in it.

    Only quotation marks, apostrophes, hyphens and spaces may differ.
    """
    patterns = []
    for word in quote.split():
        signs = [_PATTERN_BY_SIGN.get(sign, re.escape(sign)) for sign in word]
        patterns.append("".join(signs))
    if not patterns:
        return None
    match = re.search(r"\s+".join(patterns), text)
    return None if match is None else match[0]
