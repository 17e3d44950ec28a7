"""Other words for the same facts, and a wrong number, name or negation in them.

300 answers: each fact of `rewordings.toml` in 30 ways, ten of them written when weights and patterns were fixed,
against its page between two others. No weights were learnt from them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from labelled_sets import Case
from public_scores import public_scores

DATA: Mapping[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
TEMPLATES: list[str] = [*DATA["templates"], *DATA["unseen"]]
LOSS = 0.3
CLEAR = 1e-9


@dataclass(frozen=True)
class Rewording:
    """A fact as its page says it, reworded by the template at `rank`, and with something wrong in it, by kind."""

    rank: int
    contexts: tuple[str, ...]
    own: str
    reworded: str
    changed: Mapping[str, str]


def rewordings() -> Iterator[Rewording]:
    pages = [fact["page"] for fact in DATA["facts"]]
    for at, fact in enumerate(DATA["facts"]):
        contexts = tuple(pages[(at + step) % len(pages)] for step in (3, 0, 6))
        own = next(sentence for sentence in fact["page"].split(". ") if fact["words"][3] in sentence)
        slots = dict(zip(("verb", "done", "doing", "object", "extra"), fact["words"], strict=True))
        slots["actor"] = fact["actor"]
        slots |= {name.capitalize(): text[:1].upper() + text[1:] for name, text in slots.items()}
        for rank, template in enumerate(TEMPLATES):
            reworded = template.format(**slots)
            changed = {
                f"fact {number}": reworded.replace(right, wrong) for number, (right, wrong) in enumerate(fact["wrong"])
            }
            negated = next((template.replace(*pair) for pair in DATA["negations"] if pair[0] in template), None)
            if negated is not None:
                changed["negation"] = negated.format(**slots)
            yield Rewording(rank, contexts, f"{own.rstrip('.')}.", reworded, changed)


@dataclass(frozen=True)
class Measured:
    """How far the mean moves, by template, over all and over the unseen ones; and the share of wrong facts and of
    negations that show.
    """

    moves: Mapping[int, float]
    mean_move: float
    mean_unseen: float
    facts_seen: float
    negations_seen: float


def measure() -> Measured:
    every = list(rewordings())
    cases: dict[str, Case] = {}
    for number, one in enumerate(every):
        texts = {"own": one.own, "reworded": one.reworded, **one.changed}
        cases |= {f"{number}/{name}": Case("", text, one.contexts) for name, text in texts.items()}
    scores = public_scores(cases, ["faithfulness"])["faithfulness"]
    moves: dict[int, list[float]] = {}
    facts: list[bool] = []
    negations: list[bool] = []
    for number, one in enumerate(every):
        reworded = scores[f"{number}/reworded"]
        moves.setdefault(one.rank, []).append(scores[f"{number}/own"] - reworded)
        for name in one.changed:
            seen = reworded - scores[f"{number}/{name}"] >= LOSS - CLEAR
            (negations if name == "negation" else facts).append(seen)
    means = {rank: fmean(each) for rank, each in moves.items()}
    unseen = fmean(move for rank, move in means.items() if rank >= len(DATA["templates"]))
    return Measured(means, fmean(means.values()), unseen, fmean(facts), fmean(negations))
