"""`ragstone gate`: the main command."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import cast

import click

from ragstone.cli.options import (
    CONFIG,
    EVALUATION,
    FAILED,
    GATE,
    REPORT,
    option,
    settings_from,
    settings_of_run,
    with_options,
)
from ragstone.cli.output import check_output, linked, print_text


@click.command(name="gate")
@with_options((CONFIG,), EVALUATION, (FAILED,), GATE)
@option(
    "--github",
    is_flag=True,
    help="For a `run:` step on GitHub: take the baseline from artifacts, and write summary, annotations, comment and "
    "outputs.",
)
@with_options(REPORT)
def command(
    github: bool,
    format_name: str,
    output: Path | None,
    verbose: bool,
    failed: Path | None,
    **flags: object,
) -> int:
    """Evaluate, compare with the thresholds and the baseline, and decide.

    Writes the run directory with its reports, prints the verdict, and exits with 0 pass
    · 1 the gate failed · 2 usage or configuration · 3 golden set invalid · 4 system
    under test failed · 5 judge failed or coverage too low · 6 baseline missing or not
    comparable · 7 the base branch can't be read (--github) · 8 inconclusive, if the
    policy says that blocks.

    With --output, the report is written to that file in the given format, and the
    verdict is still printed as text.
    """
    from ragstone.cli.context import run_context, run_until_done
    from ragstone.errors import ConfigError
    from ragstone.pipeline.gate import REPORT_FILES, GatedRun, gate
    from ragstone.pipeline.open_request import open_request
    from ragstone.report.render import Format, render
    from ragstone.report.templates import own_templates
    from ragstone.report.terminal import print_report

    if github and failed is not None:
        raise ConfigError(
            "--failed can't be combined with --github, which evaluates the whole golden set.",
            hint="Leave out --failed.",
        )
    if github and (format_name != "text" or output is not None):
        raise ConfigError(
            "--format and --output can't be combined with --github, which writes all formats to the run directory.",
            hint="Leave them out. The step's output 'run-directory' says where the reports are.",
        )
    if github:
        from ragstone.github.run_job import end_job, run_on_github, workspace_of

        def run_job() -> int:
            settings = settings_from(flags, within=workspace_of(os.environ))
            job = run_on_github(settings, environ=os.environ, out=sys.stdout)
            return run_until_done(job)

        return end_job(run_job, os.environ, sys.stdout)
    if output is not None:
        check_output(output)
    settings = settings_of_run(flags, failed)

    def show(outcome: GatedRun) -> None:
        page_file = outcome.run.path / REPORT_FILES["html"]
        if format_name != "text" or output is not None:
            if format_name == "html":
                text = page_file.read_text(encoding="utf-8")
            else:
                templates = own_templates(settings.root)
                text = render(
                    outcome.document, cast(Format, format_name), templates=templates
                )
            print_text(text, output)
            if output is None:
                return
        pages = [f"HTML report: {linked(page_file)}"]
        print_report(outcome.document, verbose=verbose, files=pages)

    with run_context(settings) as context:
        with open_request(settings, context) as opened_request:
            outcome = run_until_done(gate(opened_request.request, context))
        show(outcome)
        if settings.gate.save_baseline:
            opened_request.save(outcome, context)
    return outcome.exit_code
