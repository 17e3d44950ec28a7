"""`ragstone label`: labels by people, for the answers of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import click

from ragstone.cli.context import redactor
from ragstone.cli.options import CONFIG, PATH, DefaultGroup, option, settings_from
from ragstone.cli.output import linked, say
from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.files import replace_text
from ragstone.formatting import counted
from ragstone.printable import shell_word, shown_name
from ragstone.settings.settings import Settings
from ragstone.tools.judging.labelling.labelling import (
    LABELS,
    By,
    Scale,
    batch_status,
    draw_batch,
    merge_labels,
    write_adjudication,
    write_batch,
)

_FOLDER = "labels"


@click.group(name="label", cls=DefaultGroup, default="draw")
def command() -> None:
    """Let people label the answers of a run, to measure how far its judge can be trusted.

    `ragstone label RUN` makes a page for all answers; `draw` a batch for one or more people. Pages are single files
    that work without a network; each saves a file, to be put beside batch.json and merged.
    """


@command.command(short_help="Draw answers, and make a page for each person.")
@click.argument("run", type=PATH, default=Path(Settings().run.out))
@option("--n", "size", value="N", type=click.IntRange(min=1), help="How many  [default: all]")
@option("--annotators", value="NAMES", default="me", help="Who labels, separated by commas.")
@option(
    "--overlap",
    value="K",
    type=click.IntRange(min=0),
    default=0,
    show_default=False,
    help="Answers that everyone labels.",
)
@option(
    "--by",
    choices=["random", "uncertainty", "disagreement"],
    default="random",
    help="Which answers are drawn more often.",
)
@option(
    "--scale",
    choices=["pass-fail", "1-5", "statements"],
    default="pass-fail",
    help="What a label is; statements are labelled one by one.",
)
@option(
    "--metrics",
    value="NAMES",
    default="",
    show_default=False,
    help="What to label  [default: the first metric of the run]",
)
@option("-o", "--output", type=PATH, default=Path(_FOLDER), help="Folder to write.")
@CONFIG
def draw(
    run: Path,
    size: int | None,
    annotators: str,
    overlap: int,
    by: str,
    scale: str,
    metrics: str,
    output: Path,
    config: Path | None,
) -> int:
    """Draw answers of RUN, and write batch.json and a page for each annotator.

    By uncertainty, answers with scores near the middle are drawn more often; by disagreement, those on which judging
    rounds or answers differ. Each answer's probability is recorded, so `ragstone calibrate` can allow for it.

    \b
    Example:
      ragstone label draw ragstone-run --n 50 --annotators anna,ben --overlap 20 --by uncertainty
    """
    settings = settings_from({"config": config})
    opened = RunDirectory.open(run)
    batch = draw_batch(
        opened,
        n=size,
        annotators=_names(annotators),
        overlap=overlap,
        by=cast("By", by),
        scale=cast("Scale", scale),
        metrics=_names(metrics),
        seed=settings.run.seed,
    )
    pages = write_batch(opened, batch, output, redact=redactor(settings))
    drawn = f"{counted(len(batch.items), 'answer')} of {batch.population:,}"
    say(f"drew {drawn}, by {batch.by}, for {', '.join(batch.metrics)}")
    for page, annotator in zip(pages, batch.annotators, strict=True):
        click.echo(f"  {linked(page)}  {counted(len(batch.of(annotator)), 'answer')}")
    folder = shown_name(str(output))
    merging = f"ragstone label merge {shell_word(str(output))}"
    say(f"Open the pages in a browser; put the files that they save into {folder}. Then: {merging}")
    return 0


@command.command(short_help="Show how much each annotator has labelled.")
@click.argument("folder", type=PATH, default=Path(_FOLDER))
def status(folder: Path) -> int:
    """Show how many answers each annotator has labelled. FOLDER has batch.json and the files that the pages saved."""
    batch, found = batch_status(folder)
    say(f"{counted(len(batch.items), 'answer')}, drawn by {batch.by}, for {', '.join(batch.metrics)}")
    for one in found:
        say(f"  {one.annotator}: {one.labelled:,} of {one.assigned:,}" + ("" if one.saved else ", no file yet"))
    return 0


@command.command(short_help="Merge the labels of a batch.")
@click.argument("folder", type=PATH, default=Path(_FOLDER))
@option("--run", value="RUN", help="The run, to make a page of the disagreements.")
@CONFIG
def merge(folder: Path, run: Path | None, config: Path | None) -> int:
    """Merge the labels in FOLDER into labels.jsonl there, for `ragstone calibrate`, and measure how well people agree.

    Labels on which people disagree are listed; until they are settled, their mean counts. With --run, a page shows
    them; the file that it saves, adjudicate.json, settles them when the labels are merged again.

    \b
    Example:
      ragstone label merge labels --run ragstone-run
      ragstone calibrate labels/labels.jsonl --run ragstone-run -o calibration.json
    """
    settings = settings_from({"config": config})
    merged = merge_labels(folder, seed=settings.run.seed)
    target = folder / LABELS
    page = None
    if merged.open and run is not None:
        opened = RunDirectory.open(run)
        page = write_adjudication(merged, opened, folder, redact=redactor(settings))
    replace_text(target, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in merged.rows))
    say(merged.text())
    if page is not None:
        click.echo(f"To adjudicate them: {linked(page)}")
    say(f"wrote {counted(len(merged.rows), 'label')} to {shown_name(str(target))}")
    return 0


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())
