"""How reliable the offline judge's scores are, by metric."""

from __future__ import annotations

from collections.abc import Iterable

from ragstone.judge.offline.reliability import grade


def offline_grades(metrics: Iterable[str]) -> dict[str, str]:
    """The measured grade of the offline judge for each of `metrics` that has one: ``B (fair)``."""
    found = {name: grade(name) for name in metrics}
    return {name: f"{one.letter} ({one.word})" for name, one in found.items() if one is not None}
