"""Logs of an application in production, as days of interactions, and the monitor of one of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ragstone.evaluation.redact import Redactor
from ragstone.evaluation.rounds.context import RunContext
from ragstone.gate.policy import policy_from_mapping
from ragstone.settings.settings import Settings
from ragstone.tools.monitor.monitor import MonitoredWindow, MonitorPlan, monitor
from ragstone.tools.monitor.window import period_before
from tests.cli.project import write_rows

START = datetime(2026, 10, 1, tzinfo=UTC)
SOURCE = "Shoes can be returned for 30 days after delivery, in their box."
ANSWER = "Shoes can be returned for 30 days after delivery."
WRONG = "Bananas were invented in 1834 by the king of Norway."


def interaction(day: float, question: str = "How long may I return shoes?", **more: Any) -> dict[str, Any]:
    """An interaction, `day` days after START."""
    time = START + timedelta(days=day)
    return {"id": f"{day:.6f}", "timestamp": time.isoformat(), "query": question, "answer": ANSWER, **more}


def write(path: Path, records: Iterable[Mapping[str, Any]]) -> Path:
    write_rows(path, records)
    return path


def monitor_day(
    folder: Path,
    *logs: Path | str,
    day: float = 1.0,
    since: str = "1d",
    policy: Mapping[str, Any] | None = None,
    drafts: str | None = None,
    golden: str | None = None,
    secrets: Iterable[str] = (),
) -> MonitoredWindow:
    """Monitor the window that ends `day` days after START; without a policy, no answer is judged."""
    plan = MonitorPlan(
        logs=[str(log) for log in logs],
        period=period_before(START + timedelta(days=day), since),
        policy=policy_from_mapping({"monitor": {"sample": 0}} if policy is None else policy),
        history=folder / "history.jsonl",
        out=folder / "out",
        drafts=None if drafts is None else folder / drafts,
    )
    settings = Settings(root=folder)
    if golden is not None:
        settings = settings.with_value("golden.paths", [golden])
    return asyncio.run(monitor(plan, settings, RunContext(environ={}, redact=Redactor(secrets))))


def values(monitored: MonitoredWindow) -> dict[str, float]:
    """The figures of a window."""
    return {name: part.value for name, part in monitored.line.figures.items()}
