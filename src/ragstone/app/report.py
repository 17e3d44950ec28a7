"""The report of a stored run: its recorded verdict, or another one if other terms are asked for."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ragstone.app.baseline import open_baseline
from ragstone.app.decide import ComparedRun, Terms, decide, gate_policy, policy_for_part, view_of
from ragstone.app.history import Book
from ragstone.app.page import page_of, read_page
from ragstone.app.recorded import RecordedTerms, RecordedVerdict, read_verdict
from ragstone.config import Settings
from ragstone.gate.verdict import GateVerdict
from ragstone.history.file import read_history
from ragstone.history.trend import trends
from ragstone.report.parts import Links, ReportView
from ragstone.report.redact import Redactor
from ragstone.report.render import Format, render
from ragstone.report.templates import own_templates, read_templates
from ragstone.report.view import with_links
from ragstone.run.directory import HISTORY, RunDirectory

ASKABLE = {"gate.thresholds": "--thresholds", "gate.baseline": "--baseline", "run.history": "--history"}
"""The settings that ask for another decision than the recorded one, and their flags."""


@dataclass(frozen=True, slots=True)
class Reported:
    """The report of one run. `text` is in the requested format."""

    text: str
    view: ReportView


def report(
    run_path: Path | None,
    form: Format,
    settings: Settings,
    redact: Redactor,
    *,
    asked: Mapping[str, str] | None = None,
    templates: Path | None = None,
    links: Links | None = None,
) -> Reported:
    """Render the verdict of the run in `run_path` (default: that of `settings`).

    Nothing is evaluated and nothing is written. The verdict is the recorded one of the gate, with all that its reports
    said. It is decided again if the run has none, or if `asked` has a setting of ASKABLE: on the recorded terms but for
    those that are asked for, or on the terms of `settings` if none are recorded. `templates` can contain the user's
    `report.md.j2`. Raises RunDirectoryError, BaselineError or ConfigError, each with the place.
    """
    run = RunDirectory.open(run_path if run_path is not None else settings.path(settings.run.out))
    recorded = read_verdict(run)
    page: Iterable[str] = ()
    if recorded is not None and not asked:
        view = recorded.view if links is None else with_links(recorded.view, links)
        page = read_page(run, links) if form == "html" else ()
    else:
        decided = _decided(run, recorded, settings, asked or {}, links)
        view = redact.view(decided.view)
        page = page_of(decided.current, decided.verdict, decided.baseline, redact, links) if form == "html" else ()
    own = read_templates(templates) if templates is not None else own_templates(settings.root)
    return Reported(render(view, form, templates=own, page=page), view)


@dataclass(frozen=True, slots=True)
class _Decided:
    current: ComparedRun
    verdict: GateVerdict
    baseline: ComparedRun | None
    view: ReportView


def _decided(
    run: RunDirectory,
    recorded: RecordedVerdict | None,
    settings: Settings,
    asked: Mapping[str, str],
    links: Links | None,
) -> _Decided:
    then = recorded.terms if recorded is not None else None
    if then is None or "gate.thresholds" in asked:
        policy = gate_policy(settings, run.manifest.metrics)
    else:
        policy = then.policy_again()
    current = ComparedRun.of(run)
    warnings: tuple[str, ...] = () if recorded is None else (_otherwise(recorded, asked),)
    if then is not None and then.limited:
        drawn = {name: facts.tags for name, facts in current.scores.samples.items()}
        policy, undrawn = policy_for_part(policy, drawn)
        warnings += undrawn
    baseline = _baseline(run, then, settings, asked)
    seed = settings.run.seed if then is None else then.seed
    terms = Terms.of(policy, baseline, current.day, required=baseline is not None, seed=seed)
    book = Book(read_history(_history(run, then, settings, asked)))
    verdict = decide(
        current,
        terms,
        book=book if book.history.runs else None,
        looked_in_order=None if then is None else then.looked_in_order,
        warnings=warnings,
        unproven=None if then is None else then.unproven,
    )
    view = view_of(current, verdict, terms.baseline, links)
    view = replace(view, trends=trends(book.history.runs, view.sample_metrics))
    return _Decided(current, verdict, terms.baseline, view)


def _baseline(
    run: RunDirectory, then: RecordedTerms | None, settings: Settings, asked: Mapping[str, str]
) -> ComparedRun | None:
    if then is not None and "gate.baseline" not in asked:
        return then.baseline_again(run)
    if settings.gate.baseline is None:
        return None
    path = settings.path(settings.gate.baseline)
    if "gate.baseline" not in asked and os.path.realpath(path) == os.path.realpath(run.path):
        return None  # the report is on the baseline itself
    any_run = "gate.baseline" in asked or settings.gate.baseline_any
    return ComparedRun.baseline(open_baseline(path, any_run=any_run))


def _history(run: RunDirectory, then: RecordedTerms | None, settings: Settings, asked: Mapping[str, str]) -> Path:
    if settings.run.history is not None and (then is None or "run.history" in asked):
        return settings.path(settings.run.history)
    return run.path / HISTORY if then is None or then.history is None else Path(then.history)


def _otherwise(recorded: RecordedVerdict, asked: Mapping[str, str]) -> str:
    flags = " and ".join(f"{ASKABLE[key]} {value}" for key, value in asked.items())
    return f"This is not the verdict of the gate, which was {recorded.view.status}: it was decided again with {flags}."
