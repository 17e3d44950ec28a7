"""Where evidence texts are in the contexts of an answer, however the corpus was cut
into chunks.

Texts are compared without case, punctuation and white space. A character of the
evidence is found if it is in a run of RUN_CHARACTERS that a context has too, or in a
shorter run at an end of a context, because chunks may be cut anywhere. A word is found
if all its characters are. The first k contexts *have* the evidence if together they
have nearly all of it: at least MIN_FOUND_SHARE of its words, without a gap of
MIN_GAP_WORDS. So it doesn't matter whether it is in one chunk or split over several.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence, Set
from functools import lru_cache

from msgspec import Struct

MIN_FOUND_SHARE = 0.9
"""The share of its words from which evidence is retrieved."""

MIN_GAP_WORDS = 5
"""Evidence is not retrieved if this many words in a row are missing: that may be a
sentence."""

MIN_COMMON_SHARE = 0.5
"""A context carries evidence if they have this share of the characters of the shorter
of the two in common."""

RUN_CHARACTERS = 16
"""A common run of this many characters is no accident."""

RUN_WORDS = 3
"""A common run of this many words is no accident."""

_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff"
_WORD = rf"[{_UNSPACED}]|(?:(?![{_UNSPACED}])[^\W_])+"
_ASCII_WORD = re.compile("[0-9a-z]+")
# Soft hyphens, zero-width characters and marks of the writing direction.
_INVISIBLE = dict.fromkeys(
    [0x00AD, 0xFEFF, *range(0x200B, 0x2010), *range(0x2060, 0x2065)]
)
_HYPHENATED = re.compile(r"(?<=[^\W\d_])-[ \t]*\r?\n[ \t]*(?=[^\W\d_])")
"""A hyphen at the end of a line, within a word."""

_CACHED_RESULTS = 8
_CACHED_TEXTS = 64
"""Enough for the texts of one sample."""
_MAX_CACHED_CHARACTERS = 20_000
"""The words of longer texts are not cached."""

Words = tuple[str, ...]


class EvidencePlace(Struct, frozen=True):
    """Where one evidence text is in ranked contexts; ranks are from 1."""

    share: float
    """The share of its words that all contexts together have."""
    complete_rank: int
    """The rank of the context up to which the contexts have it; 0 if not even all
    contexts have it."""
    carrier_ranks: tuple[int, ...]
    """The ranks of the contexts that carry it, which have a large part of it."""

    @property
    def is_retrieved(self) -> bool:
        """Whether the contexts together have it."""
        return self.complete_rank > 0

    @property
    def first_rank(self) -> int:
        """The rank of the first context that carries it or completes it; 0 if it isn't
        retrieved."""
        return min((self.complete_rank, *self.carrier_ranks[:1]))


# Cached, since several metrics ask about the same sample, one after the other.
@lru_cache(maxsize=_CACHED_RESULTS)
def locate(
    evidence: tuple[str, ...], contexts: tuple[str, ...]
) -> tuple[EvidencePlace, ...]:
    """The place of each text of `evidence` in `contexts`, which are in rank order. A
    text without a word is in no context."""
    plain_contexts = list(map(_plain, contexts))
    runs = [_character_runs(context, RUN_CHARACTERS) for context in plain_contexts]
    return tuple(_place(_plain(text), plain_contexts, runs) for text in evidence)


@lru_cache(maxsize=2 * _CACHED_RESULTS)
def distinct(texts: tuple[str, ...]) -> tuple[str, ...]:
    """`texts` without those that have the same words as an earlier one, or no words."""
    text_by_words: dict[Words, str] = {}
    for text in texts:
        words_of_text = words(text)
        if words_of_text:
            text_by_words.setdefault(words_of_text, text)
    return tuple(text_by_words.values())


def words(text: str) -> Words:
    """The words of `text` in lower case; in scripts without spaces between words, its
    characters."""
    if len(text) <= _MAX_CACHED_CHARACTERS:
        return _cached_words(text)
    return _words(text)


def _words(text: str) -> Words:
    dehyphenated = _HYPHENATED.sub("", text)
    if dehyphenated.isascii():
        return tuple(_ASCII_WORD.findall(dehyphenated.lower()))
    visible = unicodedata.normalize("NFKC", dehyphenated).translate(_INVISIBLE)
    return tuple(re.findall(_WORD, visible.casefold()))


_cached_words = lru_cache(maxsize=_CACHED_TEXTS)(_words)


def word_runs(text: Words) -> set[Words]:
    """All runs of RUN_WORDS words in `text`; a shorter text is one run."""
    starts = range(len(text) - RUN_WORDS + 1)
    return {text[start : start + RUN_WORDS] for start in starts} or {text}


def _plain(text: str) -> str:
    """The words of `text`, each with one space before and after it."""
    return f" {' '.join(words(text))} "


def _character_runs(text: str, size: int) -> Set[str]:
    starts = range(len(text) - size + 1)
    return {text[start : start + size] for start in starts}


def _place(
    evidence: str, contexts: Sequence[str], runs: Sequence[Set[str]]
) -> EvidencePlace:
    """The place of plain `evidence` in plain `contexts`; `runs` are those of
    RUN_CHARACTERS in each context."""
    if not evidence.strip():
        return EvidencePlace(0.0, complete_rank=0, carrier_ranks=())
    size = min(RUN_CHARACTERS, len(evidence))
    # The characters found in any context so far, as flags.
    coverage = bytearray(len(evidence))
    complete_rank = 0
    carrier_ranks: list[int] = []
    for rank, context in enumerate(contexts, start=1):
        context_runs = runs[rank - 1]
        if size < RUN_CHARACTERS:
            context_runs = _character_runs(context, size)
        context_coverage = _common(evidence, context, context_runs, size)
        if context_coverage.count(1) >= MIN_COMMON_SHARE * min(
            len(evidence), len(context)
        ):
            carrier_ranks.append(rank)
        coverage = bytearray(map(max, coverage, context_coverage))
        if not complete_rank and _is_retrieved(_word_flags(evidence, coverage)):
            complete_rank = rank
    flags = _word_flags(evidence, coverage)
    share = flags.count(1) / len(flags)
    return EvidencePlace(share, complete_rank, tuple(carrier_ranks))


def _common(
    evidence: str, context: str, context_runs: Set[str], size: int
) -> bytearray:
    """Flag each character of `evidence` that `context` has: in a run of `size`
    characters, or in a shorter run where the context ends within the evidence or begins
    within it."""
    common = bytearray(len(evidence))
    for start in range(len(evidence) - size + 1):
        if evidence[start : start + size] in context_runs:
            common[start : start + size] = b"\1" * size
    # A chunk may be cut within a word: no space at the cut.
    cut_after, cut_before = context.rstrip(), context.lstrip()
    for length in range(2, size):
        if cut_after.endswith(evidence[:length]):
            common[:length] = b"\1" * length
        if cut_before.startswith(evidence[-length:]):
            common[-length:] = b"\1" * length
    return common


def _word_flags(evidence: str, coverage: bytearray) -> bytes:
    """Flag each word of `evidence` whose characters are all covered, by the flags of
    `coverage`."""
    flags = bytearray()
    start = 1
    for word in evidence.split():
        end = start + len(word)
        flags.append(0 not in coverage[start:end])
        start = end + 1
    return bytes(flags)


def _is_retrieved(flags: bytes) -> bool:
    """Whether enough words are found, and no gap is too long."""
    return (
        flags.count(1) >= MIN_FOUND_SHARE * len(flags)
        and bytes(MIN_GAP_WORDS) not in flags
    )
