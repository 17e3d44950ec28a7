"""`ragstone rescore`: score stored answers again."""

from __future__ import annotations

from pathlib import Path

import click

from ragstone.cli.options import (
    CONFIG,
    PATH,
    option,
    setting,
    settings_from,
)

DEFAULT_OUT = "ragstone-rescored"


@click.command(name="rescore")
@click.argument("source", type=PATH, metavar="RUN")
@CONFIG
@setting("judge")
@setting(
    "metrics",
    help="Metrics to compute  [default: those of the run, else those that apply]",
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
@setting("resume")
def command(source: Path, golden: tuple[str, ...], **flags: object) -> int:
    """Score stored answers again, without asking the system.

    RUN is a run directory, or a file of recorded interactions: one object per line with
    question, answer and contexts. Other fields, such as a model or a time, are kept.
    Without --metrics, the metrics of the run are used, or for a file the default metrics
    that apply: those that need a reference are left out if there is none.

    \b
    Examples:
      ragstone rescore ragstone-run --judge openai:gpt-5.4-mini
      ragstone rescore ragstone-run --metrics answer_correctness --out with-correctness
      ragstone rescore interactions.jsonl --out production
    """
    from ragstone.cli.context import report_run, run_context, run_until_done
    from ragstone.evaluation.rescore import open_source, rescore
    from ragstone.golden.sample import GoldenSet
    from ragstone.pipeline.run_plan import read_golden_set, run_plan
    from ragstone.system.kind import answer_fields

    settings = settings_from(flags)
    with run_context(settings) as context:
        references = read_golden_set(settings, golden) if golden else GoldenSet(())
        plan = run_plan(settings, context, golden=references, command=None)
        fields = answer_fields(settings.system)
        answers = open_source(source, settings.golden.columns, fields)
        run = run_until_done(rescore(answers, plan, context))
    return report_run(run)
