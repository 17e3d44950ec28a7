"""Has a change to the offline judge changed any judgement? ``python bench/same_judgements.py FILE [DATA_DIR]``.

Writes all judgements of some 18,000 cases to FILE if it doesn't exist; otherwise compares with it, to the last digit,
prints what differs, and exits 1. Run it before and after a change that is meant to be faster and nothing else. The
cases: the labelled data sets, alone and with five contexts and several sentences; contrasting statements in all
languages; random pieces of odd text; the example's baseline; the texts of `offline_judge.py`.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import random
import sys
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path

from contrast import HARMFUL, HARMLESS, contrasts, copied_sentences
from contrast_frames import LANGUAGES, UNSEEN, cases
from data_sets import data_folder
from judge_reliability import FILES
from offline_judge import sample as invented

from ragstone.golden.sample import Sample
from ragstone.judge.collect import collect_judgements
from ragstone.judge.judgements import JudgementKind, Judgements
from ragstone.judge.offline import OfflineJudge
from ragstone.judge.protocol import Call
from ragstone.run.directory import RunDirectory
from ragstone.system.response import Context, Response
from ragstone.tools.judging.metaeval.load import Case, Pairwise, load_items

ROOT = Path(__file__).parents[1]
KINDS = frozenset(JudgementKind) - {JudgementKind.PREVIOUS_MATCH, JudgementKind.PREFERENCE}
CONTEXTS = 5
ANSWERS = 3
CONTRASTS = 150
INVENTED = 300
PIECES = (
    "It isn't 1,200.50 km, but 3 million!",
    "Die Brücke wurde 1901 von Ada Brunn gebaut; sie ist nicht alt.",
    "\n- ",
    "\n\n",
    "北京是中国的首都，它很大。",
    "ภาษาไทย",
    "Ｆｕｌｌ ｗｉｄｔｈ",
    "According to the manual, sales rose in May 2018-19.",
    "I don't know. ",
    "…",
    "All of them fell [1][2]. ",
    "\u200b",
    "e\u0301",
    "Ａ",
    "| a | b |",
    "# Title\n",
    "Обычно не раньше 5 мая.",
    "L'eau d'Italia ne coule pas. ",
    "Who? ",
    "Paul Keller thanked Nora Lind after the fair, while most others left. ",
    "Nora Lind was thanked by Paul Keller. ",
    "at least 5 % more than before ",
    "aб",
    "(",
    '"',
    "Mr. A. B. Smith",
    "I think we ",
)


def all_cases(folder: Path) -> Iterator[tuple[str, Case]]:
    """Every case with a name."""
    draw = random.Random(0)
    for file in FILES.values():
        found = []
        for item in load_items(folder / file):
            sides = (item.first, item.second) if isinstance(item, Pairwise) else (item.case,)
            for side, case in enumerate(sides):
                found.append(case)
                with_reference = case if case.reference else replace(case, reference=case.answer)
                yield f"{file} {item.id} {item.task} {side}", with_reference
        for number in range(0, len(found) - CONTEXTS, CONTEXTS):
            some = found[number : number + CONTEXTS]
            answers = [one.answer or one.reference or "" for one in some]
            contexts = tuple(one.contexts[0] for one in some if one.contexts)
            answer = " ".join(draw.sample(answers, ANSWERS))
            yield f"{file} joined {number}", Case(some[0].question, answer, contexts, " ".join(answers[:ANSWERS]))
            yield f"{file} bare {number}", Case(some[0].question or answers[0], answers[1], contexts)
    sentences = list(copied_sentences(folder))
    for name, change in (HARMFUL | HARMLESS).items():
        for number, (one, text) in enumerate(contrasts(name, change, sentences, CONTRASTS)):
            yield f"{name} {number}", Case(one.text, text, (one.context,), text)
    for unseen, languages in ((False, LANGUAGES), (True, tuple(UNSEEN))):
        frames = [frame for language in languages for frame in cases(language, unseen=unseen)]
        for number, frame in enumerate(frames):
            passages = (frame.passage, frame.passage[20:])
            case = Case(frame.statement, frame.statement, passages, frame.statement)
            yield f"{'unseen ' if unseen else ''}frame {number} {frame.language} {frame.kind}", case
    for number in range(1_000):
        texts = ["".join(draw.choices(PIECES, k=draw.randint(1, 8))) for _ in range(5)]
        yield f"pieces {number}", Case(texts[0], texts[1], tuple(texts[2:4]), texts[4])
    for record in RunDirectory.open(ROOT / "examples" / "docs-qa" / "baseline").records():
        contexts = tuple(context.text for context in record.response.contexts)
        case = Case(record.sample.question, record.response.answer, contexts, record.sample.reference)
        yield f"example {record.sample.id}", case
    for number in range(INVENTED):
        sample, response = invented(number)
        contexts = tuple(context.text for context in response.contexts)
        yield f"invented {number}", Case(sample.question, response.answer, contexts, sample.reference)


async def judge_all(folder: Path) -> dict[str, dict[str, str]]:
    """What the judge says about each case, as text, by judgement."""
    judge = OfflineJudge(
        ["How long is the warranty?", "How do I set the judge's key?"], ["The warranty lasts 2 years."]
    )
    found: dict[str, dict[str, str]] = {}
    for name, case in all_cases(folder):
        contexts = tuple(Context(text) for text in case.contexts)
        one = Sample(name, case.question, reference=case.reference)
        response = Response(name, case.answer, contexts)
        found[name] = _as_text(await collect_judgements(judge, one, response, KINDS, Call(name)))
    return found


def _as_text(found: Judgements) -> dict[str, str]:
    return {field.name: repr(getattr(found, field.name)) for field in fields(found)}


def main(file: Path, folder: Path) -> int:
    now = asyncio.run(judge_all(folder))
    if not file.exists():
        with gzip.open(file, "wt", encoding="utf-8") as stream:
            json.dump(now, stream)
        print(f"{len(now):,} cases written to {file}")
        return 0
    with gzip.open(file, "rt", encoding="utf-8") as stream:
        before = json.load(stream)
    differing = [name for name in before.keys() | now.keys() if before.get(name) != now.get(name)]
    for name in sorted(differing)[:10]:
        for kind, text in now.get(name, {}).items():
            was = before.get(name, {}).get(kind)
            if was != text:
                print(f"{name}, {kind}:\n  before: {was}\n  now:    {text}")
    print(f"{len(differing):,} of {len(now):,} cases differ")
    return int(bool(differing))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1]), data_folder(FILES.values(), *sys.argv[2:3])))
