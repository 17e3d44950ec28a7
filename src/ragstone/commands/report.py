"""`ragstone report`: a run that is on disk, in any format."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import click


@click.command(name="report")
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "md", "json", "junit", "html"]),
    default="text",
    show_default=True,
    help="Of the report.",
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write it there  [default: print]"
)
@click.option("--baseline", type=click.Path(path_type=Path), metavar="RUN_DIR", help="Run to compare with.")
@click.option(
    "--thresholds",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Policy  [default: thresholds.toml where there is one, else the defaults]",
)
@click.option(
    "--templates",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    metavar="DIR",
    help="Folder with a report.md.j2 of your own  [default: templates, where it holds one]",
)
@click.option(
    "--history", type=click.Path(path_type=Path), metavar="FILE", help="History  [default: the run's own, if any]"
)
@click.option("--link", metavar="URL", help="Links samples to their lines; has {file} and {line} in it.")
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
    """Show the run in RUN, a directory that `ragstone run` or `ragstone gate` wrote.

    Nothing is evaluated again: the stored scores are held against the policy and the baseline. Exits with 0 whatever
    the verdict; `ragstone gate` and `ragstone compare` are the commands whose exit code is the verdict.

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
