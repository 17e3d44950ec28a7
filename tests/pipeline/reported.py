"""A gate whose reports are rendered again from its run, as `ragstone report` does: they must be the same bytes."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ragstone.evaluation.rounds.context import RunContext
from ragstone.pipeline.gate import REPORT_FILES, GatedRun
from ragstone.report.render import FORMATS, render
from ragstone.report.templates import own_templates
from ragstone.settings.settings import Settings
from tests.pipeline.asked import gate, report


def gated(settings: Settings, context: RunContext) -> GatedRun:
    """`gate`, and the same reports from the run alone."""
    outcome = asyncio.run(gate(settings, context))
    again(outcome.run.path, settings, outcome)
    return outcome


def again(run: Path, settings: Settings, outcome: GatedRun | None = None) -> None:
    """Assert that each report in `run` but the page is rendered again from the run, byte for byte."""
    compared = 0
    for form in FORMATS:
        text = report(run, form, settings)
        if form in REPORT_FILES and form != "html" and (run / REPORT_FILES[form]).is_file():
            assert text == (run / REPORT_FILES[form]).read_text(encoding="utf-8"), form
            compared += 1
        elif outcome is not None:
            assert text == render(outcome.document, form, templates=own_templates(settings.root)), form
            compared += 1
    assert compared
