"""Items of a meta-evaluation: single judgements by people (pointwise), or their preferences (pairwise)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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
    """The input of the judge."""

    question: str
    answer: str = ""
    contexts: tuple[str, ...] = ()
    reference: str | None = None


@dataclass(frozen=True, slots=True)
class Pointwise:
    """One case with a human label: 1 or 0, or a grade on any scale where higher is better.

    `group` names something that cases share (a page, a question), for clustered intervals.
    """

    id: str
    task: EvalTask
    case: Case
    label: float
    group: str
    split: str | None = None


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


Item = Pointwise | Pairwise
