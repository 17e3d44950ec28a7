"""Windows of 80 and 100 columns: no line is cut, and no word is broken. What is piped is plain."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

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
    assert ragstone(["run", "--out", "main"], path).returncode == 0
    (path / "houses.py").write_text(SYSTEM.replace("painted {c}", "painted black"), encoding="utf-8")
    ragstone(["gate", "--baseline", "main"], path, exit_code=1)
    return path


REPORT = ("report", "ragstone-run", "--verbose")
COMPARE = ("compare", "main", "ragstone-run", "--verbose")
COMMANDS = [REPORT, ("check",), ("plan",), COMPARE, ("check", "--golden", "no/such.jsonl")]


def widest(lines: Iterable[str]) -> int:
    """The length of the longest line."""
    return max(map(len, lines))


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


@pytest.mark.parametrize("columns", [44, 80])
def test_windows_that_are_too_narrow_for_the_table_get_a_list(project: Path, columns: int) -> None:
    screen = in_window(REPORT, project, columns=columns)
    assert widest(screen.lines) <= max(columns, 60)  # a path is not broken
    assert "✘ Context recall: 0." in screen.text
    assert "drop ≤ 0.05, change −0." in " ".join(screen.text.split())
    assert "…" not in screen.text


@pytest.mark.parametrize("arguments", [REPORT, REPORT[:-1], COMPARE, COMPARE[:-1], ("plan",)], ids=" ".join)
def test_what_is_piped_is_plain(project: Path, arguments: tuple[str, ...]) -> None:
    forced = {"FORCE_COLOR": "1", "CLICOLOR_FORCE": "1", "TERM": "xterm-256color", "COLUMNS": "40"}
    found = ragstone(arguments, project, env=forced)
    assert "\x1b" not in found.stdout
    assert "\r" not in found.stdout
    assert found.stdout == ragstone(arguments, project, env={"COLUMNS": "200"}).stdout


@pytest.mark.parametrize("columns", [72, 80, 120])
@pytest.mark.parametrize("arguments", [REPORT[:-1], COMPARE[:-1]], ids=" ".join)
def test_what_matters_fits_on_a_screen(project: Path, arguments: tuple[str, ...], columns: int) -> None:
    screen = in_window(arguments, project, columns=columns)
    assert len(screen.lines) <= 24
    assert max(map(len, screen.lines)) <= 80
    assert "--verbose prints the rest" in screen.text


@pytest.mark.usefixtures("processes")
def test_a_terminal_gets_nothing_invisible_and_a_log_what_keeps_it_from_running_commands(project: Path) -> None:
    for arguments in (["check", "--golden", "a::b.jsonl"], ["history", "add", "a::b", "--history", "c::d.jsonl"]):
        assert "a::b" in on_terminal(arguments, project, columns=100).text
        assert "a:\u200b:b" in ragstone(arguments, project).stderr


@pytest.mark.parametrize(
    ("returned", "says"),
    [
        ('{"answer": fact, "contexts": ["house-1.md"]}', "the contexts were returned as ids"),
        ("fact", "The system returned no contexts with any answer"),
        (None, None),
    ],
)
def test_that_what_reads_contexts_is_not_measured_is_among_the_first_lines(
    tmp_path: Path, returned: str | None, says: str | None
) -> None:
    project = make_project(tmp_path, n=10)
    whole = '{"answer": fact, "contexts": [{"id": "d" + question.split()[-1], "text": fact + " It has a door."}]}'
    (project / "houses.py").write_text(SYSTEM.replace(whole, returned or whole), "utf-8")
    (project / "thresholds.toml").unlink()
    shown = " ".join(ragstone(["gate"], project).stdout.split())
    assert "There is no baseline" in shown
    for sentence in ("the contexts were returned as ids", "The system returned no contexts with any answer"):
        assert (sentence in shown) is (sentence == says)
    # A first run by the default rules can't pass on what it couldn't judge.
    assert ("context recall and context precision could not be judged" in shown.lower()) is (returned == "fact")
    assert shown.startswith("? Not blocked, but look") or returned != "fact"
