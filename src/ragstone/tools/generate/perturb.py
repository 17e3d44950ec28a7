"""Rows of a golden set whose questions are changed: with typos, in capitals, behind a
long preamble, …

Everything is drawn by the seed, the sample's id and the kind, so that equal commands
write equal rows.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from itertools import chain

from msgspec import Struct, field

from ragstone.files import read_table
from ragstone.formatting import counted
from ragstone.golden.sample import Assertions, Sample
from ragstone.tools.generate.checks import invalid_sample

TEXTS = read_table("perturbations.toml", __package__)


class Perturbation(StrEnum):
    """A way to change a question."""

    TYPOS = "typos"
    CASE = "case"
    EMPTY = "empty"
    INJECTION = "injection"
    LONG = "long"

    @property
    def tag(self) -> str:
        """The tag of its rows, for a slice of the policy."""
        return f"perturbed:{self}"


_WORD = re.compile(r"[^\W\d_]{4,}")
"""Shorter words get no typo: it could make another word of them."""

_WORDS_PER_TYPO = 5
"""Words. One in so many gets a typo, and at least one."""


class Perturbed(Struct):
    """The rows that were written, and how many questions could not be changed, by
    kind."""

    rows: list[Sample] = []
    unchanged: Counter[Perturbation] = field(default_factory=Counter)

    def text(self) -> str:
        """The summary for a terminal."""
        counts = Counter(chain.from_iterable(row.tags for row in self.rows))
        rows = counted(len(self.rows), "row")
        lines = [f"{rows}:"]
        for tag, count in sorted(counts.items()):
            lines.append(f"  {tag:<22}  {count:,}")
        for kind, number in sorted(self.unchanged.items()):
            questions = counted(number, "question")
            lines.append(
                f"  {kind}: {questions} left out: it can't be changed in this way"
            )
        return "\n".join(lines)


def draw(golden: Iterable[Sample], n: int, *, seed: int) -> tuple[Sample, ...]:
    """`n` samples, in the order of the golden set, without drafts, turns, and rows that
    are perturbed themselves."""
    tags = {kind.tag for kind in Perturbation}
    pool = [
        sample
        for sample in golden
        if not sample.is_draft and sample.turn is None and tags.isdisjoint(sample.tags)
    ]
    chance = random.Random(seed)  # noqa: S311 - a sample, not a secret
    size = min(n, len(pool))
    places = chance.sample(range(len(pool)), size)
    return tuple(pool[place] for place in sorted(places))


def perturbed_row(sample: Sample, kind: Perturbation, *, seed: int) -> Sample | None:
    """`sample` with its question changed by rule; None if it can't be changed in this
    way.

    Only the last question of a conversation is changed. The row has the labels of the
    original, since they say what the user meant, and is in one group with it.
    """
    row_seed = f"{seed}\0{kind}\0{sample.id}"
    chance = random.Random(row_seed)  # noqa: S311 - a draw, not a secret
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
    if kind is Perturbation.INJECTION:
        return _injected(row, chance)
    question = _CHANGES[kind](sample.question, chance)
    if question == sample.question:
        return None
    return replace(row, question=question)


def empty_rows() -> Iterator[Sample]:
    """Rows that ask nothing, so that the right answer is to say so."""
    kind = Perturbation.EMPTY
    for number, text in enumerate(TEXTS["empty"], start=1):
        yield Sample(
            f"{kind}-{number}", text, answerable=False, tags=(kind.tag,), group=kind.tag
        )


def perturb(drawn: Sequence[Sample], kinds: Collection[Perturbation]) -> Perturbed:
    """The rows of `kinds` for the samples in `drawn`."""
    perturbed = Perturbed()
    for kind in sorted(kinds, key=list(Perturbation).index):
        rows: list[Sample | None] = list(empty_rows())
        if kind is not Perturbation.EMPTY:
            rows = [perturbed_row(sample, kind, seed=0) for sample in drawn]
        for row in rows:
            if row is not None and invalid_sample(row) is None:
                perturbed.rows.append(row)
            else:
                perturbed.unchanged[kind] += 1
    return perturbed


def _typos(question: str, chance: random.Random) -> str:
    words = [word.start() for word in _WORD.finditer(question)]
    typos = max(1, round(len(words) / _WORDS_PER_TYPO))
    count = min(len(words), typos)
    chosen = chance.sample(words, count)

    def misspelt(match: re.Match[str]) -> str:
        """A word with one slip of the fingers after its first letter: one dropped,
        doubled, or swapped with the next."""
        word = match[0]
        if match.start() not in chosen:
            return word
        place = chance.randrange(1, len(word) - 1)
        first = word[place]
        second = word[place + 1]
        slips = [second, first + first + second]
        if first != second:
            slips.append(second + first)
        slip = chance.choice(slips)
        return word[:place] + slip + word[place + 2 :]

    return _WORD.sub(misspelt, question)


def _case(question: str, chance: random.Random) -> str:
    forms = [question.upper(), question.lower(), question.swapcase()]
    shuffled = chance.sample(forms, 3)
    return next((form for form in shuffled if form != question), question)


def _long(question: str, chance: random.Random) -> str:
    sentences = TEXTS["long"]
    shuffled = chance.sample(sentences, len(sentences))
    return f"{' '.join(shuffled)}\n\n{question}"


def _injected(row: Sample, chance: random.Random) -> Sample:
    """`row` with an instruction to write a word that stands nowhere in the question as
    a whole."""
    first = _syllables(chance)
    second = _syllables(chance)
    template = chance.choice(TEXTS["injection"])
    question = template.replace("{first}", first).replace("{second}", second)
    asserted = row.assertions or Assertions()
    word = first + second
    forbidden = (*asserted.must_not_contain, word)
    return replace(
        row,
        question=question.replace("{question}", row.question),
        assertions=replace(asserted, must_not_contain=forbidden),
    )


def _syllables(chance: random.Random) -> str:
    letters = ("BDFGKLMNPRTVZ", "AEIOU") * 3
    return "".join(map(chance.choice, letters))


_CHANGES: dict[Perturbation, Callable[[str, random.Random], str]] = {
    Perturbation.TYPOS: _typos,
    Perturbation.CASE: _case,
    Perturbation.LONG: _long,
}
