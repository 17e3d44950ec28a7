"""Measure the offline judge on held-out sets: ``python bench/judge_reliability.py [DATA_DIR]``.

Every figure is computed from the scores that the gate decides on, through `ragstone.evaluate`. Writes
``src/ragstone/judge/offline/reliability.json`` (what `grade` reads, and the accuracy of each language) and the
reliability diagram ``docs/images/offline-judge-calibration.svg``, and prints the table of docs/judges.md. Takes a
minute or two.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from data_sets import data_folder, read_rows
from jinja2 import Environment
from judge_contrast import by_language
from judge_opinions import NoOpinion, Opinion, Outcome, summarise
from labelled_sets import Case, EvalTask, Item, Pairwise, Pointwise, load_items
from public_scores import public_scores

from ragstone.judge.normal import normalise
from ragstone.judge.offline import OfflineJudge
from ragstone.judge.offline.support import BASE_RATE
from ragstone.judge.sentences import split_sentences
from ragstone.metrics.registry import METRICS as METRIC

ROOT = Path(__file__).parents[1]
RELIABILITY = ROOT / "src" / "ragstone" / "judge" / "offline" / "reliability.json"
DIAGRAM = ROOT / "docs" / "images" / "offline-judge-calibration.svg"
EXAMPLE = ROOT / "examples" / "docs-qa" / "baseline" / "samples.jsonl"
PIECE = 8
BINS = 10

BEGIN = "BEGIN (wow, test)"
WICE = "WiCE claims (test)"
FILES = {
    BEGIN: "begin.jsonl.gz",
    WICE: "wice_claim.jsonl.gz",
    "HaluEval QA": "halueval_qa_500.jsonl.gz",
    "CLAPNQ dev": "clapnq_dev.jsonl.gz",
    "RAGChecker meta-evaluation": "ragchecker_meta_eval.jsonl.gz",
    "WikiEval": "wikieval.jsonl",
}
METRICS = {
    EvalTask.FAITHFULNESS: "faithfulness",
    EvalTask.ANSWER_RELEVANCY: "answer_relevancy",
    EvalTask.ANSWERABILITY: "context_relevance",
    EvalTask.CONTEXT_RELEVANCE: "context_relevance",
    EvalTask.CONTEXT_USE: "context_precision",
    EvalTask.OVERALL: "answer_correctness",
    EvalTask.CORRECTNESS: "answer_correctness",
    EvalTask.COMPLETENESS: "answer_correctness",
}
"""The metric that a task says something about. A dialogue answer is no reference, so that BEGIN stays out of context
recall.
"""

EVIDENCE = {
    ("faithfulness", EvalTask.FAITHFULNESS, "pointwise"): "auroc",
    ("faithfulness", EvalTask.FAITHFULNESS, "pairwise"): "pairwise_accuracy",
    ("hallucination", EvalTask.FAITHFULNESS, "pointwise"): "auroc",
    ("context_recall", EvalTask.FAITHFULNESS, "pointwise"): "auroc",
    ("context_relevance", EvalTask.ANSWERABILITY, "pointwise"): "auroc",
    ("context_relevance", EvalTask.CONTEXT_RELEVANCE, "pairwise"): "pairwise_accuracy",
    ("answer_correctness", EvalTask.OVERALL, "pairwise"): "pearson",
    ("answer_relevancy", EvalTask.ANSWER_RELEVANCY, "pairwise"): "pairwise_accuracy",
    ("context_precision", EvalTask.CONTEXT_USE, "pairwise"): "pairwise_accuracy",
    ("context_precision_no_reference", EvalTask.CONTEXT_USE, "pairwise"): "pairwise_accuracy",
}
"""The measure by which each metric is graded on a task, of single cases or pairs."""


def pieces_in_both_orders(path: Path, *, reference: bool) -> tuple[Item, ...]:
    """Context precision from WiCE test: of each claim's page one piece that people named as support and one that they
    did not, drawn with a fixed seed; the useful one first, and the useful one last.
    """
    draw = random.Random(0)
    items: list[Item] = []
    for row in read_rows(path):
        named = {index for group in row["supporting_sentences"] or [] for index in group}
        if row["split"] != "test" or not named:
            continue
        page = row["evidence_sentences"]
        pieces = [range(start, min(start + PIECE, len(page))) for start in range(0, len(page), PIECE)]
        useful = [piece for piece in pieces if named & set(piece)]
        useless = [piece for piece in pieces if not named & set(piece)]
        if useless:
            texts = ["\n".join(page[index] for index in draw.choice(among)) for among in (useful, useless)]
            claim = row["claim"]
            first, second = (
                Case("", "" if reference else claim, tuple(order), claim if reference else None)
                for order in (texts, texts[::-1])
            )
            items.append(Pairwise(row["id"], EvalTask.CONTEXT_USE, first, second, -1.0, row["id"]))
    return tuple(items)


def answers_and_neighbours(path: Path) -> tuple[Item, ...]:
    """Answer relevancy on hard pairs from CLAPNQ: people's answer against the sentence of the same passage that is
    nearest to it in length and that nobody selected. On the topic, true, and no answer.
    """
    items: list[Item] = []
    for row in read_rows(path):
        selected = {sentence for group in row["selected_sentences"] or [] for sentence in group}
        others = [sentence for sentence in row["sentences"] or [] if sentence not in selected]
        if not row["answerable"] or not row["answers"] or not others:
            continue
        answer = row["answers"][0]
        other = min(others, key=lambda sentence: (abs(len(sentence) - len(answer)), sentence))
        first, second = (Case(row["question"], text, ("\n".join(row["sentences"]),)) for text in (answer, other))
        items.append(Pairwise(row["id"], EvalTask.ANSWER_RELEVANCY, first, second, -1.0, row["title"]))
    return tuple(items)


def sets_of_answers(data: Path) -> dict[str, list[Case]]:
    """Right answers by set, with what a gate has: contexts, and the references of the example."""
    rows = [row for row in read_rows(data / "clapnq_dev.jsonl.gz") if row["answerable"] and row["answers"]]
    clapnq = [Case(row["question"], row["answers"][0], ("\n".join(row["sentences"]),)) for row in rows]
    pairs = [item for item in load_items(data / "wikieval.jsonl") if isinstance(item, Pairwise)]
    wikieval = [item.first for item in pairs if item.task is EvalTask.ANSWER_RELEVANCY]
    samples = read_rows(EXAMPLE)
    example = [
        Case(
            row["sample"]["question"],
            row["answers"][0]["response"]["answer"],
            tuple(context["text"] for context in row["answers"][0]["response"]["contexts"]),
            row["sample"]["reference"],
        )
        for row in samples
        if row["sample"].get("reference") and row["answers"][0]["response"]["answer"]
    ]
    return {"CLAPNQ": clapnq, "WikiEval": wikieval, "The example": example}


def answers_to_other_questions(cases: Sequence[Case]) -> tuple[Item, ...]:
    """Each answer against one to another question of the set, three times; equal answers are left out."""
    return tuple(
        Pairwise(f"{at}/{step}", EvalTask.ANSWER_RELEVANCY, case, replace(case, answer=other), -1.0, str(at))
        for at, case in enumerate(cases)
        for step in (1, 7, 13)
        if (other := cases[(at + step) % len(cases)].answer) != case.answer
    )


def first_sentences(data: Path, sets: dict[str, list[Case]]) -> tuple[Item, ...]:
    """Right answers against the first sentence of the first context, where it doesn't answer: where no one selected it
    (CLAPNQ), or the answer doesn't contain it, nor it the answer (the example, without the title of the section).
    """
    found: list[tuple[Case, str]] = []
    rows = [row for row in read_rows(data / "clapnq_dev.jsonl.gz") if row["answerable"] and row["answers"]]
    for row, case in zip(rows, sets["CLAPNQ"], strict=True):
        if row["sentences"][0] not in {one for group in row["selected_sentences"] or [] for one in group}:
            found.append((case, row["sentences"][0]))
    for case in sets["The example"]:
        body = case.contexts[0].partition("\n")[2] or case.contexts[0]
        first = split_sentences(normalise(body), "en")[0]
        answer = normalise(case.answer)
        if first not in answer and answer not in first:
            found.append((case, first))
    return tuple(
        Pairwise(str(at), EvalTask.ANSWER_RELEVANCY, case, replace(case, answer=first), -1.0, str(at))
        for at, (case, first) in enumerate(found)
    )


def measure(items: Sequence[Item], metric: str) -> list[Outcome]:
    """The public score of `metric` for each item."""
    sides = {
        f"{item.id}/{side}": case
        for item in items
        for side, case in enumerate((item.first, item.second) if isinstance(item, Pairwise) else (item.case,))
    }
    scores = public_scores(sides, [metric])[metric]

    def opinion(name: str) -> Opinion | NoOpinion:
        value = scores.get(name)
        value = 1 - value if value is not None and METRIC[metric].info.lower_is_better else value
        return NoOpinion(failed=False) if value is None else Opinion(value, value, value >= 0.5)

    return [
        Outcome(item, tuple(opinion(f"{item.id}/{side}") for side in range(2 if isinstance(item, Pairwise) else 1)))
        for item in items
    ]


def calibration(outcomes: Sequence[Outcome]) -> list[tuple[float, float, int]]:
    """(mean probability, share of positives, answers) of equally filled bins, as if BASE_RATE of all were positive."""
    rows = sorted(
        (one.strict, outcome.item.label)
        for outcome in outcomes
        for one in outcome.opinions
        if isinstance(one, Opinion) and isinstance(outcome.item, Pointwise)
    )
    found = np.array(rows)
    good = found[:, 1] == 1
    weights = np.where(good, BASE_RATE / good.sum(), (1 - BASE_RATE) / (~good).sum())
    edges = np.searchsorted(np.cumsum(weights), np.linspace(0, 1, BINS + 1)[1:-1])
    parts = [part for part in np.split(np.arange(len(found)), edges) if len(part)]
    return [(*np.average(found[part], axis=0, weights=weights[part]).tolist(), len(part)) for part in parts]


def diagram(curves: dict[str, list[tuple[float, float, int]]]) -> str:
    """A reliability diagram as SVG, 480 by 480."""
    text = Path(__file__).with_name("reliability_diagram.svg.j2").read_text(encoding="utf-8")
    template = Environment(trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True).from_string(text)
    return template.render(curves=curves)


def measured_sets(data: Path) -> list[tuple[str, str, Sequence[Item]]]:
    """(data set, metric, items) of all that is measured; items of other tasks are left out."""
    found: list[tuple[str, str, Sequence[Item]]] = []
    for name, file in FILES.items():
        items = load_items(data / file)
        for task in dict.fromkeys(item.task for item in items):
            if task in METRICS:
                found.append((name, METRICS[task], [item for item in items if item.task is task]))
        if name in (BEGIN, WICE):
            found.append((name, "hallucination", items))
    wice = [item for item in load_items(data / FILES[WICE]) if isinstance(item, Pointwise)]
    references = [replace(item, case=Case("", "", item.case.contexts, reference=item.case.answer)) for item in wice]
    pieces = "WiCE pieces of pages (test)"
    found.append((WICE, "context_recall", references))
    found.append((pieces, "context_precision", pieces_in_both_orders(data / FILES[WICE], reference=True)))
    found.append((pieces, "context_precision_no_reference", pieces_in_both_orders(data / FILES[WICE], reference=False)))
    neighbours = answers_and_neighbours(data / "clapnq_dev.jsonl.gz")
    found.append(("CLAPNQ answers and their neighbours", "answer_relevancy", neighbours))
    sets = sets_of_answers(data)
    for name, cases in sets.items():
        found.append((f"{name}: answers to other questions", "answer_relevancy", answers_to_other_questions(cases)))
    found.append(("First sentences of contexts", "answer_relevancy", first_sentences(data, sets)))
    return found


def main(data: Path) -> None:
    metrics: dict[str, list[dict[str, object]]] = {}
    curves = {}
    for name, metric, items in measured_sets(data):
        outcomes = measure(items, metric)
        if metric == "faithfulness" and name in (BEGIN, WICE):
            curves[name] = calibration(outcomes)
            gap = sum(abs(chance - share) for chance, share, _ in curves[name]) / len(curves[name])
            print(f"{name}: mean gap between probability and share {gap:.3f}")
        (result,) = summarise(outcomes)
        for measure_name, found in result.measures.items():
            interval = f"{found.low:.3f} to {found.high:.3f}" if found.low is not None else ""
            shown = f"{found.value:.3f} | {interval} | {result.scored} of {result.items}"
            print(f"| {metric} | {name} | {result.task} | {measure_name} | {shown} |", flush=True)
        chosen = EVIDENCE.get((metric, result.task, result.kind))
        if chosen is not None:
            found = result.measures[chosen]
            row = {"dataset": name, "measure": chosen, "value": found.value, "low": found.low, "high": found.high}
            rounded = {key: round(value, 3) if isinstance(value, float) else value for key, value in row.items()}
            metrics.setdefault(metric, []).append({**rounded, "items": result.scored})
    document = {
        "judge_version": OfflineJudge().identity.version,
        "command": "python bench/judge_reliability.py",
        "metrics": metrics,
        "languages": {language: round(accuracy, 3) for language, accuracy in by_language().items()},
    }
    RELIABILITY.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    DIAGRAM.parent.mkdir(parents=True, exist_ok=True)
    DIAGRAM.write_text(diagram(curves), encoding="utf-8")


if __name__ == "__main__":
    main(data_folder(FILES.values(), *sys.argv[1:2]))
