"""The report on a terminal, and in a log."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest

from ragstone.report.parts import ReportView
from ragstone.report.terminal import print_report, render_text


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 200])
def test_no_line_is_wider_than_the_terminal(make_view: Callable[..., ReportView], width: int) -> None:
    lines = render_text(make_view(), width=width).partition("To reproduce")[0].splitlines()
    assert max(map(len, lines)) <= width


def test_a_log_gets_no_colour(make_view: Callable[..., ReportView]) -> None:
    out = io.StringIO()
    print_report(make_view(), out)
    assert "\x1b" not in out.getvalue()
    assert "Blocked: " in out.getvalue()


def test_a_terminal_gets_colour_unless_it_is_not_wanted(
    make_view: Callable[..., ReportView], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    out = Terminal()
    print_report(make_view(), out)
    assert "\x1b[1;31m" in out.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    plain = Terminal()
    print_report(make_view(), plain)
    assert "\x1b" not in plain.getvalue()


def test_pictures_are_drawn_where_there_is_room(make_view: Callable[..., ReportView]) -> None:
    assert "├" in render_text(make_view(), width=120)
    assert "├" not in render_text(make_view(), width=80)


def test_the_offline_judge_is_marked(make_view: Callable[..., ReportView]) -> None:
    assert "Scored by the offline judge 1: no language model." in render_text(make_view(offline=True))
    assert "no language model" not in render_text(make_view())
