"""The report of a stored run: decide again, and render."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from ragstone.gate.verdict import GateVerdict
from ragstone.history.file import read_history
from ragstone.history.trend import trends
from ragstone.report.parts import Links, ReportView
from ragstone.report.render import Format, render
from ragstone.report.templates import own_templates, read_templates
from ragstone.run.directory import HISTORY, RunDirectory
from ragstone.usecases.baseline import open_baseline
from ragstone.usecases.compare import read_compare_policy
from ragstone.usecases.decide import ComparedRun, Terms, decide, view_of
from ragstone.usecases.history import Book


@dataclass(frozen=True, slots=True)
class Reported:
    """The report of one run. `text` is in the requested format."""

    text: str
    view: ReportView
    verdict: GateVerdict


def report(
    run_path: Path,
    form: Format,
    *,
    baseline: Path | None = None,
    thresholds: Path | None = None,
    templates: Path | None = None,
    history: Path | None = None,
    links: Links | None = None,
    seed: int = 0,
) -> Reported:
    """Compare the run in `run_path` with a policy and, if given, a baseline run, and render the verdict.

    Nothing is evaluated and nothing is written. `templates` can contain the user's `report.md.j2`. The run is also
    compared with `history`, by default the one in the run directory, if any.
    Raises RunDirectoryError, BaselineError or ConfigError, each with the place.
    """
    run = RunDirectory.open(run_path)
    before = open_baseline(baseline, any_run=True) if baseline is not None else None
    policy = read_compare_policy(thresholds)
    current = ComparedRun.of(run)
    terms = Terms.of(policy, ComparedRun.baseline(before), current.day, required=before is not None, seed=seed)
    book = Book(read_history(history if history is not None else run_path / HISTORY))
    verdict = decide(current, terms, book=book if book.history.runs else None)
    view = view_of(current, verdict, terms.baseline, links)
    view = replace(view, trends=trends(book.history.runs, view.sample_metrics))
    return Reported(
        render(view, form, templates=read_templates(templates) if templates is not None else own_templates(Path())),
        view,
        verdict,
    )
