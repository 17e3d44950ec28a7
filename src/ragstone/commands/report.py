"""`ragstone report`: render a stored run in any format."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import click

from ragstone.commands.options import POLICY, REPORT, with_options
from ragstone.commands.output import write_text


@click.command(name="report")
@click.argument("run", type=click.Path(path_type=Path))
@with_options(REPORT)
@click.option("--baseline", type=click.Path(path_type=Path), metavar="RUN_DIR", help="Run to compare with.")
@POLICY
@click.option(
    "--templates",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    metavar="DIR",
    help="Folder with your report.md.j2  [default: templates, if it contains one]",
)
@click.option(
    "--history", type=click.Path(path_type=Path), metavar="FILE", help="History  [default: the one in RUN, if any]"
)
@click.option("--link", metavar="URL", help="URL pattern for links to samples, with {file} and {line}.")
def command(
    run: Path,
    form: str,
    output: Path | None,
    baseline: Path | None,
    thresholds: Path | None,
    templates: Path | None,
    history: Path | None,
    link: str | None,
) -> int:
    """Show the run in RUN, a directory written by `ragstone run` or `ragstone gate`.

    Nothing is evaluated again: the stored scores are compared with the policy and the baseline. Always exits with 0;
    for an exit code that reflects the verdict, use `ragstone gate` or `ragstone compare`.

    \b
    Examples:
      ragstone report ragstone-run
      ragstone report ragstone-run --format html -o report.html --baseline main-run
    """
    from ragstone.report.parts import Links
    from ragstone.report.render import Format
    from ragstone.report.terminal import print_report
    from ragstone.usecases.report import report

    found = report(
        run,
        cast(Format, form),
        baseline=baseline,
        thresholds=thresholds,
        templates=templates,
        history=history,
        links=Links.from_pattern(link) if link is not None else None,
    )
    if output is not None:
        write_text(output, found.text)
    elif form == "text":
        print_report(found.view)
    else:
        click.echo(found.text, nl=False)
    return 0
