"""Passages of documents: divided, spread over the documents, related to each other, and quotes found in them."""

from __future__ import annotations

import math
import random
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from ragstone.tools.generate.documents import Document
from ragstone.tools.generate.near_duplicates import words_of

PASSAGE = 1_500
"""Characters that a passage has at most."""

MIN_LETTERS = 80
"""Letters and digits that a passage has at least: less is a heading or a caption."""

_BLOCK = re.compile(r"\n[ \t]*\n\s*")
_HEADING = re.compile(r" {0,3}#{1,6}[ \t]")
_BREAKS = (re.compile(r"\n"), re.compile(r"(?<=[.!?。！？])\s*"), re.compile(r"\s+"))
_COMMON = 2_000
"""A term in more passages tells them apart too little for the time that it takes."""
_WIDE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_PLAIN = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032\u00b4`", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
        "\u2026": "...",
    }
)


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a document, word for word. `number` is its place among the document's passages, from 1."""

    document: str
    number: int
    text: str

    @property
    def name(self) -> str:
        return f"{self.document}:{self.number}"


def passages_of(documents: Sequence[Document]) -> list[Passage]:
    """The passages of all documents, in order: whole paragraphs, up to `PASSAGE` characters, from heading to heading.

    Passages with hardly any text, and those that repeat an earlier one word for word, are left out.
    """
    passages: list[Passage] = []
    contents: set[str] = set()
    for document in documents:
        number = 0
        for text in _divided(document.text):
            words = words_of(text)
            if sum(map(str.isalnum, text)) < MIN_LETTERS or words in contents:
                continue
            contents.add(words)
            number += 1
            passages.append(Passage(document.id, number, text))
    return passages


def _divided(text: str) -> Iterator[str]:
    start = end = 0
    for first, last in _blocks(text):
        full = last - start > PASSAGE
        begins = bool(_HEADING.match(text, first)) and sum(map(str.isalnum, text[start:end])) >= MIN_LETTERS
        if end > start and (full or begins):
            yield text[start:end].strip()
            start = first
        end = last
    yield text[start:end].strip()


def _blocks(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each paragraph; of a long one, of its parts."""
    start = 0
    ends = [match.span() for match in _BLOCK.finditer(text)]
    for end, following in [*ends, (len(text), len(text))]:
        while end - start > PASSAGE:
            cut = _cut(text, start)
            yield start, cut
            start = cut
        if end > start:
            yield start, end
        start = following


def _cut(text: str, start: int) -> int:
    """Where the part of a long paragraph from `start` on ends: after a line, a sentence, or a word."""
    for pattern in _BREAKS:
        breaks = [match.end() for match in pattern.finditer(text, start + PASSAGE // 2, start + PASSAGE)]
        if breaks:
            return breaks[-1]
    return start + PASSAGE


def spread_order(passages: Sequence[Passage], seed: int) -> list[int]:
    """The positions of all passages, drawn by `seed`: every document has a turn before any has a second one."""
    chance = random.Random(seed)  # noqa: S311 - a sample, not a secret
    of_document: dict[str, list[int]] = defaultdict(list)
    for place, passage in enumerate(passages):
        of_document[passage.document].append(place)
    queues = list(of_document.values())
    chance.shuffle(queues)
    for queue in queues:
        chance.shuffle(queue)
    order = []
    for turn in range(max(map(len, queues), default=0)):
        order += [queue[turn] for queue in queues if turn < len(queue)]
    return order


class Related:
    """Finds passages that share rare words with a text."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self._sizes: list[int] = []
        self._places: dict[str, list[int]] = defaultdict(list)
        for place, passage in enumerate(passages):
            terms = set(_terms(passage.text))
            self._sizes.append(max(1, len(terms)))
            for term in terms:
                self._places[term].append(place)

    def to(self, text: str, *, most: int, least: int = 1, among: Callable[[int], bool]) -> list[int]:
        """Positions of at most `most` of the passages `among` which to look that share at least `least` terms with
        `text`, the closest first.

        A term weighs the logarithm of passages ÷ passages that have it; one that most passages have is not counted.
        """
        count = len(self._sizes)
        weights: dict[int, float] = defaultdict(float)
        shared = Counter[int]()
        for term in sorted(set(_terms(text))):
            places = self._places.get(term, ())
            if not places or (count > 4 and len(places) > min(count / 2, _COMMON)):
                continue
            weight = math.log((count + 0.5) / len(places))
            for place in places:
                weights[place] += weight / math.sqrt(self._sizes[place])
                shared[place] += 1
        related = [place for place in weights if shared[place] >= least and among(place)]
        return sorted(related, key=lambda place: (-weights[place], place))[:most]


def _terms(text: str) -> Iterator[str]:
    """Words of three letters and more; of scripts without spaces, each two signs."""
    for word in words_of(text).split():
        if _WIDE.search(word):
            yield from (word[at : at + 2] for at in range(max(1, len(word) - 1)))
        elif len(word) > 2:
            yield word


def find_quote(quote: str, texts: Sequence[str], *, skip: Collection[int] = ()) -> tuple[int, str] | None:
    """Which of `texts` has `quote`, and the words there as they stand; None if none has.

    Both are compared in Unicode's form NFKC, with straight quotation marks, plain hyphens and single spaces; case and
    everything else counts.
    """
    wanted, _ = _folded(quote)
    wanted = wanted.strip()
    if not wanted:
        return None
    for number, text in enumerate(texts):
        if number in skip:
            continue
        folded, places = _folded(text)
        start = folded.find(wanted)
        if start >= 0:
            return number, text[places[start] : places[start + len(wanted) - 1] + 1].strip()
    return None


def _folded(text: str) -> tuple[str, list[int]]:
    """`text` for comparison, and the position in it of each character of that."""
    signs: list[str] = []
    places: list[int] = []
    for at, sign in enumerate(text):
        plain = unicodedata.normalize("NFKC", sign.translate(_PLAIN)).translate(_PLAIN) if not sign.isascii() else sign
        for character in plain.translate(_PLAIN) if sign == "`" else plain:
            space = character.isspace()
            if space and signs and signs[-1] == " ":
                continue
            signs.append(" " if space else character)
            places.append(at)
    return "".join(signs), places
