"""Work on a few questions: chosen by id, by tag, or because they failed."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragstone.evaluation.directory import read_manifest
from tests.cli.project import ragstone, read_json, read_rows, write_rows

APP = """
def answer(question):
    if "broken" in question:
        raise KeyError(question)
    return {"answer": "It is so.", "contexts": ["It is so."]}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    rows = [
        {"id": f"q{n}", "question": f"What is {'broken' if n < 2 else n}{n}?", "reference": "It is so.", "tags": [tag]}
        for n, tag in enumerate(["old", "old", "new", "new", "new", "new"])
    ]
    write_rows(tmp_path / "golden.jsonl", rows)
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    (tmp_path / "ragstone.toml").write_text(
        '[golden]\npaths = ["golden.jsonl"]\n[system]\nentrypoint = "app:answer"\n', encoding="utf-8"
    )
    return tmp_path


def asked(run: Path) -> list[str]:
    return sorted(row["sample"]["id"] for row in read_rows(run / "samples.jsonl"))


@pytest.mark.parametrize(
    ("choice", "ids"),
    [
        (["--only", "q2"], ["q2"]),
        (["--only", "q4, q2"], ["q2", "q4"]),
        (["--tag", "old"], ["q0", "q1"]),
        (["--only", "q5", "--tag", "old"], ["q0", "q1", "q5"]),
    ],
)
def test_only_what_is_chosen_is_asked_and_is_never_a_baseline(project: Path, choice: list[str], ids: list[str]) -> None:
    ragstone(["run", *choice], project)
    run = project / "ragstone-run"
    assert asked(run) == ids
    assert not read_manifest(run).standing.eligible
    refused = ragstone(["gate", "--baseline", "ragstone-run", "--out", "next"], project, exit_code=6)
    assert "it asked only the questions that were chosen" in refused.stderr


def test_those_that_failed_are_asked_again(project: Path) -> None:
    ragstone(["gate"], project)
    (project / "app.py").write_text(APP.replace("if", "if False and"), encoding="utf-8")
    again = ragstone(["gate", "--failed", "ragstone-run", "--out", "again"], project)
    assert asked(project / "again") == ["q0", "q1"]
    manifest = read_manifest(project / "again")
    assert not manifest.standing.eligible
    assert manifest.invocation is not None
    assert "--only=q0,q1" in manifest.invocation.flags
    nothing = ragstone(["run", "--failed", "again"], project)
    assert (nothing.returncode == 2) is ("✘" not in again.stdout)


def test_a_sample_below_a_floor_that_did_not_hold_failed(project: Path) -> None:
    (project / "thresholds.toml").write_text("[metrics.exact_match]\nmin = 0.9\n", encoding="utf-8")
    text = APP.replace(
        '    return {"answer": "It is so."', '    return {"answer": "No." if "4" in question else "It is so."'
    )
    (project / "app.py").write_text(text.replace("broken", "nothing"), encoding="utf-8")
    ragstone(["gate"], project)
    ragstone(["run", "--failed", "ragstone-run", "--out", "again"], project)
    assert "q4" in asked(project / "again")
    assert "q5" not in asked(project / "again")


def test_what_is_below_a_floor_and_was_so_before_failed_too(project: Path) -> None:
    policy = "[gate]\nonly_named = true\n[metrics.exact_match]\naction = 'block'\nmin = "
    app = """
def answer(question):
    text = f"{question[8:-1]} is quite so."
    return {"answer": text, "contexts": [text]}
"""
    (project / "app.py").write_text(app, encoding="utf-8")
    (project / "thresholds.toml").write_text(policy + "0.0\n", encoding="utf-8")
    ragstone(["gate", "--out", "before"], project, exit_code=0)
    (project / "thresholds.toml").write_text(policy + "0.9\n", encoding="utf-8")
    ragstone(["gate", "--baseline", "before"], project)
    assert read_json(project / "ragstone-run" / "report.json")["samples"]["worst"] == []
    ragstone(["run", "--failed", "ragstone-run", "--out", "again"], project)
    assert asked(project / "again") == [f"q{number}" for number in range(6)]


@pytest.mark.parametrize(
    ("choice", "says"),
    [
        (["--only", "q22"], "Did you mean 'q2'?"),
        (["--tag", "odl"], "Did you mean 'old'?"),
        (["--failed", "none"], "none"),
    ],
)
def test_what_is_not_there_is_an_error(project: Path, choice: list[str], says: str) -> None:
    found = ragstone(["gate", *choice], project, exit_code=2)
    assert says in found.stderr


def test_a_choice_is_no_setting_of_a_file(project: Path) -> None:
    (project / "ragstone.toml").write_text('[golden]\npaths = ["golden.jsonl"]\nonly = ["q2"]\n', encoding="utf-8")
    found = ragstone(["check"], project, exit_code=2)
    assert "'golden.only' must not be set in a file" in found.stderr


def test_one_sample_is_shown_in_full(project: Path) -> None:
    ragstone(["gate"], project)
    shown = ragstone(["report", "ragstone-run", "--sample", "q3"], project, exit_code=0).stdout
    for text in ("q3 (golden.jsonl:4)", "Question: What is 33?", "Reference: It is so.", "Context 1: It is so."):
        assert text in shown
    assert "Faithfulness: " in shown
    failed = ragstone(["report", "ragstone-run", "--sample", "q0"], project, exit_code=0).stdout
    assert "raise KeyError(question)" in failed
    assert failed.count("KeyError: ") == 2
    missing = ragstone(["report", "ragstone-run", "--sample", "q33"], project, exit_code=2)
    assert "Did you mean 'q3'?" in missing.stderr
