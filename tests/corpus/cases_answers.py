"""Faulty, harmless and broken systems, and the answers of six models."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from tests.corpus import ferry
from tests.corpus.changes import BROKEN, GENERATION_FAULTS, HARMLESS, Change, changed
from tests.corpus.ferry import Reply
from tests.corpus.workbench import ANSWERS, GOLDEN, POLICY, Registry, Steps, Workbench

CASES = Registry()
DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"
"""Data sets that are never part of the repository; they lie beside the checkout."""
MODELS_FILE = DATA / "ragtruth_qa_half.jsonl.gz"
MODEL_CASES = "model: "
MODELS = (
    *("gpt-4-0613", "gpt-3.5-turbo-0613", "mistral-7B-instruct"),
    *("llama-2-7b-chat", "llama-2-13b-chat", "llama-2-70b-chat"),
)
BROKEN_IN_PART = (
    *("doesn't know", "empty answers", "the answer to another question", "invents everything"),
    *("adds an invented sentence", "other numbers", "a grounded but wrong sentence", "retrieves nothing"),
    *("pads its contexts to 50", "answers the unanswerable inventing"),
)
"""What is tried on three of ten questions as well."""


def _compared(replies: Sequence[Reply], bench: Workbench) -> Steps:
    bench.ferry(replies)
    return {"gate": bench.gate(baseline=bench.ferry_baseline)}


def _first(replies: Sequence[Reply], bench: Workbench) -> Steps:
    bench.ferry(replies)
    return {"first run": bench.gate()}


def _after(change: Change, share: float = 1.0) -> tuple[list[Reply]]:
    return (changed(ferry.replies(), change, share),)


CASES.table("fault", _compared, {fault: (ferry.replies(fault),) for fault in ferry.RETRIEVAL_FAULTS})
CASES.table("fault", _compared, {name: _after(change) for name, change in GENERATION_FAULTS.items()})
CASES.table("harmless", _compared, {name: _after(change) for name, change in HARMLESS.items()})
CASES.table("broken", _first, {name: _after(change) for name, change in BROKEN.items()})
CASES.table("broken in part", _compared, {name: _after(BROKEN[name], 0.3) for name in BROKEN_IN_PART})


@CASES.case("fault: the golden set is another one")
def _golden_set_is_another(bench: Workbench) -> Steps:
    """The references of two in five questions are those of other questions."""
    bench.ferry()
    questions = list(ferry.questions())
    answerable = [question for question in questions if question.answerable]
    for at, question in enumerate(answerable):
        if at % 5 < 2:
            other = answerable[(at + len(answerable) // 2) % len(answerable)]
            questions[questions.index(question)] = replace(question, reference=other.reference)
    bench.questions(questions)
    return {"gate": bench.gate(baseline=bench.ferry_baseline)}


# -- the answers of six models, labelled by people ---------------------------------------------------------------------


@cache
def _rows() -> Mapping[str, list[dict[str, Any]]]:
    """The answers by model."""
    rows: dict[str, list[dict[str, Any]]] = {}
    with gzip.open(MODELS_FILE, "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            rows.setdefault(row["model"], []).append(row)
    return rows


def _samples(model: str) -> Iterator[dict[str, Any]]:
    """One sample for each question; its tag says whether people found unsupported spans in this model's answer."""
    for row in _rows()[model]:
        tag = "grounded" if row["label_faithful"] else "ungrounded"
        yield {"id": _id(row), "question": row["question"], "tags": [tag]}


def _answers(model: str) -> Iterator[dict[str, Any]]:
    for row in _rows()[model]:
        yield {"id": _id(row), "answer": row["answer"], "contexts": row["contexts"]}


def _id(row: Mapping[str, Any]) -> str:
    """One name of a question for all models."""
    return f"q{_numbers()[row['question']]}"


@cache
def _numbers() -> Mapping[str, int]:
    texts = sorted({row["question"] for rows in _rows().values() for row in rows})
    return {text: number for number, text in enumerate(texts)}


def _model(model: str, bench: Workbench) -> Steps:
    """A first run, with means of what people found grounded and ungrounded; then another model answers."""
    samples = list(_samples(model))
    tags = sorted({tag for sample in samples for tag in sample["tags"]})
    floors = [f"[slices.{tag}.metrics.faithfulness]\nmin = 0.7\n" for tag in tags]
    bench.policy("".join([POLICY, *floors]))
    bench.write_rows(GOLDEN, samples)
    bench.write_rows(ANSWERS, _answers(model))
    first = bench.gate(out="first")
    other = MODELS[(MODELS.index(model) + 1) % len(MODELS)]
    bench.policy(f"{POLICY}max_edited = 0.2\n")  # each model has a few questions that others don't have
    bench.write_rows(ANSWERS, _answers(other))
    bench.write_rows(GOLDEN, _samples(other))
    return {"first run": first, f"replaced by {other}": bench.gate(baseline="first")}


for _name in MODELS:
    CASES.add(f"{MODEL_CASES}{_name}", _model, _name)
