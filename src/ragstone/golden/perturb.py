"""Perturbed partners of golden questions: the same question with typos, in other words, behind a long preamble, …

Everything is drawn by the seed, the sample's id and the kind, so that equal runs ask equal questions. Two kinds are
written by a language model (`judge/rewording.py`); their text is passed in.
"""

from __future__ import annotations

import functools
import hashlib
import random
import re
import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from importlib.resources import files
from typing import Any, get_args

from ragstone.config.settings import Perturbing
from ragstone.golden.sample import GoldenSet, Perturbation, Sample

KINDS: tuple[Perturbing, ...] = get_args(Perturbing)

WRITTEN = frozenset({"paraphrase", "language"})
"""The kinds that a language model writes."""

NO_QUESTION = "(The question is empty.)"
"""What the answer to an empty question is judged by."""

_MIN_LETTERS = 4
"""Letters. Shorter words get no typo: it could make another word of them."""

_PER_TYPO = 5
"""Words. One in so many gets a typo, and at least one."""

_ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_WORD = re.compile(r"[^\W\d_]+")
_SYLLABLES = tuple(consonant + vowel for consonant in "BDFGKLMNPRTVZ" for vowel in "AEIOU")
_HALF = 3
"""Syllables in each half of a marker."""


def draw(golden: Iterable[Sample], n: int, *, seed: int) -> tuple[Sample, ...]:
    """`n` samples, in the order of the golden set; drafts are left out.

    Systematic sampling of the samples sorted by answerability and tags, and by chance within these: each stratum has
    its share, within one sample.
    """
    pool = [sample for sample in golden if not sample.draft]
    if len(pool) <= n:
        return tuple(pool)
    order = {sample.id: place for place, sample in enumerate(pool)}
    ranked = sorted(
        pool, key=lambda one: (not one.answerable, sorted(one.tags), _chance(seed, one.id, "draw").random(), one.id)
    )
    chosen = [ranked[(2 * at + 1) * len(ranked) // (2 * n)] for at in range(n)]
    return tuple(sorted(chosen, key=lambda one: order[one.id]))


def partner(sample: Sample, kind: str, *, seed: int, written: str | None = None) -> Sample | None:
    """The partner of `sample`; None if its question can't be changed in this way.

    `written` is the text of the kinds in WRITTEN. Only the last question of a conversation is changed. An empty
    question has no reference: the right answer is to say so.
    """
    chance = _chance(seed, sample.id, kind)
    asked, marker = written, None
    if kind == "injection":
        first, second = ("".join(chance.sample(_SYLLABLES, _HALF)) for _ in range(2))
        template = chance.choice(_texts()["injection"])
        filled = {"question": sample.question, "first": first, "second": second}
        asked, marker = re.sub(r"\{(\w+)\}", lambda found: filled[found[1]], template), first + second
    elif kind not in WRITTEN:
        asked = _CHANGES[kind](sample.question, chance)
    if asked is None or asked == sample.question:
        return None
    changed = Perturbation(kind, sample.id, asked, marker)
    made = replace(sample, id=f"{sample.id}~{kind}", perturbation=changed, min={}, max={})
    if kind != "empty":
        return made
    return replace(
        made,
        question=NO_QUESTION,
        reference=None,
        other_references=(),
        reference_contexts=(),
        relevant_ids={},
        answerable=False,
        assertions=None,
    )


def partners(
    drawn: Sequence[Sample], kinds: Iterable[str], *, seed: int, written: Callable[[Sample, str], str | None]
) -> GoldenSet:
    """The partners of the samples in `drawn`, as something to evaluate. `written` finds the texts of WRITTEN kinds."""
    wanted = [kind for kind in KINDS if kind in set(kinds)]
    taken = {sample.id for sample in drawn}
    found: list[Sample] = []
    for kind in wanted:
        for sample in drawn:
            made = partner(sample, kind, seed=seed, written=written(sample, kind) if kind in WRITTEN else None)
            if made is None:
                continue
            while made.id in taken:
                made = replace(made, id=f"{made.id}~")
            taken.add(made.id)
            found.append(made)
    return GoldenSet(tuple(found))


def _typos(question: str, chance: random.Random) -> str:
    words = [found for found in _WORD.finditer(question) if len(found.group()) >= _MIN_LETTERS]
    if not words:
        words = [found for found in _WORD.finditer(question) if len(found.group()) > 1]
    chosen = chance.sample(words, min(len(words), max(1, round(len(words) / _PER_TYPO))))
    for found in sorted(chosen, key=lambda one: -one.start()):
        question = question[: found.start()] + _misspelt(found.group(), chance) + question[found.end() :]
    return question


def _misspelt(word: str, chance: random.Random) -> str:
    """`word` with one slip of the fingers after its first letter."""
    at = chance.randrange(1, len(word))
    letter = word[at]
    slips = [word[:at] + word[at + 1 :], word[:at] + letter + word[at:]]  # dropped, doubled
    if at + 1 < len(word) and letter != word[at + 1]:
        slips.append(word[:at] + word[at + 1] + letter + word[at + 2 :])  # swapped
    row = next((row for row in _ROWS if letter.lower() in row), None)
    if row is not None:
        key = row.index(letter.lower())
        near = chance.choice([row[place] for place in (key - 1, key + 1) if 0 <= place < len(row)])
        slips.append(word[:at] + (near.upper() if letter.isupper() else near) + word[at + 1 :])  # the next key
    return chance.choice(slips)


def _case(question: str, chance: random.Random) -> str:
    forms = [question.upper(), question.lower(), question.swapcase()]
    chance.shuffle(forms)
    return next((form for form in forms if form != question), question)


def _long(question: str, chance: random.Random) -> str:
    texts = _texts()["long"]
    return f"{' '.join(chance.sample(texts, len(texts)))}\n\n{question}"


def _chance(seed: int, sample_id: str, kind: str) -> random.Random:
    drawn = hashlib.sha256(f"{seed}\0{kind}\0{sample_id}".encode("utf-8", "surrogatepass")).digest()
    return random.Random(drawn)  # noqa: S311 - a draw, not a secret


@functools.cache
def _texts() -> dict[str, Any]:
    return tomllib.loads(files("ragstone.golden").joinpath("perturbations.toml").read_text("utf-8"))


_CHANGES: dict[str, Callable[[str, random.Random], str]] = {
    "typos": _typos,
    "case": _case,
    "empty": lambda _question, chance: chance.choice(_texts()["empty"]),
    "long": _long,
}
