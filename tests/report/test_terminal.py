"""The report on a terminal, and in a log."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace

import pytest

from ragstone.gate.verdict import Status
from ragstone.report.parts import ReportView
from ragstone.report.terminal import print_report, render_text
from tests.report.conftest import Text, view_of


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    lines = render_text(view_of(), width=width).partition("To reproduce")[0].splitlines()
    assert max(map(len, lines)) <= width


def stuffed(view: ReportView) -> ReportView:
    """`view` with more of everything than fits."""
    long = "The system gave an answer that says more than its contexts; " * 8
    return replace(view, warnings=(long,) * 9, check_rows=(*view.check_rows, *view.check_rows), reason=long)


@pytest.mark.parametrize("status", list(Status))
@pytest.mark.parametrize("more", [lambda view: view, stuffed])
def test_what_matters_fits_on_a_screen(status: Status, more: Callable[[ReportView], ReportView]) -> None:
    view = more(view_of(status))
    out = io.StringIO()
    print_report(view, out, files=["HTML report: ragstone-run/report.html"])
    lines = out.getvalue().splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert "HTML report: ragstone-run/report.html" in lines
    for text in (out.getvalue(), render_text(view)):
        assert " ".join(text.split()).endswith(str(view.headline))


def test_verbose_prints_what_a_file_has() -> None:
    out = io.StringIO()
    print_report(view_of(), out, verbose=True)
    assert out.getvalue() == render_text(view_of())


def test_nothing_invisible_is_printed_on_a_terminal() -> None:
    view = view_of(text=Text(gate_reason="std::sort\n::error::stop"))
    shown, logged = Terminal(), io.StringIO()
    for out in (shown, logged):
        print_report(view, out, verbose=True)
    assert "\u200b" not in shown.getvalue()
    assert not any(line.startswith("::") for line in logged.getvalue().splitlines())


def test_a_terminal_gets_colour_unless_it_is_not_wanted_and_a_log_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    log, terminal, plain = io.StringIO(), Terminal(), Terminal()
    print_report(view_of(), log)
    print_report(view_of(), terminal)
    monkeypatch.setenv("NO_COLOR", "1")
    print_report(view_of(), plain)
    assert "\x1b[1;31m" in terminal.getvalue()
    for out in (log, plain):
        assert "\x1b" not in out.getvalue()
        assert "Blocked: " in out.getvalue()


def test_pictures_are_drawn_where_there_is_room() -> None:
    assert "├" in render_text(view_of(), width=120)
    assert "├" not in render_text(view_of(), width=80)


def test_the_offline_judge_is_marked() -> None:
    assert "Scored by the offline judge 1: no language model." in render_text(view_of(offline=True))
    assert "no language model" not in render_text(view_of())
