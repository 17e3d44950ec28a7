"""`ragstone report` on runs that `ragstone gate` wrote."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.cli.project import ragstone, read_json, read_rows, write_rows

COLOURS = ("red", "green", "blue", "white", "grey")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two runs, `good` and `bad`, of the same golden set."""
    folder = tmp_path_factory.mktemp("report")
    golden, good, bad = [], [], []
    for number in range(30):
        answer = f"House number {number} is painted {COLOURS[number % 5]}."
        golden.append({"id": f"h{number}", "question": f"What colour is house {number}?", "reference": answer})
        good.append({"id": f"h{number}", "answer": answer, "contexts": [answer]})
        wrong = answer + " Its owner is the mayor of a large town." if number % 2 else answer
        bad.append({"id": f"h{number}", "answer": wrong, "contexts": [answer]})
    for name, lines in (("golden", golden), ("good", good), ("bad", bad)):
        write_rows(folder / f"{name}.jsonl", lines)
    command = ("run", "--golden", "golden.jsonl")
    for name in ("good", "bad"):
        ragstone([*command, "--entrypoint", f"file:{name}.jsonl", "--out", name], folder, exit_code=0)
    return folder


BLOCKED = "## ❌ Blocked: "


@pytest.mark.parametrize(
    ("run", "says"),
    [
        ("bad", "bad: this run has no verdict"),
        ("bad/..", "not a run directory"),
        ("nowhere", "nowhere: there is no such directory"),
    ],
)
def test_what_can_not_be_shown_is_named(runs: Path, run: str, says: str) -> None:
    assert says in ragstone(["report", run], runs, exit_code=2).stderr


GATE = ("gate", "--golden", "golden.jsonl", "--entrypoint", "file:bad.jsonl", "--baseline", "good")
LENIENT = "[metrics.faithfulness]\nmin = 0.01\n"


@pytest.fixture
def gated(runs: Path, tmp_path: Path) -> Path:
    """A folder of its own with a run that failed the gate, and the baseline it was compared with."""
    for name in ("golden.jsonl", "bad.jsonl"):
        shutil.copy(runs / name, tmp_path)
    shutil.copytree(runs / "good", tmp_path / "good")
    (tmp_path / "thresholds.toml").write_text(
        "[system]\nmax_broken = 0.6\n[metrics.faithfulness]\nmax_drop = 0.01\n", encoding="utf-8"
    )
    found = ragstone([*GATE, "--out", "gated"], tmp_path, exit_code=1)
    lines = [one for one in found.stdout.splitlines(keepends=True) if not one.startswith("HTML report: ")]
    (tmp_path / "printed.txt").write_text("".join(lines), encoding="utf-8")
    return tmp_path


@pytest.mark.heavy
def test_the_verdict_of_the_gate_is_shown_in_every_format_wherever_the_run_is(gated: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (gated / "gated").replace(elsewhere / "artifact")
    shutil.rmtree(gated / "good")
    (elsewhere / "thresholds.toml").write_text(LENIENT, encoding="utf-8")
    assert ragstone(["report", "artifact"], elsewhere).stdout == (gated / "printed.txt").read_text(encoding="utf-8")
    files = {"md": "report.md", "json": "report.json", "junit": "junit.xml"}
    for form, name in files.items():
        found = ragstone(["report", "artifact", "--format", form, "-o", f"new/{name}"], elsewhere)
        assert (found.returncode, found.stdout) == (0, ""), found.stderr
        assert (elsewhere / "new" / name).read_bytes() == (elsewhere / "artifact" / name).read_bytes()


def test_the_config_says_which_run_and_templates(gated: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "templates").mkdir(parents=True)
    (project / "templates" / "report.md.j2").write_text("{{ report.verdict.reason }}", encoding="utf-8")
    shutil.copytree(gated / "gated", project / "run")
    (project / "mine.toml").write_text('[run]\nout = "run"\n', encoding="utf-8")
    found = ragstone(["report", "--config", "project/mine.toml", "--format", "md"], tmp_path, exit_code=0)
    assert found.stdout.startswith(BLOCKED)
    assert "15 of 30 questions" in found.stdout
    shown = json.loads(ragstone(["report", "--config", "project/mine.toml", "--format", "json"], tmp_path).stdout)
    assert "drop" in {check["kind"] for check in shown["checks"]}
    refused = ragstone(["report", "project/run", "--format", "md", "-o", "project"], tmp_path, exit_code=2)
    assert "project: can't be written" in refused.stderr


@pytest.mark.heavy
def test_a_run_that_was_evaluated_again_has_no_verdict_left(gated: Path) -> None:
    again = ("run", "--golden", "golden.jsonl", "--entrypoint", "file:bad.jsonl", "--out", "gated")
    ragstone([*again], gated, exit_code=0)
    assert (gated / "gated" / "report.json").is_file()
    assert "this run has no verdict" in ragstone(["report", "gated"], gated).stderr


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[" * 100_000, "not a valid report: Expected `object`, got `array`"),
        ('{"run": "r', "not a valid report: Input data was truncated"),
        ('{"more": ' + "[" * 100_000, "not a valid report: its values are nested too deeply"),
        ("{}", "not a valid report: Object missing required field `verdict`"),
        (None, "not a valid report: Invalid enum value 'great' - at `$.verdict.status`"),
    ],
)
def test_a_damaged_verdict_is_named(gated: Path, text: str | None, says: str) -> None:
    file = gated / "gated" / "report.json"
    body = read_json(file)
    body["verdict"]["status"] = "great"
    file.write_text(json.dumps(body) if text is None else text, encoding="utf-8")
    found = ragstone(["report", "gated"], gated, exit_code=2)
    assert f"{Path('gated') / 'report.json'}: {says}" in found.stderr


