"""`ragstone report`: render a stored run in any format."""

from __future__ import annotations

import os
from pathlib import Path
from typing import cast

import click

from ragstone.commands.options import CONFIG, FLAGS, PATH, REPORT, option, setting, settings_from, with_options
from ragstone.commands.output import write_text


@click.command(name="report")
@click.argument("run", type=PATH, required=False)
@with_options(REPORT, (CONFIG,))
@setting("thresholds", help="Decide again with this policy  [default: the gate's own]")
@setting("baseline", help="Decide again, compared with this run  [default: the gate's own]")
@setting("history", help="Decide again, compared with this history  [default: the gate's own]")
@option(
    "--templates",
    value="DIR",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Folder with your report.md.j2  [default: templates, if it contains one]",
)
@option("--link", value="URL", help="URL pattern for links to samples, with {file} and {line}.")
def command(
    run: Path | None,
    form: str,
    output: Path | None,
    verbose: bool,
    templates: Path | None,
    link: str | None,
    **flags: object,
) -> int:
    """Show the run in RUN, a directory written by `ragstone run` or `ragstone gate`  [default: as in the config]

    Nothing is evaluated again. Shows the verdict that the gate recorded; with --thresholds, --baseline or --history,
    the stored scores are decided again and the report says so. A run without a verdict is decided as `ragstone gate`
    would. Always exits with 0; for an exit code that reflects the verdict, use `ragstone gate` or `ragstone compare`.

    \b
    Examples:
      ragstone report ragstone-run
      ragstone report ragstone-run --format html -o report.html
      ragstone report ragstone-run --baseline main-run
    """
    from ragstone.app.report import report
    from ragstone.project.gate import ASKABLE, report_terms
    from ragstone.project.known_secrets import known_secrets
    from ragstone.report.parts import Links
    from ragstone.report.render import Format
    from ragstone.report.terminal import print_report
    from ragstone.run.directory import RunDirectory
    from ragstone.run.redact import Redactor

    settings = settings_from(flags)
    asked = {FLAGS[name]: str(value) for name, value in flags.items() if FLAGS.get(name) in ASKABLE and value}
    found = report(
        RunDirectory.open(run if run is not None else settings.path(settings.run.out)),
        cast(Format, form),
        report_terms(settings, asked=asked, templates=templates),
        Redactor(known_secrets(os.environ, settings)),
        links=Links.from_pattern(link) if link is not None else None,
    )
    if output is not None:
        write_text(output, found.text)
    elif form == "text":
        print_report(found.view, verbose=verbose)
    else:
        click.echo(found.text, nl=False)
    return 0
