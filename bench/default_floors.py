"""What the four headline metrics score on good and on bad systems, as evidence for the default floors.

``python bench/default_floors.py [--data FOLDER] [--judge NAME]`` prints figures of docs/thresholds.md: the mean of a
system that gives good answers (or retrieves well), that of a bad one, and the quantiles of single samples. Floors apply
to means, so a floor belongs between the two means. Takes half a minute with the offline judge.

Answers: WikiEval's answer against its ungrounded and its poor one. Retrieval: for each answerable question of CLAPNQ,
its passage and the four passages of other questions with the most words in common, ranked three ways. With ranks
alone, whatever the judge, average precision of one useful context of five is 1 ÷ its rank.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import os
import random
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from data_sets import data_folder

from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.engine import Work, run_samples
from ragstone.evaluation.record import SampleRecord
from ragstone.golden.sample import GoldenSet, Sample
from ragstone.judge.factory import build_judge
from ragstone.metrics.registry import HEADLINE, select_metrics
from ragstone.metrics.score import Scored
from ragstone.settings.settings import JudgeSettings
from ragstone.system.response import Context, Response

FILES = ("wikieval.jsonl", "clapnq_dev.jsonl.gz")
EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "docs-qa" / "baseline"
ANSWERS = ("faithfulness", "answer_relevancy")
RETRIEVAL = ("context_recall", "context_precision")
DISTRACTORS = 4


class _Given:
    """A system whose responses are known."""

    entrypoint = "bench"
    concurrency = 4
    can_be_asked_again = True

    def __init__(self, responses: Mapping[str, Response]) -> None:
        self._responses = responses

    async def start(self) -> None: ...

    async def ask(self, sample: Sample) -> Response:
        return self._responses[sample.id]

    async def close(self) -> None: ...


def scores(
    cases: Sequence[tuple[Sample, Response]], judge_name: str, metrics: Iterable[str]
) -> dict[str, np.ndarray[tuple[int], np.dtype[np.float64]]]:
    """The scores of `cases` by metric, without those that it does not apply to."""
    golden = GoldenSet(tuple(sample for sample, _ in cases))
    system = _Given({sample.id: response for sample, response in cases})
    records: list[SampleRecord] = []

    async def run() -> None:
        judge = build_judge(JudgeSettings(name=judge_name), golden_set=golden, cache=None, environ=os.environ)
        try:
            chosen = select_metrics(metrics)
            await run_samples(Work(golden, system=system, judge=judge, metrics=chosen), records.append)
        finally:
            await judge.close()

    asyncio.run(run())
    return {
        name: np.array([s.value for record in records if isinstance(s := record.scores[name], Scored)])
        for name in metrics
    }


def answer_cases(folder: Path) -> dict[str, list[tuple[Sample, Response]]]:
    rows = [json.loads(line) for line in (folder / "wikieval.jsonl").read_text(encoding="utf-8").splitlines()]
    found: dict[str, list[tuple[Sample, Response]]] = {}
    for kind, key in (("good", "answer"), ("ungrounded", "ungrounded_answer"), ("poor", "poor_answer")):
        found[kind] = [
            (Sample(str(at), row["question"]), Response(str(at), row[key], _contexts(row["context_v1"])))
            for at, row in enumerate(rows)
        ]
    return found


def _contexts(given: object) -> tuple[Context, ...]:
    texts = given if isinstance(given, list) else [given]
    return tuple(Context(str(text)) for text in texts)


def retrieval_cases(folder: Path) -> dict[str, list[tuple[Sample, Response]]]:
    with gzip.open(folder / "clapnq_dev.jsonl.gz", "rt", encoding="utf-8") as stream:
        rows = [json.loads(line) for line in stream]
    rows = [row for row in rows if row["answerable"] in (1, "1", True)]
    texts = [row["context"] for row in rows]
    words = [set(re.findall(r"\w{4,}", text.lower())) for text in texts]
    fair = random.Random(0)
    found: dict[str, list[tuple[Sample, Response]]] = {"first": [], "any rank": [], "absent": []}
    for at, row in enumerate(rows):
        sample = Sample(str(at), row["question"], reference=row["answers"][0])
        shared = {other: len(words[at] & words[other]) for other in range(len(rows)) if texts[other] != texts[at]}
        near = [texts[other] for other in sorted(shared, key=shared.__getitem__, reverse=True)[: DISTRACTORS + 1]]
        shuffled = [texts[at], *near[:DISTRACTORS]]
        fair.shuffle(shuffled)
        for kind, ranked in (("first", [texts[at], *near[:DISTRACTORS]]), ("any rank", shuffled), ("absent", near)):
            found[kind].append((sample, Response(sample.id, sample.reference or "", _contexts(ranked))))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data")
    parser.add_argument("--judge", default="offline")
    chosen = parser.parse_args()
    folder = data_folder(FILES, chosen.data)
    print("| metric | system | samples | mean | 10 % quantile | median | 90 % quantile |")
    print("|---|---|---|---|---|---|---|")
    for data, cases, metrics in (
        ("WikiEval", answer_cases(folder), ANSWERS),
        ("CLAPNQ", retrieval_cases(folder), RETRIEVAL),
    ):
        by_kind = {kind: scores(each, chosen.judge, metrics) for kind, each in cases.items()}
        for name in metrics:
            for kind, found in by_kind.items():
                _row(name, f"{data}, {kind}", found[name])
    example = RunDirectory.open(EXAMPLE).scores()
    for name in HEADLINE:
        _row(name, "the example", np.array(list(example.metrics[name].values.values())))


def _row(metric: str, system: str, values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> None:
    low, middle, high = np.quantile(values, [0.1, 0.5, 0.9])
    print(f"| `{metric}` | {system} | {len(values)} | {values.mean():.2f} | {low:.2f} | {middle:.2f} | {high:.2f} |")


if __name__ == "__main__":
    main()
