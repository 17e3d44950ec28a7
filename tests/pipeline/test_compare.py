"""The decision alone, on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.project import words, write_rows
from tests.pipeline.conftest import Ragstone


def score_file(path: Path, metric: str, values: list[float]) -> str:
    path.write_text("id,metric,value\n" + "".join(f"q{i},{metric},{value}\n" for i, value in enumerate(values)))
    return path.name


HIGH, LOW, MIDDLING = [1.0, 0.9, 0.95, 1.0] * 15, [0.5, 0.3, 0.6, 0.4] * 15, [1.0, 0.8, 0.6, 1.0] * 15


@pytest.mark.parametrize(
    ("before", "now", "policy", "code"),
    [
        (None, HIGH, "[metrics.politeness]\nmin = 0.85\nmax_drop = 0.02\n", 0),
        (None, LOW, "[metrics.politeness]\nmin = 0.85\nmax_drop = 0.02\n", 1),
        (HIGH, LOW, "[metrics.politeness]\nmax_drop = 0.02\n", 1),
        (HIGH, HIGH, "[metrics.politenes]\nmin = 0.5\n", 2),
        (HIGH, HIGH, "[metrics.politeness]\nmin = 0.5\n[metrics.faithfulness]\nmin = 0.5\n", 5),
        (MIDDLING, MIDDLING, '[gate]\ninconclusive = "fail"\n[metrics.politeness]\nmin = 0.88\n', 8),
    ],
)
def test_score_files_of_another_evaluator_end_with_the_code_of_their_verdict(
    ragstone: Ragstone, tmp_path: Path, before: list[float] | None, now: list[float], policy: str, code: int
) -> None:
    (tmp_path / "policy.toml").write_text(policy)
    named = {"a.csv": before, "b.csv": now}
    sides = [score_file(tmp_path / name, "politeness", values) for name, values in named.items() if values is not None]
    found, out, err = ragstone("compare", *sides, "--thresholds", "policy.toml")
    assert found == code, out + err
    assert ("no drop was checked" in out) is (before is None)


def test_empty_values_count_against_coverage(ragstone: Ragstone, tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text("[metrics.politeness]\nmin = 0.85\n")
    baseline = score_file(tmp_path / "a.csv", "politeness", HIGH)
    lost = "".join(f"lost{i},politeness,\n" for i in range(9))
    (tmp_path / "b.csv").write_text((tmp_path / "a.csv").read_text() + lost)
    code, out, err = ragstone("compare", baseline, "b.csv", "--thresholds", "policy.toml")
    assert code == 5, out + err
    assert "60 of 69" in out


def wide(path: Path, **columns: object) -> str:
    rows = [f"What is {number}?,{','.join(map(str, columns.values()))}\n" for number in range(20)]
    path.write_text(f"question,{','.join(columns)}\n{''.join(rows)}", encoding="utf-8")
    return path.name


@pytest.mark.parametrize(
    ("columns", "says", "hint"),
    [
        ({"tone": 0.1}, "left out: tone", '[metrics."tone"]\n  min = 0.80'),
        ({"exact_match": 1}, "no rule covers any of its scores (exact_match)", '[metrics."exact_match"]'),
    ],
)
def test_scores_without_a_rule_are_no_verdict(
    ragstone: Ragstone, tmp_path: Path, columns: dict[str, object], says: str, hint: str
) -> None:
    code, out, err = ragstone("compare", wide(tmp_path / "now.csv", **columns))
    assert (code, out) == (2, "")
    assert says in err
    assert hint in err


def test_columns_of_numbers_that_no_rule_names_are_said(ragstone: Ragstone, tmp_path: Path) -> None:
    code, out, err = ragstone("compare", wide(tmp_path / "now.csv", faithfulness=0.9, grade=4, epoch=1), "--verbose")
    assert code == 0, out + err
    assert "Columns of numbers that no rule names are left out: grade." in words(out)
    (tmp_path / "policy.toml").write_text("[metrics.tone]\nmax_drop = 0.02\n")
    sides = wide(tmp_path / "then.csv", tone=0.9), wide(tmp_path / "now.csv", tone=0.2)
    assert ragstone("compare", *sides, "--thresholds", "policy.toml")[0] == 1


def test_a_bound_of_a_sample_is_a_rule(ragstone: Ragstone, tmp_path: Path) -> None:
    golden = ({"id": f"q{n}", "question": f"What is {n}?", "min": {"exact_match": 0.5}} for n in range(20))
    write_rows(tmp_path / "golden.jsonl", golden)
    code, out, err = ragstone("compare", wide(tmp_path / "now.csv", exact_match=0), "--golden", "golden.jsonl")
    assert code == 1, out + err


# -- formats and bad arguments -----------------------------------------------------------------------------------------


@pytest.fixture
def scored(tmp_path: Path) -> list[str]:
    """A baseline, a run that is as good, and one that is worse."""
    (tmp_path / "thresholds.toml").write_text("[metrics.politeness]\nmin = 0.85\nmax_drop = 0.02\n")
    names = (("main.csv", HIGH), ("same.csv", HIGH), ("bad.csv", LOW))
    return [score_file(tmp_path / name, "politeness", values) for name, values in names]


def test_a_report_goes_to_a_file_or_to_standard_output(ragstone: Ragstone, tmp_path: Path, scored: list[str]) -> None:
    arguments = ("compare", "main.csv", "bad.csv", "--format", "html")
    code, out, _ = ragstone(*arguments)
    assert code == 1
    assert "main.csv" in out
    assert ragstone(*arguments, "-o", "new/report") == (code, "", "")
    assert (tmp_path / "new" / "report").read_text(encoding="utf-8") == out


@pytest.mark.parametrize(
    ("runs", "code", "says"),
    [
        (["main.csv", "main.csv"], 6, "can't be compared with itself"),
        (["none.csv", "main.csv"], 6, "no such file"),
        (["other.csv", "main.csv"], 6, "a different golden set"),
        (["main.csv", "none.csv"], 2, "no such file"),
        (["main.csv", "words.csv"], 2, "words.csv:2"),
        (["main.csv", "same.csv", "bad.csv"], 2, "at most one BASELINE and one RUN"),
        ([], 2, "Missing argument"),
    ],
)
def test_what_can_not_be_compared_is_an_error(
    ragstone: Ragstone, tmp_path: Path, scored: list[str], runs: list[str], code: int, says: str
) -> None:
    (tmp_path / "other.csv").write_text("id,metric,value\nelse,politeness,1\n")
    (tmp_path / "words.csv").write_text("id,metric,value\nq,politeness,good\n")
    found, out, err = ragstone("compare", *runs)
    assert found == code
    assert says in words(out, err)
