"""Several runs compared with one baseline: what they have in common first, then the report of each."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ragstone.errors import EXIT_PASS
from ragstone.formatting import counted, some
from ragstone.gate.verdict import Status
from ragstone.printable import without_commands
from ragstone.report import escape, wording
from ragstone.report.escape import line
from ragstone.report.html import render_html
from ragstone.report.html_page import Framed, render_page
from ragstone.report.junit import join_junit
from ragstone.report.markdown import ICONS
from ragstone.report.parts import MetricRow, ReportView
from ragstone.report.render import MARKDOWN_LIMIT, Format, render
from ragstone.report.templates import PACKAGE, read_template, render_text_template
from ragstone.report.terminal import MARKS, SCREEN, STYLES, plain_console, render_summary, render_text

_ORDER = (Status.FAIL, Status.ERROR, Status.INCONCLUSIVE, Status.PASS)
"""The worst first."""
_MAX_RUNS = 10
_FRAMES = "details.run iframe{width:100%;height:90vh;border:0;margin-top:1rem}"


@dataclass(frozen=True, slots=True)
class NamedView:
    """A run's report, what the user calls the run, and for HTML the lines with every sample (`report.page`)."""

    name: str
    view: ReportView
    page: Iterable[str] = ()


def overall_status(found: Sequence[NamedView]) -> Status:
    return min((one.view.status for one in found), key=_ORDER.index)


def overall_exit_code(found: Sequence[NamedView]) -> int:
    """That of a run with the worst verdict that has one."""
    ordered = sorted(found, key=lambda one: _ORDER.index(one.view.status))
    return next((one.view.exit_code for one in ordered if one.view.exit_code), EXIT_PASS)


def headline(found: Sequence[NamedView]) -> str:
    """``1 of 3 runs fails: b.csv``."""
    status = overall_status(found)
    names = [one.name for one in found if one.view.status is status]
    one, many = {
        Status.FAIL: ("fails", "fail"),
        Status.ERROR: ("has no verdict", "have no verdict"),
        Status.INCONCLUSIVE: ("is inconclusive", "are inconclusive"),
        Status.PASS: ("passes", "pass"),
    }[status]
    if status is Status.PASS:
        return f"{counted(len(found), 'run')} {many if len(found) > 1 else one}"
    return f"{len(names)} of {counted(len(found), 'run')} {one if len(names) == 1 else many}: {some(names)}"


def render_several(baseline: str, found: Sequence[NamedView], format: Format) -> str:
    """`found`, at least two runs, each compared with `baseline`, in one document.

    ``json`` is ``{"baseline", "status", "exit_code", "runs": [{"run", "report"}]}``, each report as for a single run.
    """
    if format == "json":
        runs = [{"run": one.name, "report": json.loads(render(one.view, "json"))} for one in found]
        document = {"baseline": baseline, "status": str(overall_status(found)), "exit_code": overall_exit_code(found)}
        return json.dumps(escape.encodable({**document, "runs": runs}), indent=2, ensure_ascii=False) + "\n"
    if format == "junit":
        return join_junit((one.name, one.view) for one in found)
    if format == "md":
        return _markdown(baseline, found)
    if format == "html":
        return _html(baseline, found)
    return text_of_several(baseline, found)


@dataclass(frozen=True, slots=True)
class _Line:
    """A metric in one run. Without a `word` of its state, the run has no score for it."""

    run: str
    word: str | None
    figures: wording.Figures
    state: str


_NOTHING = wording.Figures("–", "", "", "")


def _tables(found: Sequence[NamedView]) -> list[tuple[str, str | None, list[_Line]]]:
    keys = dict.fromkeys((row.metric, row.slice) for one in found for row in one.view.metrics)
    by_run = [(one.name, {(row.metric, row.slice): row for row in one.view.metrics}) for one in found]
    return [
        (wording.metric_title(metric), part, [_line_of(name, rows.get((metric, part))) for name, rows in by_run])
        for metric, part in keys
    ]


def _line_of(run: str, row: MetricRow | None) -> _Line:
    if row is None:
        return _Line(run, None, _NOTHING, "not scored")
    return _Line(run, wording.status_word(row.status, row.action), wording.figures(row), row.state)


# -- text --------------------------------------------------------------------------------------------------------------


