"""Whole commands on golden sets with conversations: what the system is asked, and in which session."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.record import SampleRecord
from ragstone.evaluation.writer import update_manifest
from ragstone.golden.sample import Message
from ragstone.metrics.score import Scored
from tests.cli.project import append, commit, git, make_project, ragstone, read_json

DESK = '''
"""A help desk whose conversations remember the order that they are about."""
import json, re

class Desk:
    def __init__(self):
        self.order = None
        self.questions = []

    def answer(self, question):
        with open("asked.log", "a") as log:
            log.write(json.dumps({"question": question, "before": self.questions}) + "\\n")
        self.questions = [*self.questions, question]
        found = re.search(r"number (\\d+)", question)
        if found:
            self.order = int(found.group(1))
        if self.order is None:
            return {"answer": "Which order do you mean?", "contexts": []}
        ship = f"Order {self.order} was sent by ship on day {self.order + 3} of the month."
        price = f"Order {self.order} cost {self.order * 2} euros and was paid by card."
        if "cost" in question:
            return {"answer": f"Order {self.order} cost {self.order * 2} euros.", "contexts": [price]}
        if "day" in question:
            return {"answer": f"Order {self.order} was sent on day {self.order + 3} of the month.", "contexts": []}
        return {"answer": f"Order {self.order} was sent by ship.", "contexts": [ship]}
'''

QUESTIONS = ("How was the order number {n} sent?", "On which day?", "And what did it cost?")
ANSWERS = (
    "Order {n} was sent by ship.",
    "Order {n} was sent on day {day} of the month.",
    "Order {n} cost {price} euros.",
)
LOOSE = "[gate]\nonly_named = true\n[metrics.faithfulness]\nmin = 0.0\nmax_drop = 0.05\n"


def conversation(n: int, **fields: Any) -> dict[str, Any]:
    values = {"n": n, "day": n + 3, "price": n * 2}
    turns = [
        {"question": question.format(**values), "reference": answer.format(**values)}
        for question, answer in zip(QUESTIONS, ANSWERS, strict=True)
    ]
    return {"id": f"order-{n}", "turns": turns, **fields}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with six conversations of three turns, and two questions that stand alone."""
    path = make_project(tmp_path / "repo", system=DESK, policy=LOOSE)
    rows = [conversation(n, tags=["even"] if n % 2 == 0 else ["odd"]) for n in range(11, 17)]
    rows[3:3] = [{"id": f"alone-{n}", "question": QUESTIONS[0].format(n=n)} for n in (1, 2)]
    (path / "golden.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (path / "ragstone.toml").write_text(
        '[golden]\npaths = ["golden.jsonl"]\n[system]\nentrypoint = "python:houses:Desk"\nconcurrency = 2\n'
        '[run]\nmetrics = ["faithfulness", "context_precision", "token_f1"]\n',
        encoding="utf-8",
    )
    return path


def records(project: Path, out: str = "ragstone-run") -> dict[str, SampleRecord]:
    return {record.sample.id: record for record in RunDirectory.open(project / out).records()}


def asked(project: Path) -> list[dict[str, Any]]:
    log = project / "asked.log"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    log.unlink()
    return lines


def in_whole_sessions(lines: list[dict[str, Any]]) -> bool:
    """Whether each follow-up was asked after all that its conversation had before."""
    by_question = defaultdict(set)
    for line in lines:
        by_question[line["question"]].add(len(line["before"]))
    return by_question[QUESTIONS[1]] == {1} and by_question[QUESTIONS[2]] == {2}


@pytest.mark.parametrize("workers", ["auto", "2"])
def test_each_turn_is_asked_judged_and_scored(project: Path, workers: str) -> None:
    ragstone(["run"], project, env={"RAGSTONE_WORKERS": workers}, exit_code=0)
    found = records(project)
    assert len(found) == 20
    assert in_whole_sessions([line for line in asked(project) if line["question"] in QUESTIONS[1:]])
    second, third = found["order-12/turn-2"], found["order-12/turn-3"]
    assert second.response.answer == "Order 12 was sent on day 15 of the month."
    assert second.response.so_far is not None
    assert third.response.so_far is not None
    assert [context.text for context in second.response.so_far.contexts] == [
        "Order 12 was sent by ship on day 15 of the month."
    ]
    assert third.response.so_far.history[1:3] == (
        Message("assistant", "Order 12 was sent by ship."),
        Message("user", "On which day?"),
    )
    assert found["alone-1"].response.so_far is None
    # By the contexts of the turn before, since this one has none.
    assert isinstance(second.scores["faithfulness"], Scored)
    assert second.scores["faithfulness"].value > 0.5
    assert second.scores["context_precision"] == Scored(0.0, "no contexts were returned")


