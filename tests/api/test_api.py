"""The Python API, as a notebook uses it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import ragstone
from ragstone.golden.sample import GoldenSet
from tests.cli.project import make_project


def system(question: str) -> dict[str, object]:
    number = int(question.rstrip("?").split()[-1])
    colour = ["red", "green", "blue", "white", "yellow"][number % 5]
    fact = f"House number {number} is painted {colour}."
    return {"answer": fact, "contexts": [fact]}


@pytest.fixture
def golden(tmp_path: Path) -> GoldenSet:
    return ragstone.load_golden_set(make_project(tmp_path / "repo", n=12) / "golden.jsonl")


def test_evaluate_a_plain_callable_and_compare_it_with_a_policy(golden: GoldenSet) -> None:
    run = ragstone.evaluate(golden, system, metrics=["faithfulness", "context_recall"])
    assert set(run.scores.metrics) == {"faithfulness", "context_recall"}
    assert len(run.scores.metrics["faithfulness"].values) == 12
    verdict = ragstone.compare(run, policy={"metrics": {"faithfulness": {"min": 0.5}}})
    assert verdict.status == "pass"
    floor = next(check for check in verdict.checks if check.kind == "floor")
    assert (floor.metric, floor.status, floor.n) == ("faithfulness", "pass", 12)
    assert floor.interval is not None
    assert floor.interval.low <= floor.estimate <= floor.interval.high  # type: ignore[operator]
    assert floor.reason


def test_evaluate_an_async_callable_inside_a_running_loop(golden: GoldenSet) -> None:
    async def answer(question: str) -> dict[str, object]:
        return system(question)

    async def notebook() -> object:
        return ragstone.evaluate(golden, answer, metrics="faithfulness")

    scores = asyncio.run(notebook()).scores  # type: ignore[attr-defined]
    assert list(scores) == ["faithfulness"]
    assert len(scores["faithfulness"].values) == 12


def test_a_run_as_a_table(golden: GoldenSet) -> None:
    import pandas

    table = ragstone.evaluate(golden, system, answers=2).to_pandas()
    assert isinstance(table, pandas.DataFrame)
    assert all(len(answers) == 2 for answers in table["answers"])
    assert list(table["answer"]) == [answers[0] for answers in table["answers"]]
    assert list(table["id"]) == [f"house-{i}" for i in range(12)]
    assert table["faithfulness"].between(0, 1).all()


def test_compare_plain_mappings() -> None:
    before = {"faithfulness": {f"q{i}": 0.9 for i in range(60)}}
    worse = {"faithfulness": {f"q{i}": 0.5 for i in range(60)}}
    policy = {"metrics": {"faithfulness": {"max_drop": 0.02}}}
    assert ragstone.compare(before, before, policy).status == "pass"
    verdict = ragstone.compare(worse, before, policy)
    assert verdict.status == "fail"
    drop = next(check for check in verdict.checks if check.kind == "drop")
    assert drop.estimate == pytest.approx(-0.4)
    assert verdict.exit_code == 1
