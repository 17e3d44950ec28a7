"""`ragstone meta-eval hard-cases`: judges get the grades that they deserve, by an interval and by kind of case."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

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
from ragstone.judge.protocol import Call, JudgementFailed
from ragstone.system.response import Context
from ragstone.tools.judging.metaeval.command import MetaEvaluation, command, evaluate_with, run_judge
from ragstone.tools.judging.metaeval.grades import TaskGrade, grade_tasks
from ragstone.tools.judging.metaeval.load import HARD_CASES, HARD_CASES_NAME, Item, Pairwise, load_items
from tests.judge.conftest import KEY, FakeLlm, Loop, fill_in

ITEMS = load_items(Path(HARD_CASES))
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
    outcomes = asyncio.run(run_judge(judge, ITEMS))
    grades = grade_tasks(
        HARD_CASES_NAME, ((one.item.task.value, one.item.difficulty or "", one.right) for one in outcomes)
    )
    assert {grade.task for grade in grades} == TASKS
    return {grade.task: grade for grade in grades}


def test_an_oracle_gets_an_a_and_has_no_weakest_kind() -> None:
    for grade in graded(TRUTH.__getitem__).values():
        assert (grade.grade, grade.right, grade.share) == ("A, good", grade.items, 1.0)
        assert grade.low >= 0.9
        assert grade.weakest == ()


@pytest.mark.parametrize("always", [0.0, 1.0])
def test_a_judge_that_always_says_the_same_gets_a_d(always: float) -> None:
    for task, grade in graded(lambda _: always).items():
        assert grade.grade == "D, poor"
        assert grade.share == 0.5 if task not in ("statements", "answer_relevancy") else grade.share <= 0.25


def test_a_judge_that_guesses_gets_a_d() -> None:
    dice = random.Random(3)
    for grade in graded(lambda name: dice.randint(0, 6) if name.startswith("s") else dice.random() > 0.5).values():
        assert grade.grade == "D, poor"
        assert grade.high < 0.7


def test_a_judge_that_fails_is_not_right() -> None:
    def decide(name: str) -> float:
        if name.startswith("f"):
            raise JudgementFailed("the server is down")
        return TRUTH[name]

    found = graded(decide)
    assert (found["faithfulness"].grade, found["faithfulness"].right) == ("D, poor", 0)
    assert found["correctness"].grade == "A, good"


def test_the_kinds_that_a_judge_gets_wrong_are_named_with_their_counts() -> None:
    difficulty = {name: item.difficulty for item in ITEMS for name in truth(item)}
    weak = graded(lambda name: 1 - TRUTH[name] if difficulty[name] == "calculation" else TRUTH[name])["faithfulness"]
    [(kind, right, cases)] = weak.weakest
    assert (kind, right) == ("calculation", 0)
    assert cases == sum(item.difficulty == "calculation" for item in ITEMS if item.task.value == "faithfulness")
    assert weak.right == weak.items - cases


@pytest.mark.parametrize(("right", "letter"), [(100, "A"), (95, "B"), (85, "C"), (75, "D"), (50, "D"), (0, "D")])
def test_a_grade_is_by_the_lower_end_of_the_interval(right: int, letter: str) -> None:
    (grade,) = grade_tasks(HARD_CASES_NAME, [("task", "kind", at < right) for at in range(100)])
    assert grade.grade[0] == letter
    assert grade.low < grade.share or right == 0
    assert grade.high > grade.share or right == 100


def test_a_few_cases_get_no_good_grade_by_luck() -> None:
    (grade,) = grade_tasks(HARD_CASES_NAME, [("task", "kind", True)] * 10)
    assert grade.grade == "C, weak"


def test_other_data_sets_get_no_grade() -> None:
    def found(dataset: str, method: str = "metric") -> MetaEvaluation:
        return asyncio.run(evaluate_with(OfflineJudge(), ITEMS[:12], dataset, method=method))

    assert found("labelled.jsonl").grades == ()
    assert found(f"{HARD_CASES} 1").grades == (), "a grade belongs to a version of the cases"
    assert len(found(HARD_CASES_NAME).grades) == 6


def test_the_command_prints_a_grade_for_each_task_and_writes_them_with_the_version(tmp_path: Path) -> None:
    output = tmp_path / "found.json"
    done = CliRunner().invoke(command, [HARD_CASES, "--judge", "offline", "--limit", "60", "--output", str(output)])
    assert done.exit_code == 0, done.output
    document = json.loads(output.read_text(encoding="utf-8"))
    assert document["dataset"] == HARD_CASES_NAME
    assert {grade["task"] for grade in document["grades"]} == TASKS
    for grade in document["grades"]:
        assert grade["items"] == 10
        line = rf"^{grade['task']} +{grade['grade']} +{grade['right']} of 10 +{grade['share']:.3f} "
        assert re.search(line, done.output, re.MULTILINE), done.output


# Over the wire: what a model costs, and that the default reply of a fake server, which says yes, is no good judge.


@pytest.fixture
def server() -> Iterator[FakeLlm]:
    loop = Loop()
    yield loop.serve(FakeLlm())
    loop.close()


def measured(server: FakeLlm, folder: Path, *flags: str) -> tuple[dict[str, Any], str]:
    output = folder / "found.json"
    environ = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": f"{server.url}/v1"}
    options = ["--judge", "openai:gpt-4o-mini", "--out", str(folder), "--output", str(output), *flags]
    done = CliRunner().invoke(command, [HARD_CASES, *options], env=environ)
    assert done.exit_code == 0, done.output
    return json.loads(output.read_text(encoding="utf-8")), done.output


def test_a_model_is_graded_and_its_tokens_and_price_are_shown(server: FakeLlm, tmp_path: Path) -> None:
    document, shown = measured(server, tmp_path, "--limit", "120")
    shares = {grade["task"]: grade["share"] for grade in document["grades"]}
    assert shares["faithfulness"] == shares["context_use"] == shares["answerability"] == shares["correctness"] == 0.5
    assert all(grade["grade"] == "D, poor" for grade in document["grades"])
    cost = document["cost"]
    assert cost["calls"] == len(server.seen)
    assert cost["cost_usd"] > 0
    assert f"{cost['input_tokens']:,} tokens in, {cost['output_tokens']} out" in shown
    assert "$" in shown
    assert server.wrong == []


def test_a_model_that_counts_statements_right_is_right_there(server: FakeLlm, tmp_path: Path) -> None:
    answers = {item.case.answer: item for item in ITEMS if item.id.startswith("s") and not isinstance(item, Pairwise)}

    def fill(schema: Mapping[str, Any], data: str) -> Any:
        reply = fill_in(schema, data)
        if "answer" in schema["properties"]:
            given = re.search(r"^<<<answer \S+>>>\n(.*?)\n<<<end", data, re.MULTILINE | re.DOTALL)
            assert given is not None
            count = int(answers[given[1]].label) if given[1] in answers else 1
            kind = "answers" if count else "abstains"
            return {"answer": {"kind": kind, "statements": [f"Statement {at} of it." for at in range(count)]}}
        return reply

    server.fill = fill
    document, _ = measured(server, tmp_path, "--limit", "120")
    assert {grade["task"]: grade["share"] for grade in document["grades"]}["statements"] == 1.0
