"""`ragstone gate`: the main command."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import cast

import click

from ragstone.commands.options import (
    CONFIG,
    GATE,
    JUDGE,
    PATH,
    REPORT,
    RUN,
    SYSTEM,
    option,
    settings_from,
    with_options,
)
from ragstone.commands.output import linked, run_line, say, write_text


@click.command(name="gate")
@with_options((CONFIG,), SYSTEM, JUDGE, RUN, GATE)
@option(
    "--github",
    is_flag=True,
    help="For a `run:` step on GitHub: use the baseline from artifacts; write summary, annotations, comment, outputs.",
)
@option(
    "--merge",
    "shards",
    value="SHARD",
    type=PATH,
    multiple=True,
    help="Instead of evaluating, merge shards: run directories, or folders of them, can be repeated.",
)
@option(
    "--allow-missing", is_flag=True, help="With --merge: count the samples of missing and damaged shards as failed."
)
@with_options(REPORT)
def command(
    github: bool,
    shards: tuple[Path, ...],
    allow_missing: bool,
    form: str,
    output: Path | None,
    verbose: bool,
    **flags: object,
) -> int:
    """Evaluate, compare with the thresholds and the baseline, and decide.

    Writes the run directory with its reports, prints the verdict, and exits with
    0 pass · 1 the gate failed · 2 usage or configuration · 3 golden set invalid ·
    4 system under test failed · 5 judge failed or coverage too low · 6 baseline missing or not comparable ·
    7 the base branch can't be read (--github) · 8 inconclusive, if the policy says that blocks.

    A shard, such as the third of eight parts, is only evaluated. With --merge, all of them are merged into one run, and
    that is decided, without asking the system.

    With --output, the report is written to that file in the given format, and the verdict is still printed as text.
    """
    from ragstone.app.gate import GateOutcome, evaluate_shard, gate
    from ragstone.app.merge import Shards
    from ragstone.app.page import read_page
    from ragstone.commands.context import run_context, run_to_end
    from ragstone.errors import ConfigError
    from ragstone.project.gate import gate_request
    from ragstone.report.render import Format, render
    from ragstone.report.templates import own_templates
    from ragstone.report.terminal import print_report

    if github and (form != "text" or output is not None):
        raise ConfigError(
            "--format and --output are not for --github, which writes all formats to the run directory.",
            hint="Leave them out; the output 'run-directory' says where the reports are.",
        )
    if allow_missing and not shards:
        raise ConfigError("--allow-missing needs --merge.", hint="Name the shards to merge with --merge.")
    if github and shards:
        raise ConfigError(
            "--merge is not for --github, which reads the shards from this run's artifacts.",
            hint="Set RAGSTONE_MERGE to the names of the artifacts, such as 'ragstone-shard-*'.",
        )
    if github:
        from ragstone.job.run_job import end_job, run_on_github, workspace_of

        def job() -> int:
            settings = settings_from(flags, within=workspace_of(os.environ))
            return run_to_end(run_on_github(settings, environ=os.environ, out=sys.stdout))

        return end_job(job, os.environ, sys.stdout)
    settings = settings_from(flags)

    def show(outcome: GateOutcome) -> None:
        text = None
        if form != "text" or output is not None:
            page = read_page(outcome.run) if form == "html" and outcome.run is not None else ()
            text = render(outcome.view, cast(Format, form), templates=own_templates(settings.root), page=page)
        if output is not None and text is not None:
            write_text(output, text)
        if output is None and text is not None:
            click.echo(text, nl=False)
            return
        pages = [f"HTML report: {linked(path)}" for path in outcome.reports if path.suffix == ".html"]
        print_report(outcome.view, verbose=verbose, files=pages)

    with run_context(settings) as context:
        if settings.run.shard is not None and not shards:
            if settings.gate.baseline_store is not None:
                from ragstone.job.stored_gate import shard_with_store

                say(run_line(run_to_end(shard_with_store(settings, context))))
                return 0
            say(run_line(run_to_end(evaluate_shard(gate_request(settings, context), context))))
            return 0
        merging = Shards(shards, allow_missing) if shards else None
        if settings.gate.baseline_store is not None:
            from ragstone.job.stored_gate import gate_with_store

            return run_to_end(gate_with_store(settings, context, show, shards=merging)).exit_code
        outcome = run_to_end(gate(gate_request(settings, context, shards=merging), context))
    show(outcome)
    return outcome.exit_code
