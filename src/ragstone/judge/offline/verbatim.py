"""Whether a statement stands in a context word for word."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ragstone.judge.offline.lexicon import Language
from ragstone.judge.offline.passage import Passage
from ragstone.judge.offline.tokens import running, running_words

_STOP = re.compile(r"[.!?;,:\n。！？；，、]")


def stands_in(statement: str, contexts: Sequence[Passage], language: Language) -> bool:
    """Whether the words of `statement` follow each other in one of `contexts`, and nothing before them negates them."""
    wanted = running(statement)
    return bool(wanted.strip()) and any(
        not _negated(text, run.count(" ", 0, at), language)
        for context in contexts
        for text, run in context.running
        for at in _places(wanted, run)
    )


def _places(wanted: str, run: str) -> Iterator[int]:
    at = run.find(wanted)
    while at >= 0:
        yield at
        at = run.find(wanted, at + 1)


def _negated(text: str, words: int, language: Language) -> bool:
    """Whether a negation is between the word of `text` that follows `words` others and the stop before it."""
    lowered = text.lower()
    start = next((found.start() for rank, found in enumerate(running_words(lowered)) if rank == words), 0)
    before = _STOP.split(lowered[:start])[-1]
    if not language.spaced:
        return any(negation in before for negation in language.negations)
    return "n't" in before or any(found[0] in language.negations for found in running_words(before))