def test_contexts_of_earlier_turns_can_be_left_out(project: Path) -> None:
    append(project / "ragstone.toml", "[judge]\nearlier_contexts = false\n")
    ragstone(["run"], project, exit_code=0)
    second = records(project)["order-12/turn-2"]
    assert isinstance(second.scores["faithfulness"], Scored)
    assert second.scores["faithfulness"].value == 0
    assert ("earlier_contexts", "false") in RunDirectory.open(project / "ragstone-run").manifest.judge.parameters


def test_a_run_that_stopped_in_a_conversation_asks_its_turns_again_and_scores_the_missing_ones(project: Path) -> None:
    ragstone(["run", "--out", "whole"], project, exit_code=0)
    ragstone(["run"], project, exit_code=0)
    run = RunDirectory.open(project / "ragstone-run")
    file = run.path / "samples.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    left_out = ("order-12/turn-2", "order-12/turn-3", "order-16/turn-3")
    file.write_text("".join(line for line in lines if json.loads(line)["sample"]["id"] not in left_out))
    update_manifest(run, state="stopped")
    asked(project)
    ragstone(["run", "--resume"], project, exit_code=0)
    lines_asked = asked(project)
    assert len(lines_asked) == 6
    assert in_whole_sessions(lines_asked)
    found, whole = records(project), records(project, "whole")
    assert {name: record.scores for name, record in found.items()} == {
        name: record.scores for name, record in whole.items()
    }


def test_a_metric_that_is_added_needs_no_answer_again_but_for_conversations_that_are_not_whole(project: Path) -> None:
    ragstone(["run"], project, exit_code=0)
    run = RunDirectory.open(project / "ragstone-run")
    file = run.path / "samples.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    file.write_text("".join(line for line in lines if json.loads(line)["sample"]["id"] != "order-13/turn-3"))
    update_manifest(run, state="stopped")
    asked(project)
    metrics = "faithfulness,context_precision,token_f1,exact_match"
    ragstone(["run", "--resume", "--metrics", metrics], project, exit_code=0)
    lines_asked = asked(project)
    assert [line["question"] for line in lines_asked] == [QUESTIONS[0].format(n=13), *QUESTIONS[1:]]
    assert in_whole_sessions(lines_asked)
    assert records(project)["order-13/turn-3"].response.answer == "Order 13 cost 26 euros."


def test_several_answers_are_given_in_conversations_of_their_own(project: Path) -> None:
    ragstone(["run", "--answers", "3"], project, exit_code=0)
    assert in_whole_sessions(asked(project))
    third = records(project)["order-14/turn-3"]
    assert [answer.response.answer for answer in third.answers] == ["Order 14 cost 28 euros."] * 3
    ragstone(["rescore", "ragstone-run", "--out", "again"], project, exit_code=0)
    again = records(project, "again")["order-14/turn-3"]
    assert [answer.response.so_far for answer in again.answers] == [answer.response.so_far for answer in third.answers]


def test_a_doubtful_conversation_is_asked_again_from_its_start(project: Path) -> None:
    ragstone(["run", "--out", "main"], project, exit_code=0)
    asked(project)
    good = 'f"Order {self.order} cost {self.order * 2} euros."'
    forgets = DESK.replace(good, "f\"Bananas: {open('asked.log').read().count(chr(10))}\"")
    (project / "houses.py").write_text(forgets, encoding="utf-8")
    (project / "thresholds.toml").write_text(LOOSE.replace("[gate]", "[gate]\nconfirm = true"), encoding="utf-8")
    ragstone(["gate", "--baseline", "main"], project)
    assert in_whole_sessions(asked(project))
    run = RunDirectory.open(project / "ragstone-run")
    assert run.manifest.answers > 1
    third = records(project)["order-14/turn-3"]
    assert len({answer.response.answer for answer in third.answers}) == run.manifest.answers
    for answer in third.answers:
        assert answer.response.so_far is not None
        assert len(answer.response.so_far.history) == 4


def test_a_base_commit_has_conversations_of_its_own(project: Path) -> None:
    (project / ".gitignore").write_text("ragstone-run*\nasked.log\n", encoding="utf-8")
    git(project, "init", "--quiet", "--initial-branch", "main")
    commit(project, "base")
    commit(project, system=DESK.replace('was sent by ship."', 'went by ship."'))
    ragstone(["gate", "--baseline-commit", "HEAD~1"], project, exit_code=0)
    base = records(project, "ragstone-run/base-commit")["order-12/turn-2"]
    now = records(project)["order-12/turn-2"]
    assert base.response.so_far is not None
    assert now.response.so_far is not None
    assert base.response.so_far.history[1].text == "Order 12 was sent by ship."
    assert now.response.so_far.history[1].text == "Order 12 went by ship."


