"""The decision alone, on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import ragstone as ragstone_package
from ragstone.cli import main
from ragstone.run.directory import RunDirectory

WriteRun = Callable[..., RunDirectory]
Ragstone = Callable[..., tuple[int, str, str]]


@pytest.fixture
def ragstone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Ragstone:
    """The command line, run in the test's folder: exit code, output, errors."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        out, err = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, out, err

    return call


def score_file(path: Path, metric: str, values: list[float]) -> str:
    path.write_text("id,metric,value\n" + "".join(f"q{i},{metric},{value}\n" for i, value in enumerate(values)))
    return path.name


HIGH, LOW, MIDDLING = [1.0, 0.9, 0.95, 1.0] * 15, [0.5, 0.3, 0.6, 0.4] * 15, [1.0, 0.8, 0.6, 1.0] * 15


@pytest.mark.parametrize(
    ("before", "now", "policy", "code"),
    [
        (HIGH, HIGH, "[metrics.politeness]\nmin = 0.85\nmax_drop = 0.02\n", 0),
        (HIGH, LOW, "[metrics.politeness]\nmax_drop = 0.02\n", 1),
        (HIGH, HIGH, "[metrics.politenes]\nmin = 0.5\n", 2),
        (HIGH, HIGH, "[metrics.politeness]\nmin = 0.5\n[metrics.faithfulness]\nmin = 0.5\n", 5),
        (HIGH, MIDDLING, '[gate]\ninconclusive = "fail"\n[metrics.politeness]\nmin = 0.88\n', 8),
    ],
)
def test_score_files_of_another_evaluator_end_with_the_code_of_their_verdict(
    ragstone: Ragstone, tmp_path: Path, before: list[float], now: list[float], policy: str, code: int
) -> None:
    (tmp_path / "policy.toml").write_text(policy)
    sides = score_file(tmp_path / "a.csv", "politeness", before), score_file(tmp_path / "b.csv", "politeness", now)
    found, out, err = ragstone("compare", *sides, "--thresholds", "policy.toml")
    assert found == code, out + err


def test_empty_values_count_against_coverage(ragstone: Ragstone, tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text("[metrics.politeness]\nmin = 0.85\n")
    baseline = score_file(tmp_path / "a.csv", "politeness", HIGH)
    current = tmp_path / "b.csv"
    current.write_text((tmp_path / "a.csv").read_text() + "".join(f"lost{i},politeness,\n" for i in range(6)))
    code, out, err = ragstone("compare", baseline, "b.csv", "--thresholds", "policy.toml")
    assert code == 5, out + err
    assert "60 of 66" in out


def test_a_baseline_that_is_missing_or_of_another_golden_set_ends_with_6(ragstone: Ragstone, tmp_path: Path) -> None:
    current = score_file(tmp_path / "b.csv", "m", HIGH)
    assert ragstone("compare", "none.csv", current)[0] == 6
    (tmp_path / "other.csv").write_text("id,metric,value\nelse,m,1\n")
    code, out, _ = ragstone("compare", "other.csv", current)
    assert code == 6
    assert "a different golden set" in out


def test_a_current_run_that_is_missing_or_broken_ends_with_2(ragstone: Ragstone, tmp_path: Path) -> None:
    baseline = score_file(tmp_path / "a.csv", "m", HIGH)
    assert ragstone("compare", baseline, "none.csv")[0] == 2
    (tmp_path / "nan.csv").write_text("id,metric,value\nq,m,nan\n")
    code, _, err = ragstone("compare", baseline, "nan.csv")
    assert code == 2
    assert "nan.csv:2" in err


def test_the_python_api_reads_the_same_files(tmp_path: Path) -> None:
    for name, values in (("a.csv", HIGH), ("b.csv", LOW)):
        score_file(tmp_path / name, "politeness", values)
    (tmp_path / "policy.toml").write_text("[metrics.politeness]\nmax_drop = 0.02\n")
    verdict = ragstone_package.compare(tmp_path / "b.csv", tmp_path / "a.csv", tmp_path / "policy.toml")
    assert verdict.status == "fail"


def test_run_directories_are_compared_and_rendered(ragstone: Ragstone, tmp_path: Path, write_run: WriteRun) -> None:
    scores = {f"q{i}": value for i, value in enumerate(HIGH)}
    write_run(tmp_path / "before", {"faithfulness": scores})
    write_run(tmp_path / "after", {"faithfulness": {i: value - 0.3 for i, value in scores.items()}})
    (tmp_path / "thresholds.toml").write_text("[metrics.faithfulness]\nmax_drop = 0.02\n")
    code, out, _ = ragstone("compare", "before", "after", "--format", "json")
    assert code == 1
    assert json.loads(out)["status"] == "fail"
    assert "dropped by 0.30" in ragstone("compare", "before", "after", "--format", "md")[1]


def test_runs_of_different_judges_are_told_how_they_can_be_compared(
    ragstone: Ragstone, tmp_path: Path, write_run: WriteRun
) -> None:
    write_run(tmp_path / "then", {"faithfulness": {"q1": 1.0, "q2": 0.5}}, judge="openai")
    write_run(tmp_path / "now", {"faithfulness": {"q1": 1.0, "q2": 0.5}}, judge="offline")
    _, out, _ = ragstone("compare", "then", "now")
    said = " ".join(out.split())
    command = "ragstone rescore then --judge offline --out rescored"
    assert f"judge the answers of then again: {command}" in said
    assert ragstone(*command.split()[1:])[0] == 0
    assert ragstone("rescore", "now", "--judge", "offline", "--out", "again")[0] == 0
    assert "ragstone rescore" not in ragstone("compare", "rescored", "again")[1]
