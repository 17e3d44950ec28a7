"""What a job of a monitor found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ragstone.tools.monitor.alerts import Watched, Window
from ragstone.tools.monitor.interaction import Problem


@dataclass(slots=True)
class LogRead:
    """What was read of a log: lines, new and known interactions, lines with problems, and what stopped the reading.

    `rest` is the size in bytes of an unfinished last line, which is left for the next job.
    """

    name: str
    lines: int = 0
    new: int = 0
    known: int = 0
    problems: Counter[Problem] = field(default_factory=Counter)
    damage: str | None = None
    rest: int = 0


@dataclass(frozen=True, slots=True)
class Drafts:
    """What became of the cases of `windows`: how many drafts were `written` to `file`, and for which reasons.

    A draft may have several. `replaced` counts the replacements of personal data by the name of the placeholder,
    `left_out` the cases that are no drafts, by why. `empty_fields` are fields of persons that no record of a case has.
    """

    file: str
    windows: tuple[str, ...]
    written: int
    reasons: Mapping[str, int]
    replaced: Mapping[str, int]
    left_out: Mapping[str, int]
    empty_fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Monitored:
    """What a job found. `figures` are those of the newest window, `decided` the windows decided by this job.

    `open` are the windows that are not over, with their figures so far. `empty`: the newest window has no interaction.
    """

    logs: tuple[LogRead, ...]
    windows: tuple[Window, ...]
    decided: tuple[str, ...]
    figures: tuple[Watched, ...]
    open: tuple[Window, ...]
    length: str
    timezone: str
    notes: tuple[str, ...] = ()
    runs: tuple[Path, ...] = ()
    empty: bool = False
    drafts: Drafts | None = None

    @property
    def alerts(self) -> tuple[Watched, ...]:
        return tuple(one for one in self.figures if one.alert)

    @property
    def failing(self) -> bool:
        volume_fails = any(one.name == "interactions" and one.action == "fail" for one in self.figures)
        return any(one.action == "fail" for one in self.alerts) or (self.empty and volume_fails)

    @property
    def lasting(self) -> str:
        """The alerts that last, with their actions, as one text; empty for none."""
        names = [f"{one.name}:{one.action}" for one in self.alerts] + (["empty"] if self.empty else [])
        return " ".join(sorted(names))
