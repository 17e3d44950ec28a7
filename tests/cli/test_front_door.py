"""What a newcomer meets: help, version, init, check, run."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from ragstone import __version__
from ragstone.cli.main import COMMANDS
from tests.cli.project import POLICY, make_project, ragstone


def test_version_and_help(tmp_path: Path) -> None:
    assert ragstone(["--version"], tmp_path).stdout == f"ragstone {__version__}\n"
    shown = ragstone(["--help"], tmp_path).stdout
    for name in COMMANDS:
        assert name in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(tmp_path: Path, name: str) -> None:
    done = ragstone([name, "--help"], tmp_path, exit_code=0)
    assert "Usage: " in done.stdout


@pytest.mark.usefixtures("processes")
def test_help_imports_nothing_heavy(tmp_path: Path) -> None:
    code = (
        "import sys, ragstone.cli.main\n"
        "try: ragstone.cli.main.main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'scipy', 'openai', 'anthropic', 'pydantic', 'jinja2', 'github', 'rich'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_init_writes_files_that_load_and_overwrites_nothing(tmp_path: Path) -> None:
    (tmp_path / "thresholds.toml").write_text("# mine\n")
    done = ragstone(["init", "--entrypoint", "python:houses:answer"], tmp_path, exit_code=0)
    assert (tmp_path / "thresholds.toml").read_text() == "# mine\n"
    assert "kept   thresholds.toml" in done.stdout
    assert tomllib.loads((tmp_path / "ragstone.toml").read_text())["system"]["entrypoint"] == "python:houses:answer"
    assert len((tmp_path / "golden" / "golden.jsonl").read_text().splitlines()) >= 20
    assert (tmp_path / ".github" / "workflows" / "ragstone.yml").is_file()


def test_check_asks_one_question_and_writes_nothing(tmp_path: Path) -> None:
    counting = (
        "def answer(question):\n"
        "    open('asked.log', 'a').write('x')\n"
        "    return {'answer': 'Red.', 'contexts': ['Red.']}\n"
    )
    project = make_project(tmp_path / "repo", system=counting)
    before = {path.name for path in project.iterdir()} | {"asked.log", "__pycache__"}
    ragstone(["check"], project, exit_code=0)
    assert (project / "asked.log").read_text() == "x"
    assert {path.name for path in project.iterdir()} <= before


def test_what_the_system_prints_is_kept_in_the_run_directory_without_secrets(tmp_path: Path) -> None:
    chatty = (
        "import os\n"
        "def answer(question):\n"
        "    print('looking up', question, os.environ['INDEX_API_KEY'])\n"
        "    return {'answer': 'Red.', 'contexts': ['Red.']}\n"
    )
    project = make_project(tmp_path / "repo", n=3, system=chatty)
    secret = "key-of-the-index-4711"
    done = ragstone(["run"], project, env={"RAGSTONE_SYSTEM_ENV": "INDEX_API_KEY", "INDEX_API_KEY": secret})
    assert done.returncode == 0, done.stderr
    log = (project / "ragstone-run" / "system.log").read_text()
    assert "looking up What is the colour of house number 0?" in log
    assert secret not in log


def test_a_folder_that_holds_no_run_is_left_as_it_is(tmp_path: Path) -> None:
    make_project(tmp_path / "repo", n=3, system="print('loud')\ndef answer(q):\n    return q\n")
    (tmp_path / "repo" / "mine").mkdir()
    (tmp_path / "repo" / "mine" / "notes.txt").write_text("mine")
    done = ragstone(["run", "--out", "mine"], tmp_path / "repo", exit_code=2)
    assert "does not contain a run" in done.stderr
    assert [path.name for path in (tmp_path / "repo" / "mine").iterdir()] == ["notes.txt"]


def test_reports_and_the_log_replace_links_in_the_run_directory(tmp_path: Path) -> None:
    repo = make_project(tmp_path / "repo", n=3, system="print('loud')\ndef answer(q):\n    return q, []\n")
    assert ragstone(["gate"], repo).returncode in (0, 1)
    victim = tmp_path / "victim"
    victim.write_text("mine")
    for name in ("report.md", "report.html", "report.json", "junit.xml", "system.log"):
        (repo / "ragstone-run" / name).unlink()
        (repo / "ragstone-run" / name).symlink_to(victim)
    assert ragstone(["gate"], repo).returncode in (0, 1)
    assert victim.read_text() == "mine"


@pytest.mark.parametrize(("budget", "says"), [("0.0001", True), ("100", False)])
def test_check_says_when_its_own_estimate_is_above_the_budget(tmp_path: Path, budget: str, says: bool) -> None:
    project = make_project(tmp_path)
    variables = {"RAGSTONE_MAX_COST_USD": budget, "OPENAI_API_KEY": "k-123456789"}
    done = ragstone(["check", "--judge", "openai:gpt-5.4-mini"], project, env=variables, exit_code=0)
    assert ("is less than that" in done.stdout) is says


def test_check_says_what_confirming_may_cost(tmp_path: Path) -> None:
    project = make_project(tmp_path, policy=POLICY.replace("[gate]", "[gate]\nconfirm = true"))
    judge = ["--judge", "openai:gpt-5.4-mini"]
    done = ragstone(["check", *judge], project, env={"OPENAI_API_KEY": "k-123456789"}, exit_code=0)
    assert "asked up to 5 more times" in " ".join(done.stdout.split())


@pytest.mark.usefixtures("processes")
def test_a_bug_shows_its_traceback_in_which_no_text_acts(tmp_path: Path) -> None:
    code = (
        "import ragstone.pipeline.history as used\n"
        "from ragstone.cli.main import main\n"
        "used.damage = lambda _: (_ for _ in ()).throw(ValueError('an answer\\n::error::forged \\x1b[2J'))\n"
        "main(['history'])\n"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert shown.returncode == 70
    assert "Traceback (most recent call last)" in shown.stderr
    assert "ValueError: an answer" in shown.stderr
    assert "forged" in shown.stderr
    assert "\x1b" not in shown.stderr
    assert not any(line.startswith("::") for line in shown.stderr.splitlines())