def text_of_several(
    baseline: str, found: Sequence[NamedView], *, width: int | None = None, colour: bool = False
) -> str:
    """The whole text, in lines of at most `width` columns; see `terminal.render_text`."""
    out = io.StringIO()
    console = plain_console(out, width, colour)
    console.print(_headline(found))
    console.print(Text(f"Each run is compared with {line(baseline, 200)}."))
    _overview(console, found)
    reports = [f"── {line(one.name, 60)}\n\n{render_text(one.view, width=width, colour=colour)}" for one in found]
    texts = (out.getvalue(), *reports)
    return "\n".join("\n".join(one.rstrip() for one in text.rstrip().split("\n")) + "\n" for text in texts)


def summary_of_several(found: Sequence[NamedView], *, width: int | None = None, colour: bool = False) -> str:
    """Line one of each run, and what matters of the worst, in the lines that a single run has."""
    out = io.StringIO()
    console = plain_console(out, min(width or SCREEN[0], SCREEN[0]), colour)
    ranked = sorted(found, key=lambda one: _ORDER.index(one.view.status))
    worst, room = ranked[0], max(4, _MAX_RUNS if ranked[0].view.status is Status.PASS else _MAX_RUNS // 2)
    for one in ranked[:room]:
        status = str(one.view.status)
        mark = (f"{MARKS[status]} {line(one.name, 60)}: ", STYLES[status])
        console.print(Text.assemble(mark, line(one.view.headline.lead, 120)))
    if len(ranked) > room:
        console.print(Text(f"and {len(ranked) - room:,} more"))
    if worst.view.status is not Status.PASS:
        lines = SCREEN[1] - out.getvalue().count("\n") - 3
        console.print(Text(f"\n── {line(worst.name, 60)}"))
        out.write(render_summary(worst.view, width=width, colour=colour, lines=lines))
    console.print(_headline(found))
    return out.getvalue()


def _headline(found: Sequence[NamedView]) -> Text:
    status = str(overall_status(found))
    return Text(f"{MARKS[status]} {line(headline(found), 400)}", STYLES[status])


def _overview(console: Console, found: Sequence[NamedView]) -> None:
    for title, part, lines in _tables(found):
        table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, title_justify="left", padding=(0, 1))
        table.add_column("")
        name = wording.sentence(title)
        table.add_column(line(name if part is None else f"{name} ({part})", 60), overflow="fold")
        for head in ("Score", "Change"):
            table.add_column(head, no_wrap=True)
        table.add_column("State", overflow="fold")
        for one in lines:
            mark = Text(MARKS[one.word], STYLES[one.word]) if one.word is not None else ""
            table.add_row(mark, line(one.run, 60), one.figures.score, one.figures.change, line(one.state, 60))
        console.print(table)
        console.print()


# -- Markdown ----------------------------------------------------------------------------------------------------------


def _markdown(baseline: str, found: Sequence[NamedView]) -> str:
    room = max(MARKDOWN_LIMIT // len(found) - 400, 2_000)
    names = [escape.markdown_inline(one.name) for one in found]
    titles = [wording.STATUS_TITLES[one.view.status].lower() for one in found]
    reports = [
        (f"<code>{name}</code>: {title}", render(one.view, "md", limit=room).rstrip())
        for name, title, one in zip(names, titles, found, strict=True)
    ]
    values = {"headline": headline(found), "baseline": baseline, "tables": _tables(found), "reports": reports}
    helpers = {"inline": escape.markdown_inline, "code": escape.markdown_code, "icons": ICONS}
    icon = ICONS[str(overall_status(found))]
    return without_commands(render_text_template("several.md.j2", PACKAGE, icon=icon, **values, **helpers)) + "\n"


# -- HTML --------------------------------------------------------------------------------------------------------------


def _html(baseline: str, found: Sequence[NamedView]) -> str:
    """A page with the table, and the page of each run in a frame of its own."""
    tables = [
        {"title": title if part is None else f"{title} ({part})", "rows": lines}
        for title, part, lines in _tables(found)
    ]
    return render_page(
        "several.html.j2",
        styles=(read_template("report.css"), _FRAMES),
        frames=(read_template("report.js"),),
        headline=headline(found),
        status=overall_status(found).value,
        baseline=baseline,
        tables=tables,
        runs=[
            {"name": one.name, "word": wording.STATUS_TITLES[one.view.status], "status": one.view.status.value}
            | {"page": Framed(render_html(one.view, one.page))}
            for one in found
        ],
    )
