"""`ragstone gate`: the main command."""

from __future__ import annotations

import os
import sys

import click

from ragstone.commands.options import CONFIG, GATE, JUDGE, RUN, SYSTEM, settings_from, with_options


@click.command(name="gate")
@with_options((CONFIG,), SYSTEM, JUDGE, RUN, GATE)
@click.option(
    "--github",
    is_flag=True,
    help="For a `run:` step on GitHub: use the baseline from artifacts; write summary, annotations, comment, outputs.",
)
def command(github: bool, **flags: object) -> int:
    """Evaluate, compare with the thresholds and the baseline, and decide.

    Writes the run directory with its reports, prints the verdict, and exits with
    0 pass · 1 the gate failed · 2 usage or configuration · 3 golden set invalid ·
    4 system under test failed · 5 judge failed or coverage too low · 6 baseline missing or not comparable ·
    7 the base branch can't be read (--github) · 8 inconclusive, if the policy says that blocks.
    """
    from ragstone.commands.context import run_context, run_to_end
    from ragstone.report.terminal import print_report
    from ragstone.usecases.gate import gate

    if github:
        from ragstone.job.run_job import end_job, run_on_github, workspace_of

        def job() -> int:
            settings = settings_from(flags, within=workspace_of(os.environ))
            return run_to_end(run_on_github(settings, environ=os.environ, out=sys.stdout))

        return end_job(job, os.environ, sys.stdout)
    settings = settings_from(flags)
    with run_context(settings) as context:
        outcome = run_to_end(gate(settings, context))
    print_report(outcome.view)
    return outcome.exit_code
