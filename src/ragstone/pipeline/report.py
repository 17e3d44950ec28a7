"""The report of a stored run: the verdict that the gate stored, or the one that it gets
now if it has none."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from ragstone.evaluation.directory import HISTORY, RunDirectory
from ragstone.evaluation.redact import Redactor
from ragstone.gate.policy import Policy
from ragstone.history.file import read_history
from ragstone.pipeline.baseline import NamedRun, open_baseline
from ragstone.pipeline.compare import compare_sides
from ragstone.pipeline.decide import ComparedRun
from ragstone.pipeline.history import RunHistory
from ragstone.pipeline.page import read_page
from ragstone.pipeline.verdict_file import read_verdict
from ragstone.report.parts import Document
from ragstone.report.render import Format, render
from ragstone.report.templates import Templates


@dataclass(frozen=True, slots=True)
class ReportTerms:
    """The terms of a run without a stored verdict: `policy` gives the policy for a run
    with some metrics.

    `templates` can replace the shipped ones.
    """

    policy: Callable[[Collection[str]], Policy]
    baseline: NamedRun | None = None
    history: Path | None = None
    templates: Templates | None = None


@dataclass(frozen=True, slots=True)
class Reported:
    text: str
    document: Document


def report(
    run: RunDirectory,
    form: Format,
    terms: ReportTerms,
    redact: Redactor,
) -> Reported:
    """Render the verdict of `run`: the one that the gate stored, with all that its
    reports said, else one on `terms`.

    Nothing is evaluated and nothing is written. Raises RunDirectoryError, BaselineError
    or ConfigError, each with the place.
    """
    stored = read_verdict(run)
    page: Iterable[str] = ()
    if stored is not None:
        document = stored
        page = read_page(run) if form == "html" else ()
    else:
        named, baseline = terms.baseline, None
        # The report may be on the baseline itself.
        if named is not None and named.path.resolve() != run.path.resolve():
            baseline = ComparedRun.baseline(open_baseline(named.path))
        past = RunHistory(read_history(terms.history or run.path / HISTORY))
        decided = compare_sides(
            ComparedRun.of(run),
            baseline,
            terms.policy(run.manifest.metrics),
            past if past.history.runs else None,
        )
        document = redact.tree(decided.document)
        page = decided.page(redact) if form == "html" else ()
    return Reported(
        render(document, form, templates=terms.templates, page=page), document
    )
