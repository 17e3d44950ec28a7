"""`ragstone gate` prints or writes its report in any format, and says where the HTML report is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.project import make_project, ragstone
from tests.cli.terminal import in_window


def test_the_report_is_printed_in_the_named_format_and_nothing_else(tmp_path: Path) -> None:
    project = make_project(tmp_path, n=20)
    found = ragstone(["gate", "--format", "json"], project, exit_code=0)
    assert json.loads(found.stdout) == json.loads((project / "ragstone-run/report.json").read_text(encoding="utf-8"))
    found = ragstone(["gate", "--format", "md"], project)
    assert found.stdout == (project / "ragstone-run/report.md").read_text(encoding="utf-8")


@pytest.mark.heavy
def test_with_a_file_the_verdict_is_still_printed(tmp_path: Path) -> None:
    project = make_project(tmp_path, n=20)
    found = ragstone(["gate", "--format", "junit", "-o", "build/gate.xml"], project, exit_code=0)
    assert found.stdout.startswith("✔ Passed, with nothing to compare with. ")
    assert (project / "build/gate.xml").read_text(encoding="utf-8").startswith("<?xml")
    refused = ragstone(["gate", "-o", "houses.py/gate.txt"], project, exit_code=2)
    assert "can't be written" in refused.stderr


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
    assert "not for --github" in found.stderr
