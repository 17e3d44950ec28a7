"""The action's outputs: their descriptions, for action.yml and the documentation, and
their values."""

from __future__ import annotations

from collections.abc import Mapping

from ragstone.github.api.commands import is_output_name
from ragstone.github.job_report import Report
from ragstone.metrics.registry import METRICS


def metric_output(metric: str) -> str:
    """The name of the output for a metric's mean: ``context-recall`` for
    ``context_recall``, ``hit-at-5`` for ``hit@5``."""
    return metric.replace("_", "-").replace("@", "-at-")


OUTPUTS: Mapping[str, str] = {
    "verdict": "`pass`, `fail`, `inconclusive` or `error`",
    "passed": "`true` if the gate passed, else `false`, regardless of `fail-on`",
    **{
        metric_output(
            name
        ): f"Mean of {metric.info.title.lower()} in [0, 1], empty if nothing was scored"
        for name, metric in METRICS.items()
        if "@" not in name
    },
    "coverage": "Share of samples that could be scored, in [0, 1]",
    "cost-usd": "Cost of judging, empty if a price is unknown",
    "baseline-run-id": "Id of the baseline's workflow run, empty if there was none",
    "run-directory": "The run directory, relative to the workspace, to upload as the artifact",
    "report-json": "The report as JSON, relative to the workspace",
    "report-markdown": "The report as Markdown, relative to the workspace",
    "comment-url": "URL of the pull request comment, empty if there is none",
}
"""The outputs in action.yml, with their descriptions. Metrics with a parameter, such as
``recall@5``, are outputs of runs that have them."""


def output_values(report: Report, comment_url: str) -> dict[str, str]:
    """The values of all outputs; empty where there is nothing to say."""
    values = {
        **dict.fromkeys(OUTPUTS, ""),
        "verdict": str(report.status),
        "passed": "true" if report.passed else "false",
        "baseline-run-id": str(report.baseline_run_id or ""),
        "run-directory": report.directory,
        "report-json": report.file("json"),
        "report-markdown": report.file("md"),
        "comment-url": comment_url,
    }
    document = report.document
    if document is None:
        return values
    coverages = []
    for row in document.metrics:
        name = metric_output(row.metric)
        if row.slice is not None:
            continue
        if row.score is not None and is_output_name(name):
            values[name] = f"{row.score:.6g}"
        if row.n + row.failed > 0:
            coverages.append(row.n / (row.n + row.failed))
    if coverages:
        values["coverage"] = f"{min(coverages):.6g}"
    cost = document.run.cost
    if cost is not None and cost.usd is not None:
        values["cost-usd"] = f"{cost.usd:.6f}"
    return values
