"""Small self-written texts in eight languages and English, with changes whose effect on their truth is certain.

A frame is a passage with slots (contrast_frames.toml), filled by rule. All languages have the same frames, so that
their accuracies can be compared. `WORDS` was at hand when the judge's word lists were written; `UNSEEN`, in seven of
the languages, was not. Every harmful change makes the statement false or unsupported; every harmless one preserves
its truth.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from types import SimpleNamespace
from typing import Any


@dataclass(frozen=True, slots=True)
class Case:
    """A statement and a passage, their language and kind, and whether the passage supports the statement."""

    language: str
    kind: str
    passage: str
    statement: str
    supported: bool


_TABLES: Mapping[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
WORDS, UNSEEN = _TABLES["seen"]["frames"], _TABLES["unseen"]["frames"]
LANGUAGES = tuple(WORDS)
FILLINGS = 12


def cases(language: str, *, unseen: bool = False) -> Iterator[Case]:
    """All cases of one language: each frame with each of `FILLINGS` sets of names, places and numbers."""
    table = _TABLES["unseen" if unseen else "seen"]
    words = SimpleNamespace(**{**table, **table["frames"][language]})
    people, places = cycle(words.people), cycle(words.places)
    gap = "" if language in ("zh", "ja") else " "
    for filling in range(FILLINGS):
        slots: dict[str, str | int] = {
            "a": next(people),
            "b": next(people),
            "c": next(people),
            "p": next(places),
            "q": next(places),
            "n": 31 + 3 * filling,
            "m": 12 + filling,
            "y": 1871 + 5 * filling,
            "z": 2004 + filling,
        }
        facts = [words.built, words.tall, words.sales, words.taught, words.open, words.visitors]
        built, tall, sales, taught, opens, visitors = (fact.format(**slots) for fact in facts)
        passage = gap.join((built, tall, sales, taught, opens, visitors))

        def swap(text: str, pair: Sequence[str]) -> str:
            return text.replace(pair[0], pair[1], 1)

        wrong = {
            "number": words.tall.format(**{**slots, "n": 38 + 3 * filling}),
            "date": swap(built, words.other_month),
            "name": words.built.format(**{**slots, "a": slots["c"]}),
            "unit": swap(tall, words.other_unit),
            "negation": words.not_built.format(**slots),
            "antonym": swap(sales, words.fell),
            "quantifier": swap(visitors, words.all_few),
            "direction": swap(opens, words.before_after),
            "roles": words.taught.format(**{**slots, "a": slots["b"], "b": slots["a"]}),
            "other antonym": swap(opens, words.closed),
        }
        right = {
            "copy": built,
            "second copy": sales,
            "several copies": gap.join((tall, sales, visitors)),
            "voice": words.passive.format(**slots),
            "order": words.year_first.format(**slots),
            "synonym": swap(built if words.synonym[0] in built else sales, words.synonym),
            "greeting": gap.join((words.greeting[0], tall, words.greeting[1])),
            "attribution": words.attribution + built,
            "formatting": f"- {tall}\n- **{visitors}**",
            "hedge": words.hedge + tall,
        }
        for kind, statement in wrong.items():
            yield Case(language, kind, passage, statement, False)
        for kind, statement in right.items():
            yield Case(language, kind, passage, statement, True)
