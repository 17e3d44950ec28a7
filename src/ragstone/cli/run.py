"""`ragstone run`: evaluate without a decision."""

from __future__ import annotations

from pathlib import Path

import click

from ragstone.cli.options import (
    CONFIG,
    EVALUATION,
    FAILED,
    settings_of_run,
    with_options,
)
from ragstone.cli.output import say


@click.command(name="run")
@with_options((CONFIG,), EVALUATION, (FAILED,))  # `failed` is a run directory
def command(failed: Path | None, **flags: object) -> int:
    """Evaluate the system under test and write a run directory.

    Asks the question of every sample in the golden set, and judges and scores the
    answers. Decides nothing: use `ragstone gate` for that, or `ragstone compare` on the
    directory afterwards. Exits with 4 if the system gave no answer at all.

    With --oracle, the system is asked again, with the reference contexts instead of its
    own. Ragstone then says how much of what is missing to a perfect score is due to
    retrieval, and how much to generation.
    """
    from ragstone.cli.context import report_run, run_context, run_until_done
    from ragstone.pipeline.run import evaluate_run
    from ragstone.pipeline.run_plan import run_plan

    settings = settings_of_run(flags, failed)
    with run_context(settings) as context:
        plan = run_plan(settings, context)
        run = run_until_done(evaluate_run(plan, context))
    if settings.run.oracle:
        from ragstone.pipeline.decide import ComparedRun, oracle_findings
        from ragstone.report.filters import ORACLE_TITLE, oracle_lines

        say(f"{ORACLE_TITLE}:")
        for finding in oracle_findings(ComparedRun.of(run)):
            for line in oracle_lines(finding.data):
                say(f"- {line}")
    return report_run(run)
