"""Where evidence texts are in the contexts of an answer, however the corpus was cut
into chunks.

Texts are compared as sequences of words, without case, punctuation and white space. A
word of the evidence is found in a context if it is part of a run of three words that
the context has, too (six characters in scripts without spaces); at the ends of a
context, shorter runs and parts of a word count, because chunks may be cut anywhere. The
first k contexts *have* the evidence if together they have nearly all of it: at least
MIN_SHARE of its words, with fewer than GAP missing in a row. So it doesn't matter
whether it lies in one chunk or is split over several.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate, islice

MIN_SHARE = 0.9
"""Evidence is retrieved if at least this share of its words is found."""

GAP = 5
"""Evidence is not retrieved if so many of its words in a row are missing: a sentence of
it may be gone."""

OVERLAP = 0.5
"""A context carries evidence if they have this share of the shorter of the two in
common."""

RUN = 3
"""A run of so many words in common is no accident."""

_UNSPACED_FACTOR = 2
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[{_UNSPACED}]|(?:(?![{_UNSPACED}])[^\W_])+")
_ASCII_WORD = re.compile("[0-9a-z]+")
_INVISIBLE = dict.fromkeys(
    [0x00AD, 0xFEFF, *range(0x200B, 0x2010), *range(0x2060, 0x2065)]
)
_HYPHENATED = re.compile(r"(?<=[^\W\d_])-[ \t]*\r?\n[ \t]*(?=[^\W\d_])")
_REMEMBERED = 8
_MAX_PLACES = 100
"""Of a run that comes more often in one text, as in "0 0 0 …", the rest counts as
missing."""
_BETWEEN = "\0"
"""What no word contains."""
_SHORT = 20_000
"""Characters of a text whose words are remembered."""
_LONG = 2000
"""In evidence of more words, a few at a seam don't matter."""

Words = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EvidencePlace:
    """Where one evidence text is in ranked contexts; ranks are from 1."""

    share: float
    """The share of its words that is in all contexts together."""
    complete: int | None
    """The number of first contexts that have it; None: not even all of them do."""
    carriers: tuple[int, ...]
    """The ranks of the contexts that carry it."""

    @property
    def retrieved(self) -> bool:
        """Whether the contexts together have it."""
        return self.complete is not None

    @property
    def first(self) -> int | None:
        """Where it begins: in the first carrier, or where it becomes complete; None if
        it isn't retrieved."""
        if self.complete is None:
            return None
        return min((self.complete, *self.carriers[:1]))


@lru_cache(
    maxsize=_REMEMBERED
)  # several metrics ask for the same sample, one after the other
def locate(
    evidence: tuple[str, ...], contexts: tuple[str, ...]
) -> tuple[EvidencePlace, ...]:
    """Where each text of `evidence` is in `contexts`, in rank order.

    Each evidence text should be given once (`distinct`). One without a word is in no
    context. Time is linear in the length of the contexts, also for texts that repeat
    themselves.
    """
    contexts_read = [_Context(words(text)) for text in contexts]
    return tuple(_place(words(text), contexts_read) for text in evidence)


@lru_cache(maxsize=2 * _REMEMBERED)
def distinct(texts: tuple[str, ...]) -> tuple[str, ...]:
    """The first of all texts with the same words, in order; those without a word are
    left out."""
    first: dict[Words, str] = {}
    for text in texts:
        words_of_text = words(text)
        if words_of_text:
            first.setdefault(words_of_text, text)
    return tuple(first.values())


def words(text: str) -> Words:
    """The words of `text` in lower case; in scripts without spaces between words, its
    characters."""
    if len(text) <= _SHORT:
        return _remembered_words(text)
    return _words(text)


def _words(text: str) -> Words:
    if text.isascii() and ("\n" not in text or not _HYPHENATED.search(text)):
        return tuple(_ASCII_WORD.findall(text.lower()))
    plain = unicodedata.normalize("NFKC", _HYPHENATED.sub("", text)).translate(
        _INVISIBLE
    )
    return tuple(_WORD.findall(plain.casefold()))


_remembered_words = lru_cache(maxsize=64)(_words)  # those of one sample


def runs_of(text: Words, size: int = RUN) -> set[Words]:
    """All runs of `size` words in `text`; a shorter text is one run."""
    return set(_runs(text, size)) or {text}


def _runs(text: Words, size: int) -> Iterator[Words]:
    """The runs of `size` words in `text`, by place."""
    return zip(*(islice(text, at, None) for at in range(size)), strict=False)


