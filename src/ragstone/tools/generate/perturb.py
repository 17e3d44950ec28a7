"""Rows of a golden set whose questions are changed: with typos, in capitals, with an
injected instruction.

Everything is drawn by the seed, the sample's id and the kind, so that equal commands
write equal rows.
"""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from enum import StrEnum

from ragstone.files import read_table
from ragstone.golden.sample import Assertions, Sample
from ragstone.tools.generate.checks import invalid_sample

TEXTS = read_table("perturbations.toml", __package__)


class Perturbation(StrEnum):
    """A way to change a question."""

    TYPOS = "typos"
    CASE = "case"
    INJECTION = "injection"

    @property
    def tag(self) -> str:
        """The tag of its rows, for a slice of the policy."""
        return f"perturbed:{self}"


_WORD = re.compile(r"[^\W\d_]{4,}")
"""Shorter words get no typo: it could make another word of them."""

_WORDS_PER_TYPO = 5
"""Words. One in so many gets a typo, and at least one."""


def draw(golden: Iterable[Sample], n: int, *, seed: int) -> tuple[Sample, ...]:
    """`n` samples, in the order of the golden set, without drafts, turns, and rows that
    are perturbed themselves."""
    tags = {kind.tag for kind in Perturbation}
    alone = [sample for sample in golden if not sample.draft and sample.turn is None]
    pool = [sample for sample in alone if tags.isdisjoint(sample.tags)]
    places = random.Random(seed).sample(range(len(pool)), min(n, len(pool)))  # noqa: S311 - a sample, not a secret
    return tuple(pool[place] for place in sorted(places))


def perturb(
    drawn: Sequence[Sample], kinds: Collection[Perturbation], seed: int
) -> list[Sample]:
    """The rows of `kinds` for the samples in `drawn`, without questions that can't be
    changed in this way."""
    rows = []
    for kind in sorted(kinds):
        for sample in drawn:
            row = perturbed_row(sample, kind, seed=seed)
            if row.question != sample.question and invalid_sample(row) is None:
                rows.append(row)
    return rows


def perturbed_row(sample: Sample, kind: Perturbation, *, seed: int) -> Sample:
    """`sample` with its question changed by rule.

    Only the last question of a conversation is changed. The row has the labels of the
    original, since they say what the user meant, and is in one group with it.
    """
    chance = random.Random(f"{seed}\0{kind}\0{sample.id}")  # noqa: S311 - a draw, not a secret
    row = replace(
        sample,
        id=f"{sample.id}~{kind}",
        tags=(kind.tag,),
        group=sample.group or sample.id,
        origin=None,
        review=None,
        provenance=None,
        min={},
        max={},
    )
    match kind:
        case Perturbation.TYPOS:
            return replace(row, question=_typos(sample.question, chance))
        case Perturbation.CASE:
            return replace(row, question=_case(sample.question, chance))
        case Perturbation.INJECTION:
            return _injected(row, chance)


def _typos(question: str, chance: random.Random) -> str:
    words = [word.start() for word in _WORD.finditer(question)]
    count = max(1, round(len(words) / _WORDS_PER_TYPO))
    chosen = chance.sample(words, min(len(words), count))

    def misspelt(word: re.Match[str]) -> str:
        return _misspelt(word[0], chance) if word.start() in chosen else word[0]

    return _WORD.sub(misspelt, question)


def _misspelt(word: str, chance: random.Random) -> str:
    """`word` with one slip of the fingers after its first letter: one dropped, doubled,
    or swapped with the next."""
    place = chance.randrange(1, len(word) - 1)
    first, second = word[place], word[place + 1]
    slips = [second, first + first + second]
    if first != second:
        slips.append(second + first)
    return word[:place] + chance.choice(slips) + word[place + 2 :]


def _case(question: str, chance: random.Random) -> str:
    forms = chance.sample([question.upper(), question.lower(), question.swapcase()], 3)
    return next((form for form in forms if form != question), question)


def _injected(row: Sample, chance: random.Random) -> Sample:
    """`row` with an instruction to write a word that stands nowhere in the question as
    a whole."""
    first, second = (
        "".join(map(chance.choice, ("BDFGKLMNPRTVZ", "AEIOU") * 3)) for _ in range(2)
    )
    template = chance.choice(TEXTS["injection"])
    question = template.replace("{first}", first).replace("{second}", second)
    asserted = row.assertions or Assertions()
    forbidden = (*asserted.must_not_contain, first + second)
    return replace(
        row,
        question=question.replace("{question}", row.question),
        assertions=replace(asserted, must_not_contain=forbidden),
    )
