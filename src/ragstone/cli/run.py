"""`ragstone run`."""

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
from ragstone.formatting import counted
from ragstone.printable import shown_name


@click.command(name="run")
@with_options((CONFIG,), EVALUATION, (FAILED,))
def command(failed: Path | None, **flags: object) -> int:
    """Evaluate the system under test and write a run directory.

    Asks the question of every sample in the golden set, and judges and scores the
    answers. Makes no decision: use `ragstone gate` for that, or `ragstone compare` on
    the directory afterwards. Exits with 4 if the system gave no answer at all.

    With --oracle, the questions are asked once more with the reference contexts given,
    and what is missing from the best score is divided into retrieval and generation.
    """
    from ragstone.cli.context import run_context, run_to_end
    from ragstone.errors import SystemUnderTestError
    from ragstone.evaluation.rounds.planted import credulous
    from ragstone.pipeline.run import evaluate_run
    from ragstone.pipeline.run_plan import run_plan

    settings = settings_of_run(flags, failed)
    with run_context(settings) as context:
        plan = run_plan(settings, context)
        run = run_to_end(evaluate_run(plan, context))
    counts = run.manifest.counts
    say(
        f"{counted(counts.scored, 'sample')} scored, {counts.partly_failed} with a failed score, "
        f"{counts.system_failed} without an answer. Written to {shown_name(str(run.path))}."
    )
    if settings.run.oracle:
        from ragstone.pipeline.decide import ComparedRun, oracle_findings
        from ragstone.report.filters import ORACLE_TITLE, oracle_lines

        say(f"{ORACLE_TITLE}:")
        for finding in oracle_findings(ComparedRun.of(run)):
            for line in oracle_lines(finding.data):
                say(f"- {line}")
    if (error := credulous(run.manifest.judge, run.rounds.judge.planted)) is not None:
        raise error
    answered = counts.scored + counts.partly_failed
    return (
        SystemUnderTestError.exit_code if counts.system_failed and not answered else 0
    )
