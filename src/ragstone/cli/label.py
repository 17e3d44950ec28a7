"""`ragstone label`: tables in which people label the answers of a run."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import click

from ragstone.cli.context import redactor
from ragstone.cli.options import CONFIG, PATH, option, settings_from
from ragstone.cli.output import linked, say
from ragstone.evaluation.directory import RunDirectory
from ragstone.formatting import counted
from ragstone.printable import shell_word
from ragstone.settings.settings import Settings
from ragstone.tools.judging.draw import DrawMethod, draw_answers, write_tables


@click.command(name="label")
@click.argument("run", type=PATH, default=Path(Settings().run.out))
@option(
    "--n",
    "size",
    value="N",
    type=click.IntRange(min=2),
    default=100,
    help="How many answers to draw.",
)
@option(
    "--annotators",
    value="NAMES",
    default="me",
    help="Names of the people who label, separated by commas.",
)
@option(
    "--overlap",
    value="SHARE",
    type=click.FloatRange(0.0, 1.0),
    default=0.2,
    help="Share of the answers that everyone labels, so that agreement can be computed.",
)
@option(
    "--by",
    choices=["random", "unsure"],
    default="random",
    help="Draw answers at random, or more of those about which the judge is unsure.",
)
@option(
    "--metrics",
    value="NAMES",
    default="",
    show_default=False,
    help="Metrics to label, separated by commas  [default: the first metric of the run]",
)
@option("-o", "--output", type=PATH, default=Path("labels"), help="Folder to write.")
@CONFIG
def command(
    run: Path,
    size: int,
    annotators: str,
    overlap: float,
    by: str,
    metrics: str,
    output: Path,
    config: Path | None,
) -> int:
    """Draw answers of RUN for people to label, as a CSV file for each annotator and a
    page that fills it in.

    A label is pass or fail, or a number from 0 to 1. The page is one file that works
    without a network; a spreadsheet does as well. `ragstone calibrate` reads the
    tables.

    \b
    Example:
      ragstone label ragstone-run --n 100 --annotators ann,bob
    """
    settings = settings_from({"config": config})
    stored_run = RunDirectory.open(run)
    redact = redactor(settings)
    draw = draw_answers(
        stored_run,
        n=size,
        annotators=_names(annotators),
        overlap=overlap,
        by=cast("DrawMethod", by),
        metrics=_names(metrics),
        redact=redact,
    )
    tables, page = write_tables(stored_run, draw, output, redact=redact)
    draw_size = counted(len(draw.probabilities), "answer")
    say(f"drew {draw_size} of {draw.population_size:,} for {', '.join(draw.metrics)}")
    for table, assigned in zip(tables, draw.assigned.values(), strict=True):
        answers = counted(len(assigned), "answer")
        click.echo(f"  {linked(table)}  {answers}")
    click.echo(f"  {linked(page)}  a page that opens, fills in and saves a table")
    say(
        f"Then: ragstone calibrate {shell_word(str(output))} --run {shell_word(str(run))}"
    )
    return 0


def _names(text: str) -> tuple[str, ...]:
    """The names in a text that separates them by commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())
