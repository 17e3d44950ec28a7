"""Options shared by several commands, and their settings."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from ragstone.config import Settings, load_settings

Function = TypeVar("Function", bound=Callable[..., Any])

FLAGS: dict[str, str] = {
    "golden": "golden.paths",
    "limit": "golden.limit",
    "entrypoint": "system.entrypoint",
    "python": "system.python",
    "timeout": "system.timeout_s",
    "concurrency": "system.concurrency",
    "system_env": "system.env",
    "judge": "judge.name",
    "judge_base_url": "judge.base_url",
    "embeddings": "judge.embeddings",
    "max_cost_usd": "judge.max_cost_usd",
    "refresh": "judge.refresh",
    "batch": "judge.batch",
    "metrics": "run.metrics",
    "out": "run.out",
    "repeats": "run.repeats",
    "resume": "run.resume",
    "time_limit": "run.time_limit_s",
    "seed": "run.seed",
    "stop_early": "run.stop_early",
    "history": "run.history",
    "thresholds": "gate.thresholds",
    "baseline": "gate.baseline",
    "baseline_any": "gate.baseline_any",
    "fail_on": "gate.fail_on",
}
"""Flag (as a Python name) to the setting it overrides."""

CONFIG = click.option(
    "--config", type=click.Path(path_type=Path), help="Config file  [default: ragstone.toml, or pyproject.toml]"
)

SYSTEM = (
    click.option("--golden", multiple=True, metavar="FILE", help="Golden set file or glob; can be repeated."),
    click.option("--limit", type=int, metavar="N", help="Evaluate only the first N samples."),
    click.option(
        "--entrypoint", metavar="WHERE", help="python:module:attribute, command:…, http(s)://…, or file:outputs.jsonl"
    ),
    click.option("--python", metavar="EXE", help="Interpreter for a python entrypoint."),
    click.option("--timeout", type=float, metavar="SECONDS", help="Timeout per question  [default: 60]"),
    click.option("--concurrency", type=int, metavar="N", help="Number of concurrent questions  [default: 4]"),
    click.option("--system-env", metavar="NAMES", help="Environment variables passed to the system under test."),
)

JUDGE = (
    click.option("--judge", metavar="NAME", help="offline, local:FOLDER, or a provider and its model: openai:MODEL"),
    click.option("--judge-base-url", metavar="URL", help="Address of an OpenAI-compatible server."),
    click.option("--embeddings", metavar="MODEL", help="Embedding model for answer relevancy, or local:FOLDER."),
    click.option("--max-cost-usd", type=float, metavar="USD", help="Stop and save before the cost exceeds this."),
    click.option("--refresh", is_flag=True, default=None, help="Ignore cached judgements."),
    click.option("--batch", is_flag=True, default=None, help="Use the provider's batch API (cheaper, slower)."),
    click.option("--repeats", type=int, metavar="K", help="Independent judgements of each answer  [default: 1]"),
    click.option("--metrics", metavar="NAMES", help="Comma-separated metrics  [default: the four headline metrics]"),
)

RUN = (
    click.option("--out", metavar="DIR", help="Run directory to write  [default: ragstone-run]"),
    click.option("--resume", is_flag=True, default=None, help="Resume the unfinished run in the directory."),
    click.option("--time-limit", type=float, metavar="SECONDS", help="Stop and save when the total time exceeds this."),
)

GATE = (
    click.option("--thresholds", metavar="FILE", help="Policy  [default: thresholds.toml if it exists]"),
    click.option("--baseline", metavar="RUN_DIR", help="Run to compare with."),
    click.option(
        "--baseline-any", is_flag=True, default=None, help="Compare with the baseline even if its run failed."
    ),
    click.option("--history", metavar="FILE", help="History to compare the run with and add it to."),
    click.option("--stop-early", is_flag=True, default=None, help="Stop when every blocking check is decided."),
    click.option("--seed", type=int, metavar="N", help="Random seed  [default: 0]"),
    click.option(
        "--fail-on",
        type=click.Choice(["fail", "inconclusive", "never"]),
        help="What makes the exit code non-zero  [default: as the policy says]",
    ),
)


def with_options(*groups: tuple[Callable[[Function], Function], ...]) -> Callable[[Function], Function]:
    """Add all options of `groups`, in order."""

    def apply(function: Function) -> Function:
        for option in reversed([option for group in groups for option in group]):
            function = option(function)
        return function

    return apply


def settings_from(
    flags: Mapping[str, object], environ: Mapping[str, str] | None = None, *, within: Path | None = None
) -> Settings:
    """Settings from the flags of a command and the process's environment; files must be inside `within`."""
    overrides = {key: flags[flag] for flag, key in FLAGS.items() if flag in flags and flags[flag] not in (None, ())}
    config = flags.get("config")
    return load_settings(
        directory=Path(),
        environ=os.environ if environ is None else environ,
        overrides=overrides,
        config=config if isinstance(config, Path) else None,
        within=within,
    )
