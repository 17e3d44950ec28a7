"""The record of each question: flaky, disputed, unwinnable, saturated."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ragstone.cli.golden import command
from ragstone.evaluation.scores import MetricScores, RunScores, SampleFacts
from ragstone.golden.sample import GoldenSet, Sample
from ragstone.history.codes import compact
from ragstone.history.file import History, write_history
from ragstone.tools.generate.golden.records import Records, records_of
from tests.history import seasons

METRICS = ("faithfulness", "answer_relevancy", "context_recall", "answer_correctness")
Score = Callable[[int, str, str], float | None]
"""A score by run, question and metric."""


def golden_of(n: int) -> GoldenSet:
    return GoldenSet(tuple(Sample(f"q{i}", f"Question {i}?", reference="Yes.") for i in range(n)))


def history_of(golden: GoldenSet, runs: int, score: Score, **fields: Callable[[int], object]) -> History:
    """A run per commit, unless `fields` say otherwise."""
    found = History()
    for number in range(runs):
        metrics = {
            metric: MetricScores(
                {one.id: value for one in golden if (value := score(number, one.id, metric)) is not None}, version="1"
            )
            for metric in METRICS
        }
        facts = {one.id: SampleFacts(content_hash=one.content_hash()) for one in golden}
        scores = compact(RunScores("run", metrics, facts), METRICS)
        given: dict[str, Any] = {name: value(number) for name, value in fields.items()}
        found = found.with_run(seasons.line(number, metrics=METRICS, **given), scores)
    return found


def steady(number: int, name: str, metric: str) -> float:
    """Nothing moves but q1, which gets worse once and better once."""
    return 0.0 if name == "q1" and 10 <= number < 20 else 1.0


def flips(number: int, name: str, metric: str) -> float:
    return float(number % 2)


def of(score: Mapping[str, Score], otherwise: Score = steady) -> Score:
    return lambda number, name, metric: score.get(name, otherwise)(number, name, metric)


def classes(found: Records) -> dict[str, set[str]]:
    return {one.id: set(one.classes) for one in found.questions if one.classes and set(one.classes) != {"saturated"}}


def test_each_class_has_the_questions_that_belong_to_it() -> None:
    golden = golden_of(40)
    noisy: Score = lambda number, name, metric: float(number % 3 == 0) if metric == "faithfulness" else 1.0  # noqa: E731
    wrong: Score = lambda number, name, metric: 0.2 if metric == "answer_correctness" else 1.0  # noqa: E731
    blind: Score = lambda number, name, metric: 0.0 if metric in ("context_recall", "answer_correctness") else 1.0  # noqa: E731
    history = history_of(golden, 30, of({"q2": noisy, "q3": wrong, "q4": blind}))
    found = records_of(history, golden)
    assert classes(found) == {"q2": {"flaky"}, "q3": {"disputed"}, "q4": {"unwinnable"}}
    records = {one.id: one for one in found.questions}
    assert "19 of 29" in records["q2"].classes["flaky"]
    assert "faithfulness" in records["q2"].classes["flaky"]
    assert "30 of 30" in records["q3"].classes["disputed"]
    assert "30 runs" in records["q4"].classes["unwinnable"]
    assert len(found.of("saturated")) == 36
    assert "saturated" not in records["q1"].classes  # it moved
    assert records["q1"].flips == 2
    assert (found.runs, found.versions, found.too_few) == (30, 30, "")


def test_a_change_that_moves_many_questions_is_no_flip() -> None:
    golden = golden_of(20)
    moves: Score = lambda number, name, metric: float(number % 2 == 0)  # noqa: E731
    many = {f"q{i}": moves for i in range(10)}
    assert not classes(records_of(history_of(golden, 12, of(many)), golden))
    # But between runs of the same version, all of them flip, as a system does that is noisy as a whole.
    same = history_of(golden, 12, of({"q5": moves, "q6": moves, "q7": moves}), system=lambda number: "2.1")
    assert set(classes(records_of(same, golden))) == {"q5", "q6", "q7"}


def test_a_question_that_was_broken_and_repaired_is_not_flaky() -> None:
    golden = golden_of(20)
    stairs: Score = lambda number, name, metric: max(0.0, 1.0 - 0.25 * (number // 3))  # noqa: E731
    assert not classes(records_of(history_of(golden, 19, of({"q5": stairs})), golden))


def test_other_judges_and_edited_questions_start_a_new_record() -> None:
    golden = golden_of(12)
    history = history_of(golden, 12, of({"q2": flips}), judge_key=lambda number: ("0" if number < 8 else "1") * 16)
    found = records_of(history, golden)
    assert {one.runs for one in found.questions} == {4}
    assert not classes(found)
    edited = GoldenSet((*golden.samples[:2], Sample("q2", "Other?"), *golden.samples[3:]))
    assert records_of(history_of(golden, 12, of({"q2": flips})), edited).questions[2].runs == 0


@pytest.mark.parametrize(("runs", "least"), [(0, 5), (3, 5), (12, 20), (20, None)])
def test_a_short_history_says_from_how_many_runs_on_it_tells_more(runs: int, least: int | None) -> None:
    golden = golden_of(10)
    found = records_of(history_of(golden, runs, of({"q2": flips})), golden)
    assert re.findall(r"\d+", found.too_few) == ([] if least is None else [str(runs), str(least)])
    assert bool(classes(found)) == (runs >= 5)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    golden = golden_of(40)
    lines = (json.dumps({"id": one.id, "question": one.question, "reference": one.reference}) for one in golden)
    (tmp_path / "golden.jsonl").write_text("\n".join(lines))
    (tmp_path / "ragstone.toml").write_text('[golden]\npaths = ["golden.jsonl"]\n[run]\nhistory = "history.jsonl"\n')
    write_history(tmp_path / "history.jsonl", history_of(golden, 30, of({"q2": flips})))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_command_names_the_flaky_and_the_idle(project: Path) -> None:
    found = CliRunner().invoke(command, [], standalone_mode=False)
    assert found.exception is None
    assert max(map(len, found.output.splitlines())) <= 80, found.output
    assert "q2: flips in 29 of 29 unchanged pairs of runs (answer_correctness)" in found.output
    assert "and 33 more (--format json lists all)" in found.output
    body = json.loads(CliRunner().invoke(command, ["--format", "json"], standalone_mode=False).output)
    assert len(body["history"]["questions"]) == 40


def test_without_a_history_the_error_says_where_it_was_looked_for(project: Path) -> None:
    found = CliRunner().invoke(command, ["--history", "none.jsonl"], standalone_mode=False)
    assert "there is no history" in str(found.exception)
