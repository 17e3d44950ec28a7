"""`ragstone rescore`."""

from __future__ import annotations

from pathlib import Path

import click

from ragstone.cli.options import (
    CONFIG,
    PATH,
    SCORING,
    option,
    setting,
    settings_from,
    with_options,
)
from ragstone.cli.output import say
from ragstone.formatting import counted
from ragstone.printable import shown_name

DEFAULT_OUT = "ragstone-rescored"


@click.command(name="rescore")
@click.argument("sources", nargs=-1, required=True, type=PATH, metavar="RUN...")
@with_options((CONFIG,), SCORING)
@setting(
    "metrics",
    help="Metrics to compute  [default: those of the runs, else those that apply]",
)
@option(
    "--golden",
    value="FILE",
    type=str,
    multiple=True,
    help="Golden set to take references from, can be repeated.",
)
@option(
    "--out", value="DIR", type=str, default=DEFAULT_OUT, help="Run directory to write."
)
@option(
    "--missing",
    is_flag=True,
    help="Extend the run in --out: score only what it has not scored already.",
)
@option(
    "--dry-run", is_flag=True, help="Only count the answers, and estimate the cost."
)
@setting("resume")
@setting("time_limit")
def command(
    sources: tuple[Path, ...],
    golden: tuple[str, ...],
    missing: bool,
    dry_run: bool,
    **flags: object,
) -> int:
    """Score stored answers again, without asking the system.

    RUN is a run directory, its samples.jsonl, or a file of recorded interactions: one
    object per line with question, answer and contexts. Other fields, such as a model or
    a time, are kept. Without --metrics, the metrics of the runs are used, or the
    default ones that apply: an interaction without a reference is not scored against
    one.

    \b
    Examples:
      ragstone rescore ragstone-run --judge openai:gpt-5.4-mini
      ragstone rescore ragstone-run --metrics answer_correctness --out with-correctness
      ragstone rescore interactions.jsonl --out production --missing
    """
    from ragstone.cli.context import run_context, run_to_end
    from ragstone.errors import SystemUnderTestError
    from ragstone.evaluation.rescore import rescore
    from ragstone.evaluation.rounds.planted import credulous
    from ragstone.golden.sample import GoldenSet
    from ragstone.pipeline.run_plan import read_golden_set, run_plan

    settings = settings_from(flags)
    with run_context(settings) as context:
        references = read_golden_set(settings, golden) if golden else GoldenSet(())
        plan = run_plan(settings, context, golden=references, command=None)
        columns = settings.golden.columns
        result = run_to_end(
            rescore(
                sources,
                plan,
                context,
                columns=columns,
                missing=missing,
                dry_run=dry_run,
            )
        )
    if result.joined is not None:
        say(
            f"{result.joined} of {counted(result.answers, 'answer')} match a sample of the golden set."
        )
    if result.run is None:
        unscored = result.answers - result.kept
        say(
            f"{unscored} of {counted(result.answers, 'stored answer')} to score: {result.estimate.sentence()}."
        )
        return 0
    counts = result.run.manifest.counts
    scored_before = (
        f" {result.kept} of them had been scored already." if result.kept else ""
    )
    say(
        f"{counted(counts.scored, 'answer')} scored, {counts.partly_failed} with a failed score, "
        f"{counts.system_failed} without an answer.{scored_before} Written to {shown_name(str(result.run.path))}."
    )
    if (
        error := credulous(result.run.manifest.judge, result.run.rounds.judge.planted)
    ) is not None:
        raise error
    answered = counts.scored + counts.partly_failed
    return (
        SystemUnderTestError.exit_code if counts.system_failed and not answered else 0
    )
