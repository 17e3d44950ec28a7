"""A run or comparison reduced to what a user relies on. After a change of `report.json`, adapt `of_report`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Outcome = Mapping[str, Any]
"""Plain JSON: `exit`, and what `of_report` adds where there is a report."""


def of_report(report: Mapping[str, Any]) -> dict[str, Any]:
    """From what `--format json` prints: the status, the half that is to blame, causes, changes, means and checks.

    A check is `status action estimate` under its metric and slice, in a table of its kind.
    """
    outcome: dict[str, Any] = {"status": report["verdict"]["status"]}
    explanation = report["explanation"]
    if explanation["attribution"] is not None:
        outcome["half"] = explanation["attribution"]["side"]
    if explanation["diagnosis"] is not None:
        outcome["causes"] = {entry["cause"]: len(entry["samples"]) for entry in explanation["diagnosis"]["counts"]}
    outcome["changed"] = sorted({change["what"] for change in explanation["changes"]})
    means = {
        _place(row["metric"], row["slice"]): _rounded(row["score"])
        for row in report["metrics"]
        if row["score"] is not None
    }
    outcome["means"] = dict(sorted(means.items()))
    tables: dict[str, dict[str, str]] = {}
    for check in report["checks"]:
        table = tables.setdefault(f"{check['kind']} checks", {})
        place = _place(check["metric"] or check["name"], check["slice"])
        again = sum(1 for name in table if name.partition(" #")[0] == place)
        estimate = "" if check["estimate"] is None else f" {_rounded(check['estimate'])}"
        table[f"{place} #{again + 1}" if again else place] = f"{check['status']} {check['action']}{estimate}"
    for kind in sorted(tables):
        outcome[kind] = dict(sorted(tables[kind].items()))
    return outcome


def _place(metric: str, tag: str | None) -> str:
    return metric if tag is None else f"{metric} [{tag}]"


def _rounded(value: float) -> float:
    return round(value, 3) + 0.0  # never -0.0
