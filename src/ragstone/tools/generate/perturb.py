"""Rows of a golden set whose questions are changed: with typos, in capitals, behind a long preamble, …

Everything is drawn by the seed, the sample's id and the kind, so that equal commands write equal rows.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

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


_MIN_LETTERS = 4
"""Letters. Shorter words get no typo: it could make another word of them."""

_WORDS_PER_TYPO = 5
"""Words. One in so many gets a typo, and at least one."""

_WORD = re.compile(r"[^\W\d_]+")
_SYLLABLES = tuple(consonant + vowel for consonant in "BDFGKLMNPRTVZ" for vowel in "AEIOU")
_SYLLABLES_IN_HALF = 3
"""Syllables in each half of the word that an injected instruction asks for."""


@dataclass(slots=True)
class Perturbed:
    """The rows that were written, and how many questions could not be changed, by kind and reason."""

    rows: list[Sample] = field(default_factory=list)
    unchanged: Counter[tuple[Perturbation, str]] = field(default_factory=Counter)

    def text(self) -> str:
        """The summary for a terminal."""
        counts = Counter(tag for row in self.rows for tag in row.tags)
        lines = [f"{counted(len(self.rows), 'row')}:"]
        lines += [f"  {tag:<22}  {counts[tag]:,}" for tag in sorted(counts)]
        for (kind, reason), number in sorted(self.unchanged.items()):
            lines.append(f"  {kind}: {counted(number, 'question')} left out: {reason}")
        return "\n".join(lines)


def draw(golden: Iterable[Sample], n: int, *, seed: int) -> tuple[Sample, ...]:
    """`n` samples, in the order of the golden set; drafts and rows that are perturbed themselves are left out.

    Answerable and unanswerable samples have their share, within one sample.
    """
    tags = {kind.tag for kind in Perturbation}
    pool = [sample for sample in golden if not sample.draft and tags.isdisjoint(sample.tags)]
    if len(pool) <= n:
        return tuple(pool)
    order = list(range(len(pool)))
    random.Random(seed).shuffle(order)  # noqa: S311 - a sample, not a secret
    order.sort(key=lambda place: pool[place].answerable)
    # Every so many of them, from the middle of the first stretch on.
    chosen = sorted(order[(2 * number + 1) * len(order) // (2 * n)] for number in range(n))
    return tuple(pool[place] for place in chosen)


def perturbed_row(sample: Sample, kind: Perturbation, *, seed: int) -> Sample | None:
    """`sample` with its question changed by rule; None if it can't be changed in this way.

    Only the last question of a conversation is changed. The row has the labels of the original, since they say what the
    user meant, and is in one group with it.
    """
    chance = _chance(seed, sample.id, kind)
    if kind is Perturbation.INJECTION:
        return _row(_injected(sample, chance), kind)
    if kind is Perturbation.EMPTY:
        return None
    question = _CHANGES[kind](sample.question, chance)
    return None if question == sample.question else _row(replace(sample, question=question), kind)


def empty_rows() -> Iterator[Sample]:
    """Rows that ask nothing, so that the right answer is to say so."""
    kind = Perturbation.EMPTY
    for number, text in enumerate(TEXTS["empty"], start=1):
        yield Sample(f"{kind}-{number}", text, answerable=False, tags=(kind.tag,), group=kind.tag)


def perturb(drawn: Sequence[Sample], kinds: Collection[Perturbation], seed: int) -> Perturbed:
    """The rows of `kinds` for the samples in `drawn`."""
    perturbed = Perturbed()
    for kind in Perturbation:
        if kind not in kinds:
            continue
        rows: list[Sample | None] = [perturbed_row(sample, kind, seed=seed) for sample in drawn]
        if kind is Perturbation.EMPTY:
            rows = list(empty_rows())
        for row in rows:
            problem = "it can't be changed in this way" if row is None else invalid_sample(row)
            if row is not None and problem is None:
                perturbed.rows.append(row)
            else:
                perturbed.unchanged[kind, problem or ""] += 1
    return perturbed


def with_free_ids(rows: Iterable[Sample], taken: Iterable[str]) -> list[Sample]:
    """`rows` with ids that neither `taken` nor another row has."""
    ids = set(taken)
    renamed = []
    for row in rows:
        name = row.id
        while name in ids:
            name = f"{name}~"
        ids.add(name)
        renamed.append(replace(row, id=name))
    return renamed


def _row(sample: Sample, kind: Perturbation) -> Sample:
    return replace(
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


def _typos(question: str, chance: random.Random) -> str:
    words = [word for word in _WORD.finditer(question) if len(word.group()) >= _MIN_LETTERS]
    if not words:
        words = [word for word in _WORD.finditer(question) if len(word.group()) > 1]
    chosen = chance.sample(words, min(len(words), max(1, round(len(words) / _WORDS_PER_TYPO))))
    for word in sorted(chosen, key=lambda word: -word.start()):
        question = question[: word.start()] + _misspelt(word.group(), chance) + question[word.end() :]
    return question


def _misspelt(word: str, chance: random.Random) -> str:
    """`word` with one slip of the fingers after its first letter: one dropped, doubled, or swapped with the next."""
    place = chance.randrange(1, len(word))
    before, letter, after = word[:place], word[place], word[place + 1 :]
    slips = [before + after, before + letter + letter + after]
    if after and after[0] != letter:
        slips.append(before + after[0] + letter + after[1:])
    return chance.choice(slips)


def _case(question: str, chance: random.Random) -> str:
    forms = [question.upper(), question.lower(), question.swapcase()]
    chance.shuffle(forms)
    return next((form for form in forms if form != question), question)


def _long(question: str, chance: random.Random) -> str:
    texts = TEXTS["long"]
    return f"{' '.join(chance.sample(texts, len(texts)))}\n\n{question}"


def _chance(seed: int, sample_id: str, kind: str) -> random.Random:
    drawn = hashlib.sha256(f"{seed}\0{kind}\0{sample_id}".encode("utf-8", "surrogatepass")).digest()
    return random.Random(drawn)  # noqa: S311 - a draw, not a secret


def _injected(sample: Sample, chance: random.Random) -> Sample:
    """`sample` with an instruction to write a word that stands nowhere in the question as a whole."""
    first, second = ("".join(chance.sample(_SYLLABLES, _SYLLABLES_IN_HALF)) for _ in range(2))
    texts = {"question": sample.question, "first": first, "second": second}
    template = chance.choice(TEXTS["injection"])
    question = re.sub(r"\{(\w+)\}", lambda name: texts[name[1]], template)
    assertions = sample.assertions or Assertions()
    forbidden = (*assertions.must_not_contain, first + second)
    return replace(sample, question=question, assertions=replace(assertions, must_not_contain=forbidden))


_CHANGES: dict[Perturbation, Callable[[str, random.Random], str]] = {
    Perturbation.TYPOS: _typos,
    Perturbation.CASE: _case,
    Perturbation.LONG: _long,
}
