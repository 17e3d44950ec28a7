"""Progress of a long run."""

from __future__ import annotations

import io

from ragstone.evaluation.engine import Quiet
from ragstone.report.progress import BarProgress, LineProgress, progress_for


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_log_gets_a_line_every_so_often_and_one_at_the_end() -> None:
    out, clock = io.StringIO(), Clock()
    progress = LineProgress(out, every_s=10, clock=clock)
    progress.start(2000)
    for number in range(25):
        clock.now += 1
        progress.advance("failed" if number == 3 else "scored")
    progress.finish()
    assert out.getvalue().splitlines() == [
        "Evaluating 2,000 samples",
        "10 of 2,000 done (9 scored, 1 failed)",
        "20 of 2,000 done (19 scored, 1 failed)",
        "25 of 2,000 done (24 scored, 1 failed)",
    ]


def test_the_last_line_is_not_said_twice() -> None:
    out, clock = io.StringIO(), Clock()
    progress = LineProgress(out, every_s=1, clock=clock)
    progress.start(1)
    clock.now += 5
    progress.advance("scored")
    progress.finish()
    assert out.getvalue().splitlines() == ["Evaluating 1 sample", "1 of 1 done (1 scored)"]


def test_an_unknown_total_and_nothing_done_are_said_plainly() -> None:
    out = io.StringIO()
    progress = LineProgress(out)
    progress.start(None)
    progress.finish()
    assert out.getvalue().splitlines() == ["Evaluating samples", "0 done"]


def test_a_state_can_not_act_on_the_log() -> None:
    out, clock = io.StringIO(), Clock()
    progress = LineProgress(out, every_s=0, clock=clock)
    progress.start(1)
    progress.advance("\x1b[2J")
    assert "\x1b" not in out.getvalue()


def test_a_bar_is_drawn_on_a_terminal_and_cleared_at_the_end() -> None:
    out = Terminal()
    progress = BarProgress(out)
    progress.start(3)
    progress.advance("scored")
    progress.advance("scored")
    progress.finish()
    assert "2/3" in out.getvalue()
    assert "2 scored" in out.getvalue()


def test_what_suits_the_stream_is_chosen() -> None:
    assert isinstance(progress_for(io.StringIO()), LineProgress)
    assert isinstance(progress_for(Terminal()), BarProgress)
    assert isinstance(progress_for(Terminal(), quiet=True), Quiet)


def test_silence_is_silent() -> None:
    progress = Quiet()
    assert (progress.start(1), progress.advance("scored"), progress.finish()) == (None, None, None)  # type: ignore[func-returns-value]


def test_a_resumed_run_with_nothing_left_says_so() -> None:
    out = io.StringIO()
    progress = LineProgress(out)
    progress.start(0)
    progress.finish()
    assert out.getvalue() == "All samples are already finished\n"
