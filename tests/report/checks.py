"""Checks of one metric, made by hand."""

from __future__ import annotations

from msgspec.structs import replace

from ragstone.gate.verdict import Action, Check, CheckKind, Interval, Status


def metric_check(status: Status = Status.PASS, **changes: object) -> Check:
    """A floor of faithfulness."""
    check = Check(
        name="faithfulness floor",
        kind=CheckKind.FLOOR,
        status=status,
        action=Action.BLOCK,
        reason="",
        metric="faithfulness",
        estimate=0.9,
        interval=Interval(0.88, 0.92, 0.95, "bootstrap"),
        threshold=0.85,
    )
    return replace(check, **changes)
