"""The terms of a report, from settings."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from ragstone.app.baseline import NamedRun
from ragstone.app.report import ReportTerms
from ragstone.config import Settings
from ragstone.project.policy import gate_policy
from ragstone.report.templates import own_templates, read_templates

ASKABLE = {"gate.thresholds": "--thresholds", "gate.baseline": "--baseline", "run.history": "--history"}
"""The settings that ask for another decision than the recorded one, and their flags."""


def report_terms(
    settings: Settings, *, asked: Mapping[str, str] | None = None, templates: Path | None = None
) -> ReportTerms:
    """The terms in `settings`, of which some settings of ASKABLE were `asked` for. `templates` has a `report.md.j2`."""
    gate = settings.gate
    return ReportTerms(
        policy=partial(gate_policy, settings),
        baseline=None
        if gate.baseline is None
        else NamedRun(settings.path(gate.baseline), gate.baseline, gate.baseline_any),
        history=None if settings.run.history is None else settings.path(settings.run.history),
        seed=settings.run.seed,
        asked={ASKABLE[key]: value for key, value in (asked or {}).items()},
        templates=own_templates(settings.root) if templates is None else read_templates(templates),
    )
