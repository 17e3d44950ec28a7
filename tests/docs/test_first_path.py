"""The first path: four pages that are enough for a first gate."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from ragstone._version import __version__
from ragstone.github.inputs import INPUTS
from ragstone.pipeline.init.entrypoints import Proposal
from ragstone.pipeline.init.survey import survey
from ragstone.pipeline.init.write import write_starter
from tests.cli.project import ragstone, write_rows
from tests.docs.page import ROOT, blocks, page

README = (ROOT / "README.md").read_text(encoding="utf-8")
PATH = [ROOT / place for place in re.findall(r"^\d\. \[[^\]]+\]\((docs/[\w-]+\.md)\)", README, re.MULTILINE)]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_every_page_is_in_the_index_of_the_readme() -> None:
    listed = set(re.findall(r"\]\((docs/[\w-]+\.md)\)", README.partition("## Documentation")[2]))
    assert {path.relative_to(ROOT).as_posix() for path in PAGES[1:]} <= listed


def started(folder: Path) -> list[str]:
    """What `init` writes."""
    return list(write_starter(folder, Proposal("python:rag:answer", "it was named"), survey(folder)).written)


def test_init_writes_what_the_quickstart_says(tmp_path: Path) -> None:
    quickstart, thresholds = page("quickstart"), page("your-thresholds")
    (tmp_path / ".git").mkdir()
    rows = re.findall(r"^\| `([^`]+)` \|", quickstart, re.MULTILINE)
    assert "This writes four files, overwrites nothing" in quickstart
    assert (sorted(started(tmp_path)), len(rows)) == (sorted(rows), 4)
    assert "it also adds `ragstone-run/` to `.gitignore`" in quickstart
    assert (tmp_path / ".gitignore").read_text(encoding="utf-8") == "ragstone-run/\n"
    assert started(tmp_path) == []
    assert "The `thresholds.toml` that `init` wrote names no metric" in thresholds
    assert "metrics" not in tomllib.loads((tmp_path / "thresholds.toml").read_text(encoding="utf-8"))


def workflow_of_init(folder: Path) -> Any:
    started(folder)
    return yaml.safe_load((folder / ".github" / "workflows" / "ragstone.yml").read_text(encoding="utf-8"))


def test_the_workflow_of_the_first_path_is_the_one_that_init_writes(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").touch()
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").touch()
    (tmp_path / ".venv" / "pyvenv.cfg").write_text("version = 3.12.4\n", encoding="utf-8")
    shown = [block for block in blocks(PATH[1].read_text(encoding="utf-8"), "yaml") if block.startswith("name:")]
    assert [yaml.safe_load(block) for block in shown] == [workflow_of_init(tmp_path)]


def test_the_workflow_of_the_readme_does_what_the_one_of_init_does(tmp_path: Path) -> None:
    [shown] = [block for block in blocks(README, "yaml") if block.startswith("name:")]
    readme, written = yaml.safe_load(shown), workflow_of_init(tmp_path)
    assert len(shown.splitlines()) <= 22
    job, its_job = readme["jobs"]["gate"], written["jobs"]["gate"]
    assert job["permissions"] == its_job["permissions"]
    assert readme[True]["push"] == written[True]["push"]
    [checkout, gate, upload] = job["steps"]
    [its_checkout, its_gate, its_upload] = its_job["steps"]
    assert (checkout, upload) == (its_checkout, its_upload)
    assert (gate["id"], gate["uses"]) == (its_gate["id"], its_gate["uses"])
    assert gate["with"].keys() <= {spec.name for spec in INPUTS}


def test_the_pages_name_the_action_by_the_version_of_the_package() -> None:
    # A release makes the tag of its version, and no other such as v1: .github/workflows/release.yml.
    image = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))["runs"]["image"]
    starter = ROOT / "src" / "ragstone" / "pipeline" / "init" / "starter" / "workflow.yml.j2"
    texts = [path.read_text(encoding="utf-8") for path in (*PAGES, starter)]
    named = {version for text in texts for version in re.findall(r"ragstone/ragstone@(v[\w.]*\w)", text)}
    assert named == {f"v{__version__}"}
    assert image == "Dockerfile" or image.startswith("docker://")


# -- its commands ------------------------------------------------------------------------------------------------------

SET_UP = ("git clone https://github.com/ragstone/ragstone", "cd your-repository", "pip install ../ragstone")
"""What the test environment has done already."""

SYSTEM = """
FACTS = {facts}
ANSWERS = {answers}

def answer(question):
    for name in FACTS:
        if name in question:
            return {{"answer": ANSWERS[name], "contexts": [{{"id": name, "text": FACTS[name]}}]}}
    return {{"answer": "", "contexts": []}}
"""
FACTS = {
    f"Harbour {number:02}": f"Harbour {number:02} was opened in {1800 + number} by the town." for number in range(30)
}


def write_system(project: Path, answers: dict[str, str]) -> None:
    text = SYSTEM.format(facts=FACTS, answers=answers)
    (project / "my_package" / "rag.py").write_text(text, encoding="utf-8")


def connect(project: Path) -> None:
    """Do what the quickstart tells: name a function, and write questions."""
    (project / "my_package").mkdir()
    write_system(project, FACTS)
    rows = ({"question": f"When was {name} opened?", "reference": fact} for name, fact in FACTS.items())
    write_rows(project / "golden" / "golden.jsonl", rows)


def lose(project: Path) -> None:
    """Invent a third of the answers, and compare them with the baseline."""
    invented = {name: f"{name} burnt down in {1900 + number}." for number, name in enumerate(list(FACTS)[::3])}
    write_system(project, FACTS | invented)
    ragstone(["gate", "--baseline", "baseline"], project, exit_code=1)


BEFORE: dict[str, Callable[[Path], None]] = {"ragstone check": connect, "ragstone accept": lose}
"""What a reader has done before a command, by the start of the command."""


def test_each_command_of_the_first_path_does_what_it_says(tmp_path: Path) -> None:
    printed = "".join(block for path in PATH for block in blocks(path.read_text(encoding="utf-8"), "console"))
    commands = [line.removeprefix("$ ") for line in printed.splitlines()]
    assert tuple(commands[: len(SET_UP)]) == SET_UP
    for command in commands[len(SET_UP) :]:
        for start, prepare in BEFORE.items():
            if command.startswith(start):
                prepare(tmp_path)
        name, *arguments = shlex.split(command)
        assert name == "ragstone", command
        ragstone(arguments, tmp_path, exit_code=0)
    assert (tmp_path / "report.html").is_file()
    assert "faithfulness" in (tmp_path / "accepted.toml").read_text(encoding="utf-8")
