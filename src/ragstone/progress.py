"""Shows the progress of a long run: as a bar on a terminal, as occasional lines
elsewhere."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import TextIO

from ragstone.evaluation.engine import Progress
from ragstone.formatting import counted
from ragstone.report.escape import escape_terminal


class BarProgress(Progress):
    """A progress bar, with the number of samples in each state."""

    def __init__(self, stream: TextIO, activity: str = "Evaluating") -> None:
        # Imported here, so that a run without a terminal starts sooner.
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
        from rich.progress import Progress as RichProgress

        self._states: Counter[str] = Counter()
        self._bar = RichProgress(
            TextColumn(activity),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("{task.fields[states]}", markup=False),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=Console(file=stream),
            transient=True,
        )
        self._task = self._bar.add_task("", states="")

    def start(self, total: int | None) -> None:
        self._states.clear()
        self._bar.remove_task(self._task)
        self._task = self._bar.add_task("", total=total, states="")
        self._bar.start()

    def advance(self, state: str) -> None:
        self._states[state] += 1
        self._bar.update(self._task, advance=1, states=_counts(self._states))

    def finish(self) -> None:
        self._bar.stop()


class LineProgress(Progress):
    """Lines for a log: at the start, at the end, and in between at most every
    `interval_s` seconds."""

    def __init__(
        self,
        stream: TextIO,
        activity: str = "Evaluating",
        *,
        interval_s: float = 15.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = stream
        self._activity = activity
        self._interval_s = interval_s
        self._clock = clock
        self._states: Counter[str] = Counter()
        self._total_text = ""
        self._last_line_at = 0.0
        self._reported_count = 0

    def start(self, total: int | None) -> None:
        self._states.clear()
        self._reported_count = -1  # less than any count, so that the end is reported
        self._last_line_at = self._clock()
        self._total_text = "" if total is None else f" of {total:,}"
        if total == 0:
            self._reported_count = 0
            self._say("All samples are already finished")
        else:
            samples = "samples" if total is None else counted(total, "sample")
            self._say(f"{self._activity} {samples}")

    def advance(self, state: str) -> None:
        self._states[state] += 1
        if self._clock() - self._last_line_at >= self._interval_s:
            self._last_line_at = self._clock()
            self._report()

    def finish(self) -> None:
        if self._reported_count != self._states.total():
            self._report()

    def _report(self) -> None:
        self._reported_count = self._states.total()
        counts = ""
        if self._states:
            counts = f" ({_counts(self._states)})"
        self._say(f"{self._reported_count:,}{self._total_text} done{counts}")

    def _say(self, line: str) -> None:
        print(line, file=self._stream, flush=True)


def _counts(states: Counter[str]) -> str:
    """The states and their counts: ``2 scored, 1 failed``."""
    return ", ".join(
        f"{number:,} {escape_terminal(state)}" for state, number in states.most_common()
    )


def progress_for(stream: TextIO, activity: str = "Evaluating") -> Progress:
    """The progress display for `stream`: a bar on a terminal, lines elsewhere."""
    if stream.isatty():
        return BarProgress(stream, activity)
    return LineProgress(stream, activity)
