"""The answers of examples/docs-qa with a fault in its retrieval, for bench/seeded_faults.py.

Runs in the example's environment: reads ``{"questions": […], "faults": […]}``, and writes the responses by fault.
"""

from __future__ import annotations

import json
import random
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples" / "docs-qa"))

import app  # type: ignore[import-not-found]
from pages import Passage, read_passages  # type: ignore[import-not-found]

Change = Callable[[list[Passage]], list[Passage]]


def _without(share: float, *, pages: bool) -> Change:
    """A share of the passages, or of the pages, is missing."""

    def change(found: list[Passage]) -> list[Passage]:
        names = sorted({one.id.partition("#")[0] if pages else one.id for one in found})
        gone = set(random.Random(30).sample(names, round(share * len(names))))
        return [one for one in found if (one.id.partition("#")[0] if pages else one.id) not in gone]

    return change


def _cut(found: list[Passage]) -> list[Passage]:
    return [replace(one, sentences=one.sentences[: max(1, len(one.sentences) // 2)]) for one in found]


def _stale(found: list[Passage]) -> list[Passage]:
    """As the pages may have been some versions ago: with other numbers, and without each third sentence."""

    def older(sentence: str) -> str:
        return re.sub(r"\d+", lambda number: str(int(number.group()) * 2 + 3), sentence)

    return [
        replace(one, sentences=tuple(older(text) for at, text in enumerate(one.sentences) if at % 3) or ("Draft.",))
        for one in found
    ]


CORPUS: dict[str, Change] = {
    "the index is half empty": _without(0.5, pages=False),
    "documents were dropped": _without(0.3, pages=True),
    "chunks are cut in half": _cut,
    "the corpus is stale": _stale,
}


def _shuffled(question: str) -> dict[str, object]:
    """The vectors of the passages are exchanged: each is found where another should be."""
    passages = app.index().passages
    places = list(range(len(passages)))
    random.Random(30).shuffle(places)
    known = {one.id: at for at, one in enumerate(passages)}
    found = [(passages[places[known[one.id]]], score) for one, score in app.index().search(question, app.RETRIEVED)]
    contexts = [{"id": one.id, "text": f"{one.title}\n{one.text}", "score": score} for one, score in found]
    if max((app.coverage(question, one) for one, _ in found), default=0.0) < app.MIN_COVERAGE:
        return {"answer": app.ABSTAIN, "contexts": contexts}
    return {"answer": " ".join(app.best_sentences(question, found)) or app.ABSTAIN, "contexts": contexts}


def _reversed(question: str) -> dict[str, object]:
    """The last of ten comes first, and the answer is made of the first three."""
    found = app.index().search(question, 2 * app.RETRIEVED)[::-1]
    contexts = [{"id": one.id, "text": f"{one.title}\n{one.text}", "score": score} for one, score in found]
    first = [(one, 1.0) for one, _ in found[:3]]
    answer = " ".join(app.best_sentences(question, first)) if first else app.ABSTAIN
    return {"answer": answer or app.ABSTAIN, "contexts": contexts}


def _first_words(question: str) -> dict[str, object]:
    """The query is rewritten to its first three words, and answered to the letter."""
    return dict(app.answer(" ".join(question.split()[:4])))


def answers(fault: str, questions: list[str]) -> list[dict[str, object]]:
    """What the system says to each question."""
    app.index.cache_clear()
    app.RETRIEVED = 1 if fault == "top k is 1" else 5
    app.read_passages = lambda: CORPUS.get(fault, list)(read_passages())
    asked = {
        "embeddings are shuffled": _shuffled,
        "the reranker is reversed": _reversed,
        "the query is cut": _first_words,
    }.get(fault, app.answer)
    return [asked(question) for question in questions]


if __name__ == "__main__":
    asked = json.load(sys.stdin)
    json.dump({fault: answers(fault, asked["questions"]) for fault in asked["faults"]}, sys.stdout)