def test_a_verdict_that_is_a_pipe_does_not_block(gated: Path) -> None:
    file = gated / "gated" / "report.json"
    file.unlink()
    os.mkfifo(file)
    found = ragstone(["report", "gated"], gated, exit_code=2)
    assert "report.json: can't be read" in found.stderr


@pytest.mark.heavy
def test_hostile_text_in_a_verdict_is_escaped_and_a_secret_is_not_in_it(gated: Path) -> None:
    shutil.copy(gated / "thresholds.toml", gated / "good-secret-key.toml")
    command = [*GATE, "--out", "new", "--thresholds", "good-secret-key.toml"]
    ragstone(command, gated, env={"RAGSTONE_JUDGE_API_KEY": "good-secret-key"}, exit_code=1)
    file = gated / "new" / "report.json"
    assert "good-secret" not in file.read_text(encoding="utf-8")
    body = read_json(file)
    body["reason"] = "<script>alert(1)</script>\x1b[31m @octocat"
    file.write_text(json.dumps(body), encoding="utf-8")
    assert "<script>alert" not in ragstone(["report", "new", "--format", "html"], gated).stdout
    assert "\x1b" not in ragstone(["report", "new"], gated).stdout
    assert "@octocat" not in ragstone(["report", "new", "--format", "md"], gated).stdout


PARTS = """
[metrics.faithfulness]
min = 0.01
[must_pass]
samples = ["h1", "h29"]
[slices."tag:late".metrics.faithfulness]
min = 0.01
"""


@pytest.mark.heavy
def test_a_limit_keeps_quiet_about_what_it_left_out_and_says_so_once(runs: Path, tmp_path: Path) -> None:
    rows = read_rows(runs / "golden.jsonl")
    write_rows(tmp_path / "golden.jsonl", [*rows[:21], *({**row, "tags": ["tag:late"]} for row in rows[21:])])
    shutil.copy(runs / "good.jsonl", tmp_path)
    (tmp_path / "thresholds.toml").write_text(PARTS, encoding="utf-8")
    system = ("--golden", "golden.jsonl", "--entrypoint", "file:good.jsonl")
    said = "must-pass samples and slices that are left out are not checked."
    found = ragstone(["gate", *system, "--limit", "10", "--verbose"], tmp_path, exit_code=0)
    assert found.stdout.count(said) == 1
    again = ragstone(["report", "ragstone-run", "--verbose"], tmp_path).stdout
    assert "✔ Passed, with nothing to compare with. " in again
    assert said in " ".join(again.split())
    found = ragstone(["check", *system], tmp_path, env={"RAGSTONE_LIMIT": "10"}, exit_code=0)
    assert said in " ".join(found.stdout.split())
    assert said not in ragstone(["gate", *system, "--limit", "30"], tmp_path).stdout
    (tmp_path / "thresholds.toml").write_text(PARTS.replace("h29", "h30"), encoding="utf-8")
    ragstone(["gate", *system, "--limit", "30"], tmp_path, exit_code=5)
