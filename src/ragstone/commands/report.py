"""`ragstone report`: render a stored run in any format."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import click

from ragstone.commands.options import POLICY


@click.command(name="report")
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "md", "json", "junit", "html"]),
    default="text",
    show_default=True,
    help="Report format.",
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Output file  [default: standard output]"
)
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
        _write(output, found.text)
    elif form == "text":
        print_report(found.view)
    else:
        click.echo(found.text, nl=False)
    return 0


def _write(path: Path, text: str) -> None:
    from ragstone.errors import ConfigError

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise ConfigError(f"can't be written: {error.strerror}.", where=str(path)) from None
