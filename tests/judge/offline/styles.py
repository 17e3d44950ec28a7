"""Right answers of our own in four languages (answers.jsonl), each written in twelve styles, and the same styles of
invented answers to the same questions.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from data_sets import read_rows
from model_answers import faithfulness

DATA = Path(__file__).parent
PHRASES: dict[str, dict[str, list[str]]] = json.loads((DATA / "answer_styles.json").read_text(encoding="utf-8"))
"""Per style and language, the forms that answers take in turn. {0} and {1} are what the answer says: the first sentence
and the rest, {0-} and {1-} without their stop; {q} is the question."""

STYLES = ("terse", *PHRASES)
COMMON = frozenset({"The", "A", "It", "Its", "They", "You", "Each", "Users", "Members", "Only", "Store"})


@dataclass(frozen=True)
class Facts:
    """What a right and an invented answer to a question say, and the passages that hold the right ones."""

    language: str
    question: str
    contexts: tuple[str, ...]
    right: tuple[str, ...]
    wrong: tuple[str, ...]
    briefly: Mapping[bool, str]


def load_facts() -> list[Facts]:
    """Each question with its own passage, between two others of its language."""
    rows = list(read_rows(DATA / "answers.jsonl"))
    found = []
    for row in rows:
        others = [one for one in rows if one["language"] == row["language"]]
        at = others.index(row)
        contexts = tuple(others[(at + step) % len(others)]["context"] for step in (2, 0, 1))
        brief = {True: row["right_briefly"], False: row["wrong_briefly"]}
        found.append(Facts(row["language"], row["question"], contexts, tuple(row["right"]), tuple(row["wrong"]), brief))
    return found


def written(style: str, facts: Facts, right: bool, turn: int) -> str:
    """The answer in `style`, the `turn`-th of its forms; "plain" is one sentence after the other."""
    said = facts.right if right else facts.wrong
    between = "" if facts.language in ("zh", "ja") else " "
    if style == "plain":
        return between.join(said)
    if style == "terse":
        return facts.briefly[right]
    forms = PHRASES[style].get(facts.language) or PHRASES[style]["*"]
    form = forms[turn % len(forms)]
    parts = (said[0], between.join(said[1:]))
    for name, part in zip(("{0}", "{1}"), parts, strict=True):
        at = form.find(name)
        lower = at > 1 and form[at - 1] == " " and form[at - 2] not in ".:!?|*#-)"
        form = form.replace(name, _lowered(part) if lower else part).replace(name[:-1] + "-}", part.rstrip(".。"))
    return form.replace("{q}", facts.question)


def _lowered(sentence: str) -> str:
    """`sentence` as it is written after a comma, unless it may begin with a name."""
    return sentence[:1].lower() + sentence[1:] if sentence.split()[0] in COMMON else sentence


def by_style(facts: Sequence[Facts], right: bool) -> dict[str, list[float]]:
    """The faithfulness of the answers to all questions in each style, "plain" first."""
    found = {}
    for style in ("plain", *STYLES):
        answers = (written(style, one, right, turn) for turn, one in enumerate(facts))
        cases = [(one.question, answer, one.contexts) for one, answer in zip(facts, answers, strict=True)]
        found[style] = asyncio.run(faithfulness(cases))
    return found
