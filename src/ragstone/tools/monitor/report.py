"""What a monitor found, as text, Markdown and JSON.

Names of files and metrics are escaped. No text of an interaction is in it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from textwrap import fill
from typing import Any

from ragstone.formatting import NONE, counted
from ragstone.printable import shell_word
from ragstone.report.escape import clip, encodable, markdown_code, markdown_inline, one_line
from ragstone.report.templates import render_text_template
from ragstone.tools.monitor.figures import Window, kind_of
from ragstone.tools.monitor.outcome import LogRead, Monitored, Watched
from ragstone.tools.monitor.personal import replacements


def monitor_text(found: Monitored) -> str:
    """For a terminal or a log: 80 columns."""
    text = _rendered("monitor.txt.j2", found, wrapped=lambda line: fill(line, 80, subsequent_indent="  "))
    return "".join(f"{one_line_keeping_columns(line)}\n" for line in text.splitlines())


def one_line_keeping_columns(line: str) -> str:
    """`line` without anything that a terminal would act on; its spaces stay."""
    return "  ".join(" ".join(one_line(word) for word in part.split(" ")) for part in line.split("  "))


def monitor_markdown(found: Monitored) -> str:
    """For a job summary or an issue."""
    return _rendered("monitor.md.j2", found, inline=markdown_inline, code=markdown_code) + "\n"


def _rendered(name: str, found: Monitored, **more: object) -> str:
    shown = {"found": found, "headline": headline(found), "remarks": _remarks(found), "line": one_line, "clip": clip}
    functions = {"mark": _mark, "sentence": sentence, "figures": _cells, "counts": _counts}
    return render_text_template(name, __package__, **shown, **functions, **more)


def monitor_json(found: Monitored) -> str:
    body: dict[str, Any] = {
        "schema_version": 1,
        "window": found.windows[-1].name if found.windows else None,
        "length": found.length,
        "timezone": found.timezone,
        "failing": found.failing,
        "empty": found.empty,
        "decided": list(found.decided),
        "figures": [_figure(one) for one in found.figures],
        "windows": [{"window": one.name} | _fields(one, "name") for one in found.windows],
        "open": [{"window": one.name, "figures": asdict(one)["figures"]} for one in found.open],
        "versions": asdict(found.versions)["figures"],
        "differences": [asdict(one) | {"word": one.word} for one in found.versions.differences],
        "together": found.versions.together,
        "logs": [{**asdict(log), "problems": dict(sorted(log.problems.items()))} for log in found.logs],
        "notes": list(found.notes),
        "drafts": None if found.drafts is None else asdict(found.drafts),
        "runs": [str(run) for run in found.runs],
    }
    return json.dumps(encodable(body), ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def monitor_message(found: Monitored) -> tuple[str, dict[str, Any]]:
    """The message for a webhook: a text of a few lines, and the facts for programs."""
    lines = [headline(found), *(f"{_mark(one)}: {sentence(one)}" for one in found.alerts)]
    facts = {
        "window": found.windows[-1].name if found.windows else None,
        "failing": found.failing,
        "empty": found.empty,
        "alerts": [_figure(one) for one in found.alerts],
    }
    return "\n".join(lines), facts


def headline(found: Monitored) -> str:
    if not found.windows:
        return f"No {found.length} is over yet: there is nothing to compare."
    name = f"{'Week of' if found.length == 'week' else ''} {found.windows[-1].name}".strip()
    if found.empty:
        return f"{name}: no interactions. Is the log still being written, and does this job read it?"
    failing = sum(one.action == "fail" for one in found.alerts)
    warning = len(found.alerts) - failing
    parts = [f"{counted(failing, 'alert')} that {'fails' if failing == 1 else 'fail'}"] if failing else []
    parts += [counted(warning, "warning")] if warning else []
    return f"{name}: {' and '.join(parts) or 'no alert'}."


def sentence(one: Watched) -> str:
    show = one.kind.show
    parts = [f"{show(one.anchor)} in the anchor"] if one.look is not None and one.look.alarm else []
    if one.beyond is not None:
        parts.append(f"{'at most' if one.beyond == 'max' else 'at least'} {show(one.lines[one.beyond])} is allowed")
    parts += [f"{show(one.level)} since {one.since}", f"{show(one.now)} now"]
    return f"{one.kind.title}: {', '.join(parts)}."


def _mark(one: Watched) -> str:
    return "FAIL" if one.action == "fail" else "warning"


def _state(one: Watched) -> str:
    if one.action == "off":
        return "not watched"
    if one.alert:
        return _mark(one)
    if one.now is None:
        return "nothing to compare"
    if one.look is None:
        return f"anchor: {one.anchor_windows} of {one.anchor_needed}"
    return "steady"


def _cells(one: Watched) -> tuple[str, ...]:
    return (*map(one.kind.show, (one.now, one.before, one.anchor)), _state(one))


def _remarks(found: Monitored) -> list[str]:
    made = found.drafts
    replaced = [] if made is None else [replacements(name, count) for name, count in made.replaced.items()]
    quoted = "" if made is None else shell_word(made.file)
    return render_text_template(
        "remarks.txt.j2", __package__, found=found, replaced=replaced, quoted=quoted, shares=_shares, line=one_line,
        kind_of=kind_of,
    ).splitlines()  # fmt: skip


def _shares(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {one_line(what)}" for what, count in counts.items())


def _counts(log: LogRead) -> str:
    parts = [f"{counted(log.new, 'new interaction')}"]
    parts += [f"{log.known:,} known"] if log.known else []
    parts += [f"{counted(count, 'line')} {problem.value}" for problem, count in sorted(log.problems.items())]
    parts += [f"the file {log.damage}"] if log.damage else []
    parts += ["an unfinished last line"] if log.unfinished_bytes else []
    return ", ".join(parts) or NONE


def _fields(one: Window | Watched, *left_out: str) -> dict[str, Any]:
    return {name: value for name, value in asdict(one).items() if name not in left_out}


def _figure(one: Watched) -> dict[str, Any]:
    found = _fields(one, "kind", "look", "restarted")
    chart = {name: None if one.look is None else getattr(one.look, name) for name in ("chart", "limit")}
    return found | {"alert": one.alert, "state": _state(one)} | chart
