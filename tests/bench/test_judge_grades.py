"""The grades on the hard cases: judges get the grades that they deserve, by an interval and by kind of case."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from judge_grades import TaskGrade, grade_tasks
from judge_grades import graded as graded_by
from judge_opinions import as_golden_set
from labelled_sets import Item, Pairwise, hard_cases

from ragstone.judge.factory import build_judge
from ragstone.judge.judgements import (
    ContextGrades,
    ContextUse,
    ContextUsefulness,
    ReferenceMatch,
    ReverseQuestions,
    SentenceRelevance,
    Statement,
    StatementList,
    Support,
    SupportTable,
    Verdict,
    context_id,
)
from ragstone.judge.offline import OfflineJudge
from ragstone.judge.protocol import Call
from ragstone.settings.settings import JudgeSettings
from ragstone.system.response import Context

pytestmark = pytest.mark.heavy

ITEMS = hard_cases()
TASKS = {"faithfulness", "context_use", "answerability", "correctness", "answer_relevancy", "statements"}


def truth(item: Item) -> dict[str, float]:
    """What an oracle says of each case, by the id under which a judge is asked."""
    if isinstance(item, Pairwise):
        better = item.preference > 0
        return {f"{item.id}/first": float(not better), f"{item.id}/second": float(better)}
    return {item.id: item.label}


TRUTH = {name: value for item in ITEMS for name, value in truth(item).items()}


class Decided(OfflineJudge):
    """Says of each case what `decide` says: the number of statements for that task, otherwise yes (1) or no (0)."""

    decide: Callable[[str], float]

    def verdict(self, call: Call) -> Verdict:
        return Verdict.SUPPORTED if self.decide(call.sample_id) else Verdict.UNSUPPORTED

    async def statements(self, question: str, answer: str, *, call: Call) -> StatementList:
        count = int(self.decide(call.sample_id)) if call.sample_id.startswith("s") else 1
        return StatementList(tuple(Statement(f"s{at}", answer) for at in range(1, count + 1)), abstains=not count)

    async def support(
        self, contexts: Sequence[Context], statements: Sequence[Statement], *, call: Call
    ) -> SupportTable:
        return SupportTable(tuple(Support(one.id, self.verdict(call)) for one in statements))

    async def reference_match(
        self, question: str, reference: str, statements: Sequence[Statement], answer: str, *, call: Call
    ) -> ReferenceMatch:
        supports = tuple(Support(one.id, self.verdict(call)) for one in statements)
        return ReferenceMatch((Statement("r1", reference),), supports, (Support("r1", self.verdict(call)),))

    async def context_use(
        self, question: str, reference: str | None, answer: str, contexts: Sequence[Context], *, call: Call
    ) -> ContextUse:
        useful = bool(self.decide(call.sample_id))
        return ContextUse(tuple(ContextUsefulness(context_id(at), useful) for at in range(len(contexts))), True)

    async def context_relevance(self, question: str, contexts: Sequence[Context], *, call: Call) -> ContextGrades:
        needed = int(self.decide(call.sample_id))
        return ContextGrades(tuple(SentenceRelevance(context_id(at), needed, 9) for at in range(len(contexts))))

    async def relevancy(
        self, question: str, answer: str, contexts: Sequence[Context], references: Sequence[str], *, call: Call
    ) -> ReverseQuestions:
        return ReverseQuestions((), (self.decide(call.sample_id),))


def graded(decide: Callable[[str], float]) -> dict[str, TaskGrade]:
    judge = Decided()
    judge.decide = decide
    grades = asyncio.run(graded_by(judge, ITEMS))
    assert {grade.task for grade in grades} == TASKS
    return {grade.task: grade for grade in grades}


def test_an_oracle_gets_an_a_and_has_no_weakest_kind() -> None:
    for grade in graded(TRUTH.__getitem__).values():
        assert (grade.grade, grade.right, grade.share) == ("A, good", grade.items, 1.0)
        assert grade.low >= 0.9
        assert grade.weakest == ()


DICE = random.Random(3)


def guess(name: str) -> float:
    return DICE.randint(0, 6) if name.startswith("s") else DICE.random() > 0.5


@pytest.mark.parametrize("decide", [lambda _: 0.0, lambda _: 1.0, guess], ids=["no", "yes", "guesses"])
def test_a_judge_that_knows_nothing_gets_a_d(decide: Callable[[str], float]) -> None:
    for grade in graded(decide).values():
        assert grade.grade == "D, poor"
        assert grade.high < 0.7


@pytest.mark.parametrize(
    ("right", "cases", "letter"), [(100, 100, "A"), (95, 100, "B"), (85, 100, "C"), (75, 100, "D"), (10, 10, "C")]
)
def test_a_grade_is_by_the_lower_end_of_the_interval(right: int, cases: int, letter: str) -> None:
    """A few cases get no good grade by luck."""
    (grade,) = grade_tasks([("task", "kind", at < right) for at in range(cases)])
    assert grade.grade[0] == letter
    assert grade.low < grade.share
    assert grade.high > grade.share or right == cases


README = (Path(__file__).parents[2] / "bench/README.md").read_text("utf-8")


def test_the_grades_of_the_offline_judge_are_those_of_the_page() -> None:
    judge = build_judge(JudgeSettings(), golden_set=as_golden_set(ITEMS), cache=None, environ={})
    for grade in asyncio.run(graded_by(judge, ITEMS)):
        cells = f"{grade.items} | {grade.right} | {grade.low:.3f} to {grade.high:.3f} | {grade.grade} |"
        assert re.search(rf"^\| `{grade.task}` \| [^|]+ \| {re.escape(cells)}$", README, re.MULTILINE), grade
    assert f"the {len(ITEMS)} cases" in README


# Over the wire: the default reply of a fake server, which says yes, is no good judge.
