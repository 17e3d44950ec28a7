"""Reads a meta-evaluation data set: JSON Lines in the format of docs/judges.md, a known published file, or the bundled
hard cases.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, TypeAdapter, ValidationError

from ragstone.errors import GoldenSetError, expected
from ragstone.formatting import clipped

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails


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


HARD_CASES = "hard-cases"
HARD_CASES_NAME = f"{HARD_CASES} 2"
"""With its version, which changes with any text, label or case: a grade on one version is none on another."""

MAX_LINE_BYTES = 16 * 1024 * 1024
"""Longer lines are rejected."""


class _Side(BaseModel):
    model_config = ConfigDict(extra="forbid")
    question: str | None = None
    answer: str | None = None
    contexts: tuple[str, ...] | None = None
    reference: str | None = None


class _Shared(BaseModel):
    model_config = ConfigDict(extra="forbid")
    id: str
    task: EvalTask
    question: str = ""
    answer: str = ""
    contexts: tuple[str, ...] = ()
    reference: str | None = None
    group: str | None = None
    split: str | None = None
    difficulty: str | None = None
    evidence: dict[str, str] = {}
    why: str | None = None

    def case(self, side: _Side | None = None) -> Case:
        shared = {"question": self.question, "answer": self.answer, "contexts": self.contexts}
        own = {} if side is None else {name: value for name, value in side if value is not None}
        return Case(**{"reference": self.reference, **shared, **own})


class _PointwiseLine(_Shared):
    kind: Literal["pointwise"]
    label: FiniteFloat


class _PairwiseLine(_Shared):
    kind: Literal["pairwise"]
    preference: FiniteFloat
    first: _Side
    second: _Side


_LINE: TypeAdapter[_PointwiseLine | _PairwiseLine] = TypeAdapter(
    Annotated[_PointwiseLine | _PairwiseLine, Field(discriminator="kind")]
)


def load_items(path: Path, *, split: str | None = None, limit: int | None = None) -> tuple[Item, ...]:
    """The items of `path` (.jsonl or .jsonl.gz, or `HARD_CASES`), in file order.

    `split` keeps one split; the default is the test split if there is one, else everything. Raises GoldenSetError with
    file and line.
    """
    rows = list(_hard_rows() if name_of(path) == HARD_CASES_NAME and not path.exists() else _rows(path))
    if not rows:
        raise GoldenSetError("the data set is empty.", where=str(path))
    adapter = recognise(rows[0][1])
    items: list[Item] = []
    for line, row in rows:
        where = f"{path}:{line}"
        items.extend(adapt(adapter, row, where) if adapter else [_native(row, where)])
    splits = {item.split for item in items}
    wanted = split or ("test" if "test" in splits else None)
    if wanted is not None:
        items = [item for item in items if item.split == wanted]
        if not items:
            known = ", ".join(sorted(name for name in splits if name)) or "none"
            raise GoldenSetError(f"no items in split '{wanted}'.", where=str(path), hint=f"Available splits: {known}.")
    seen: set[str] = set()
    for item in items:
        if item.id in seen:
            raise GoldenSetError(f"duplicate id '{item.id}'.", where=str(path), hint="Make the ids unique.")
        seen.add(item.id)
    return tuple(items[:limit])


def _native(row: dict[str, Any], where: str) -> Item:
    try:
        line = _LINE.validate_python(row)
    except ValidationError as error:
        message = _problem(error.errors()[0], row)
        raise GoldenSetError(message, where=where, hint="docs/judges.md shows the format of a line.") from None
    group = line.group or line.id
    if isinstance(line, _PointwiseLine):
        return Pointwise(line.id, line.task, line.case(), line.label, group, line.split, line.difficulty)
    sides = line.case(line.first), line.case(line.second)
    return Pairwise(line.id, line.task, *sides, line.preference, group, line.split, line.difficulty)


def name_of(path: Path) -> str:
    """The name of a data set in reports: that of its file, unless it is the hard cases that come with Ragstone."""
    return HARD_CASES_NAME if str(path) == HARD_CASES and not path.exists() else path.name


def _hard_rows() -> Iterator[tuple[int, dict[str, Any]]]:
    """The bundled cases, the tasks in turn, with the texts of the documents that they name."""
    documents, *tasks = sorted(
        Path(__file__).with_name("hard_cases").glob("*.jsonl"), key=lambda path: path.stem != "documents"
    )
    texts = {row["id"]: row["text"] for _, row in _rows(documents)}
    cases = [(line, row) for task in tasks for line, row in _rows(task)]
    for line, row in sorted(cases, key=lambda case: str(case[1]["id"])[1:]):
        row["contexts"] = [texts[name] for name in row.pop("documents", ())]
        yield line, row


def _problem(found: ErrorDetails, row: Mapping[str, Any]) -> str:
    """One sentence on what is wrong with a line, in the words of its format."""
    kinds = "'pointwise' or 'pairwise'"
    if found["type"] == "union_tag_not_found":
        return f"'kind' is missing: {kinds}. It is no line of a known published data set either."
    if found["type"] == "union_tag_invalid":
        return f"'kind' must be {kinds}, found {_shown(row.get('kind'))}."
    field = ".".join(str(part) for part in found["loc"][1:]) or "the line"
    if found["type"] == "missing":
        return f"'{field}' is missing."
    if found["type"] == "extra_forbidden":
        return f"unknown key '{field}'."
    return f"'{field}' {expected(found)}, found {_shown(found['input'])}."


def _shown(value: object) -> str:
    return clipped(json.dumps(value, ensure_ascii=False, default=str), 80)


def _rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rb") as stream:
            number = 0
            while line := stream.readline(MAX_LINE_BYTES + 1):
                number += 1
                if len(line) > MAX_LINE_BYTES:
                    raise GoldenSetError(f"the line is longer than {MAX_LINE_BYTES} bytes.", where=f"{path}:{number}")
                if line.strip():
                    yield number, _row(line, f"{path}:{number}")
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise GoldenSetError(f"can't be read: {reason}", where=str(path)) from None


def _row(line: bytes, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line.decode("utf-8-sig"), parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise GoldenSetError(f"not valid JSON: {error}", where=where) from None
    if not isinstance(row, dict):
        raise GoldenSetError(f"expected a JSON object, found {type(row).__name__}.", where=where)
    return row


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not a number")


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
