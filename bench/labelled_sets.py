"""Data sets with people's labels, as cases to judge: published ones, known by their fields, and our own hard cases."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from data_sets import read_rows


class EvalTask(StrEnum):
    """The questions that people answered; each is scored by the corresponding judgement.

    faithfulness: does everything in the answer follow from the contexts? answer_relevancy: does the answer address
    the question? context_relevance: how much of the contexts is relevant? answerability: can the question be answered
    from the contexts? context_use: does the context contain (part of) the reference? correctness, completeness,
    overall: is the answer right according to the reference, does it cover all of it, both together (precision, recall
    and F1 over statements). statements: how many claims does the answer make, 0 if it abstains?
    """

    FAITHFULNESS = "faithfulness"
    ANSWER_RELEVANCY = "answer_relevancy"
    CONTEXT_RELEVANCE = "context_relevance"
    ANSWERABILITY = "answerability"
    CONTEXT_USE = "context_use"
    CORRECTNESS = "correctness"
    COMPLETENESS = "completeness"
    OVERALL = "overall"
    STATEMENTS = "statements"


@dataclass(frozen=True, slots=True)
class Case:
    question: str
    answer: str = ""
    contexts: tuple[str, ...] = ()
    reference: str | None = None


@dataclass(frozen=True, slots=True)
class Pointwise:
    """One case with a human label: 1 or 0, or a grade on any scale where higher is better.

    `group` names something that cases share (a page, a question), for clustered intervals; `difficulty` the kind of
    error that a judge would make.
    """

    id: str
    task: EvalTask
    case: Case
    label: float
    group: str
    split: str | None = None
    difficulty: str | None = None


@dataclass(frozen=True, slots=True)
class Pairwise:
    """Two cases and people's preference: positive for `second`, negative for `first`, 0 for neither.

    Correlations use the size of `preference`, accuracy only its sign.
    """

    id: str
    task: EvalTask
    first: Case
    second: Case
    preference: float
    group: str
    split: str | None = None
    difficulty: str | None = None


Item = Pointwise | Pairwise
Row = Mapping[str, Any]

HARD_CASES = Path(__file__).with_name("hard_cases")
HARD_CASES_NAME = "hard cases, version 2"
"""The version changes with any text, label or case: a grade on one version is none on another."""


def load_items(path: Path) -> tuple[Item, ...]:
    """The items of a published data set (.jsonl or .jsonl.gz), in file order, of its test split, if it has one."""
    rows = list(read_rows(path))
    adapt = next((adapter for fields, adapter in _ADAPTERS if fields <= rows[0].keys()), None)
    if adapt is None:
        raise SystemExit(f"{path}: not a known data set.")
    items = [item for row in rows for item in adapt(row)]
    tested = [item for item in items if item.split == "test"]
    return tuple(tested or items)


def hard_cases() -> tuple[Item, ...]:
    """Our own cases, the tasks in turn, with the texts of the documents that they name."""
    documents, *tasks = sorted(HARD_CASES.glob("*.jsonl"), key=lambda path: path.stem != "documents")
    texts = {row["id"]: row["text"] for row in read_rows(documents)}
    rows = [row for task in tasks for row in read_rows(task)]
    return tuple(_hard_case(row, texts) for row in sorted(rows, key=lambda row: str(row["id"])[1:]))


def _hard_case(row: Row, texts: Mapping[str, str]) -> Item:
    contexts = tuple(texts[name] for name in row.get("documents", ()))
    task, difficulty = EvalTask(row["task"]), row["difficulty"]
    if row["kind"] == "pairwise":
        first, second = (
            Case(row["question"], row[side]["answer"], contexts, row.get("reference")) for side in ("first", "second")
        )
        return Pairwise(row["id"], task, first, second, row["preference"], row["id"], difficulty=difficulty)
    case = Case(row.get("question", ""), row.get("answer", ""), contexts, row.get("reference"))
    return Pointwise(row["id"], task, case, float(row["label"]), row["id"], difficulty=difficulty)


def _wikieval(row: Row) -> Iterator[Item]:
    question, answer = str(row["question"]), str(row["answer"])
    focused, diluted = _texts(row["context_v1"]), _texts(row["context_v2"])
    name = str(row["id"])
    grounded = Case(question, answer, focused)
    pairs = (
        (EvalTask.FAITHFULNESS, Case(question, str(row["ungrounded_answer"]), focused)),
        (EvalTask.ANSWER_RELEVANCY, Case(question, str(row["poor_answer"]), focused)),
        (EvalTask.CONTEXT_RELEVANCE, Case(question, answer, diluted)),
    )
    for task, worse in pairs:
        yield Pairwise(f"{name}/{task}", task, grounded, worse, -1.0, name)


def _begin(row: Row) -> Iterator[Item]:
    if row["label_faithful"] is None:
        return
    context = str(row["context"])
    case = Case(str(row["message"]), str(row["answer"]), (context,))
    label = float(row["label_faithful"])
    yield Pointwise(str(row["id"]), EvalTask.FAITHFULNESS, case, label, _digest(context), str(row["split"]))


def _wice(row: Row) -> Iterator[Item]:
    name = str(row["id"])
    page = "\n".join(str(sentence) for sentence in row["evidence_sentences"])
    case = Case("", str(row["claim"]), (page,))
    yield Pointwise(name, EvalTask.FAITHFULNESS, case, float(row["label_faithful"]), _digest(page), str(row["split"]))


def _halueval(row: Row) -> Iterator[Item]:
    name, question = str(row["id"]), str(row["question"])
    contexts = (str(row["context"]),)
    right, wrong = (Case(question, str(row[key]), contexts) for key in ("right_answer", "hallucinated_answer"))
    yield Pairwise(name, EvalTask.FAITHFULNESS, right, wrong, -1.0, name)


def _clapnq(row: Row) -> Iterator[Item]:
    case = Case(str(row["question"]), "", (str(row["context"]),))
    yield Pointwise(str(row["id"]), EvalTask.ANSWERABILITY, case, float(row["answerable"]), str(row["title"]))


def _ragchecker(row: Row) -> Iterator[Item]:
    name, question, reference = str(row["id"]), str(row["question"]), str(row["reference"])
    first = Case(question, str(row["response1"]), (), reference)
    second = Case(question, str(row["response2"]), (), reference)
    group = f"{row['dataset']}/{row['query_id']}"
    for task in (EvalTask.CORRECTNESS, EvalTask.COMPLETENESS, EvalTask.OVERALL):
        grades = [float(grade) for grade in row["human"][task.value]]
        yield Pairwise(f"{name}/{task}", task, first, second, sum(grades) / len(grades), group)


def _texts(value: object) -> tuple[str, ...]:
    return tuple(str(text) for text in value) if isinstance(value, list) else (str(value),)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


_ADAPTERS: tuple[tuple[frozenset[str], Callable[[Row], Iterator[Item]]], ...] = (
    (frozenset({"context_v1", "context_v2", "ungrounded_answer", "poor_answer"}), _wikieval),
    (frozenset({"message", "context", "answer", "label_faithful"}), _begin),
    (frozenset({"claim", "evidence_sentences", "label_faithful"}), _wice),
    (frozenset({"right_answer", "hallucinated_answer", "context"}), _halueval),
    (frozenset({"answerable", "question", "context", "title"}), _clapnq),
    (frozenset({"response1", "response2", "human", "reference"}), _ragchecker),
)
"""The fields by which a published data set is known, and what makes items of its rows."""
