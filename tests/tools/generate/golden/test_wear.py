"""`ragstone golden wear`, the real command, after real runs in a git repository."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ragstone.history.file import read_history, write_history
from tests.commands.project import SYSTEM, make_project, ragstone
from tests.history.test_looks import look


def git(project: Path, *arguments: str) -> None:
    named = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    subprocess.run(["git", *named, *arguments], cwd=project, check=True, capture_output=True)


def run(project: Path, *arguments: str) -> str:
    found = ragstone(["run", "--metrics", "faithfulness", *arguments], project)
    assert found.returncode == 0, found.stderr
    return found.stdout


def wear(project: Path, *arguments: str) -> Any:
    found = ragstone(["golden", "wear", "--format", "json", *arguments], project)
    assert found.returncode == 0, found.stderr
    return json.loads(found.stdout)


def edit(project: Path, number: int) -> None:
    (project / "houses.py").write_text(SYSTEM.replace("painted", f"painted, by {number} people,"), encoding="utf-8")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    found = make_project(tmp_path / "project", n=8)
    (found / ".gitignore").write_text("ragstone-*/\n__pycache__/\n", encoding="utf-8")
    git(found, "init", "-q")
    git(found, "add", "-A")
    git(found, "commit", "-qm", "one")
    return found


def test_runs_are_looks_and_the_same_version_again_is_no_other_candidate(project: Path) -> None:
    assert wear(project) == {"looks": 0}
    run(project)
    run(project, "--out", "ragstone-other")
    found = wear(project)
    assert (found["looks"], found["candidates"], found["by"]) == (2, 1.0, {"local": 2.0})
    edit(project, 7)
    run(project)
    assert ragstone(["gate", "--out", "ragstone-gate"], project).returncode in (0, 1, 8)
    found = wear(project)
    assert (found["looks"], found["candidates"]) == (4, 2.0)
    assert (
        subprocess.run(["git", "status", "--porcelain"], cwd=project, capture_output=True).stdout == b" M houses.py\n"
    )
    git(project, "worktree", "add", "-q", str(project.parent / "tree"))
    assert wear(project.parent / "tree")["looks"] == 4
    assert "ragstone-looks.jsonl" in {path.name for path in (project / ".git").iterdir()}


def test_scoring_stored_answers_again_is_a_look_at_the_same_candidate(project: Path) -> None:
    run(project)
    assert ragstone(["rescore", "ragstone-run"], project).returncode == 0
    found = wear(project)
    assert (found["looks"], found["candidates"]) == (2, 1.0)


def test_with_a_history_the_gates_line_is_the_look_and_a_run_leaves_it_as_it_is(project: Path) -> None:
    with (project / "ragstone.toml").open("a", encoding="utf-8") as stream:
        stream.write('[run]\nhistory = "history.jsonl"\n')
    ragstone(["gate"], project)
    edit(project, 3)
    run(project)
    history = read_history(project / "history.jsonl")
    assert (len(history.runs), len(history.looks)) == (1, 0)
    found = wear(project)
    assert (found["by"], found["candidates"]) == ({"main": 1.0, "local": 1.0}, 2.0)
    assert found["metrics"][0]["n"] == 8


def test_new_questions_take_their_share_of_the_looks_away(project: Path) -> None:
    run(project)
    make_project(project, n=16)
    found = wear(project)
    assert (found["looks"], found["by"], found["candidates"]) == (0, {"local": 0.5}, 0.5)


def test_it_is_told_in_plain_words_on_80_columns_and_in_the_report(project: Path) -> None:
    run(project)
    file = project / ".git" / "ragstone-looks.jsonl"
    history = read_history(file)
    first = history.looks[0]
    fields = {"golden": first.golden, "samples": first.samples, "metrics": {"faithfulness": 0.5}}
    looks = [look(at, by={"local": 3.0}, **fields) for at in range(65)]
    write_history(file, history.with_looks(looks, {}))
    said = ragstone(["golden", "wear"], project).stdout
    assert said.startswith(
        "This golden set was seen 196 times since it was last refreshed, with\n66 different versions"
    )
    assert max(map(len, said.splitlines())) <= 80
    assert "ragstone generate" in said
    gate = ragstone(["gate", "--verbose", "--out", "ragstone-gate"], project)
    sentence = "The golden set was seen 196 times since it was last refreshed, with 66 versions of the system"
    assert sentence in " ".join(gate.stdout.split())
    for name in ("report.md", "report.html", "report.json"):
        assert sentence in (project / "ragstone-gate" / name).read_text(encoding="utf-8"), name
    comment = (project / "ragstone-gate" / "report.md").read_text(encoding="utf-8")
    assert "was seen" not in comment.partition("<details>")[0]


def test_outside_of_git_nothing_is_recorded(tmp_path: Path) -> None:
    project = make_project(tmp_path / "alone", n=4)
    run(project)
    assert wear(project) == {"looks": 0}


def test_a_look_that_can_t_be_recorded_ends_nothing(project: Path) -> None:
    (project / ".git" / "ragstone-looks.jsonl").mkdir()
    said = ragstone(["run", "--metrics", "faithfulness"], project)
    assert said.returncode == 0
    assert "This look at the golden set was not recorded" in said.stdout + said.stderr
