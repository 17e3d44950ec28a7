"""Verdicts made by hand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ragstone.gate.findings import Finding, Level, findings
from ragstone.gate.verdict import Check, Comparability, Explanation, GateVerdict, Sensitivity, Status


def verdict_of(
    status: Status,
    reason: str = "",
    checks: Iterable[Check] = (),
    *,
    warnings: Iterable[str] = (),
    notes: Iterable[str] = (),
    sensitivity: str = "",
    visible_loss: float | None = None,
    comparability: Comparability | None = None,
    inconclusive_blocks: bool = False,
    **explanation: Any,
) -> GateVerdict:
    """A verdict with these checks and sentences; `explanation` are fields of the `Explanation`."""
    seen = Finding("sensitivity", Level.FACT, sensitivity, data=Sensitivity(visible_loss))
    return GateVerdict(
        status,
        reason,
        (
            *(check.finding for check in checks),
            *findings("warning", Level.WARNING, warnings),
            *findings("note", Level.NOTE, notes),
            *([seen] if sensitivity or visible_loss is not None else []),
        ),
        comparability,
        Explanation(**explanation),
        inconclusive_blocks,
    )
