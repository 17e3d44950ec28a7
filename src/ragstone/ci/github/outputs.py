"""Step outputs, written to the file in GITHUB_OUTPUT."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ragstone.ci.github.command_files import append
from ragstone.metrics.registry import METRICS

MAX_VALUE_BYTES = 200_000
"""GitHub allows 1 MB of outputs per job; longer values are left out rather than truncated."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


@dataclass(frozen=True, slots=True)
class Output:
    name: str
    description: str


def metric_output(metric: str) -> str:
    """The output for a metric's mean: ``context_recall`` → ``context-recall``, ``hit@5`` → ``hit-at-5``."""
    return metric.replace("_", "-").replace("@", "-at-")


def is_output_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


OUTPUTS: tuple[Output, ...] = (
    Output("verdict", "`pass`, `fail`, `inconclusive` or `error`; with `gates-file` also `not-affected`"),
    Output("passed", "`true` if the gate passed, else `false`, regardless of `fail-on`"),
    *(
        Output(metric_output(name), f"Mean of {metric.info.title.lower()} in [0, 1], empty if nothing was scored")
        for name, metric in METRICS.items()
        if "@" not in name
    ),
    Output("coverage", "Share of samples that could be scored, in [0, 1]"),
    Output("cost-usd", "Cost of judging, empty if a price is unknown"),
    Output("baseline-run-id", "Id of the baseline's workflow run, empty if there was none"),
    Output("run-directory", "The run directory, relative to the workspace, to upload as the artifact"),
    Output("report-json", "The report as JSON, relative to the workspace"),
    Output("report-markdown", "The report as Markdown, relative to the workspace"),
    Output("comment-url", "URL of the pull request comment, empty if there is none"),
)
"""The outputs in action.yml. A metric with a parameter (``recall@5``) is an output if the run has it."""


def format_output(name: str, value: str, *, token: Callable[[], str] = lambda: secrets.token_hex(16)) -> str:
    """One entry of the output file, with a random delimiter that does not occur in `value`.

    Raises ValueError for an invalid name.
    """
    if not is_output_name(name):
        raise ValueError(f"not a valid output name: {name!r}")
    delimiter = f"ragstone_{token()}"
    while delimiter in value:
        delimiter = f"ragstone_{token()}"
    return f"{name}<<{delimiter}\n{value}\n{delimiter}\n"


def write_outputs(path: Path | None, values: Mapping[str, str]) -> tuple[str, ...]:
    """Append `values` to the output file; None (not in a step): do nothing. Returns the names that were too long.

    Raises OSError, also if the file is not regular.
    """
    too_long = tuple(name for name, value in values.items() if len(value.encode("utf-8", "replace")) > MAX_VALUE_BYTES)
    if path is None:
        return too_long
    kept = {name: "" if name in too_long else _one_encoding(value) for name, value in values.items()}
    append(path, "".join(format_output(name, value) for name, value in kept.items()).encode("utf-8"))
    return too_long


def output_path(environ: Mapping[str, str], variable: str = "GITHUB_OUTPUT") -> Path | None:
    """The file in a runner's file variable, None if it is not set."""
    value = environ.get(variable, "")
    return Path(value) if value else None


def _one_encoding(value: str) -> str:
    return value.encode("utf-8", "replace").decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
