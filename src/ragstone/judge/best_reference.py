"""Which of a sample's reference answers counts, if there are several: the one that is best for the answer.

Judging every answer against every reference would multiply the cost. So an answer is judged against the nearest
references by words, one after another until one is matched in full, and contexts against the one they hold most of.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

from ragstone.judge.judgements import JudgementFailure, ReferenceMatch, Support, Verdict

MAX_MATCHED = 3
"""How many references an answer is judged against at most."""

_WORD = re.compile(r"\w+")


def nearest_first(references: Sequence[str], answer: str) -> tuple[str, ...]:
    """`references`, that with the highest F1 of words with `answer` first; equal ones in their own order."""
    said = _words(answer)

    def distance(reference: str) -> float:
        wanted = _words(reference)
        return -2.0 * (said & wanted).total() / max(1, said.total() + wanted.total())

    return tuple(sorted(references, key=distance))


def held_most(references: Sequence[str], contexts: Sequence[str]) -> str | None:
    """The reference with the largest share of words that occur in `contexts`; of equal ones the first."""
    if len(references) < 2:
        return references[0] if references else None
    held = {word for context in contexts for word in _words(context)}

    def missing(reference: str) -> float:
        words = _words(reference)
        return sum(n for word, n in words.items() if word not in held) / max(1, words.total())

    return min(references, key=missing)


async def best_match(
    references: Sequence[str], answer: str, match: Callable[[str], Awaitable[object]]
) -> ReferenceMatch | JudgementFailure | None:
    """The best of what `match` gives for the nearest references; no further ones are tried after a full match.

    If one of them could not be judged and none is matched in full, the whole has failed: that one may be the best.
    """
    best: ReferenceMatch | None = None
    failures: list[JudgementFailure] = []
    for reference in nearest_first(references, answer)[:MAX_MATCHED]:
        found = await match(reference)
        if isinstance(found, JudgementFailure):
            failures.append(found)
        elif isinstance(found, ReferenceMatch):
            if best is None or _agreement(found) > _agreement(best):
                best = found
            if _in_full(found):
                return found
    failed = next((failure for failure in failures if not failure.not_applicable), None)
    return failed or best or next(iter(failures), None)


def _words(text: str) -> Counter[str]:
    return Counter(_WORD.findall(text.casefold()))


def _in_full(match: ReferenceMatch) -> bool:
    supports = (*match.answer_supports, *match.reference_supports)
    return all(support.verdict is Verdict.SUPPORTED for support in supports)


def _agreement(match: ReferenceMatch) -> float:
    """Harmonic mean of the two shares, as in answer correctness."""
    precision = _share(match.answer_share, match.answer_supports)
    recall = _share(match.reference_share, match.reference_supports)
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def _share(graded: float | None, supports: Sequence[Support]) -> float:
    if graded is not None:
        return graded
    return sum(support.verdict is Verdict.SUPPORTED for support in supports) / max(1, len(supports))
