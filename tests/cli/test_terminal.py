"""Windows of 80 and 100 columns: no line is cut, and no word is broken. What is piped is plain, in any encoding."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from ragstone.cli.main import main
from tests.cli.project import SYSTEM, make_project, ragstone
from tests.cli.terminal import in_window, on_terminal

POLICY = """
must_pass = ["house-3", "house-4"]
[metrics.faithfulness]
min = 0.80
max_drop = 0.05
[metrics.context_recall]
min = 0.80
max_drop = 0.05
[slices.even.metrics.context_recall]
min = 0.9
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose context recall got worse since the run in `main`."""
    path = make_project(tmp_path_factory.mktemp("terminal"), n=30, policy=POLICY)
    ragstone(["run", "--out", "main"], path, exit_code=0)
    (path / "houses.py").write_text(SYSTEM.replace("painted {c}", "painted black"), encoding="utf-8")
    ragstone(["gate", "--baseline", "main"], path, exit_code=1)
    return path


REPORT = ("report", "ragstone-run", "--verbose")
COMPARE = ("compare", "main", "ragstone-run", "--verbose")
COMMANDS = [REPORT, ("check",), ("plan",), COMPARE, ("check", "--golden", "no/such.jsonl")]


def widest(lines: Iterable[str]) -> int:
    """The length of the longest line, but for commands: each is one line, to be copied."""
    return max(len(line) for line in lines if not line.lstrip().startswith("ragstone "))


@pytest.mark.heavy
@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_no_line_is_cut_and_no_word_is_broken(project: Path, arguments: tuple[str, ...]) -> None:
    wide = in_window(arguments, project, columns=400)
    for columns in (80, 100):
        screen = in_window(arguments, project, columns=columns)
        assert screen.code == wide.code
        assert widest(screen.lines) <= columns
        listed = {"change", "Context", "Faithfulness"}
        broken = {word for word in set(screen.text.split()) - set(wide.text.split()) - listed if word.isalpha()}
        assert not broken
        assert "…" not in screen.text


@pytest.mark.usefixtures("processes")
def test_a_real_terminal_shows_what_the_window_of_these_tests_does(project: Path) -> None:
    for arguments in (REPORT, ("check", "--golden", "no/such.jsonl")):
        assert on_terminal(arguments, project, columns=80).text == in_window(arguments, project, columns=80).text


@pytest.mark.parametrize("arguments", [REPORT, REPORT[:-1], COMPARE, COMPARE[:-1], ("plan",)], ids=" ".join)
def test_what_is_piped_is_plain(project: Path, arguments: tuple[str, ...]) -> None:
    forced = {"FORCE_COLOR": "1", "CLICOLOR_FORCE": "1", "TERM": "xterm-256color", "COLUMNS": "40"}
    found = ragstone(arguments, project, env=forced)
    assert "\x1b" not in found.stdout
    assert "\r" not in found.stdout
    assert found.stdout == ragstone(arguments, project, env={"COLUMNS": "200"}).stdout


@pytest.mark.usefixtures("processes")
def test_a_terminal_gets_nothing_invisible_and_a_log_what_keeps_it_from_running_commands(project: Path) -> None:
    for arguments in (["check", "--golden", "a::b.jsonl"], ["history", "add", "a::b", "--history", "c::d.jsonl"]):
        assert "a::b" in on_terminal(arguments, project, columns=100).text
        assert "a:\u200b:b" in ragstone(arguments, project).stderr


@pytest.mark.parametrize(
    ("encoding", "marks"), [("cp1252", b"OK Passed"), ("ascii", b"OK Passed"), ("utf-8", b"\xe2\x9c\x94")]
)
def test_output_that_the_encoding_lacks_keeps_the_code_of_the_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str, marks: bytes
) -> None:
    """As in each step on a Windows runner."""
    rows = "".join(f"What is {number}?,0.9\n" for number in range(20))
    (tmp_path / "scores.csv").write_text(f"question,faithfulness\n{rows}", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with (tmp_path / "out.txt").open("w", encoding=encoding) as stream:
        monkeypatch.setattr(sys, "__stdout__", stream)
        monkeypatch.setattr(sys, "stdout", stream)
        with pytest.raises(SystemExit) as ended:
            main(["compare", "scores.csv", "--verbose"])
        sys.stdout.flush()
    assert ended.value.code == 0
    shown = (tmp_path / "out.txt").read_bytes()
    assert marks in shown
    assert "Faithfulness".encode(encoding) in shown
