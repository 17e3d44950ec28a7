"""What a newcomer meets: help, version, check, run, the report of the gate; and how little each command loads."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ragstone import __version__
from ragstone.cli.main import COMMANDS
from tests.cli.project import POLICY, make_project, ragstone
from tests.cli.terminal import in_window


def test_version_and_help(tmp_path: Path) -> None:
    assert ragstone(["--version"], tmp_path).stdout == f"ragstone {__version__}\n"
    shown = ragstone(["--help"], tmp_path).stdout
    for name in COMMANDS:
        assert name in shown
        assert "Usage: " in ragstone([name, "--help"], tmp_path, exit_code=0).stdout


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
    ragstone(["run"], project, env={"RAGSTONE_SYSTEM_ENV": "INDEX_API_KEY", "INDEX_API_KEY": secret}, exit_code=0)
    log = (project / "ragstone-run" / "system.log").read_text()
    assert "looking up What is the colour of house number 0?" in log
    assert secret not in log


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


def test_the_report_is_printed_in_the_named_format_and_nothing_else(tmp_path: Path) -> None:
    project = make_project(tmp_path, n=20)
    found = ragstone(["gate", "--format", "json"], project, exit_code=0)
    assert json.loads(found.stdout) == json.loads((project / "ragstone-run/report.json").read_text(encoding="utf-8"))
    found = ragstone(["gate", "--format", "md"], project)
    assert found.stdout == (project / "ragstone-run/report.md").read_text(encoding="utf-8")
    found = ragstone(["gate", "--format", "junit", "-o", "build/gate.xml"], project)
    assert found.stdout.startswith("✔ Passed, with nothing to compare with. ")
    assert (project / "build/gate.xml").read_text(encoding="utf-8").startswith("<?xml")
    assert "can't be written" in ragstone(["gate", "-o", "houses.py/gate.txt"], project, exit_code=2).stderr


@pytest.mark.heavy
def test_the_place_of_the_html_report_is_a_path_in_a_pipe_and_a_link_on_a_terminal(tmp_path: Path) -> None:
    project = make_project(tmp_path / "my project", n=20)
    page = project / "ragstone-run" / "report.html"
    piped = ragstone(["gate"], project)
    assert "HTML report: ragstone-run/report.html" in piped.stdout.splitlines()
    assert piped.stdout.splitlines()[-1].startswith("✔ Passed, with nothing to compare with. ")
    screen = in_window(["gate"], project, columns=80)
    assert "HTML report: ragstone-run/report.html\n" in screen.text
    assert f";{page.resolve().as_uri()}\x1b\\" in screen.raw
    assert "my%20project" in screen.raw


def test_a_job_on_github_takes_neither(tmp_path: Path) -> None:
    found = ragstone(["gate", "--github", "--format", "md"], make_project(tmp_path, n=2), exit_code=2)
    assert "can't be combined with --github" in found.stderr


HEAVY = ("scipy", "numpy", "jinja2", "github", "openai", "anthropic")


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    (tmp_path / "golden.jsonl").write_text('{"id": "a", "question": "How far is the Moon?", "reference": "Far off."}\n')
    (tmp_path / "out.jsonl").write_text('{"id": "a", "answer": "Far.", "contexts": ["The Moon is far."]}\n')
    return tmp_path


def loaded_by(project: Path, *words: str, heavy: tuple[str, ...] = HEAVY) -> list[str]:
    code = f"""
import sys
from ragstone.cli.main import main
try:
    main({list(words)!r})
except SystemExit as ended:
    print(ended.code, *(name for name in {heavy!r} if name in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=project, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1].split()


RUN = ("--golden", "golden.jsonl", "--entrypoint", "file:out.jsonl", "--metrics", "faithfulness,token_f1")


@pytest.mark.usefixtures("processes")
def test_a_command_loads_what_it_needs(recorded: Path) -> None:
    (recorded / "thresholds.toml").write_text("[metrics.token_f1]\nmin = 0.1\nmax_drop = 0.9\n")
    assert loaded_by(recorded, "--help", heavy=(*HEAVY, "pydantic", "rich")) == ["0"]
    assert loaded_by(recorded, "run", *RUN, "--out", "whole") == ["0"]
    assert loaded_by(recorded, "gate", *RUN, "--out", "first") == ["0", "numpy", "jinja2"]
    assert loaded_by(recorded, "gate", *RUN, "--out", "second", "--baseline", "first") == ["0", "numpy", "jinja2"]
