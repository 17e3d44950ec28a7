"""`ragstone review`: a person's review of the drafts of a golden set."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from ragstone.cli.golden_file import write_samples
from ragstone.cli.options import CONFIG, FORCE, option, settings_from
from ragstone.cli.output import check_output, say
from ragstone.errors import ConfigError
from ragstone.formatting import counted, join_first
from ragstone.pipeline.run_plan import read_golden_set
from ragstone.printable import shell_word, shown_name
from ragstone.tools.generate.review import (
    apply_decisions,
    drafts_of,
    drafts_text,
    write_review,
)

_DEFAULT_TABLE = Path("review.csv")


_MAX_NAMED = 20
"""How many rejected samples are named; the others are counted."""


@click.command(name="review")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@option(
    "--decisions",
    value="FILE",
    help="The edited table, whose decisions are applied to the golden set.",
)
@option(
    "--reviewer",
    value="NAME",
    default="",
    show_default=False,
    help="Who reviewed; stored in the golden set.",
)
@option(
    "-o",
    "--output",
    value="FILE",
    help=f"The table  [default: {_DEFAULT_TABLE}]; with --decisions, the golden set.",
)
@FORCE
@CONFIG
def command(
    files: tuple[str, ...],
    decisions: Path | None,
    reviewer: str,
    output: Path | None,
    force: bool,
    config: Path | None,
) -> int:
    """List the drafts of a golden set, and write a table to decide on them. Drafts count
    in no check until they are accepted.

    In the table, write accept or reject in the column decision, and correct question,
    reference, answerable and tags. With --decisions, accepted samples get the status
    "reviewed", rejected ones are left out, and all others stay drafts.

    \b
    Examples:
      ragstone review drafts.jsonl
      ragstone review golden.jsonl drafts.jsonl --decisions review.csv --reviewer ann -o golden.jsonl --force
    """
    golden = read_golden_set(settings_from({"config": config}), files)
    if decisions is None:
        table = output or _DEFAULT_TABLE
        check_output(table)
        drafts = drafts_of(golden)
        write_review(table, drafts)
        say(drafts_text(drafts))
        names = " ".join(map(shell_word, files))
        say(
            f"wrote {counted(len(drafts), 'draft')} to {shown_name(str(table))}: write accept or reject beside each."
        )
        say(
            f"Then: ragstone review {names} --decisions {shell_word(str(table))} -o reviewed.jsonl"
        )
        return 0
    if output is None:
        raise ConfigError(
            "--decisions needs --output.",
            hint="Name the file for the reviewed golden set: -o reviewed.jsonl",
        )
    day = datetime.now(UTC).date().isoformat()
    reviewed = apply_decisions(golden, decisions, reviewer=reviewer, day=day)
    write_samples(reviewed.samples, output, force=force)
    say(
        f"{reviewed.accepted:,} accepted ({reviewed.edited:,} of them edited), {len(reviewed.rejected):,} rejected, "
        f"{counted(reviewed.undecided, 'draft')} without a decision"
    )
    if reviewed.rejected:
        say(f"rejected: {join_first(list(reviewed.rejected), _MAX_NAMED)}")
    say(
        f"wrote {counted(len(reviewed.samples), 'sample')} to {shown_name(str(output))}"
    )
    return 0
