"""`ragstone run`."""

from __future__ import annotations

import click

from ragstone.commands.options import CONFIG, JUDGE, RUN, SYSTEM, settings_from, with_options
from ragstone.commands.output import say


@click.command(name="run")
@with_options((CONFIG,), SYSTEM, JUDGE, RUN)
def command(**flags: object) -> int:
    """Evaluate the system under test and write a run directory.

    Asks the question of every sample in the golden set, and judges and scores the answers. Makes no decision: use
    `ragstone gate` for that, or `ragstone compare` on the directory afterwards. Exits with 4 if the system gave no
    answer at all.
    """
    from ragstone.commands.context import run_context, run_to_end
    from ragstone.errors import SystemUnderTestError
    from ragstone.usecases.run import evaluate_run

    settings = settings_from(flags)
    with run_context(settings) as context:
        run = run_to_end(evaluate_run(settings, context))
    counts = run.manifest.counts
    say(
        f"{counts.scored} samples scored, {counts.partly_failed} with a failed score, "
        f"{counts.system_failed} without an answer. Written to {run.path}."
    )
    answered = counts.scored + counts.partly_failed
    return SystemUnderTestError.exit_code if counts.system_failed and not answered else 0
