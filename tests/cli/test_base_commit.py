"""`ragstone gate --baseline-commit`: real git repositories, and both versions of the system asked in one job."""

from __future__ import annotations

import json
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.project import (
    BROKEN,
    LINES_OFF,
    ONE_DROP,
    SYSTEM,
    Completed,
    append,
    commit,
    git,
    make_project,
    ragstone,
    read_json,
    start,
    words,
)

# Without the lines below which any policy fails a metric: both versions of these systems answer badly.
POLICY = LINES_OFF + ONE_DROP


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = make_project(tmp_path_factory.mktemp("original") / "project", n=20, policy=POLICY)
    (path / ".gitignore").write_text("ragstone-run*\n", encoding="utf-8")
    git(path, "init", "--quiet", "--initial-branch", "main")
    commit(path, "base")
    return path


@pytest.fixture
def project(original: Path, tmp_path: Path) -> Path:
    """A repository with one commit, of a good system."""
    path = tmp_path / "project"
    shutil.copytree(original, path)
    return path


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    """Where the commands put their temporary files."""
    path = tmp_path / "temporary"
    path.mkdir()
    return path


def gate(path: Path, temporary: Path, *arguments: str, exit_code: int | None = None, **env: str) -> Completed:
    variables = {"TMPDIR": str(temporary), **env}
    return ragstone(["gate", "--verbose", *arguments], path, env=variables, exit_code=exit_code)


def manifest(folder: Path) -> Any:
    return read_json(folder / "manifest.json")


def nothing_left(project: Path, temporary: Path) -> bool:
    return not list(temporary.iterdir()) and len(git(project, "worktree", "list").splitlines()) == 1


def test_a_change_is_compared_with_the_commit_before_it_asked_in_the_same_job(project: Path, temporary: Path) -> None:
    base = git(project, "rev-parse", "HEAD")
    head = commit(project, system=BROKEN)
    found = gate(project, temporary, "--baseline-commit", "HEAD~1", exit_code=1)
    said = words(found.stdout)
    assert f"compared with commit {base[:12]}, asked in the same job on all 20 samples" in said
    run = project / "ragstone-run"
    assert manifest(run)["system"]["commit"] == head
    assert manifest(run)["baseline"]["used"]["commit"] == base
    assert manifest(run / "base-commit")["system"]["commit"] == base
    assert nothing_left(project, temporary)
    again = gate(project, temporary, "--baseline-commit", "main", "--out", "ragstone-run-2", exit_code=0)
    assert "any difference is noise" in words(again.stdout)


@pytest.mark.heavy
def test_the_golden_set_is_the_current_one_and_the_settings_are_the_commits_own(project: Path, temporary: Path) -> None:
    (project / "houses.py").rename(project / "cottages.py")
    config = (project / "ragstone.toml").read_text(encoding="utf-8")
    (project / "ragstone.toml").write_text(config.replace("houses", "cottages"), encoding="utf-8")
    line = {"id": "new", "question": "What is the colour of house number 77?", "reference": "It is painted blue."}
    append(project / "golden.jsonl", json.dumps(line) + "\n")
    commit(project)
    found = gate(project, temporary, "--baseline-commit", "HEAD~1", exit_code=0)
    assert manifest(project / "ragstone-run" / "base-commit")["system"]["entrypoint"] == "python:houses:answer"
    assert manifest(project / "ragstone-run")["system"]["entrypoint"] == "python:cottages:answer"
    assert "on all 21 samples" in found.stdout.replace("\n", " ")


@pytest.mark.heavy
def test_a_base_that_imports_the_current_code_is_refused(project: Path, temporary: Path, tmp_path: Path) -> None:
    """As with a package of a src folder that is installed in editable mode."""
    package = project / "src" / "lodge"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(SYSTEM, encoding="utf-8")
    commit(project, system="from lodge import answer\n")
    assert gate(project, temporary, "--baseline-commit", "HEAD", PYTHONPATH="src").returncode == 0
    link = tmp_path / "elsewhere"
    link.symlink_to(project / "src")
    for folder in (project / "src", link):
        found = gate(project, temporary, "--baseline-commit", "HEAD", PYTHONPATH=str(folder), exit_code=4)
        assert "imports 'lodge' from the current checkout" in found.stderr
        assert "name that run with --baseline" in found.stderr


