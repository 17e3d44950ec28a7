"""The Python API, as a notebook uses it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import ragstone
from ragstone.errors import ConfigError
from ragstone.gate.verdict import CheckKind
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


def test_evaluate_an_entrypoint_string(golden: GoldenSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path / "repo")
    run = ragstone.evaluate(golden, "python:houses:answer", out=tmp_path / "out")
    assert run.path == tmp_path / "out"
    assert len(run.scores.metrics) >= 4


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


@pytest.mark.parametrize("value", [float("nan"), 1.5, -0.1, "high"])
def test_a_value_that_is_no_score_is_refused(value: object) -> None:
    with pytest.raises(ConfigError, match="q1"):
        ragstone.compare({"faithfulness": {"q0": 0.5, "q1": value}})  # type: ignore[dict-item]


def test_none_counts_against_coverage_and_is_never_in_the_mean() -> None:
    scores = {"faithfulness": {f"q{i}": 1.0 for i in range(9)} | {"q9": None}}
    verdict = ragstone.compare(
        scores, policy={"gate": {"min_coverage": 0.98}, "metrics": {"faithfulness": {"min": 0.9}}}
    )
    checks = {check.kind: check for check in verdict.checks}
    assert checks[CheckKind.FLOOR].estimate == 1.0
    assert checks[CheckKind.COVERAGE].estimate == pytest.approx(0.9)
    assert (verdict.status, verdict.exit_code) == ("error", 5)
