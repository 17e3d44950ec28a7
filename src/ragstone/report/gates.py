"""One comment for several gates: a row per gate, and one verdict over all of them.

The rows are kept in the comment itself, on a line of their own below its first one, as data that can't end the line or
the HTML comment around it. What is shown is written from that data each time, so that no text of a row can be taken for
another row.
"""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError

from ragstone.gate.verdict import Action, Check, Status
from ragstone.printable import without_commands
from ragstone.report import escape, wording
from ragstone.report.markdown import ICONS, length
from ragstone.report.parts import ReportView
from ragstone.report.rows import check_reason, check_title
from ragstone.report.summary import CHARACTERS
from ragstone.report.templates import PACKAGE, render_text_template

NOT_AFFECTED: Literal["not affected"] = "not affected"
MAX_STATE_BYTES = 2_000_000
_MAX_REASON = 400
_MAX_DETAILS = 6
_MAX_OPEN = 8
"""Gates above the first fold, which share the characters of `summary.CHARACTERS` with the rest."""
_STATE = re.compile(r"<!-- ragstone:rows:([A-Za-z0-9+/=]*) -->")

Verdict = Literal["pass", "fail", "inconclusive", "error", "not affected"]


class GateRow(BaseModel):
    """What one gate has to say on one commit. Texts are foreign, and already redacted.

    `code` is the exit code of its job. `sharing` is the number of gates that share the error rate, as it counted them.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    gate: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    verdict: Verdict
    reason: Annotated[str, StringConstraints(max_length=_MAX_REASON)]
    details: tuple[Annotated[str, StringConstraints(max_length=_MAX_REASON)], ...] = Field(
        default=(), max_length=_MAX_DETAILS
    )
    code: int = 0
    sharing: int = Field(default=1, ge=1)
    run_id: int
    attempt: int = 1
    sha: Annotated[str, StringConstraints(pattern="^[0-9a-f]{7,64}$")]
    url: Annotated[str, StringConstraints(max_length=500)]

    @property
    def age(self) -> tuple[int, int]:
        """Greater for later results: runs are numbered by GitHub, and their attempts counted."""
        return self.run_id, self.attempt


_ROWS = TypeAdapter(tuple[GateRow, ...])


def row_texts(view: ReportView) -> tuple[str, tuple[str, ...]]:
    """The reason of a verdict, and the blocking checks that don't pass if there are several, for a row."""
    found = [check for check in view.checks if check.action is Action.BLOCK and check.status is not Status.PASS]
    details = tuple(clipped(_detail(check)) for check in found[:_MAX_DETAILS])
    return clipped(str(view.headline)), details if len(details) > 1 else ()


def _detail(check: Check) -> str:
    reason = check_reason(check)
    named = check.metric is not None and reason.startswith(wording.metric_title(check.metric))
    return reason if named and check.slice is None else f"{check_title(check)}: {reason}"


def clipped(text: str) -> str:
    """At most as much of `text` as a row holds."""
    return escape.clip(text, _MAX_REASON)


def merged_rows(*sources: Iterable[GateRow]) -> tuple[GateRow, ...]:
    """The newest row of each gate, by name."""
    newest: dict[str, GateRow] = {}
    for row in (row for rows in sources for row in rows):
        if row.gate not in newest or row.age >= newest[row.gate].age:
            newest[row.gate] = row
    return tuple(newest[name] for name in sorted(newest))


def read_rows(content: str) -> tuple[GateRow, ...]:
    """The rows in the `content` of a comment, below its marker; none if there are no valid ones in its first line."""
    found = _STATE.fullmatch(content.partition("\n")[0].rstrip())
    if found is None:
        return ()
    try:
        packed = zlib.decompressobj()
        body = packed.decompress(base64.b64decode(found[1], validate=True), MAX_STATE_BYTES)
        return () if packed.unconsumed_tail else _ROWS.validate_json(body)
    except (binascii.Error, zlib.error, ValidationError):
        return ()


