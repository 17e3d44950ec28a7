"""Whether the offline judge scores what an answer says, and not how: ``python bench/answer_styles.py [DATA_DIR]``.

Right answers of our own in four languages (tests/bench/answers.jsonl), each written in twelve styles, and the
same styles of invented answers to the same questions. Prints the mean faithfulness of each style, and how far it is
from that of the plain answers. With RAGTruth in DATA_DIR besides: the mean faithfulness of the answers of each model,
of those in which people found nothing unsupported and of the others.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from data_sets import DEFAULT, read_rows

from ragstone.judge.offline import OfflineJudge
from ragstone.judge.protocol import Call
from ragstone.system.response import Context

RAGTRUTH = "ragtruth_qa_half.jsonl.gz"

DATA = Path(__file__).resolve().parents[1] / "tests" / "bench"
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


async def faithfulness(cases: Sequence[tuple[str, str, Sequence[str]]]) -> list[float]:
    """The expected share of supported statements of each (question, answer, contexts); 0 for an abstention."""
    judge = OfflineJudge()
    found = []
    for number, (question, answer, texts) in enumerate(cases):
        call = Call(str(number))
        made = await judge.statements(question, answer, call=call)
        if made.abstains:
            found.append(0.0)
            continue
        table = await judge.support([Context(text) for text in texts], made.statements, call=call)
        found.append(fmean(one.probability or 0.0 for one in table.supports))
    return found


def by_style(facts: Sequence[Facts], right: bool) -> dict[str, list[float]]:
    """The faithfulness of the answers to all questions in each style, "plain" first."""
    found = {}
    for style in ("plain", *STYLES):
        answers = (written(style, one, right, turn) for turn, one in enumerate(facts))
        cases = [(one.question, answer, one.contexts) for one, answer in zip(facts, answers, strict=True)]
        found[style] = asyncio.run(faithfulness(cases))
    return found


def by_model(file: Path) -> dict[str, dict[bool, float]]:
    """For each model of RAGTruth the mean faithfulness of answers with and without unsupported spans."""
    rows = list(read_rows(file))
    values = asyncio.run(faithfulness([(row["question"], row["answer"], row["contexts"]) for row in rows]))
    found: dict[str, dict[bool, list[float]]] = {}
    for row, value in zip(rows, values, strict=True):
        found.setdefault(row["model"], {True: [], False: []})[bool(row["label_faithful"])].append(value)
    return {name: {side: fmean(each) for side, each in sides.items() if each} for name, sides in found.items()}


def main(data: Path) -> None:
    facts = load_facts()
    right, wrong = by_style(facts, True), by_style(facts, False)
    plain = fmean(right["plain"])
    print("| style | right | from plain | invented |\n|---|---|---|---|")
    for style, values in right.items():
        print(f"| {style} | {fmean(values):.2f} | {fmean(values) - plain:+.2f} | {fmean(wrong[style]):.2f} |")
    if not (data / RAGTRUTH).is_file():
        print(f"RAGTruth is not in {data}.")
        return
    print("\n| model | nothing unsupported | something unsupported |\n|---|---|---|")
    for name, means in by_model(data / RAGTRUTH).items():
        print(f"| {name} | {means[True]:.2f} | {means.get(False, float('nan')):.2f} |")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT)
