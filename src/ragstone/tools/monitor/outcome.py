"""What a job of a monitor found: the figures of windows, those that are worse than before, and what was read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import partial
from pathlib import Path

from ragstone.stats.surveillance import Look, Observed, surveil, surveil_line
from ragstone.tools.monitor.alerts_file import Action, AlertRule, AlertsTable
from ragstone.tools.monitor.figures import KINDS, Kind, Window, kind_of
from ragstone.tools.monitor.interaction import Problem
from ragstone.tools.monitor.versions import Versions


@dataclass(frozen=True, slots=True)
class Watched:
    """One figure over all windows. `look` is that of the newest window; None while the anchor is incomplete.

    `anchor_windows` of `anchor_needed` are there. `since` is the window in which the change began, `level` the mean
    from there on. `began` and `ended`: the alert did so in the newest window, if that has the figure; an alert lasts
    through windows that lack it. `restarted`: why the anchor is a later one. `lines` are what is allowed at most
    (``max``) and at least (``min``); `beyond` names the one that it is shown to be beyond.
    """

    name: str
    kind: Kind
    action: Action
    shift: float
    now: float | None
    before: float | None
    anchor: float | None
    anchor_windows: int
    anchor_needed: int
    look: Look | None = None
    since: str | None = None
    level: float | None = None
    began: bool = False
    ended: bool = False
    restarted: str | None = None
    lines: Mapping[str, float] = field(default_factory=dict)
    beyond: str | None = None

    @property
    def alert(self) -> bool:
        return self.beyond is not None or (self.look is not None and self.look.alarm)


def watch_figures(windows: Sequence[Window], table: AlertsTable, *, per_year: float) -> tuple[Watched, ...]:
    """Every figure of `windows` (oldest first), in the order of `KINDS`, then the metrics.

    What is watched, each against its anchor and each line, shares one false alarm a year.
    """
    if not windows:
        return ()
    start = table.windows.anchor_from
    used = [one for one in windows if start is None or date.fromisoformat(one.name) >= start]
    found = {name for one in used for name in one.figures}
    names = [name for name in KINDS if name in found] + sorted(found - KINDS.keys())
    rules = {name: _with_defaults(table.alerts.get(name, AlertRule()), kind_of(name)) for name in names}
    watched = sum(1 + len(rule.lines) for rule in rules.values() if rule.action != "off")
    return tuple(_watched(name, used, rules[name], table.windows.anchor, per_year * watched) for name in names)


def _with_defaults(rule: AlertRule, kind: Kind) -> AlertRule:
    """`rule` with an action, and the lines and the way that are worse of `kind`, unless it has its own."""
    action = rule.action or ("warn" if rule.lines and kind.action == "off" else kind.action)
    own = {"action": action, "worse": rule.worse or ("higher" if kind.rising else "lower")}
    line = {} if rule.lines or kind.line is None else {"max" if kind.rising else "min": kind.line}
    return rule.model_copy(update=own | line)


def _watched(name: str, windows: Sequence[Window], rule: AlertRule, needed: int, looks_per_alarm: float) -> Watched:
    kind, rising, action = kind_of(name), rule.worse == "higher", rule.action or "off"
    restarted = None
    having = [one for one in windows if name in one.figures]
    if name not in KINDS and having:
        same = [one for one in having if one.judge == having[-1].judge]
        # Only the windows since the last change: an earlier judge of the same name may come back.
        if len(same) < len(having):
            last = max(i for i, one in enumerate(having) if one.judge != having[-1].judge)
            having = having[last + 1 :]
            restarted = f"the judge or the metric changed on {having[0].name}"
    newest = windows[-1].name if windows else ""
    now = having[-1].figures[name].value if having and having[-1].name == newest else None
    before = having[-2].figures[name].value if len(having) > 1 else None
    first = [one.figures[name].value for one in having[:needed]]
    anchor = sum(first) / len(first) if len(first) == needed else None

    def shift(mean: float) -> float:
        return rule.shift or (kind.shift * abs(mean) if kind.relative else kind.shift)

    found = Watched(
        name, kind, action, shift(anchor or 0.0), now, before, anchor, len(first), needed,
        restarted=restarted, lines=rule.lines,
    )  # fmt: skip
    if action == "off":
        return found
    series = [
        Observed(figure.value, figure.n, figure.variance, date.fromisoformat(one.name).weekday())
        for one, figure in ((one, one.figures[name]) for one in having)
    ]
    look_at = partial(surveil_line, series, share=kind.form in ("share", "score"), looks_per_alarm=looks_per_alarm)
    charts: dict[str | None, tuple[Look, ...]] = {
        side: look_at(line=line, shift=shift(line), rising=side == "max") for side, line in rule.lines.items()
    }
    if found.shift > 0.0:
        charts[None] = surveil(series, shift=found.shift, rising=rising, anchor=needed, looks_per_alarm=looks_per_alarm)
    newest_looks = {side: looks[-1] for side, looks in charts.items() if looks}
    beyond, shown = next(
        ((side, look) for side, look in newest_looks.items() if look.alarm), (None, newest_looks.get(None))
    )
    alert = shown is not None and shown.alarm
    was = any(look.alarm for looks in charts.values() for look in looks[-2:-1])
    return replace(
        found,
        look=newest_looks.get(None),
        beyond=beyond,
        since=having[shown.since].name if shown is not None and alert else None,
        level=None if shown is None else shown.level,
        began=now is not None and alert and not was,
        ended=now is not None and was and not alert,
    )


@dataclass(slots=True)
class LogRead:
    """What was read of a log: lines, new and known interactions, lines with problems, and what stopped the reading.

    `unfinished_bytes` is the size in bytes of an unfinished last line, which is left for the next job.
    """

    name: str
    lines: int = 0
    new: int = 0
    known: int = 0
    problems: Counter[Problem] = field(default_factory=Counter)
    damage: str | None = None
    unfinished_bytes: int = 0


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
    versions: Versions = field(default_factory=Versions)

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
