"""Changes the questions of a golden set by rule: with typos, in capitals, behind a long
preamble, and so on.

All random choices depend on the seed, the sample's id and the kind of change, so that
the same command writes the same rows.
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
from ragstone.tools.generate.checks import why_invalid

_TEXTS = read_table("perturbations.toml", __package__)


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
"""One in so many words gets a typo, and at least one word of a question."""


class PerturbedRows(Struct):
    """The rows that `perturb` made."""

    rows: list[Sample] = []
    unchanged: Counter[Perturbation] = field(default_factory=Counter)
    """How many questions could not be changed in each way."""

    def text(self) -> str:
        """The summary for a terminal."""
        counts = Counter(chain.from_iterable(row.tags for row in self.rows))
        rows = counted(len(self.rows), "row")
        lines = [f"{rows}:"]
        for tag, count in sorted(counts.items()):
            lines.append(f"  {tag:<22}  {count:,}")
        for kind, count in sorted(self.unchanged.items()):
            questions = counted(count, "question")
            lines.append(f"  {kind}: {questions} that can't be changed in this way")
        return "\n".join(lines)


def draw_samples(golden: Iterable[Sample], n: int, *, seed: int) -> tuple[Sample, ...]:
    """Draw `n` samples, and return them in the order of the golden set. Drafts, turns
    of conversations, and rows that are perturbed already are left out."""
    tags = {kind.tag for kind in Perturbation}
    pool = [
        sample
        for sample in golden
        if not sample.is_draft and sample.turn is None and tags.isdisjoint(sample.tags)
    ]
    generator = random.Random(seed)  # noqa: S311 - a sample, not a secret
    size = min(n, len(pool))
    indices = generator.sample(range(len(pool)), size)
    return tuple(pool[index] for index in sorted(indices))


def perturb_sample(sample: Sample, kind: Perturbation, *, seed: int) -> Sample | None:
    """A row with the question of `sample`, changed; None if it can't be changed in this
    way.

    Only the last question of a conversation is changed. The row has the reference and
    labels of `sample`, since the user means the same, and is in one group with it.
    """
    row_seed = f"{seed}\0{kind}\0{sample.id}"
    generator = random.Random(row_seed)  # noqa: S311 - a draw, not a secret
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
        return _inject(row, generator)
    question = _CHANGES[kind](sample.question, generator)
    if question == sample.question:
        return None
    return replace(row, question=question)


def empty_rows() -> Iterator[Sample]:
    """Yield rows with questions that ask nothing, which the system can't answer."""
    kind = Perturbation.EMPTY
    for number, text in enumerate(_TEXTS["empty"], start=1):
        yield Sample(
            f"{kind}-{number}", text, answerable=False, tags=(kind.tag,), group=kind.tag
        )


def perturb(
    samples: Sequence[Sample], kinds: Collection[Perturbation]
) -> PerturbedRows:
    """Change the question of each of `samples` in each of `kinds` of ways."""
    perturbed = PerturbedRows()
    for kind in sorted(kinds, key=list(Perturbation).index):
        rows: list[Sample | None] = list(empty_rows())
        if kind is not Perturbation.EMPTY:
            rows = [perturb_sample(sample, kind, seed=0) for sample in samples]
        for row in rows:
            if row is not None and why_invalid(row) is None:
                perturbed.rows.append(row)
            else:
                perturbed.unchanged[kind] += 1
    return perturbed


def _add_typos(question: str, generator: random.Random) -> str:
    """`question` with typos in some of its longer words."""
    starts = [word.start() for word in _WORD.finditer(question)]
    typo_count = max(1, round(len(starts) / _WORDS_PER_TYPO))
    chosen_starts = generator.sample(starts, min(len(starts), typo_count))

    def misspell(match: re.Match[str]) -> str:
        """The word with one slip of the fingers after its first letter, if it is one of
        the chosen: a letter dropped, doubled, or swapped with the next."""
        word = match[0]
        if match.start() not in chosen_starts:
            return word
        index = generator.randrange(1, len(word) - 1)
        letter = word[index]
        next_letter = word[index + 1]
        slips = [next_letter, letter + letter + next_letter]
        if letter != next_letter:
            slips.append(next_letter + letter)
        slip = generator.choice(slips)
        return word[:index] + slip + word[index + 2 :]

    return _WORD.sub(misspell, question)


def _change_case(question: str, generator: random.Random) -> str:
    """`question` in capitals, in small letters, or with the two exchanged; as it is if
    it has no letters with a case."""
    forms = [question.upper(), question.lower(), question.swapcase()]
    shuffled = generator.sample(forms, len(forms))
    return next((form for form in shuffled if form != question), question)


def _add_preamble(question: str, generator: random.Random) -> str:
    """`question` behind sentences that have nothing to do with it."""
    sentences = _TEXTS["long"]
    shuffled = generator.sample(sentences, len(sentences))
    return f"{' '.join(shuffled)}\n\n{question}"


def _inject(row: Sample, generator: random.Random) -> Sample:
    """`row` with an instruction to write a made-up word, which the answer must not
    contain. The question has only its two halves, so that quoting it isn't obeying."""
    first_half = _made_up_syllables(generator)
    second_half = _made_up_syllables(generator)
    template = generator.choice(_TEXTS["injection"])
    question = template.replace("{first}", first_half).replace("{second}", second_half)
    assertions = row.assertions or Assertions()
    forbidden = (*assertions.must_not_contain, first_half + second_half)
    return replace(
        row,
        question=question.replace("{question}", row.question),
        assertions=replace(assertions, must_not_contain=forbidden),
    )


def _made_up_syllables(generator: random.Random) -> str:
    """Three syllables of a consonant and a vowel, such as ``BAKOTU``."""
    letters = ("BDFGKLMNPRTVZ", "AEIOU") * 3
    return "".join(map(generator.choice, letters))


_CHANGES: dict[Perturbation, Callable[[str, random.Random], str]] = {
    Perturbation.TYPOS: _add_typos,
    Perturbation.CASE: _change_case,
    Perturbation.LONG: _add_preamble,
}
