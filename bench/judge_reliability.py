"""Measure the offline judge on sets it never saw: ``python bench/judge_reliability.py [DATA_DIR]``.

Writes ``src/ragstone/judge/offline/reliability.json`` (what `grade` reads) and the reliability diagram
``docs/images/offline-judge-calibration.svg``, and prints the table of docs/judges.md. Takes under a minute.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import random
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from data_sets import data_folder

from ragstone.judge.offline import OfflineJudge
from ragstone.metaeval.evaluate import Outcome, run_judge, summarise
from ragstone.metaeval.items import Case, EvalTask, Item, Pairwise, Pointwise
from ragstone.metaeval.load import load_items
from ragstone.metaeval.scoring import Opinion

ROOT = Path(__file__).parents[1]
RELIABILITY = ROOT / "src" / "ragstone" / "judge" / "offline" / "reliability.json"
DIAGRAM = ROOT / "docs" / "images" / "offline-judge-calibration.svg"
PIECE = 8
BINS = 10

FILES = {
    "BEGIN (wow, test)": "begin.jsonl.gz",
    "WiCE claims (test)": "wice_claim.jsonl.gz",
    "HaluEval QA": "halueval_qa_500.jsonl.gz",
    "CLAPNQ dev": "clapnq_dev.jsonl.gz",
    "RAGChecker meta-evaluation": "ragchecker_meta_eval.jsonl.gz",
    "WikiEval": "wikieval.jsonl",
}
SHOWN = {
    ("faithfulness", "pointwise"): [("faithfulness", "auroc"), ("context_recall", "auroc")],
    ("faithfulness", "pairwise"): [("faithfulness", "pairwise_accuracy")],
    ("answer_relevancy", "pairwise"): [("answer_relevancy", "pairwise_accuracy")],
    ("context_relevance", "pairwise"): [("context_relevance", "pairwise_accuracy")],
    ("answerability", "pointwise"): [("context_relevance", "auroc")],
    ("context_use", "pointwise"): [("context_precision", "auroc"), ("context_precision_no_reference", "auroc")],
    ("overall", "pairwise"): [("answer_correctness", "pearson")],
}
"""Which metrics a task says something about. A dialogue answer is no reference: BEGIN stays out of context recall."""


def pieces_of_pages(path: Path) -> tuple[Item, ...]:
    """Context usefulness from WiCE test: for each claim one piece of its page that people named as support, and one
    that they did not, drawn with a fixed seed.
    """
    draw = random.Random(0)
    items: list[Item] = []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    for row in rows:
        named = {index for group in row["supporting_sentences"] or [] for index in group}
        if row["split"] != "test" or not named:
            continue
        page = row["evidence_sentences"]
        pieces = [range(start, min(start + PIECE, len(page))) for start in range(0, len(page), PIECE)]
        for label, among in (
            (1.0, [p for p in pieces if named & set(p)]),
            (0.0, [p for p in pieces if not named & set(p)]),
        ):
            if among:
                text = "\n".join(page[index] for index in draw.choice(among))
                case = Case("", "", (text,), row["claim"])
                items.append(Pointwise(f"{row['id']}/{label:.0f}", EvalTask.CONTEXT_USE, case, label, row["id"]))
    return tuple(items)


def answers_and_neighbours(path: Path) -> tuple[Item, ...]:
    """Answer relevancy on hard pairs from CLAPNQ: people's answer against the sentence of the same passage that is
    nearest to it in length and that nobody selected. On the topic, true, and no answer.
    """
    items: list[Item] = []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    for row in rows:
        selected = {sentence for group in row["selected_sentences"] or [] for sentence in group}
        others = [sentence for sentence in row["sentences"] or [] if sentence not in selected]
        if not row["answerable"] or not row["answers"] or not others:
            continue
        answer = row["answers"][0]
        other = min(others, key=lambda sentence: (abs(len(sentence) - len(answer)), sentence))
        first, second = Case(row["question"], answer), Case(row["question"], other)
        items.append(Pairwise(row["id"], EvalTask.ANSWER_RELEVANCY, first, second, -1.0, row["title"]))
    return tuple(items)


def measure(items: Sequence[Item]) -> list[Outcome]:
    cases = [item.first if isinstance(item, Pairwise) else item.case for item in items]
    judge = OfflineJudge([case.question for case in cases], [case.reference for case in cases if case.reference])
    return asyncio.run(run_judge(judge, items))


def calibration(outcomes: Sequence[Outcome]) -> list[tuple[float, float, int]]:
    """(mean probability, share of positives, answers) of equally filled bins."""
    rows = sorted(
        (one.strict, outcome.item.label)
        for outcome in outcomes
        for one in outcome.opinions
        if isinstance(one, Opinion) and isinstance(outcome.item, Pointwise)
    )
    parts = [part for part in np.array_split(np.array(rows), BINS) if len(part)]
    return [(float(part[:, 0].mean()), float(part[:, 1].mean()), len(part)) for part in parts]


def diagram(curves: dict[str, list[tuple[float, float, int]]]) -> str:
    """A reliability diagram as SVG, 480 by 480."""
    low, size = 50.0, 400.0
    colours = ("#1f6feb", "#bf8700")

    def at(x: float, y: float) -> tuple[str, str]:
        return f"{low + x * size:.1f}", f"{20 + (1 - y) * size:.1f}"

    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 480 480" font-family="sans-serif" font-size="12" '
        'role="img" aria-label="Reliability diagram of the offline judge">',
        '<rect width="480" height="480" fill="#ffffff"/>',
        f'<rect x="{low}" y="20" width="{size}" height="{size}" fill="none" stroke="#8c959f"/>',
        f'<line x1="{low}" y1="{20 + size}" x2="{low + size}" y2="20" stroke="#8c959f" stroke-dasharray="4 4"/>',
    ]
    for tick in range(0, 11, 2):
        x, y = at(tick / 10, 0)[0], at(0, tick / 10)[1]
        parts.append(f'<text x="{x}" y="{36 + size}" text-anchor="middle">{tick / 10:.1f}</text>')
        parts.append(f'<text x="{low - 8}" y="{y}" text-anchor="end" dominant-baseline="middle">{tick / 10:.1f}</text>')
    for row, ((name, points), colour) in enumerate(zip(curves.items(), colours, strict=False)):
        places = [at(x, y) for x, y, _ in points]
        line = " ".join(",".join(place) for place in places)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.extend(f'<circle cx="{x}" cy="{y}" r="4" fill="{colour}"/>' for x, y in places)
        parts.append(f'<text x="{low + 12}" y="{44 + 18 * row}" fill="{colour}">{name}</text>')
    parts.append(f'<text x="{low + size / 2}" y="{54 + size}" text-anchor="middle">the judge\'s probability</text>')
    parts.append(
        f'<text x="14" y="{20 + size / 2}" text-anchor="middle" transform="rotate(-90 14 {20 + size / 2})">'
        "share that people called supported</text></svg>"
    )
    return "\n".join(parts) + "\n"


def main(data: Path) -> None:
    sets = {name: load_items(data / file) for name, file in FILES.items()}
    sets["WiCE pieces of pages (test)"] = pieces_of_pages(data / "wice_claim.jsonl.gz")
    sets["CLAPNQ answers and their neighbours"] = answers_and_neighbours(data / "clapnq_dev.jsonl.gz")
    metrics: dict[str, list[dict[str, object]]] = {}
    curves = {}
    for name, items in sets.items():
        outcomes = measure(items)
        if name in ("BEGIN (wow, test)", "WiCE claims (test)"):
            curves[name] = calibration(outcomes)
        for result in summarise(outcomes):
            for measure_name, found in result.measures.items():
                interval = f"{found.low:.3f} to {found.high:.3f}" if found.low is not None else ""
                shown = f"{found.value:.3f} | {interval} | {result.scored} of {result.items}"
                print(f"| {name} | {result.task} | {measure_name} | {shown} |")
            for metric, measure_name in SHOWN.get((result.task.value, result.kind), []):
                if metric == "context_recall" and not name.startswith("WiCE"):
                    continue
                found = result.measures[measure_name]
                row = {
                    "dataset": name,
                    "measure": measure_name,
                    "value": found.value,
                    "low": found.low,
                    "high": found.high,
                }
                rounded = {key: round(value, 3) if isinstance(value, float) else value for key, value in row.items()}
                metrics.setdefault(metric, []).append({**rounded, "items": result.scored})
    version = OfflineJudge().identity.version
    document = {"judge_version": version, "command": "python bench/judge_reliability.py", "metrics": metrics}
    RELIABILITY.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    DIAGRAM.parent.mkdir(parents=True, exist_ok=True)
    DIAGRAM.write_text(diagram(curves), encoding="utf-8")


if __name__ == "__main__":
    main(data_folder(FILES.values(), *sys.argv[1:2]))
