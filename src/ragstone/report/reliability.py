"""How far the offline judge's scores can be relied on, metric by metric."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module


def offline_grades(metrics: Iterable[str]) -> dict[str, str]:
    """The measured reliability grade of the offline judge for each of `metrics` that has one."""
    try:
        grade = import_module("ragstone.judge.offline.reliability").grade
    except ImportError:
        return {}
    return {name: str(found) for name in metrics if (found := grade(name)) is not None}
