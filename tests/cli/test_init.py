"""`ragstone init` as a new user meets it: in folders as people have them, with the commands run that it prints."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.project import git, ragstone, words
from tests.cli.terminal import on_terminal

RAG = """
import json

def answer(question):
    samples = [json.loads(line) for line in open("golden/golden.jsonl")]
    facts = [sample["reference"] for sample in samples if "reference" in sample]
    known = [sample.get("reference") for sample in samples if sample["question"] == question]
    return {"answer": known[0] or "I don't know.", "contexts": [known[0] or facts[0], *facts[:2]]}
"""
# A system that knows all answers of the starter golden set.


def folder(path: Path, files: Mapping[str, str] | None = None, *, in_git: bool = False) -> Path:
    """A folder with these files, as a git repository if it is one."""
    path.mkdir(parents=True, exist_ok=True)
    if in_git:
        git(path, "init", "-q")
    for name, text in (files or {}).items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text, encoding="utf-8")
    return path


def init(path: Path, *arguments: str) -> str:
    return ragstone(["init", *arguments], path, exit_code=0).stdout


def files_of(path: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}


def config(path: Path) -> dict[str, dict[str, object]]:
    return tomllib.loads((path / "ragstone.toml").read_text(encoding="utf-8"))


def workflow(root: Path, name: str = "ragstone.yml") -> Any:
    return yaml.safe_load((root / ".github" / "workflows" / name).read_text(encoding="utf-8"))


def inputs(root: Path, name: str = "ragstone.yml") -> Any:
    """The inputs of the action in a workflow."""
    return workflow(root, name)["jobs"]["gate"]["steps"][1]["with"]


@pytest.mark.usefixtures("processes")
def test_a_new_user_runs_what_is_printed_as_it_is_printed(tmp_path: Path) -> None:
    shop = folder(tmp_path / "shop", {"rag.py": RAG}, in_git=True)
    screen = on_terminal(["init"], shop, columns=80, answers="\n")  # takes the proposal
    assert screen.code == 0, screen.text
    assert max(len(line) for line in screen.lines if " " in line) <= 80
    assert "answer in rag.py" in words(screen.text)
    printed = re.findall(r"^  (ragstone \w+)", screen.text, re.MULTILINE)
    assert printed == ["ragstone check", "ragstone gate"]
    for line in printed:
        done = ragstone(line.split()[1:], shop, exit_code=0)
        assert "too small to detect" not in done.stdout
    assert "ragstone-run" not in git(shop, "status", "--short")


@pytest.mark.usefixtures("processes")
def test_the_prompt_takes_another_entrypoint(tmp_path: Path) -> None:
    folder(tmp_path, {"rag.py": RAG})
    screen = on_terminal(["init"], tmp_path, columns=80, answers="command:./rag --json\n")
    assert screen.code == 0, screen.text
    assert config(tmp_path)["system"]["entrypoint"] == "command:./rag --json"


@pytest.mark.usefixtures("processes")
def test_a_folder_named_on_the_command_line_is_where_the_printed_commands_run(tmp_path: Path) -> None:
    folder(tmp_path / "my shop", {"rag.py": RAG})
    shown = init(tmp_path, "my shop")
    assert f"In {tmp_path / 'my shop'}:" in shown
    script = "\n".join(re.findall(r"^  (cd .*|ragstone check)", shown, re.MULTILINE))
    assert script.startswith("cd 'my shop'")
    shell = f'ragstone() {{ "{sys.executable}" -m ragstone "$@"; }}\n{script}'
    subprocess.run(["sh", "-ec", shell], cwd=tmp_path, capture_output=True, check=True)


FOUND: dict[str, tuple[dict[str, str], str]] = {
    "a system called as in the docs": ({"my_package/rag.py": RAG}, "found  entrypoint python:my_package.rag:answer"),
    "nothing": ({"notes.py": "def total(prices): ...\n"}, "found  no entrypoint: nothing in the source takes"),
    "no golden set": ({}, "found  no golden set: no file with a name such as golden, eval or qa"),
    "a golden set": ({"eval/qa.csv": "query,ground_truth\nWhy?,So.\n"}, "found  golden set eval/qa.csv: 1 sample"),
    "columns": ({"qa.csv": "query,ground_truth\nWhy?,So.\n"}, "question from 'query', reference from 'ground_truth'"),
    "services": (
        {"services/search/Dockerfile": "", "services/billing/Dockerfile": ""},
        "found  2 services: services/billing, services/search; run `ragstone init FOLDER`",
    ),
    "a key": (
        {"rag.py": f"import os\nkey = os.environ['SHOP_API_KEY']\n{RAG}"},
        "add SHOP_API_KEY to the secrets of the repository",
    ),
    "the agreement with people": ({}, "judge  offline, "),
}


@pytest.mark.parametrize("case", FOUND)
def test_what_is_found_is_said(tmp_path: Path, case: str) -> None:
    files, says = FOUND[case]
    assert says in init(folder(tmp_path, files))


@pytest.mark.parametrize("judge", ["offline", "openai:gpt-5.4-mini"])
def test_plan_gives_numbers_that_can_be_reached_under_the_policy_of_init(tmp_path: Path, judge: str) -> None:
    init(tmp_path)
    done = ragstone(["plan"], tmp_path, env={"RAGSTONE_JUDGE": judge}, exit_code=0)
    assert "no number of samples" not in done.stdout
    detected = re.search(r"the current 20 samples detect a drop of (0\.\d+)", done.stdout)
    assert detected is not None
    assert 0.1 <= float(detected[1]) <= 0.25


@pytest.mark.parametrize("line", ["ragstone-run/", "/ragstone-run", "**/ragstone-run/"])
def test_gitignore_gets_the_line_once(tmp_path: Path, line: str) -> None:
    repo = folder(tmp_path, in_git=True)
    (repo / ".gitignore").write_bytes(b"*.pyc\r\nbuild")
    assert "added  ragstone-run/ to .gitignore" in init(repo)
    assert (repo / ".gitignore").read_bytes() == b"*.pyc\r\nbuild\nragstone-run/\n"
    (repo / ".gitignore").write_text(f"{line}\n")
    assert "added" not in init(repo)
    assert (repo / ".gitignore").read_text() == f"{line}\n"


def test_gitignore_is_not_made_outside_git_nor_written_through_a_link(tmp_path: Path) -> None:
    init(folder(tmp_path / "plain"))
    assert not (tmp_path / "plain" / ".gitignore").exists()
    repo = folder(tmp_path / "repo", in_git=True)
    (tmp_path / "theirs").write_text("x\n")
    (repo / ".gitignore").symlink_to(tmp_path / "theirs")
    done = ragstone(["init"], repo, exit_code=2)
    assert "it is a link, and nothing is written through links" in done.stderr
    assert (tmp_path / "theirs").read_text() == "x\n"


def test_each_service_of_a_repository_gets_a_workflow_of_its_own(tmp_path: Path) -> None:
    repo = folder(tmp_path, {".gitignore": "/ragstone-run/\n"}, in_git=True)  # the root's own, not the subfolder's
    assert "wrote  ../../.github/workflows/ragstone.yml" in init(repo, "services/search")
    assert inputs(repo) == {"config": "services/search/ragstone.toml"}
    assert (repo / "services/search/.gitignore").read_text() == "ragstone-run/\n"
    for service in ("eu/rag", "us/rag"):
        name = f"ragstone-{service.replace('/', '-')}.yml"
        assert f"wrote  ../../.github/workflows/{name}" in init(repo, service)
        assert inputs(repo, name) == {"config": f"{service}/ragstone.toml", "comment-id": service.replace("/", "-")}
        assert workflow(repo, name)["name"] == f"RAG quality of {service.replace('/', '-')}"
        # On main it always runs: its runs there are the baseline.
        events = workflow(repo, name)[True]
        assert events["pull_request"]["paths"] == [f"{service}/**", f".github/workflows/{name}"]
        assert "paths" not in events["push"]
    before = files_of(repo)
    for service in ("services/search", "eu/rag", "us/rag"):
        assert "wrote" not in init(repo, service)
    assert files_of(repo) == before


def test_the_workflow_installs_what_the_system_needs_for_the_python_of_its_environment(tmp_path: Path) -> None:
    files = {".venv/bin/python": "", ".venv/pyvenv.cfg": "home = /usr/bin\nversion = 3.12.4\n", "rag.py": RAG}
    repo = folder(tmp_path, {"pyproject.toml": "[tool.ruff]\n"}, in_git=True)
    service = folder(repo / "services" / "rag", files)
    init(repo, "services/rag")
    # Without a requested environment, the container would look for .venv/bin/python, which is not in the checkout.
    assert config(service)["system"]["python"] == ".venv/bin/python"
    assert inputs(repo) == {"config": "services/rag/ragstone.toml", "python-version": "3.12"}
    for name, text in (("pyproject.toml", "[project]\n"), ("requirements.txt", ""), ("services/rag/pylock.toml", "")):
        (repo / name).write_text(text)
        (repo / ".github/workflows/ragstone.yml").unlink()
        init(repo, "services/rag")
        assert inputs(repo)["requirements"] == name


def test_the_workflow_shows_a_path_filter_that_works_when_it_is_uncommented(tmp_path: Path) -> None:
    init(tmp_path)
    text = (tmp_path / ".github" / "workflows" / "ragstone.yml").read_text()
    assert yaml.safe_load(text)[True]["pull_request"] == {"branches": ["main"]}
    assert "required check" in text
    filtered = yaml.safe_load(text.replace("# paths:", "paths:"))[True]["pull_request"]["paths"]
    assert {"golden/**", ".github/workflows/ragstone.yml"} <= set(filtered)


def test_names_in_the_folder_can_write_no_settings_and_no_control_sequences(tmp_path: Path) -> None:
    table = "question,reference\nWhy?,So.\n"
    source = {'x"]\n[judge]\nname = "y.py': "def answer(question): ...\n"}
    folder(tmp_path, {**source, "golden\x1b[31m.csv": table, 'qa"].csv': table})
    assert "\x1b" not in init(tmp_path)
    written = config(tmp_path)
    assert written["judge"]["name"] == "offline"
    assert written["golden"]["paths"] == ['qa"].csv']
    assert written["system"]["entrypoint"] == "python:my_package.rag:answer"


def test_a_second_init_keeps_all_and_says_what_is_left_to_do(tmp_path: Path) -> None:
    folder(tmp_path, {".github/workflows/ragstone.yml": "on: push\njobs: {}\n", "thresholds.toml": "# mine\n"})
    assert "kept   thresholds.toml" in init(tmp_path, "--entrypoint", "python:houses:answer")
    before = files_of(tmp_path)
    folder(tmp_path, {"rag.py": RAG})
    shown = init(tmp_path)
    assert 'set entrypoint = "python:rag:answer" under [system]' in shown
    assert "replace the questions in golden/golden.jsonl" in shown
    assert before.items() <= files_of(tmp_path).items()


@pytest.mark.heavy
def test_after_a_first_run_init_writes_floors_that_the_system_clears(tmp_path: Path) -> None:
    folder(tmp_path, {"rag.py": RAG})
    init(tmp_path)
    policy = tmp_path / "thresholds.toml"
    assert "metrics" not in tomllib.loads(policy.read_text())
    assert "floors" not in init(tmp_path), "there is no run yet"
    ragstone(["gate"], tmp_path)
    shown = init(tmp_path)
    assert "floors thresholds.toml, from the run in ragstone-run" in shown
    rules = tomllib.loads(policy.read_text())["metrics"]
    assert rules
    for metric, rule in rules.items():
        assert f"{metric} {rule['min']:.2f} (measured" in shown
    assert "below the floor" not in ragstone(["gate", "--verbose"], tmp_path).stdout
    text = policy.read_text() + "# mine\n"
    policy.write_text(text)
    assert "floors" not in init(tmp_path), "what was written stays"
    assert policy.read_text() == text
