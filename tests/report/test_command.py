"""`ragstone report` on runs that `ragstone run` wrote."""

from __future__ import annotations

import contextlib
import io
import json
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest

from ragstone.cli import main

COLOURS = ("red", "green", "blue", "white", "grey")


@dataclass(frozen=True, slots=True)
class Ended:
    """What a command came to."""

    returncode: int
    stdout: str
    stderr: str


def ragstone(*arguments: str, cwd: Path) -> Ended:
    """The command line in this process: the same `main` that the installed script calls."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(cwd), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(arguments)
        except SystemExit as end:
            return Ended(int(end.code or 0), out.getvalue(), err.getvalue())


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
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")
    for name in ("good", "bad"):
        found = ragstone(
            *("run", "--golden", "golden.jsonl", "--entrypoint", f"file:{name}.jsonl", "--out", name), cwd=folder
        )
        assert found.returncode == 0, found.stderr
    return folder


def test_a_run_is_shown_as_text_and_exits_with_0_whatever_the_verdict(runs: Path) -> None:
    found = ragstone("report", "bad", "--baseline", "good", cwd=runs)
    assert found.returncode == 0, found.stderr
    assert found.stdout.startswith("✘ FAIL")
    assert "not in the contexts: Its owner is the mayor of a large town." in found.stdout
    assert "Scored by the offline judge" in found.stdout


def test_every_format_can_be_written_to_a_file(runs: Path, tmp_path: Path) -> None:
    for form in ("md", "json", "junit", "html"):
        file = tmp_path / "new" / f"report.{form}"
        found = ragstone("report", "bad", "--baseline", "good", "--format", form, "-o", str(file), cwd=runs)
        assert (found.returncode, found.stdout) == (0, ""), found.stderr
    assert (tmp_path / "new" / "report.md").read_text(encoding="utf-8").startswith("## ❌ Ragstone: fail")
    assert json.loads((tmp_path / "new" / "report.json").read_text(encoding="utf-8"))["status"] == "fail"
    assert ElementTree.parse(tmp_path / "new" / "report.junit").getroot().tag == "testsuites"
    assert (tmp_path / "new" / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_links_and_a_template_of_ones_own(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "report.md.j2").write_text(
        '{% extends "ragstone/report.md.j2" %}{% block header %}# Houses{% endblock %}', encoding="utf-8"
    )
    found = ragstone(
        *("report", "bad", "--baseline", "good", "--format", "md", "--templates", str(tmp_path)),
        *("--link", "https://git.example/houses/{file}#L{line}"),
        cwd=runs,
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout.startswith("## ❌ Ragstone: fail\n\n# Houses")
    assert "(https://git.example/houses/golden.jsonl#L2)" in found.stdout


def test_a_directory_that_is_not_a_run_is_refused(runs: Path, tmp_path: Path) -> None:
    found = ragstone("report", str(tmp_path), cwd=runs)
    assert found.returncode == 2
    assert "not a run directory" in found.stderr


def test_a_baseline_that_is_not_there_is_refused(runs: Path) -> None:
    found = ragstone("report", "bad", "--baseline", "nowhere", cwd=runs)
    assert found.returncode == 6
    assert "the baseline can't be used" in found.stderr


def test_a_file_that_can_not_be_written_is_named(runs: Path, tmp_path: Path) -> None:
    found = ragstone("report", "bad", "--format", "md", "-o", str(tmp_path), cwd=runs)
    assert found.returncode == 2
    assert f"{tmp_path}: can't be written" in found.stderr


def test_the_gate_takes_the_projects_own_template(runs: Path) -> None:
    templates = runs / "templates"
    templates.mkdir()
    (templates / "report.md.j2").write_text("# Houses: {{ report.status }}", encoding="utf-8")
    found = ragstone(
        *("gate", "--golden", "golden.jsonl", "--entrypoint", "file:bad.jsonl", "--baseline", "good", "--out", "new"),
        cwd=runs,
    )
    assert found.returncode == 1, found.stderr
    assert (runs / "new" / "report.md").read_text(encoding="utf-8") == "## ❌ Ragstone: fail\n\n# Houses: fail"