def _place(evidence: Words, contexts: Sequence[_Context]) -> EvidencePlace:
    if not evidence:
        return EvidencePlace(0.0, None, ())
    factor = _factor(evidence)
    size = min(RUN * factor, len(evidence))
    runs = _limited_runs(evidence, size)
    sought = set(_runs(evidence, size))
    together = bytes(len(evidence))
    seams = _Seams(evidence if len(evidence) <= _LONG else (), size - 1)
    complete: int | None = None
    carriers = []
    for rank, context in enumerate(contexts, start=1):
        common = sought & context.runs(size)
        alone = bytearray(len(evidence))
        if common:
            alone = _covered(bytes(map(common.__contains__, runs)), size)
        for place in seams.add(context.words):
            alone[place] = 1
        if not any(alone):
            continue
        if alone.count(1) >= OVERLAP * min(len(evidence), len(context.words)):
            carriers.append(rank)
        together = _either(together, alone)
        if complete is None and _is_retrieved(together, GAP * factor):
            complete = rank
    return EvidencePlace(together.count(1) / len(evidence), complete, tuple(carriers))


def _limited_runs(evidence: Words, size: int) -> Sequence[Words | None]:
    """The runs by place; None where one comes that often before that it counts as
    missing."""
    runs = tuple(_runs(evidence, size))
    if len(runs) - len(set(runs)) < _MAX_PLACES:
        return runs
    times: Counter[Words] = Counter()
    limited: list[Words | None] = []
    for run in runs:
        times[run] += 1
        limited.append(run if times[run] <= _MAX_PLACES else None)
    return limited


class _Context:
    """The words of a context, and its runs, which several evidence texts are compared
    with."""

    def __init__(self, text: Words) -> None:
        self.words = text
        self._sets: dict[int, set[Words]] = {}

    def runs(self, size: int) -> set[Words]:
        if size not in self._sets:
            self._sets[size] = runs_of(self.words, size)
        return self._sets[size]


def _covered(begins: bytes, size: int) -> bytearray:
    """1 for each word of a run of `size` words, of which `begins` has 1 where one
    begins."""
    first = int.from_bytes(begins, "little")
    covered = 0
    for step in range(size):
        covered |= first << 8 * step
    return bytearray(covered.to_bytes(len(begins) + size - 1, "little"))


class _Seams:
    """Words of the evidence at the ends of contexts, where chunks were cut: fewer than
    a run, or a part of a word.

    `anchor` is how many words on the inner side must agree, or all up to the end of the
    evidence. A word that was cut in two is found once both of its parts are.
    """

    def __init__(self, evidence: Words, anchor: int) -> None:
        self._evidence = evidence
        self._anchor = anchor
        self._parts: dict[int, tuple[set[int], set[int]]] = {}
        self._joined = _BETWEEN.join(("", *evidence, ""))

    def add(self, context: Words) -> set[int]:
        """The places in the evidence of words at both ends of `context`."""
        if context:
            return {*self._end(context, 1), *self._end(context, -1)}
        return set()

    def _end(self, context: Words, step: int) -> Iterator[int]:
        """Of the last words of `context` (`step` 1) or, read backwards, of the first
        (`step` -1)."""
        text = context[::step]
        last = text[-1]
        for place in self._with_part(last, step):
            inside = self._inside(place, step)
            if inside != text[-1 - len(inside) : -1]:
                continue
            yield from range(place - len(inside) * step, place, step)
            if self._evidence[place] == last or self._is_whole(place, len(last), step):
                yield place

    def _with_part(self, part: str, step: int) -> Iterator[int]:
        """The places of the words that begin with `part` or, with `step` -1, end with
        it."""
        sought = _BETWEEN + part if step == 1 else part + _BETWEEN
        at = self._joined.find(sought)
        while at >= 0:
            yield bisect(self._begins, at + 1) - 1
            at = self._joined.find(sought, at + 1)

    @cached_property
    def _begins(self) -> Sequence[int]:
        """The character of `_joined` at which each word begins."""
        return tuple(
            accumulate((len(word) + 1 for word in self._evidence[:-1]), initial=1)
        )

    def _is_whole(self, place: int, letters: int, step: int) -> bool:
        begins, ends = self._parts.setdefault(place, (set(), set()))
        if step == 1:
            begins.add(letters)
        else:
            ends.add(letters)
        total = len(self._evidence[place])
        return any(total - begin in ends for begin in begins)

    def _inside(self, place: int, step: int) -> Words:
        """The words of the evidence beside that at `place` that a context must have, in
        the order of reading."""
        if step == 1:
            return self._evidence[max(0, place - self._anchor) : place]
        return self._evidence[place + 1 : place + 1 + self._anchor][::-1]


def _either(first: bytes, second: bytearray) -> bytes:
    """1 wherever one of them is."""
    union = int.from_bytes(first, "little") | int.from_bytes(second, "little")
    return union.to_bytes(len(first), "little")


def _is_retrieved(present: bytes, gap: int) -> bool:
    return present.count(1) >= MIN_SHARE * len(present) and bytes(gap) not in present


def _factor(text: Words) -> int:
    """How many times as many words make a run: more in scripts without spaces, where
    words are characters."""
    if "".join(text).isascii():
        return 1
    if 2 * sum(re.match(f"[{_UNSPACED}]", word) is not None for word in text) > len(
        text
    ):
        return _UNSPACED_FACTOR
    return 1
