"""A checkout may contain links: nothing is written through one, and none is taken for a file that is missing."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.project import command, environment, make_project, ragstone

COMMANDS = {
    "report": ["report", "ragstone-run", "--format", "md", "-o", "link"],
    "compare": ["compare", "ragstone-run", "--format", "json", "-o", "link"],
    "gate": ["gate", "--out", "again", "--format", "json", "-o", "link"],
    "history": ["history", "--history", "ragstone-run/history.jsonl", "-o", "link"],
    "golden": ["golden", "golden.jsonl", "-o", "link"],
    "golden, forced": ["golden", "golden.jsonl", "-o", "link", "--force"],
    "perturb": ["generate", "--perturb", "typos", "-o", "link"],
    "label": ["label", "ragstone-run", "-o", "link"],
    "review": ["review", "golden.jsonl", "-o", "link"],
    "calibrate": ["calibrate", "labels.jsonl", "--run", "ragstone-run", "-o", "link"],
    "monitor": ["monitor", "log.jsonl", "--history", "link"],
    "monitor, drafts": ["monitor", "log.jsonl", "--drafts", "link"],
}
LINKS: dict[str, Callable[[Path], Path]] = {
    "a file": lambda secret: secret,
    "nothing": lambda secret: secret.with_name("authorized_keys"),
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = make_project(tmp_path_factory.mktemp("linked") / "repo", n=6)
    ragstone(["gate"], root, exit_code=0)
    ragstone(["history", "add", "ragstone-run", "--history", "ragstone-run/history.jsonl"], root, exit_code=0)
    labels = "".join(f'{{"id": "house-{n}", "faithfulness": {n % 2}}}\n' for n in range(6))
    (root / "labels.jsonl").write_text(labels, encoding="utf-8")
    (root / "log.jsonl").write_text("", encoding="utf-8")
    (root.parent / "theirs").mkdir()
    return root


@pytest.fixture
def secret(project: Path) -> Path:
    file = project.parent / "theirs" / "secret"
    file.write_text("theirs\n", encoding="utf-8")
    return file


@pytest.mark.attack(by="other CI", tries="a link where a command writes", stopped_by="refused")
@pytest.mark.parametrize("target", LINKS)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_link_in_place_of_an_output_is_refused(project: Path, secret: Path, name: str, target: str) -> None:
    link = project / "link"
    link.symlink_to(LINKS[target](secret))
    try:
        done = ragstone(COMMANDS[name], project)
        assert link.is_symlink()
    finally:
        link.unlink()
    assert (done.returncode, "it is a link" in done.stderr) == (2, True), done.stderr
    assert [path.name for path in secret.parent.iterdir()] == ["secret"]
    assert secret.read_text(encoding="utf-8") == "theirs\n"


@pytest.mark.parametrize(
    ("link", "target"),
    [
        ("golden", ""),
        (".github", ""),
        (".github/workflows", ""),
        (".github/workflows", "none"),
        ("ragstone.toml", "none"),
        ("golden/golden.jsonl", "none"),
        ("thresholds.toml", "none"),
    ],
)
def test_init_writes_nothing_where_a_link_leads_out(tmp_path: Path, link: str, target: str) -> None:
    theirs, repo = tmp_path / "theirs", tmp_path / "repo"
    theirs.mkdir()
    (repo / ".git").mkdir(parents=True)
    (repo / link).parent.mkdir(parents=True, exist_ok=True)
    (repo / link).symlink_to(theirs / target)
    before = sorted(repo.rglob("*"))
    done = ragstone(["init"], repo, exit_code=2)
    assert "it is a link" in done.stderr
    assert list(theirs.iterdir()) == []
    assert sorted(repo.rglob("*")) == before


@pytest.mark.usefixtures("processes")
def test_standard_output_may_be_named_by_its_device(project: Path) -> None:
    words = command("report", "ragstone-run", "--format", "md", "-o", "/dev/stdout")
    done = subprocess.run(words, cwd=project, env=environment(), capture_output=True, text=True, check=True)
    assert "ragstone" in done.stdout.lower()
