"""How rightly the offline judge names the contexts that an answer draws on: ``python bench/context_attribution.py``.

Alignment metrics rest on these names. People marked the sentences of a passage that an answer of CLAPNQ dev was
written from, and those of a page that support a claim of WiCE test. Passages and pages are cut into contexts of a few
sentences: at most five in random order, at most two of them with marked sentences. Answers that the judge finds
supported by nothing are counted, and left out of the rest. Reads data sets that are not part of the repository
(bench/data_sets.py).
"""

from __future__ import annotations

import asyncio
import gzip
import json
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data_sets import data_folder

from ragstone.judge.judgements import Verdict
from ragstone.judge.offline import OfflineJudge
from ragstone.judge.protocol import Call, JudgementFailed
from ragstone.metrics.alignment import used_contexts
from ragstone.system.response import Context

CLAPNQ, WICE = "clapnq_dev.jsonl.gz", "wice_claim.jsonl.gz"
CONTEXTS = 5
MARKED = 2


@dataclass(frozen=True, slots=True)
class Case:
    """An answer, and the contexts with whether a marked sentence is in them."""

    answer: str
    contexts: tuple[tuple[str, bool], ...]


def rows(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def case(key: str, answer: str, sentences: list[str], marked: set[int], size: int) -> Case | None:
    """None if all contexts, or none, have a marked sentence."""
    draw = random.Random(key)
    starts = range(0, len(sentences), size)
    cut = [(" ".join(sentences[at : at + size]), any(at <= place < at + size for place in marked)) for at in starts]
    good = [one for one in cut if one[1]][:MARKED]
    other = [one for one in cut if not one[1]]
    draw.shuffle(other)
    shown = (good + other)[:CONTEXTS]
    draw.shuffle(shown)
    return Case(answer, tuple(shown)) if good and other else None


def clapnq(folder: Path, size: int) -> Iterator[Case]:
    for row in rows(folder / CLAPNQ):
        if row["answerable"]:
            texts = {text for chosen in row["selected_sentences"] for text in chosen}
            marked = {place for place, text in enumerate(row["sentences"]) if text in texts}
            if (found := case(row["id"], row["answers"][0], row["sentences"], marked, size)) is not None:
                yield found


def wice(folder: Path, size: int) -> Iterator[Case]:
    for row in rows(folder / WICE):
        if row["split"] == "test" and row["label"] == "supported":
            marked = {place for chosen in row["supporting_sentences"] for place in chosen}
            if (found := case(row["id"], row["claim"], row["evidence_sentences"], marked, size)) is not None:
                yield found


async def measure(name: str, cases: Iterator[Case]) -> str:
    judge = OfflineJudge()
    named = right = held = answers = nothing = agree = top = top_named = 0
    for one in cases:
        contexts = [Context(text) for text, _ in one.contexts]
        try:
            found = await judge.statements("", one.answer, call=Call(""))
        except JudgementFailed:
            continue
        if found.abstains:
            continue
        table = await judge.support(contexts, found.statements, call=Call(""))
        by = [source for each in table.supports if each.verdict is Verdict.SUPPORTED for source in each.supported_by]
        used = used_contexts([context.text for context in contexts], by)
        if not used.used:
            nothing += 1
            continue
        marked = {rank for rank, (_, is_marked) in enumerate(one.contexts) if is_marked}
        answers += 1
        named += len(used.used)
        held += len(marked)
        right += len(marked.intersection(used.used))
        agree += (0 in marked) is used.top
        top += 0 in marked
        top_named += used.top
    return (
        f"| {name} | {answers} (and {nothing}) | {right / named:.2f} | {right / held:.2f} | {agree / answers:.2f} "
        f"| {top / answers:.2f} | {top_named / answers:.2f} |"
    )


def main() -> None:
    folder = data_folder((CLAPNQ, WICE), sys.argv[1] if len(sys.argv) > 1 else None)
    print("| contexts | answers (no support) | precision | recall | top right | top used | as judged |")
    print("|---|---|---|---|---|---|---|")
    for size in (1, 2, 3):
        print(asyncio.run(measure(f"CLAPNQ dev, {size} sentence{'s' * (size > 1)}", clapnq(folder, size))))
    for size in (3, 6):
        print(asyncio.run(measure(f"WiCE test, {size} sentences", wice(folder, size))))


if __name__ == "__main__":
    main()
