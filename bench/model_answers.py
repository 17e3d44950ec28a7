"""Whether the offline judge scores what an answer says, and not which model wrote it:
``python bench/model_answers.py [DATA_DIR]``.

Prints the mean faithfulness of the answers of each model of RAGTruth, of those in which people found nothing
unsupported and of the others.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from data_sets import data_folder, read_rows

from ragstone.judge.offline import OfflineJudge
from ragstone.judge.protocol import Call
from ragstone.system.response import Context

RAGTRUTH = "ragtruth_qa_half.jsonl.gz"


async def faithfulness(cases: Sequence[tuple[str, str, Sequence[str]]]) -> list[float]:
    """The expected share of supported statements of each (question, answer, contexts); 0 for an abstention."""
    judge = OfflineJudge()
    scores = []
    for number, (question, answer, texts) in enumerate(cases):
        call = Call(str(number))
        made = await judge.statements(question, answer, call=call)
        if made.abstains:
            scores.append(0.0)
            continue
        table = await judge.support([Context(text) for text in texts], made.statements, call=call)
        scores.append(fmean(support.probability or 0.0 for support in table.supports))
    return scores


def by_model(file: Path) -> dict[str, dict[bool, float]]:
    """For each model of RAGTruth the mean faithfulness of answers with and without unsupported spans."""
    rows = list(read_rows(file))
    scores = asyncio.run(faithfulness([(row["question"], row["answer"], row["contexts"]) for row in rows]))
    by_side: dict[str, dict[bool, list[float]]] = {}
    for row, score in zip(rows, scores, strict=True):
        by_side.setdefault(row["model"], {}).setdefault(bool(row["label_faithful"]), []).append(score)
    return {name: {side: fmean(each) for side, each in sides.items()} for name, sides in by_side.items()}


def main(data: Path) -> None:
    print("| model | nothing unsupported | something unsupported |\n|---|---|---|")
    for name, means in by_model(data / RAGTRUTH).items():
        print(f"| {name} | {means[True]:.2f} | {means.get(False, float('nan')):.2f} |")


if __name__ == "__main__":
    main(data_folder([RAGTRUTH], *sys.argv[1:2]))
