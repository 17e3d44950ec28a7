"""Monitor production: a window of logged interactions becomes a run, is judged and
compared, and joins the history."""

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
from ragstone.tools.monitor.sample import judge_sample
from ragstone.tools.monitor.window import Period, Window, figures_of, read_window


class MonitorPlan(Struct, frozen=True):
    """What is monitored: the `logs` (files and globs) in a `period`, by the rules of
    `policy`.

    The window is added to `history`, the run of its sample is written to a folder in
    `out`, and bad answers are added to the file `drafts`, if there is one.
    """

    logs: Sequence[str]
    period: Period
    policy: Policy
    history: Path
    out: Path
    drafts: Path | None = None


class Monitored(Struct, frozen=True):
    """A window, by its line of the history, the verdict on it, and the values that it
    is compared with, by figure.

    `counts` says how often what was read of the logs, and drafted.
    """

    name: str
    line: RunLine
    verdict: GateVerdict
    before: Mapping[str, Sequence[float]]
    counts: Mapping[str, int]
    notes: Sequence[str]
    run: RunDirectory | None = None


async def monitor(
    plan: MonitorPlan, settings: Settings, context: RunContext
) -> Monitored:
    """Judge the window of `plan`, compare it with those before it, and add it to the
    history.

    A window that is in the history already is replaced. Raises ConfigError for a log
    that is missing, and what a run raises: then nothing is added.
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
    failed = [
        str(check.metric) for check in verdict.checks if check.status is Status.FAIL
    ]
    alerts = tuple(dict.fromkeys(failed))
    part = WindowPart(end=plan.period.end, figures=line.figures, alerts=alerts)
    changes = {"verdict": verdict.status.value, "window": part}
    line = line.model_copy(update=changes)
    if plan.drafts is not None:
        counts += add_drafts(
            plan.drafts, samples, window, scores, policy, context.redact
        )
    extended = history.with_run(line, None)
    write_history(plan.history, extended.trimmed())
    return Monitored(
        plan.period.name, line, verdict, before, counts, tuple(damage(history)), run
    )


def _line(
    window: Window, run: RunDirectory | None, scores: RunScores, policy: Policy
) -> RunLine:
    """The line of a window in the history, without its verdict: numbers only, and no
    text of an interaction."""
    period = window.period
    figures = dict(figures_of(window, policy.monitor))
    digest = hashlib.sha256(period.name.encode())
    name = digest.hexdigest()[:16]
    if run is None:
        line = RunLine(
            run=name,
            time=period.start,
            eligible=False,
            verdict="none",
            judge="none",
            judge_key="0" * 16,
            golden="",
            metrics={},
            versions={},
            coverage=1.0,
        )
    else:
        line = RunHistory().line(run, scores, policy)
        for metric, part in line.metrics.items():
            figures[metric] = FigurePart(value=part.mean, n=part.n)
    part_of_window = WindowPart(end=period.end, figures=figures)
    changes = {
        "run": name,
        "time": period.start,
        "eligible": False,
        "window": part_of_window,
    }
    return line.model_copy(update=changes)
