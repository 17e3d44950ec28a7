"""Progress of a long run: a bar on a terminal, an occasional plain line elsewhere."""

from __future__ import annotations

import html
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, TextIO

from ragstone.evaluation.engine import Progress, Quiet
from ragstone.formatting import counted, seconds
from ragstone.report.escape import terminal

if TYPE_CHECKING:
    from rich.progress import TaskID


class _Counting:
    """Counts samples by state, and shows the counts at most every `every_s` seconds."""

    def __init__(self, every_s: float, clock: Callable[[], float]) -> None:
        self._every_s = every_s
        self._clock = clock
        self._total: int | None = None
        self._started = self._last = 0.0
        self._states: Counter[str] = Counter()

    def start(self, total: int | None) -> None:
        self._total = total
        self._states.clear()
        self._started = self._last = self._clock()
        self._begin()

    def advance(self, state: str) -> None:
        self._states[state] += 1
        if self._clock() - self._last >= self._every_s:
            self._last = self._clock()
            self._show()

    def finish(self) -> None:
        self._show()

    def _begin(self) -> None:
        self._show()

    def _show(self) -> None:
        raise NotImplementedError

    def _counts(self) -> str:
        """``2 scored, 1 failed``."""
        return ", ".join(
            f"{number:,} {terminal(state)}"
            for state, number in self._states.most_common()
        )


class BarProgress(_Counting):
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

        super().__init__(0.0, time.monotonic)
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
        self._task: TaskID | None = None

    def finish(self) -> None:
        self._bar.stop()

    def _begin(self) -> None:
        if self._task is not None:
            self._bar.remove_task(self._task)
        self._task = self._bar.add_task("", total=self._total, states="")
        self._bar.start()

    def _show(self) -> None:
        if self._task is not None:
            self._bar.update(
                self._task, completed=self._states.total(), states=self._counts()
            )


class LineProgress(_Counting):
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
        super().__init__(every_s, clock)
        self._stream = stream
        self._doing = doing
        self._said = -1

    def finish(self) -> None:
        if self._said != self._states.total():
            self._show()

    def _begin(self) -> None:
        self._said = 0 if self._total == 0 else -1
        total = "samples" if self._total is None else counted(self._total, "sample")
        self._say(
            "All samples are already finished"
            if self._total == 0
            else f"{self._doing} {total}"
        )

    def _show(self) -> None:
        self._said = finished = self._states.total()
        of = "" if self._total is None else f" of {self._total:,}"
        self._say(
            f"{finished:,}{of} done ({self._counts()})" if finished else f"0{of} done"
        )

    def _say(self, line: str) -> None:
        print(line, file=self._stream, flush=True)


class NotebookProgress(_Counting):
    """A bar below the cell of a notebook; text where HTML can't be shown. `display`
    shows it, and returns what shows another in its place.
    """

    def __init__(
        self,
        display: Callable[[object], Callable[[object], None]],
        *,
        every_s: float = 0.2,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(every_s, clock)
        self._display = display
        self._update: Callable[[object], None] | None = None

    def _show(self) -> None:
        finished = self._states.total()
        of = (
            counted(finished, "sample")
            if self._total is None
            else f"{finished:,} of {counted(self._total, 'sample')}"
        )
        states = f" ({self._counts()})" if finished else ""
        bar = _Bar(
            finished,
            self._total,
            f"{of}{states}, {seconds(self._clock() - self._started)}",
        )
        if self._update is None:
            self._update = self._display(bar)
        else:
            self._update(bar)


@dataclass(frozen=True, slots=True)
class _Bar:
    """What a notebook shows: plain numbers and the names of states."""

    done: int
    total: int | None
    text: str

    def __repr__(self) -> str:
        return f"Evaluated {self.text}"

    def _repr_html_(self) -> str:
        length = (
            ""
            if self.total is None
            else f' value="{self.done}" max="{max(self.total, 1)}"'
        )
        return f"<progress{length}></progress> Evaluated {html.escape(self.text)}"


def notebook_progress() -> Progress | None:
    """The progress display for the notebook that this process is the kernel of; None if
    it is not one."""
    loaded = sys.modules.get("IPython")
    shell = None if loaded is None else loaded.get_ipython()
    if not hasattr(shell, "kernel"):  # a terminal's IPython has none
        return None
    display: Any = import_module("IPython.display").display  # without types

    def show(bar: object) -> Callable[[object], None]:
        update: Callable[[object], None] = display(bar, display_id=True).update
        return update

    return NotebookProgress(show)


def progress_for(
    stream: TextIO, *, quiet: bool = False, doing: str = "Evaluating"
) -> Progress:
    """The progress display for `stream`: a bar on a terminal, lines elsewhere, nothing
    if `quiet`."""
    if quiet:
        return Quiet()
    return (
        BarProgress(stream, doing) if stream.isatty() else LineProgress(stream, doing)
    )
