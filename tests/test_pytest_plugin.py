"""The pytest plugin, used by projects with a system of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.project import BROKEN, append, make_project

pytestmark = pytest.mark.usefixtures("processes")

POLICY = "[metrics.faithfulness]\nmin = 0.5\nmax_drop = 0.05\n"
GATE = """
from ragstone.pytest_plugin import assert_gate

def test_the_gate(ragstone_run):
    assert_gate(ragstone_run)
"""
TESTS = (
    GATE
    + """
def test_the_answers(ragstone_run):
    answers = {record.sample.id: record.response.answer for record in ragstone_run.directory.records()}
    assert len(answers) == 6
    assert answers["house-0"].endswith("red.")
"""
)
KEY = "sk-proj-1234567890abcdefghij"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\n", encoding="utf-8")
    return make_project(tmp_path, n=6, policy=POLICY)


def run(project: Path, tests: str = TESTS) -> subprocess.CompletedProcess[str]:
    (project / "test_rag.py").write_text(tests, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "test_rag.py"]
    env = {**os.environ, "COLUMNS": "120"}
    return subprocess.run(command, cwd=project, env=env, capture_output=True, text=True, timeout=300, check=False)


def test_a_healthy_system_passes_and_is_asked_once(project: Path) -> None:
    append(project / "houses.py", "\nopen('started', 'a').write('x')\n")
    done = run(project)
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout
    assert (project / "started").read_text() == "x"
    assert (project / "ragstone-run" / "report.html").is_file()


def test_a_gate_that_fails_fails_its_test_with_the_report(project: Path) -> None:
    (project / "houses.py").write_text(BROKEN, encoding="utf-8")
    done = run(project)
    assert done.returncode == 1
    assert "2 failed" in done.stdout
    assert "below floor" in done.stdout
    assert "ragstone/pytest_plugin.py" not in done.stdout
    assert "assert False" in done.stdout  # a test of the answers fails by its own assertion


def test_an_inconclusive_verdict_fails_if_the_policy_says_so(project: Path) -> None:
    opened = (
        "import ragstone\nfrom ragstone.pytest_plugin import assert_gate\n\n"
        "def test_it():\n    assert_gate(ragstone.Run.open('ragstone-run'))\n"
    )
    policy = project / "thresholds.toml"
    policy.write_text(f'[gate]\non_no_baseline = "warn"\n{POLICY}', encoding="utf-8")
    assert run(project).returncode == 0
    assert run(project, opened).returncode == 0
    policy.write_text(f'[gate]\non_no_baseline = "warn"\ninconclusive = "fail"\n{POLICY}', encoding="utf-8")
    done = run(project)
    assert done.returncode == 1, done.stdout
    assert "1 failed, 1 passed" in done.stdout
    assert run(project, opened).returncode == 1


def test_a_run_without_a_verdict_is_no_pass(project: Path) -> None:
    lines = (
        "import houses, ragstone\nfrom ragstone.pytest_plugin import assert_gate\n\n"
        "def test_it():\n"
        "    golden = ragstone.load_golden_set('golden.jsonl')\n"
        "    assert_gate(ragstone.evaluate(golden, houses.answer, progress=False))\n"
    )
    done = run(project, lines)
    assert done.returncode == 1
    assert "has no verdict" in done.stdout


def test_an_error_is_told_with_its_hint_and_no_traceback(project: Path) -> None:
    (project / "thresholds.toml").write_text("[metrics.faithfulness]\nmim = 0.5\n", encoding="utf-8")
    done = run(project)
    assert done.returncode == 1
    assert "unknown key 'metrics.faithfulness.mim'" in done.stdout
    assert "Did you mean 'min'?" in done.stdout
    assert "Traceback" not in done.stdout


@pytest.mark.attack(by="text", tries="act in pytest's output", stopped_by="escaped, without secrets")
def test_what_the_system_says_can_not_leak_a_key_or_steer_the_terminal(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGSTONE_JUDGE_API_KEY", KEY)
    said = f"\\x1b[31mno {KEY}\\n::error::pwned\\n##[error]pwned\\u202e"
    append(project / "houses.py", f"\ndef answer(question):\n    raise RuntimeError('{said}')\n")
    done = run(project, GATE)
    assert done.returncode == 1
    assert "The system under test failed on all of 6 samples" in done.stdout
    assert KEY not in done.stdout + done.stderr
    assert not {"\x1b", "\u202e"} & set(done.stdout + done.stderr)
    lines = (done.stdout + done.stderr).splitlines()
    assert not [line for line in lines if line.lstrip().startswith(("::", "##["))]


def test_a_gate_works_in_a_running_loop(project: Path) -> None:
    tests = (
        "import asyncio\nfrom ragstone.pytest_plugin import assert_gate\n\ndef test_it(request):\n"
        "    async def inner():\n"
        "        assert_gate(request.getfixturevalue('ragstone_run'))\n"
        "    asyncio.run(inner())\n"
    )
    done = run(project, tests)
    assert done.returncode == 0, done.stdout


def test_the_plugin_costs_nothing_where_it_is_not_used(project: Path) -> None:
    lines = (
        "import sys\n\ndef test_it():\n    ours = [name for name in sys.modules if name.startswith('ragstone')]\n"
        "    assert sorted(ours) == ['ragstone', 'ragstone._version', 'ragstone.pytest_plugin']\n"
        "    assert 'numpy' not in sys.modules\n"
    )
    done = run(project, lines)
    assert done.returncode == 0, done.stdout
    assert "ragstone" not in done.stdout.partition("collected")[2]
