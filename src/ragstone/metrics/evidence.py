"""Where evidence texts are in the contexts of an answer, however the corpus was cut
into chunks.

Texts are compared without case, punctuation and white space. A word of the evidence is
found where its letters are parts of runs of RUN characters that contexts have, too, or
of a shorter one at the end of a context, because chunks may be cut anywhere. The first
k contexts *have* the evidence if together they have nearly all of it: at least
MIN_SHARE of its words, with fewer than GAP missing in a row. So it doesn't matter
whether it lies in one chunk or is split over several.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence, Set
from functools import lru_cache

from msgspec import Struct

MIN_SHARE = 0.9
"""Evidence is retrieved if at least this share of its words is found."""

GAP = 5
"""Evidence is not retrieved if so many of its words in a row are missing: a sentence of
it may be gone."""

OVERLAP = 0.5
"""A context carries evidence if they have this share of the shorter of the two in
common."""

RUN = 16
"""A run of so many characters in common is no accident."""

RUN_WORDS = 3
"""Nor is one of so many words."""

_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff"
_WORD = rf"[{_UNSPACED}]|(?:(?![{_UNSPACED}])[^\W_])+"
_ASCII_WORD = re.compile("[0-9a-z]+")
_INVISIBLE = dict.fromkeys(
    [0x00AD, 0xFEFF, *range(0x200B, 0x2010), *range(0x2060, 0x2065)]
)
_HYPHENATED = re.compile(r"(?<=[^\W\d_])-[ \t]*\r?\n[ \t]*(?=[^\W\d_])")
_REMEMBERED = 8
_SHORT = 20_000
"""Characters of a text whose words are remembered."""

Words = tuple[str, ...]


class EvidencePlace(Struct, frozen=True):
    """Where one evidence text is in ranked contexts; ranks are from 1."""

    share: float
    """The share of its words that is in all contexts together."""
    complete: int
    """The number of first contexts that have it; 0: not even all of them do."""
    carriers: tuple[int, ...]
    """The ranks of the contexts that carry it."""

    @property
    def retrieved(self) -> bool:
        """Whether the contexts together have it."""
        return self.complete > 0

    @property
    def first(self) -> int:
        """Where it begins: in the first carrier, or where it becomes complete; 0 if it
        isn't retrieved."""
        return min((self.complete, *self.carriers[:1]))


@lru_cache(
    maxsize=_REMEMBERED
)  # several metrics ask for the same sample, one after the other
def locate(
    evidence: tuple[str, ...], contexts: tuple[str, ...]
) -> tuple[EvidencePlace, ...]:
    """Where each text of `evidence` is in `contexts`, in rank order.

    Each evidence text should be given once (`distinct`). One without a word is in no
    context.
    """
    plain = list(map(_plain, contexts))
    runs = [_character_runs(text, RUN) for text in plain]
    return tuple(_place(_plain(text), plain, runs) for text in evidence)


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
    whole = _HYPHENATED.sub("", text)
    if whole.isascii():
        return tuple(_ASCII_WORD.findall(whole.lower()))
    plain = unicodedata.normalize("NFKC", whole).translate(_INVISIBLE)
    return tuple(re.findall(_WORD, plain.casefold()))


_remembered_words = lru_cache(maxsize=64)(_words)  # those of one sample


def runs_of(text: Words) -> set[Words]:
    """All runs of RUN_WORDS words in `text`; a shorter text is one run."""
    starts = range(len(text) - RUN_WORDS + 1)
    return {text[start : start + RUN_WORDS] for start in starts} or {text}


def _plain(text: str) -> str:
    """The words of `text`, with a space around each."""
    return f" {' '.join(words(text))} "


def _character_runs(text: str, size: int) -> Set[str]:
    return {text[at : at + size] for at in range(len(text) - size + 1)}


def _place(
    evidence: str, contexts: Sequence[str], runs: Sequence[Set[str]]
) -> EvidencePlace:
    """Where plain `evidence` is in plain `contexts`, which have these runs."""
    if not evidence.strip():
        return EvidencePlace(0.0, 0, ())
    size = min(RUN, len(evidence))
    together = bytearray(len(evidence))
    complete = 0
    carriers: list[int] = []
    for rank, context in enumerate(contexts, start=1):
        context_runs = runs[rank - 1]
        if size < RUN:
            context_runs = _character_runs(context, size)
        alone = _common(evidence, context, context_runs, size)
        if alone.count(1) >= OVERLAP * min(len(evidence), len(context)):
            carriers.append(rank)
        together = bytearray(map(max, together, alone))
        if not complete and _is_retrieved(_word_flags(evidence, together)):
            complete = rank
    flags = _word_flags(evidence, together)
    return EvidencePlace(flags.count(1) / len(flags), complete, tuple(carriers))


def _common(
    evidence: str, context: str, context_runs: Set[str], size: int
) -> bytearray:
    """1 for each character of `evidence` that `context` has: in a run of `size`, or at
    its end, if the evidence begins there, or at its beginning."""
    common = bytearray(len(evidence))
    for at in range(len(evidence) - size + 1):
        if evidence[at : at + size] in context_runs:
            common[at : at + size] = b"\1" * size
    begin, end = context.rstrip(), context.lstrip()
    for length in range(2, size):
        if begin.endswith(evidence[:length]):
            common[:length] = b"\1" * length
        if end.startswith(evidence[-length:]):
            common[-length:] = b"\1" * length
    return common


def _word_flags(evidence: str, common: bytearray) -> bytes:
    """1 for each word of `evidence` whose characters are all `common`."""
    flags = bytearray()
    start = 1
    for word in evidence.split():
        end = start + len(word)
        flags.append(0 not in common[start:end])
        start = end + 1
    return bytes(flags)


def _is_retrieved(flags: bytes) -> bool:
    return flags.count(1) >= MIN_SHARE * len(flags) and bytes(GAP) not in flags