def test_conversations_are_selected_by_id_tag_and_limit(project: Path) -> None:
    ragstone(["run", "--only", "order-11,order-12/turn-3", "--out", "only"], project, exit_code=0)
    lines = asked(project)
    assert list(records(project, "only")) == [f"order-11/turn-{n}" for n in (1, 2, 3)] + ["order-12/turn-3"]
    assert len(lines) == 6
    ragstone(["run", "--tag", "odd", "--out", "odd"], project, exit_code=0)
    assert len(records(project, "odd")) == 9
    ragstone(["run", "--limit", "4", "--out", "few"], project, exit_code=0)
    assert list(records(project, "few"))[-1] == "order-12/turn-3"


def test_a_turn_that_fails_leaves_the_later_ones_with_a_score(project: Path) -> None:
    raises = "        if self.order == 12 and 'day' in question: raise ValueError('no day')\n"
    broken = DESK.replace("        if self.order is None:", f"{raises}        if self.order is None:")
    (project / "houses.py").write_text(broken, encoding="utf-8")
    ragstone(["run"], project)
    found = records(project)
    second, third = found["order-12/turn-2"], found["order-12/turn-3"]
    assert second.response.failure is not None
    assert third.response.so_far is not None
    assert third.response.so_far.failed_turns == (2,)
    assert isinstance(third.scores["token_f1"], Scored)
    shown = ragstone(["report", "ragstone-run", "--sample", "order-12/turn-3"], project, exit_code=0).stdout
    assert "after turn 2 failed" in shown
    assert "assistant: Order 12 was sent by ship." in shown


def test_a_sample_is_shown_with_its_conversation_in_the_baseline(project: Path) -> None:
    ragstone(["run", "--out", "main", "--only", "order-12"], project, exit_code=0)
    (project / "houses.py").write_text(DESK.replace('sent by ship."', 'sent by train."'), encoding="utf-8")
    ragstone(["run", "--only", "order-12"], project, exit_code=0)
    arguments = ["report", "ragstone-run", "--sample", "order-12/turn-3", "--baseline", "main"]
    now, _, before = ragstone(arguments, project, exit_code=0).stdout.partition("In the baseline:")
    assert "assistant: Order 12 was sent by train." in now
    assert "assistant: Order 12 was sent by ship." in before
    assert "Answer: Order 12 cost 24 euros." in before


def test_check_asks_the_first_turns_of_a_conversation_and_knows_who_remembers_them(project: Path) -> None:
    found = ragstone(["check"], project, exit_code=0)
    assert [line["question"] for line in asked(project)] == [QUESTIONS[0].format(n=11), QUESTIONS[1]]
    assert "NOT passed" not in found.stdout
    (project / "houses.py").write_text("def answer(question): return 'Yes.', ['It is so.']\n", encoding="utf-8")
    arguments = ["--entrypoint", "python:houses:answer"]
    assert "12 samples with earlier turns, NOT passed" in ragstone(["check", *arguments], project).stdout
    ragstone(["gate", *arguments], project)
    warnings = [entry["text"] for entry in read_json(project / "ragstone-run" / "report.json")["findings"]]
    assert any("12 samples of the golden set have earlier turns" in text for text in warnings)


def test_recorded_answers_are_found_by_conversation_and_turn(project: Path) -> None:
    ragstone(["run"], project, exit_code=0)
    answers = defaultdict(list)
    for name, record in records(project).items():
        answers[name.partition("/")[0]].append({"answer": record.response.answer, "contexts": ["Sent by ship."]})
    lines = [{"id": name, **({"turns": turns} if len(turns) > 1 else turns[0])} for name, turns in answers.items()]
    (project / "outputs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    ragstone(["run", "--entrypoint", "file:outputs.jsonl", "--out", "recorded"], project, exit_code=0)
    third = records(project, "recorded")["order-14/turn-3"]
    assert third.response.answer == "Order 14 cost 28 euros."
    assert third.response.so_far is not None
    assert third.response.so_far.history[1].text == "Order 14 was sent by ship."
    only = ["run", "--entrypoint", "file:outputs.jsonl", "--only", "order-14/turn-3", "--out", "one"]
    ragstone(only, project, exit_code=0)
    assert records(project, "one")["order-14/turn-3"].response.so_far == third.response.so_far