def test_a_commit_that_does_not_start_is_named_and_nothing_is_written(project: Path, temporary: Path) -> None:
    bad = commit(project, system="import no_such_module\n")
    commit(project, system=SYSTEM)
    found = gate(project, temporary, "--baseline-commit", "HEAD~1", exit_code=4)
    assert f"the system at the base, commit {bad[:12]}" in found.stderr
    assert not (project / "ragstone-run").exists()
    assert nothing_left(project, temporary)


@pytest.mark.heavy
@pytest.mark.attack(
    by="pull request", tries="starve the base commit, so that it fails too", stopped_by="exit code 6 below `min_paired`"
)
def test_a_base_that_is_starved_blocks(project: Path, temporary: Path) -> None:
    failing = SYSTEM.replace(
        "    fact = ",
        '    if not question.endswith(("1?", "2?")): raise TimeoutError("no connection left")\n    fact = ',
    )
    commit(project, system=failing)
    commit(project, system=BROKEN)
    lenient = POLICY.replace("[gate]\n", '[gate]\ninconclusive = "pass"\n')
    (project / "thresholds.toml").write_text(lenient, encoding="utf-8")
    found = gate(project, temporary, "--baseline-commit", "HEAD~1", "--fail-on", "never")
    said = words(found.stdout, found.stderr)
    assert found.returncode == 6, said
    assert "Only 4 of 20 samples of the baseline can be compared (20 %, required 80 %)" in said
    assert "the baseline's system failed on 16" in said
    assert "ragstone accept" not in said


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--baseline-commit", "--upload-pack=x"], 6, "git knows no commit"),
        (["--baseline-commit", "HEAD", "--baseline", "ragstone-run"], 2, "two baselines"),
        (["--baseline-commit", "HEAD", "--entrypoint", "file:outputs.jsonl"], 2, "combined with recorded answers"),
    ],
)
def test_what_has_no_base_is_an_error(
    project: Path, temporary: Path, arguments: list[str], code: int, said: str
) -> None:
    assert said in gate(project, temporary, *arguments, exit_code=code).stderr
    assert nothing_left(project, temporary)


def test_outside_of_a_repository_it_says_so(tmp_path: Path, temporary: Path) -> None:
    plain = make_project(tmp_path / "plain", n=5)
    outside = {"GIT_CEILING_DIRECTORIES": str(tmp_path)}
    found = gate(plain, temporary, "--baseline-commit", "HEAD", exit_code=2, **outside)
    assert "is not in a git repository" in found.stderr


SLOW = SYSTEM.replace("def answer(question):", "def answer(question):\n    import time; time.sleep(0.5)")


@pytest.mark.usefixtures("processes")
def test_a_run_that_is_interrupted_leaves_no_worktree_and_both_are_resumed(project: Path, temporary: Path) -> None:
    commit(project, system=SLOW)
    process = start(["gate", "--baseline-commit", "HEAD"], project, env={"TMPDIR": str(temporary)})
    run = project / "ragstone-run"
    files = [run / "samples.jsonl", run / "base-commit" / "samples.jsonl"]
    deadline = time.monotonic() + 60
    while not all(file.is_file() and file.stat().st_size for file in files) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors.decode()
    assert nothing_left(project, temporary)
    assert manifest(run)["state"] == manifest(run / "base-commit")["state"] == "stopped"
    before = [file.read_text(encoding="utf-8").splitlines() for file in files]
    assert all(0 < len(lines) < 20 for lines in before)
    (project / "note.txt").write_text("a commit that changes nothing", encoding="utf-8")
    commit(project)
    other = gate(project, temporary, "--baseline-commit", "HEAD", "--resume", exit_code=2)
    assert "can't resume: the run was compared with commit" in other.stderr
    gate(project, temporary, "--baseline-commit", "HEAD~1", "--resume", exit_code=0)
    for file, lines in zip(files, before, strict=True):
        after = file.read_text(encoding="utf-8").splitlines()
        assert len(after) == 20
        assert set(lines) <= set(after)  # nothing was asked twice
