"""Whole commands on golden sets with conversations: what the system is asked, and in which session."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.record import SampleRecord
from ragstone.evaluation.writer import update_manifest
from ragstone.golden.sample import Message
from ragstone.metrics.score import Scored
from tests.cli.project import make_project, ragstone, read_json, read_rows, write_rows

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


def conversation(n: int) -> dict[str, Any]:
    values = {"n": n, "day": n + 3, "price": n * 2}
    turns = [
        {"question": question.format(**values), "reference": answer.format(**values)}
        for question, answer in zip(QUESTIONS, ANSWERS, strict=True)
    ]
    return {"id": f"order-{n}", "turns": turns, "tags": ["odd"] if n % 2 else ["even"]}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with six conversations of three turns, and two questions that stand alone."""
    path = make_project(tmp_path / "repo", system=DESK, policy=LOOSE)
    rows = [conversation(n) for n in range(11, 17)]
    rows[3:3] = [{"id": f"alone-{n}", "question": QUESTIONS[0].format(n=n)} for n in (1, 2)]
    write_rows(path / "golden.jsonl", rows)
    (path / "ragstone.toml").write_text(
        '[golden]\npaths = ["golden.jsonl"]\n[system]\nentrypoint = "python:houses:Desk"\nconcurrency = 2\n'
        '[run]\nmetrics = ["faithfulness", "context_precision", "token_f1"]\n',
        encoding="utf-8",
    )
    return path


def change_desk(project: Path, before: str, after: str) -> None:
    (project / "houses.py").write_text(DESK.replace(before, after), encoding="utf-8")


def records(project: Path, out: str = "ragstone-run") -> dict[str, SampleRecord]:
    return {record.sample.id: record for record in RunDirectory.open(project / out).records()}


def asked(project: Path) -> list[dict[str, Any]]:
    lines = read_rows(project / "asked.log")
    (project / "asked.log").unlink()
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
    assert in_whole_sessions(asked(project))
    second, third = found["order-12/turn-2"], found["order-12/turn-3"]
    assert second.response.answer == "Order 12 was sent on day 15 of the month."
    assert second.response.so_far is not None
    assert third.response.so_far is not None
    (context,) = second.response.so_far.contexts
    assert context.text == "Order 12 was sent by ship on day 15 of the month."
    assert third.response.so_far.history[1:3] == (
        Message("assistant", "Order 12 was sent by ship."),
        Message("user", "On which day?"),
    )
    assert found["alone-1"].response.so_far is None
    # By the contexts of the turn before, since this one has none.
    assert isinstance(second.scores["faithfulness"], Scored)
    assert second.scores["faithfulness"].value > 0.5
    assert second.scores["context_precision"] == Scored(0.0, "no contexts were returned")


def test_a_run_that_stopped_in_a_conversation_asks_its_turns_again_and_scores_the_missing_ones(project: Path) -> None:
    ragstone(["run", "--out", "whole"], project, exit_code=0)
    ragstone(["run"], project, exit_code=0)
    run = RunDirectory.open(project / "ragstone-run")
    left_out = ("order-12/turn-2", "order-12/turn-3", "order-16/turn-3")
    lines = [line for line in read_rows(run.path / "samples.jsonl") if line["sample"]["id"] not in left_out]
    write_rows(run.path / "samples.jsonl", lines)
    update_manifest(run, state="stopped")
    asked(project)
    ragstone(["run", "--resume"], project, exit_code=0)
    again = asked(project)
    assert len(again) == 6
    assert in_whole_sessions(again)
    found, whole = (
        {name: record.scores for name, record in records(project, out).items()} for out in ("ragstone-run", "whole")
    )
    assert found == whole


def test_a_doubtful_conversation_is_asked_again_from_its_start(project: Path) -> None:
    ragstone(["run", "--out", "main"], project, exit_code=0)
    asked(project)
    good = 'f"Order {self.order} cost {self.order * 2} euros."'
    change_desk(project, good, "f\"Bananas: {open('asked.log').read().count(chr(10))}\"")
    (project / "thresholds.toml").write_text(LOOSE.replace("[gate]", "[gate]\nconfirm = true"), encoding="utf-8")
    ragstone(["gate", "--baseline", "main"], project)
    assert in_whole_sessions(asked(project))
    answers = records(project)["order-14/turn-3"].answers
    assert len({answer.response.answer for answer in answers}) == len(answers) > 1
    histories = [answer.response.so_far.history for answer in answers if answer.response.so_far is not None]
    assert [len(history) for history in histories] == [4] * len(answers)
    ragstone(["rescore", "ragstone-run", "--out", "again"], project, exit_code=0)
    again = records(project, "again")["order-14/turn-3"].answers
    assert [answer.response.so_far for answer in again] == [answer.response.so_far for answer in answers]


def test_conversations_are_selected_by_id_tag_and_limit(project: Path) -> None:
    ragstone(["run", "--only", "order-11,order-12/turn-3", "--out", "only"], project, exit_code=0)
    assert list(records(project, "only")) == [f"order-11/turn-{n}" for n in (1, 2, 3)] + ["order-12/turn-3"]
    assert len(asked(project)) == 6
    ragstone(["run", "--tag", "odd", "--out", "odd"], project, exit_code=0)
    assert len(records(project, "odd")) == 9
    ragstone(["run", "--limit", "4", "--out", "few"], project, exit_code=0)
    assert list(records(project, "few"))[-1] == "order-12/turn-3"


def test_a_turn_is_shown_with_what_was_said_before_it_here_and_in_the_baseline(project: Path) -> None:
    ragstone(["run", "--out", "main", "--only", "order-12"], project, exit_code=0)
    raises = "        if self.order == 12 and 'day' in question: raise ValueError('no day')\n"
    change_desk(project, "        if self.order is None:", f"{raises}        if self.order is None:")
    ragstone(["run", "--only", "order-12"], project)
    second, third = (records(project)[f"order-12/turn-{number}"] for number in (2, 3))
    assert second.response.failure is not None
    assert third.response.so_far is not None
    assert third.response.so_far.failed_turns == (2,)
    assert isinstance(third.scores["token_f1"], Scored)
    arguments = ["report", "ragstone-run", "--sample", "order-12/turn-3", "--baseline", "main"]
    now, _, before = ragstone(arguments, project, exit_code=0).stdout.partition("In the baseline:")
    assert "after turn 2 failed" in now
    assert "assistant: Order 12 was sent by ship." in now
    assert "assistant: Order 12 was sent on day 15 of the month." in before
    assert "Answer: Order 12 cost 24 euros." in before


def test_check_asks_the_first_turns_of_a_conversation_and_the_gate_knows_who_remembers_them(project: Path) -> None:
    ragstone(["check"], project, exit_code=0)
    assert [line["question"] for line in asked(project)] == [QUESTIONS[0].format(n=11), QUESTIONS[1]]
    (project / "houses.py").write_text("def answer(question): return 'Yes.', ['It is so.']\n", encoding="utf-8")
    arguments = ["--entrypoint", "python:houses:answer"]
    ragstone(["gate", *arguments], project)
    warnings = [entry["text"] for entry in read_json(project / "ragstone-run" / "report.json")["findings"]]
    assert any("Samples with earlier turns: 12" in text for text in warnings)
