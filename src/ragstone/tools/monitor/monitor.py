"""Monitors an application in production: judges a sample of a window of logged
interactions, compares the window with earlier ones, and adds it to the history."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.rounds.context import RunContext
from ragstone.evaluation.scores import RunScores
from ragstone.gate.policy import Policy
from ragstone.gate.verdict import GateVerdict, Status
from ragstone.golden.sample import Sample
from ragstone.history.file import read_history, write_history
from ragstone.history.lines import FigurePart, RunLine, WindowPart
from ragstone.pipeline.history import RunHistory, damage
from ragstone.settings.settings import Settings
from ragstone.tools.monitor.drafts import add_drafts, read_samples
from ragstone.tools.monitor.findings import judge_window, values_before
from ragstone.tools.monitor.logs import log_files
from ragstone.tools.monitor.random_sample import judge_sample
from ragstone.tools.monitor.window import Period, Window, figures_of, read_window


class MonitorPlan(Struct, frozen=True):
    """What `monitor` reads and writes."""

    logs: Sequence[str]
    """Files and globs."""
    period: Period
    policy: Policy
    history: Path
    """The file to which the window is added."""
    out: Path
    """The folder in which the run of the sample gets a folder of its own."""
    drafts: Path | None = None
    """The file to which the questions of bad answers are added."""


class MonitoredWindow(Struct, frozen=True):
    """What became of a window."""

    name: str
    """The name of its period."""
    line: RunLine
    """The line that the history gets for it."""
    verdict: GateVerdict
    before: Mapping[str, Sequence[float]]
    """The values of each figure in the windows that it was compared with."""
    counts: Mapping[str, int]
    """How many lines of the logs were read or left out, and drafts added, each by a
    text for the report."""
    notes: Sequence[str]
    """What is damaged in the history."""
    run: RunDirectory | None = None
    """The run of the sample; None if no answer could be judged."""


async def monitor(
    plan: MonitorPlan, settings: Settings, context: RunContext
) -> MonitoredWindow:
    """Judge the window of `plan`, compare it with earlier ones, and add it to the
    history, where it replaces an earlier result for the same period.

    Raises ConfigError for a missing log, and what a run raises; then the history stays
    as it is.
    """
    policy = plan.policy
    samples: Sequence[Sample] = ()
    if plan.drafts is not None:
        samples = read_samples(plan.drafts, settings)
    history = read_history(plan.history)
    files = log_files(plan.logs)
    window, counts = read_window(files, plan.period, policy.monitor)
    folder = plan.period.name.replace(" ", "-")
    run = await judge_sample(
        window,
        policy.monitor.sample,
        settings,
        context,
        plan.out / folder,
    )
    scores = RunScores(folder, {}, {}) if run is None else run.scores()
    line = _line(window, run, scores, policy)
    before = values_before(line, history.windows, policy)
    verdict = judge_window(line, scores, before, policy)
    alerts = dict.fromkeys(
        str(check.metric) for check in verdict.checks if check.status is Status.FAIL
    )
    part = WindowPart(end=plan.period.end, figures=line.figures, alerts=tuple(alerts))
    line = line.model_copy(update={"verdict": verdict.status.value, "window": part})
    if plan.drafts is not None:
        counts += add_drafts(
            plan.drafts, samples, window, scores, policy, context.redact
        )
    extended = history.with_run(line, scores=None)
    write_history(plan.history, extended.trimmed())
    return MonitoredWindow(
        name=plan.period.name,
        line=line,
        verdict=verdict,
        before=before,
        counts=counts,
        notes=tuple(damage(history)),
        run=run,
    )


def _line(
    window: Window, run: RunDirectory | None, scores: RunScores, policy: Policy
) -> RunLine:
    """The line of a window in the history, before its verdict. It has numbers, and no
    text of an interaction."""
    period = window.period
    figures = dict(figures_of(window, policy.monitor))
    # The same for the same period, so that the line replaces an earlier one.
    digest = hashlib.sha256(period.name.encode())
    run_id = digest.hexdigest()[:16]
    if run is None:
        line = RunLine(
            run=run_id,
            time=period.start,
            eligible=False,
            verdict="none",
            judge="none",
            judge_key="0" * 16,  # which no judge has
            golden="",
            metrics={},
            versions={},
            coverage=1.0,
        )
    else:
        line = RunHistory().line(run, scores, policy)
        for metric, part in line.metrics.items():
            figures[metric] = FigurePart(value=part.mean, n=part.n)
    return line.model_copy(
        update={
            "run": run_id,
            "time": period.start,
            "eligible": False,
            "window": WindowPart(end=period.end, figures=figures),
        }
    )
