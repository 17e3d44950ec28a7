"""The pytest plugin, used by projects with a system of their own."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

FACTS = {
    "port": ("Which port does the gateway use?", "The gateway uses port 8443."),
    "token": ("How long is a token valid?", "A session token is valid for 12 hours."),
    "owner": ("Who approves a deploy?", "The release captain approves every deploy."),
    "colour": ("Which colour is the status lamp?", "The status lamp is green when the gateway is ready."),
    "backup": ("When does the backup run?", "The backup runs every night at two o'clock."),
    "region": ("In which region is the data stored?", "The data is stored in the Frankfurt region."),
}
SYSTEM = """
FACTS = {facts!r}
BROKEN = False

def answer(question):
    for asked, said in FACTS.values():
        if asked == question:
            wrong = "Bananas are yellow and grow on tall plants in Ecuador."
            return {{"answer": wrong if BROKEN else said, "contexts": [said]}}
    return "I don't know."
"""
POLICY = "[metrics.faithfulness]\nmin = 0.5\nmax_drop = 0.05\n"
WHOLE = """
import app

def test_the_system(ragstone):
    verdict = ragstone.gate(app.answer, golden="golden.jsonl", policy="thresholds.toml")
    assert verdict.passed
"""
EACH = """
import app, pytest

@pytest.mark.ragstone(golden="golden.jsonl", policy="thresholds.toml")
def test_answer(rag_sample):
    rag_sample.record(app.answer(rag_sample.question))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    rows = [{"id": name, "question": asked, "reference": said} for name, (asked, said) in FACTS.items()]
    (tmp_path / "golden.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (tmp_path / "thresholds.toml").write_text(POLICY, encoding="utf-8")
    (tmp_path / "app.py").write_text(SYSTEM.format(facts=FACTS), encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\n", encoding="utf-8")
    return tmp_path


def run(project: Path, tests: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    (project / "test_rag.py").write_text(tests, encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "test_rag.py", *arguments],
        cwd=project,
        env={**os.environ, "COLUMNS": "120"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )


def break_system(project: Path) -> None:
    app = project / "app.py"
    app.write_text(app.read_text(encoding="utf-8").replace("BROKEN = False", "BROKEN = True"), encoding="utf-8")


def test_a_gate_in_a_test_passes_and_leaves_its_report(project: Path) -> None:
    done = run(project, WHOLE)
    assert done.returncode == 0, done.stdout
    assert "PASS test_rag.py::test_the_system: " in done.stdout
    (shown,) = [line for line in done.stdout.splitlines() if line.startswith("  report: ")]
    assert (project / shown.removeprefix("  report: ")).is_file()


def test_a_gate_that_fails_fails_its_test_with_the_report(project: Path) -> None:
    break_system(project)
    done = run(project, WHOLE)
    assert done.returncode == 1
    assert "1 failed" in done.stdout
    assert "below floor" in done.stdout
    assert "Failed: The system gave the same answer to each of 6 answerable samples." in done.stdout
    assert "FAIL test_rag.py::test_the_system: " in done.stdout
    assert "\n  pytest test_rag.py -k test_the_system\n" in done.stdout
    assert "ragstone/pytest_plugin.py" not in done.stdout


def test_an_error_is_told_with_its_hint_and_no_traceback(project: Path) -> None:
    (project / "thresholds.toml").write_text("[metrics.faithfulness]\nmim = 0.5\n", encoding="utf-8")
    done = run(project, WHOLE)
    assert done.returncode == 1
    assert "unknown key 'metrics.faithfulness.mim'" in done.stdout
    assert "Did you mean 'min'?" in done.stdout
    assert "Traceback" not in done.stdout


def test_what_the_system_says_can_not_leak_a_key_or_steer_the_terminal(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGSTONE_JUDGE_API_KEY", KEY)
    with (project / "app.py").open("a", encoding="utf-8") as app:
        app.write(f"\ndef answer(question):\n    raise RuntimeError('\\x1b[31mno {KEY}')\n")
    done = run(project, WHOLE)
    assert done.returncode == 1
    assert "The system under test failed on all of 6 samples" in done.stdout
    assert KEY not in done.stdout + done.stderr
    assert "\x1b" not in done.stdout


KEY = "sk-proj-1234567890abcdefghij"


def test_samples_are_tests_and_are_decided_together(project: Path) -> None:
    done = run(project, EACH, "-v", "--junitxml", "junit.xml")
    assert done.returncode == 0, done.stdout
    assert all(f"test_rag.py::test_answer[{name}] PASSED" in done.stdout for name in FACTS)
    assert "PASS test_rag.py::test_answer: " in done.stdout
    assert not list(ET.parse(project / "junit.xml").iter("property"))
    break_system(project)
    done = run(project, EACH)
    assert done.returncode == 1
    assert f"{len(FACTS)} passed" in done.stdout
    assert "FAIL test_rag.py::test_answer: " in done.stdout
    assert "What falls short" in done.stdout


@pytest.mark.heavy
@pytest.mark.parametrize("broken", [False, True])
def test_samples_are_decided_together_over_several_processes(project: Path, broken: bool) -> None:
    if broken:
        break_system(project)
    done = run(project, EACH + WHOLE, "-n", "2")
    assert done.returncode == int(broken), done.stdout
    word = "FAIL" if broken else "PASS"
    assert f"{word} test_rag.py::test_answer: " in done.stdout
    assert f"{word} test_rag.py::test_the_system: " in done.stdout


def test_a_part_of_the_samples_is_not_decided(project: Path) -> None:
    break_system(project)
    done = run(project, EACH, "-k", "port or token")
    assert done.returncode == 0, done.stdout
    assert "NOT DECIDED test_rag.py::test_answer: 2 of 6 samples ran, so nothing was decided." in done.stdout


def test_a_test_without_an_answer_is_a_failure_of_the_system(project: Path) -> None:
    lines = EACH.replace("    rag_sample.record", '    if rag_sample.id != "port":\n        rag_sample.record')
    policy = project / "thresholds.toml"
    policy.write_text(f"{POLICY}[system]\nmax_error_rate = 0.0\n[gate]\nmin_coverage = 0.5\n", encoding="utf-8")
    done = run(project, lines)
    assert done.returncode == 1
    assert "The system under test failed on 1 of 6 samples" in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("returned", "says"),
    [
        ("42", "int"),
        ("app.later(rag_sample.question)", "await it first"),
    ],
)
def test_what_is_no_answer_fails_its_test(project: Path, returned: str, says: str) -> None:
    with (project / "app.py").open("a", encoding="utf-8") as app:
        app.write("\nasync def later(question):\n    return question\n")
    done = run(project, EACH.replace("app.answer(rag_sample.question)", returned))
    assert done.returncode == 1
    assert f"{len(FACTS)} failed" in done.stdout
    assert says in done.stdout


@pytest.mark.heavy
def test_a_baseline_is_written_on_request_and_then_compared_with(project: Path) -> None:
    tests = WHOLE.replace('policy="thresholds.toml"', 'policy="thresholds.toml", baseline="evals/baseline"')
    first = run(project, tests)
    assert first.returncode == 1
    assert "pytest --ragstone-update-baseline writes it" in first.stdout
    written = run(project, tests, "--ragstone-update-baseline")
    assert written.returncode == 0, written.stdout
    assert (project / "evals/baseline/manifest.json").is_file()
    assert run(project, tests).returncode == 0
    before = (project / "evals/baseline/samples.jsonl").read_bytes()
    break_system(project)
    worse = run(project, tests)
    assert worse.returncode == 1
    assert "What got worse" in worse.stdout
    refused = run(project, tests, "--ragstone-update-baseline")
    assert refused.returncode == 1
    assert (project / "evals/baseline/samples.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("marker", "says"),
    [
        ("", "rag_sample needs a golden set"),
        ('@pytest.mark.ragstone(golden="golden.jsonl", polcy="x")', "unknown argument 'polcy'"),
        ('@pytest.mark.ragstone(golden="nothing.jsonl")', "nothing.jsonl: not found"),
    ],
)
def test_a_wrong_marker_is_a_usage_error(project: Path, marker: str, says: str) -> None:
    tests = f"import pytest\n\n{marker}\ndef test_answer(rag_sample):\n    pass\n"
    done = run(project, tests)
    assert done.returncode != 0
    assert says in done.stdout + done.stderr
    assert "pytest_plugin.py" not in done.stdout + done.stderr


def test_the_columns_of_the_config_are_those_of_tests_too(project: Path) -> None:
    rows = [f"{asked},{said}" for asked, said in FACTS.values()]
    (project / "golden.csv").write_text("\n".join(["Frage,Antwort", *rows, ""]), encoding="utf-8")
    columns = '[golden.columns]\nquestion = "Frage"\nreference = "Antwort"\n'
    (project / "ragstone.toml").write_text(columns, encoding="utf-8")
    done = run(project, (WHOLE + EACH).replace("golden.jsonl", "golden.csv"))
    assert done.returncode == 0, done.stdout
    assert "7 passed" in done.stdout
    assert done.stdout.count("\nPASS test_rag.py::") == 2
    assert run(project, WHOLE + EACH).returncode == 0, "a native file doesn't need the mapping"


def test_a_terminal_gets_nothing_invisible(project: Path) -> None:
    (project / "test_rag.py").write_text(WHOLE.replace("golden.jsonl", "a::b.jsonl"), encoding="utf-8")
    inner, outer = pty.openpty()
    with os.fdopen(inner, "rb", buffering=0) as screen:
        with os.fdopen(outer, "wb") as terminal:
            command = [sys.executable, "-m", "pytest", "test_rag.py"]
            process = subprocess.Popen(command, cwd=project, stdout=terminal, stderr=terminal)
        written = b""
        with suppress(OSError):  # the other end is closed
            while piece := screen.read(65536):
                written += piece
    assert process.wait() == 1
    assert b"a::b.jsonl: not found" in written
    assert "\u200b".encode() not in written
    assert "a:\u200b:b.jsonl" in run(project, WHOLE.replace("golden.jsonl", "a::b.jsonl")).stdout


@pytest.mark.parametrize("setting", ["answers = 2", "oracle = true"])
def test_recorded_samples_can_not_be_asked_again(project: Path, setting: str) -> None:
    (project / "ragstone.toml").write_text(f"[run]\n{setting}\n", encoding="utf-8")
    done = run(project, EACH)
    assert done.returncode == 1
    assert "can't be combined with recorded answers (pytest:test_rag.py:" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_a_gate_works_in_a_running_loop(project: Path) -> None:
    tests = (
        "import asyncio, app\n\ndef test_it(ragstone):\n    async def inner():\n"
        '        return ragstone.gate(app.answer, golden="golden.jsonl", policy="thresholds.toml")\n'
        "    assert asyncio.run(inner()).passed\n"
    )
    assert run(project, tests).returncode == 0


def test_the_plugin_costs_nothing_where_it_is_not_used(project: Path) -> None:
    lines = (
        "import sys\n\ndef test_it():\n    ours = [name for name in sys.modules if name.startswith('ragstone')]\n"
        "    assert sorted(ours) == ['ragstone', 'ragstone._version', 'ragstone.pytest_plugin']\n"
        "    assert 'numpy' not in sys.modules\n"
    )
    done = run(project, lines)
    assert done.returncode == 0, done.stdout
    assert "ragstone" not in done.stdout.partition("collected")[2]


# -- golden sets that somebody else wrote ------------------------------------------------------------------------------

ATTACK = (
    "\n::error::pwned\n##[error]pwned\n\x1b[31mred\x1b]0;t\x07\r::stop-commands::x\n\u202e <script>alert(1)</script>"
)
IDS = (
    "::error::pwned",
    "a[b]::c",
    "../../../etc/passwd",
    "é",
    "e\u0301",
    "-p no:ragstone",
    "😀" * 512,
    "A",
    "a",
    "a0",
    "1",
    "01",
)


def attacked(project: Path, ids: Sequence[str] = IDS, text: str = ATTACK) -> None:
    rows = [{"id": name, "question": f"{at}{text}", "reference": f"{at}{text}"} for at, name in enumerate(ids)]
    (project / "golden.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    said = "{'answer': 'Bananas ' + q[:9] + TEXT, 'contexts': [TEXT]}"
    (project / "app.py").write_text(f"TEXT = {text!r}\n\ndef answer(q):\n    return {said}\n", encoding="utf-8")


def acts(done: subprocess.CompletedProcess[str]) -> list[str]:
    """The lines that a terminal or a runner would obey."""
    lines = (done.stdout + done.stderr).splitlines()
    return [
        line for line in lines if line.lstrip().startswith(("::", "##[")) or any(c in line for c in "\x1b\x07\u202e")
    ]


def test_hostile_ids_and_texts_are_tests_like_any_other(project: Path) -> None:
    attacked(project)
    before = {path for path in project.parent.rglob("*") if project not in path.parents}
    done = run(project, EACH + WHOLE, "-v", "-rA", "--junitxml", "junit.xml")
    assert done.returncode == 0, done.stdout
    assert f"{len(IDS) + 1} passed" in done.stdout
    assert "PASS test_rag.py::test_answer: " in done.stdout
    assert acts(done) == []
    cases = [case.get("name") for case in ET.parse(project / "junit.xml").iter("testcase")]
    assert len(set(cases)) == len(IDS) + 1
    records = list((project / ".pytest_cache").rglob("samples.jsonl"))
    assert len(records) == 2
    for path in records:
        assert {json.loads(line)["sample"]["id"] for line in path.read_text("utf-8").splitlines()} == set(IDS)
    assert {path for path in project.parent.rglob("*") if project not in path.parents} == before


@pytest.mark.parametrize("name", ["x\n::error::pwned", "x\x1b[31m", "x\0", "x\ud800", "x" * 513, "x\u2028y"])
def test_an_id_that_is_no_line_of_text_is_refused_while_collecting(project: Path, name: str) -> None:
    attacked(project, ("a", name))
    done = run(project, EACH)
    assert done.returncode == 2, done.stdout
    assert "golden.jsonl:2" in done.stdout
    assert acts(done) == []


def test_the_name_of_a_golden_file_does_not_act_either(project: Path) -> None:
    (project / "sets").mkdir()
    (project / "sets" / "x\n::error::pwned\n\x1b[31m.jsonl").write_text("no JSON\n", encoding="utf-8")
    done = run(project, EACH.replace("golden.jsonl", "sets/*.jsonl"))
    assert done.returncode == 2, done.stdout
    assert "pwned" in done.stdout
    assert acts(done) == []


def test_a_golden_file_that_is_exchanged_between_collecting_and_deciding_does_not_act(project: Path) -> None:
    exchanged = "\n    import pathlib; pathlib.Path('golden.jsonl').write_text('{{\\n::error::pwned \\x1b[31m')\n"
    done = run(project, EACH + exchanged.replace("{{", "{"))
    assert done.returncode == 1, done.stdout
    assert "ERROR test_rag.py::test_answer: " in done.stdout
    assert acts(done) == []


def test_tests_of_one_name_in_folders_with_brackets_are_decided_apart(project: Path) -> None:
    """The good answers of one must not stand for those of the other."""
    for folder, broken in (("x[1]", False), ("x[2]", True)):
        (project / folder).mkdir()
        text = EACH.replace("import app", f"BROKEN = {broken}\nimport app", 1)
        text = text.replace("app.answer(rag_sample.question)", "'No.' if BROKEN else app.answer(rag_sample.question)")
        (project / folder / "test_it.py").write_text(text, encoding="utf-8")
    (project / "pytest.ini").write_text(
        "[pytest]\npythonpath = .\naddopts = --import-mode=importlib\n", encoding="utf-8"
    )
    done = run(project, "", ".")
    assert done.returncode == 1, done.stdout
    assert "PASS x[1]/test_it.py::test_answer: " in done.stdout
    assert "FAIL x[2]/test_it.py::test_answer: " in done.stdout


@pytest.mark.heavy
def test_thousands_of_samples_and_enormous_texts_are_decided(project: Path) -> None:
    attacked(project, [f"q{at}" for at in range(3000)], "x")
    done = run(project, EACH, "-q")
    assert done.returncode == 1, done.stdout[-2000:]
    assert "3000 passed" in done.stdout
    attacked(project, ["a", "b"], "word " * 150_000)
    done = run(project, EACH, "-q")
    assert done.returncode == 1, done.stdout[-2000:]
    assert len(done.stdout) < 20_000
    attacked(project, ["a"], "x" * 20_000_000)
    done = run(project, EACH, "-q")
    assert done.returncode == 2, done.stdout[-2000:]
    assert len(done.stdout) < 20_000
