"""Progress of a long run."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pytest

from ragstone.progress import BarProgress, LineProgress


def logged(total: int | None, states: Sequence[str], *, every_s: float, waits_s: float = 1.0) -> list[str]:
    """The lines of a log of so many samples, each of which takes as long."""
    out, now = io.StringIO(), 100.0
    progress = LineProgress(out, interval_s=every_s, clock=lambda: now)
    progress.start(total)
    for state in states:
        now += waits_s
        progress.advance(state)
    progress.finish()
    return out.getvalue().splitlines()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_log_gets_a_line_every_so_often_and_one_at_the_end() -> None:
    states = ["scored"] * 3 + ["failed"] + ["scored"] * 21
    assert logged(2000, states, every_s=10) == [
        "Evaluating 2,000 samples",
        "10 of 2,000 done (9 scored, 1 failed)",
        "20 of 2,000 done (19 scored, 1 failed)",
        "25 of 2,000 done (24 scored, 1 failed)",
    ]


@pytest.mark.parametrize(
    ("total", "states", "lines"),
    [
        (1, ["scored"], ["Evaluating 1 sample", "1 of 1 done (1 scored)"]),
        (None, [], ["Evaluating samples", "0 done"]),
        (0, [], ["All samples are already finished"]),
    ],
    ids=["the last line once", "an unknown total", "nothing left"],
)
def test_what_is_known_is_said_plainly(total: int | None, states: list[str], lines: list[str]) -> None:
    assert logged(total, states, every_s=1, waits_s=5) == lines


def test_a_state_can_not_act_on_the_log() -> None:
    assert "\x1b" not in "".join(logged(1, ["\x1b[2J"], every_s=0))


def test_a_bar_is_drawn_on_a_terminal_and_cleared_at_the_end() -> None:
    out = Terminal()
    progress = BarProgress(out)
    progress.start(3)
    progress.advance("scored")
    progress.advance("scored")
    progress.finish()
    assert "2/3" in out.getvalue()
    assert "2 scored" in out.getvalue()
