"""The report on a terminal, and in a log."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import redirect_stdout

import pytest
from msgspec.structs import replace

from ragstone.gate.findings import Level
from ragstone.gate.verdict import Status
from ragstone.report.parts import Document
from ragstone.report.terminal import print_report, render_text
from tests.report.conftest import Text, helpdesk_report, with_findings


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    lines = render_text(helpdesk_report(), width=width).partition("To reproduce")[0].splitlines()
    assert max(map(len, lines)) <= width


def stuffed(report: Document) -> Document:
    """`report` with more of everything than fits."""
    long = "The system gave an answer that says more than its contexts; " * 8
    return replace(
        with_findings(report, Level.WARNING, *[long] * 9),
        checks=report.checks * 2,
        verdict=replace(report.verdict, reason=long),
    )


@pytest.mark.parametrize("status", list(Status))
@pytest.mark.parametrize("more", [lambda report: report, stuffed])
def test_what_matters_fits_on_a_screen(status: Status, more: Callable[[Document], Document]) -> None:
    report = more(helpdesk_report(status))
    out = io.StringIO()
    with redirect_stdout(out):
        print_report(report, files=["HTML report: ragstone-run/report.html"])
    lines = out.getvalue().splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert "HTML report: ragstone-run/report.html" in lines
    for text in (out.getvalue(), render_text(report)):
        assert " ".join(text.split()).endswith(report.verdict.headline)


def test_nothing_invisible_is_printed_on_a_terminal() -> None:
    report = helpdesk_report(text=Text(gate_reason="std::sort\n::error::stop"))
    shown, logged = Terminal(), io.StringIO()
    for out in (shown, logged):
        with redirect_stdout(out):
            print_report(report, verbose=True)
    assert "\u200b" not in shown.getvalue()
    assert not any(line.startswith("::") for line in logged.getvalue().splitlines())


def test_a_terminal_gets_colour_unless_it_is_not_wanted_and_a_log_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    log, terminal, plain = io.StringIO(), Terminal(), Terminal()
    with redirect_stdout(log):
        print_report(helpdesk_report())
    with redirect_stdout(terminal):
        print_report(helpdesk_report())
    monkeypatch.setenv("NO_COLOR", "1")
    with redirect_stdout(plain):
        print_report(helpdesk_report())
    assert "\x1b[1;31m" in terminal.getvalue()
    for out in (log, plain):
        assert "\x1b" not in out.getvalue()
        assert "Blocked: " in out.getvalue()
