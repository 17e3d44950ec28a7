"""The report of a stored run: its recorded verdict, or another one if other terms are asked for."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ragstone.app.baseline import NamedRun, open_baseline
from ragstone.app.compare import Compared
from ragstone.app.decide import ComparedRun, Terms, decide, policy_for_part, view_of
from ragstone.app.history import RunHistory
from ragstone.app.page import read_page
from ragstone.app.recorded import RecordedTerms, RecordedVerdict, read_verdict
from ragstone.gate.policy import Policy
from ragstone.history.file import read_history
from ragstone.history.trend import trends
from ragstone.report.parts import Links, ReportView
from ragstone.report.render import Format, render
from ragstone.report.templates import Templates
from ragstone.report.view import with_links
from ragstone.run.directory import HISTORY, RunDirectory
from ragstone.run.redact import Redactor


@dataclass(frozen=True, slots=True)
class ReportTerms:
    """The terms of a run without a recorded verdict, and those that were `asked` for in place of the recorded ones.

    `policy` gives the policy for a run with some metrics. `asked` are the flags with their values. `templates` can
    replace the shipped ones.
    """

    policy: Callable[[Collection[str]], Policy]
    baseline: NamedRun | None = None
    history: Path | None = None
    seed: int = 0
    asked: Mapping[str, str] = field(default_factory=dict)
    templates: Templates | None = None


@dataclass(frozen=True, slots=True)
class Reported:
    text: str
    view: ReportView


def report(
    run: RunDirectory, form: Format, terms: ReportTerms, redact: Redactor, *, links: Links | None = None
) -> Reported:
    """Render the verdict of `run`.

    Nothing is evaluated and nothing is written. The verdict is the recorded one of the gate, with all that its reports
    said. It is decided again if the run has none, or if terms are asked for: on the recorded ones but for those, or on
    `terms` if none are recorded. Raises RunDirectoryError, BaselineError or ConfigError, each with the place.
    """
    recorded = read_verdict(run)
    page: Iterable[str] = ()
    if recorded is not None and not terms.asked:
        view = recorded.view if links is None else with_links(recorded.view, links)
        page = read_page(run, links) if form == "html" else ()
    else:
        decided = _decided(run, recorded, terms, links)
        view = redact.view(decided.view)
        page = decided.page(redact, links) if form == "html" else ()
    return Reported(render(view, form, templates=terms.templates, page=page), view)


def _decided(run: RunDirectory, recorded: RecordedVerdict | None, wanted: ReportTerms, links: Links | None) -> Compared:
    then = recorded.terms if recorded is not None else None
    if then is None or "--thresholds" in wanted.asked:
        policy = wanted.policy(run.manifest.metrics)
    else:
        policy = then.policy_again()
    current = ComparedRun.of(run)
    warnings: tuple[str, ...] = () if recorded is None else (_otherwise(recorded, wanted.asked),)
    if then is not None and then.limited:
        drawn = {name: facts.tags for name, facts in current.scores.samples.items()}
        policy, undrawn = policy_for_part(policy, drawn)
        warnings += undrawn
    baseline = _baseline(run, then, wanted)
    seed = wanted.seed if then is None else then.seed
    level = then is not None and then.level and "--baseline" not in wanted.asked
    terms = Terms.of(policy, baseline, current.day, required=baseline is not None, seed=seed, level=level)
    past = RunHistory(read_history(_history(run, then, wanted)))
    verdict = decide(
        current,
        terms,
        past=past if past.history.runs else None,
        warnings=warnings,
        unproven=None if then is None else then.unproven,
    )
    view = view_of(current, verdict, terms.baseline, links)
    view = replace(view, trends=trends(past.history.gated, view.sample_metrics))
    return Compared(verdict, view, current, terms.baseline)


def _baseline(run: RunDirectory, then: RecordedTerms | None, wanted: ReportTerms) -> ComparedRun | None:
    asked = "--baseline" in wanted.asked
    if then is not None and not asked:
        return then.baseline_again(run)
    named = wanted.baseline
    if named is None:
        return None
    if not asked and os.path.realpath(named.path) == os.path.realpath(run.path):
        return None  # the report is on the baseline itself
    return ComparedRun.baseline(open_baseline(named.path, any_run=asked))


def _history(run: RunDirectory, then: RecordedTerms | None, wanted: ReportTerms) -> Path:
    if wanted.history is not None and (then is None or "--history" in wanted.asked):
        return wanted.history
    return run.path / HISTORY if then is None or then.history is None else Path(then.history)


def _otherwise(recorded: RecordedVerdict, asked: Mapping[str, str]) -> str:
    flags = " and ".join(f"{flag} {value}" for flag, value in asked.items())
    return f"This is not the verdict of the gate, which was {recorded.view.status}: it was decided again with {flags}."
