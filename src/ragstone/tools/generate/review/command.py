"""`ragstone review`: a person's review of the drafts of a golden set."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from ragstone.commands.context import redactor
from ragstone.commands.options import CONFIG, JSON_LINES, PATH, DefaultGroup, option, settings_from
from ragstone.commands.output import linked, say, write_text
from ragstone.formatting import counted, some
from ragstone.golden.load import load_golden_set
from ragstone.run.directory import RunDirectory
from ragstone.tools.generate.convert.convert import write_samples
from ragstone.tools.generate.review.review import merge_review, review_page


@click.group(name="review", cls=DefaultGroup, default="page")
def command() -> None:
    """Review the drafts of a golden set, which count in no check before.

    `ragstone review FILE` makes a page that works without a network; the file that it saves is merged into the set.
    """


@command.command(short_help="Make a page for the drafts.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@option("--reviewer", value="NAME", default="", show_default=False, help="Who reviews  [default: asked when saving]")
@option("--run", value="RUN", help="A run, to show what the system answered.")
@option("--all", "everything", is_flag=True, help="Review all samples, not only drafts.")
@option("-o", "--output", value="FILE", default=Path("review.html"), help="The page.")
@CONFIG
def page(
    files: tuple[str, ...], reviewer: str, run: Path | None, everything: bool, output: Path, config: Path | None
) -> int:
    """Make a page for the drafts in FILE: accept, edit or reject each.

    \b
    Example:
      ragstone review drafts.jsonl --reviewer anna
    """
    settings = settings_from({"config": config})
    html, count = review_page(
        load_golden_set(files, columns=dict(settings.golden.columns)),
        reviewer=reviewer,
        run=None if run is None else RunDirectory.open(run),
        everything=everything,
        redact=redactor(settings),
    )
    write_text(output, html)
    click.echo(f"{linked(output)}  {counted(count, 'sample')}")
    say(
        f"Open it in a browser, and save the file. Then: ragstone review merge {' '.join(files)} FILE -o reviewed.jsonl"
    )
    return 0


@command.command(short_help="Put decisions into the golden set.")
@click.argument("golden", metavar="GOLDEN_SET")
@click.argument("files", nargs=-1, required=True, type=PATH, metavar="FILE...")
@JSON_LINES
@option("--force", is_flag=True, help="Overwrite the output file, which may be GOLDEN_SET itself.")
@CONFIG
def merge(golden: str, files: tuple[Path, ...], output: Path, force: bool, config: Path | None) -> int:
    """Put the decisions in FILE, saved by a page, into GOLDEN_SET, and write it as native JSONL.

    Accepted samples get the status "reviewed", with reviewer and date; rejected ones are left out; others stay as they
    are.

    \b
    Example:
      ragstone review merge golden.jsonl review-anna.json -o golden.jsonl --force
    """
    columns = dict(settings_from({"config": config}).golden.columns)
    merged = merge_review(load_golden_set(golden, columns=columns), files, today=datetime.now(UTC).date())
    write_samples(merged.samples, output, force=force)
    say(
        f"{merged.accepted:,} accepted ({merged.edited:,} of them edited), {len(merged.rejected):,} rejected, "
        f"{counted(merged.left, 'draft')} without a decision"
    )
    if merged.rejected:
        say(f"rejected: {some(list(merged.rejected), 20)}")
    for name, comment in merged.comments:
        say(f"comment on {name}: {' '.join(comment.split())}")
    say(f"wrote {counted(len(merged.samples), 'sample')} to {output}")
    return 0
