"""What a team's own labels gain: the judge of `ragstone calibrate --fit` beside the offline judge.

    python bench/fitted_judge.py [folder of the data sets]

Of each domain, 50, 100 and 200 answers are drawn as the team's labels, 20 times. AUROC and Brier score of faithfulness
are those of answers to other contexts, or of the test split where there is one: mean and range over the draws.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from data_sets import data_folder
from judge_opinions import brier

from ragstone.evaluation.record import Answer, SampleRecord
from ragstone.golden.sample import Sample
from ragstone.judge.offline import OfflineJudge
from ragstone.metrics.score import NotApplicable
from ragstone.system.response import Context, Response
from ragstone.tools.judging.fit import features_of_record, predicted
from ragstone.tools.judging.measures import auroc

FILES = ("begin.jsonl.gz", "wice_claim.jsonl.gz")
DRAWS = 20
SIZES = (50, 100, 200)


def rows(folder: Path) -> Iterator[tuple[str, str, str, str, str, float]]:
    """Domain, split, group, context, answer, label."""
    for row in _lines(folder / FILES[0]):
        if row["label_faithful"] is not None:
            yield (
                f"BEGIN {row['source']}",
                row["split"],
                row["context"],
                row["context"],
                row["answer"],
                row["label_faithful"],
            )
    for row in _lines(folder / FILES[1]):
        text = "\n".join(row["evidence_sentences"])
        yield "WiCE claims", row["split"], text, text, row["claim"], float(row["label_faithful"])


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


async def main(folder: Path) -> None:
    judge = OfflineJudge()
    table: dict[str, list[tuple[str, str, float, list[float]]]] = {}
    for at, (domain, split, group, context, answer, label) in enumerate(rows(folder)):
        response = Response(str(at), answer, (Context(context),))
        record = SampleRecord(Sample(str(at), "?"), (Answer(response),), {"faithfulness": NotApplicable("not scored")})
        found = await features_of_record(judge, record)
        if found is not None:
            table.setdefault(domain, []).append((split, group, label, list(found.values())))
    print("| domain | measure | held out | offline | " + " | ".join(f"{n} labels" for n in SIZES) + " |")
    print("|---|---|---|---|" + "---|" * len(SIZES))
    for domain, listed in table.items():
        features = np.array([one[3] for one in listed])
        labels = np.array([one[2] for one in listed])
        groups = np.array([one[1] for one in listed])
        dev = np.array([one[0] != "test" for one in listed])
        chances = 1 / (1 + np.exp(-features[:, 0]))
        for name, measure in (("AUROC", auroc), ("Brier", brier)):
            cells, plain, held = [], [], []
            for n in SIZES:
                values = []
                for draw in range(DRAWS):
                    rng = np.random.default_rng([n, draw])
                    mine = rng.choice(np.flatnonzero(dev), size=n, replace=False)
                    others = ~dev if not dev.all() else ~np.isin(groups, groups[mine])
                    rated = predicted(features[mine], labels[mine], features[others])
                    values.append(measure(rated, labels[others]))
                    plain.append(measure(chances[others], labels[others]))
                    held.append(int(others.sum()))
                cells.append(f"{np.mean(values):.3f} ({np.min(values):.3f} to {np.max(values):.3f})")
            print(f"| {domain} | {name} | {round(np.mean(held))} | {np.mean(plain):.3f} | {' | '.join(cells)} |")


if __name__ == "__main__":
    asyncio.run(main(data_folder(FILES, sys.argv[1] if len(sys.argv) > 1 else None)))
