"""The action's outputs: one table for action.yml and the documentation, and their
values."""

from __future__ import annotations

from dataclasses import dataclass

from ragstone.github.api.commands import is_output_name
from ragstone.github.job_report import Report
from ragstone.metrics.registry import METRICS


@dataclass(frozen=True, slots=True)
class Output:
    name: str
    description: str


def metric_output(metric: str) -> str:
    """The output for a metric's mean: ``context_recall`` → ``context-recall``,
    ``hit@5`` → ``hit-at-5``."""
    return metric.replace("_", "-").replace("@", "-at-")


OUTPUTS: tuple[Output, ...] = (
    Output("verdict", "`pass`, `fail`, `inconclusive` or `error`"),
    Output(
        "passed", "`true` if the gate passed, else `false`, regardless of `fail-on`"
    ),
    *(
        Output(
            metric_output(name),
            f"Mean of {metric.info.title.lower()} in [0, 1], empty if nothing was scored",
        )
        for name, metric in METRICS.items()
        if "@" not in name
    ),
    Output("coverage", "Share of samples that could be scored, in [0, 1]"),
    Output("cost-usd", "Cost of judging, empty if a price is unknown"),
    Output(
        "baseline-run-id", "Id of the baseline's workflow run, empty if there was none"
    ),
    Output(
        "run-directory",
        "The run directory, relative to the workspace, to upload as the artifact",
    ),
    Output("report-json", "The report as JSON, relative to the workspace"),
    Output("report-markdown", "The report as Markdown, relative to the workspace"),
    Output("comment-url", "URL of the pull request comment, empty if there is none"),
)
"""The outputs in action.yml. A metric with a parameter (``recall@5``) is an output if
the run has it."""


def output_values(report: Report, comment_url: str = "") -> dict[str, str]:
    """All outputs as strings; unknown ones are empty."""
    values = {
        **{output.name: "" for output in OUTPUTS},
        "verdict": str(report.status),
        "passed": "true" if report.passed else "false",
        "baseline-run-id": str(report.baseline_run_id or ""),
        "run-directory": report.directory,
        "report-json": report.files.get("json", ""),
        "report-markdown": report.files.get("md", ""),
        "comment-url": comment_url,
    }
    document = report.document
    if document is not None:
        for row in document.metrics:
            name = metric_output(row.metric)
            if row.slice is None and row.score is not None and is_output_name(name):
                values[name] = f"{row.score:.6g}"
        whole = [
            row
            for row in document.metrics
            if row.slice is None and row.n + row.failed > 0
        ]
        if whole:
            values["coverage"] = (
                f"{min(row.n / (row.n + row.failed) for row in whole):.6g}"
            )
        if document.run.cost is not None and document.run.cost.usd is not None:
            values["cost-usd"] = f"{document.run.cost.usd:.6f}"
    return values