def _state(rows: Sequence[GateRow]) -> str:
    body = zlib.compress(_ROWS.dump_json(tuple(rows)), 9)
    return f"<!-- ragstone:rows:{base64.b64encode(body).decode('ascii')} -->"


@dataclass(frozen=True, slots=True)
class _Shown:
    """A line of the table. `rank` orders lines: what needs attention first."""

    gate: str
    state: str
    icon: str
    reason: str
    rank: int
    url: str | None = None
    details: tuple[str, ...] = ()


_RANKS = {"error": 0, "fail": 1, "inconclusive": 2, "waiting": 3, "pass": 5, NOT_AFFECTED: 6}
_MARKS = {**ICONS, "waiting": "⏳", "removed": "⚠️", NOT_AFFECTED: "➖"}


def render_gates(rows: Sequence[GateRow], names: Mapping[str, bool], *, limit: int) -> str:
    """The content of the comment, without its marker, in at most `limit` characters if possible.

    `names` are the gates that are expected to have a row, each with whether the checkout still has it. A row for an
    older commit than the newest row's counts as none.
    """
    newest = max(rows, key=lambda row: row.age, default=None)
    sha = newest.sha if newest is not None else ""
    kept = [row for row in rows if row.gate in names or row.sha == sha]
    shown = _shown(kept, names, sha)
    text = ""
    for details, reason in ((_MAX_DETAILS, 300), (3, 200), (1, 120), (0, 80), (0, 0)):
        text = f"{_state(kept)}\n{_text(shown, kept, sha, details, reason)}"
        if length(text) <= limit:
            return text
        if details == 0:
            kept = [row.model_copy(update={"details": (), "reason": escape.clip(row.reason, reason)}) for row in kept]
    return text


def _shown(rows: Sequence[GateRow], names: Mapping[str, bool], sha: str) -> list[_Shown]:
    found = {row.gate: _of_row(row) for row in rows if row.sha == sha}
    before = {row.gate: row for row in rows if row.sha != sha}
    for name, remains in names.items():
        if name in found:
            continue
        if not remains:
            found[name] = _Shown(name, "removed", _MARKS["removed"], "This change removes the gate.", 4)
            continue
        last = before.get(name)
        was = "" if last is None else f"It was '{last.verdict}' at {last.sha[:7]}."
        found[name] = _Shown(name, "waiting", _MARKS["waiting"], was, _RANKS["waiting"])
    return sorted(found.values(), key=lambda one: (one.rank, one.gate))


def _of_row(row: GateRow) -> _Shown:
    lenient = row.code == 0 and row.verdict in ("fail", "inconclusive")
    state = f"{row.verdict} (does not block)" if lenient else row.verdict
    details = () if row.verdict in ("pass", NOT_AFFECTED) else row.details
    return _Shown(row.gate, state, _MARKS[row.verdict], row.reason, _RANKS[row.verdict], row.url, details)


def _text(shown: Sequence[_Shown], rows: Sequence[GateRow], sha: str, details: int, reason: int) -> str:
    counts = {row.sharing for row in rows if row.sha == sha and row.verdict != NOT_AFFECTED}
    reason = min(reason, max(80, (CHARACTERS - 500) // min(len(shown) or 1, _MAX_OPEN)))
    cut = [
        replace(
            one,
            reason=escape.clip(one.reason, reason) if reason else "",
            details=tuple(escape.clip(text, reason) for text in one.details[:details]),
        )
        for one in shown
    ]
    values = {
        "shown": cut,
        "open": min(_MAX_OPEN, sum(one.rank < _RANKS["pass"] for one in shown) or len(shown)),
        "blocked": any(row.code for row in rows if row.sha == sha),
        "counts": counts,
        "sharing": max(counts) if len(counts) == 1 else 1,
        "sha": sha[:7],
    }
    helpers = {"inline": escape.markdown_inline, "code": escape.markdown_code, "link": escape.markdown_link}
    text = render_text_template("gates.md.j2", PACKAGE, marks=_MARKS, **values, **helpers)
    return without_commands(text) + "\n"
