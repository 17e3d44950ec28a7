"""Recognises published data sets by their fields and converts them to items."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ragstone.errors import GoldenSetError
from ragstone.tools.judging.metaeval.items import Case, EvalTask, Item, Pairwise, Pointwise

Row = Mapping[str, Any]
Adapter = Callable[[Row], Iterator[Item]]


def recognise(row: Row) -> str | None:
    """The name of the published data set that `row` belongs to; None for the native format or anything else."""
    if "kind" in row:
        return None
    return next((name for name, (fields, _) in _ADAPTERS.items() if fields <= row.keys()), None)


def adapt(name: str, row: Row, where: str) -> list[Item]:
    """The items in one row of the data set `name`. Raises GoldenSetError for a row that doesn't fit."""
    try:
        return list(_ADAPTERS[name][1](row))
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise GoldenSetError(f"not a row of {name}: {type(error).__name__} {error}", where=where) from None


def _wikieval(row: Row) -> Iterator[Item]:
    question, answer = str(row["question"]), str(row["answer"])
    focused, diluted = _texts(row["context_v1"]), _texts(row["context_v2"])
    name = str(row["id"])
    pairs = (
        (
            EvalTask.FAITHFULNESS,
            Case(question, answer, focused),
            Case(question, str(row["ungrounded_answer"]), focused),
        ),
        (EvalTask.ANSWER_RELEVANCY, Case(question, answer, focused), Case(question, str(row["poor_answer"]), focused)),
        (EvalTask.CONTEXT_RELEVANCE, Case(question, answer, focused), Case(question, answer, diluted)),
    )
    for task, better, worse in pairs:
        yield Pairwise(f"{name}/{task}", task, better, worse, -1.0, name)


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
    right, wrong = str(row["right_answer"]), str(row["hallucinated_answer"])
    yield Pairwise(
        name, EvalTask.FAITHFULNESS, Case(question, right, contexts), Case(question, wrong, contexts), -1.0, name
    )


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


_ADAPTERS: Mapping[str, tuple[frozenset[str], Adapter]] = {
    "WikiEval": (frozenset({"context_v1", "context_v2", "ungrounded_answer", "poor_answer"}), _wikieval),
    "BEGIN": (frozenset({"message", "context", "answer", "label_faithful"}), _begin),
    "WiCE": (frozenset({"claim", "evidence_sentences", "label_faithful"}), _wice),
    "HaluEval QA": (frozenset({"right_answer", "hallucinated_answer", "context"}), _halueval),
    "CLAPNQ": (frozenset({"answerable", "question", "context", "title"}), _clapnq),
    "RAGChecker meta-evaluation": (frozenset({"response1", "response2", "human", "reference"}), _ragchecker),
}
