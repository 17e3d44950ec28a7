"""Progress of a long run: a bar on a terminal, an occasional plain line elsewhere."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import TextIO

from ragstone.evaluation.engine import Progress
from ragstone.formatting import counted
from ragstone.report.escape import escape_terminal


class BarProgress(Progress):
    """A bar, and how many samples are in which state."""

    def __init__(self, stream: TextIO, doing: str = "Evaluating") -> None:
        # Imported here: a run without a terminal starts sooner.
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
            TextColumn(doing),
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
    """A line at the start, at the end, and in between at most every `every_s` seconds,
    for logs."""

    def __init__(
        self,
        stream: TextIO,
        doing: str = "Evaluating",
        *,
        every_s: float = 15.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = stream
        self._doing = doing
        self._every_s = every_s
        self._clock = clock
        self._states: Counter[str] = Counter()
        self._of = ""
        self._last = 0.0
        self._reported = 0

    def start(self, total: int | None) -> None:
        self._states.clear()
        self._reported = -1
        self._last = self._clock()
        self._of = "" if total is None else f" of {total:,}"
        if total == 0:
            self._reported = 0
            self._say("All samples are already finished")
        else:
            samples = "samples" if total is None else counted(total, "sample")
            self._say(f"{self._doing} {samples}")

    def advance(self, state: str) -> None:
        self._states[state] += 1
        if self._clock() - self._last >= self._every_s:
            self._last = self._clock()
            self._report()

    def finish(self) -> None:
        if self._reported != self._states.total():
            self._report()

    def _report(self) -> None:
        self._reported = self._states.total()
        counts = ""
        if self._states:
            counts = f" ({_counts(self._states)})"
        self._say(f"{self._reported:,}{self._of} done{counts}")

    def _say(self, line: str) -> None:
        print(line, file=self._stream, flush=True)


def _counts(states: Counter[str]) -> str:
    """``2 scored, 1 failed``."""
    return ", ".join(
        f"{number:,} {escape_terminal(state)}" for state, number in states.most_common()
    )


def progress_for(stream: TextIO, doing: str = "Evaluating") -> Progress:
    """The progress display for `stream`: a bar on a terminal, lines elsewhere."""
    if stream.isatty():
        return BarProgress(stream, doing)
    return LineProgress(stream, doing)
