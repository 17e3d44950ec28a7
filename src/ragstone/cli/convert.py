"""`ragstone convert`: a golden set as native JSON Lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import click

from ragstone.cli.options import CONFIG, FORCE, option, settings_from
from ragstone.cli.output import check_output, say
from ragstone.errors import ConfigError
from ragstone.evaluation.files import replace_texts
from ragstone.formatting import counted
from ragstone.golden.convert import native_lines
from ragstone.golden.formats.registry import BY_ENDING, LINES
from ragstone.golden.load import load_golden_set
from ragstone.golden.sample import ColumnMapping, Sample
from ragstone.printable import shown_name

_OTHER_FORMATS = (BY_ENDING.keys() - LINES.endings) | {".xls"}


def check_target(target: Path, *, force: bool) -> None:
    """Raise ConfigError if `target` exists, is a link, or is named like another format,
    as which it would be read."""
    ending = target.suffix.lower()
    if ending in _OTHER_FORMATS:
        raise ConfigError(
            f"can't write {ending}: the native format is JSON Lines.",
            where=str(target),
            hint=f"Write to {target.with_suffix('.jsonl').name}, for example.",
        )
    check_output(target)
    if target.exists() and not force:
        raise ConfigError(
            "already exists.",
            where=str(target),
            hint="Use another file name, or add --force.",
        )


def write_samples(
    samples: Iterable[Sample], target: Path, *, force: bool = False
) -> None:
    """Write native JSONL to `target` atomically. Raises ConfigError as `check_target`,
    or if it can't be written."""
    check_target(target, force=force)
    mode = target.stat().st_mode & 0o777 if target.exists() else None
    replace_texts(target, (f"{line}\n" for line in native_lines(samples)))
    if mode is not None:
        target.chmod(mode)


COLUMNS = option(
    "--column",
    "columns",
    value="FIELD=COLUMN",
    multiple=True,
    help="Read a field from this column; can be repeated. Overrides [golden.columns] in the config.",
)


@click.command(name="convert")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@option(
    "-o",
    "--output",
    value="FILE",
    help="JSON Lines file to write  [default: standard output]",
)
@COLUMNS
@FORCE
@CONFIG
def command(
    files: tuple[str, ...],
    output: Path | None,
    columns: tuple[str, ...],
    force: bool,
    config: Path | None,
) -> None:
    """Convert any golden set that Ragstone can read to native JSONL.

    FILE is a name or a glob: JSONL, JSON, YAML, CSV, TSV, Parquet or Excel (.xlsx). The
    mapping of columns to fields is printed to standard error.
    """
    of_config = settings_from({"config": config}).golden
    named = {**of_config.columns, **columns_from(columns)}
    golden = load_golden_set(files, columns=named, history=of_config.history)
    counts = Counter(
        sample.origin.file for sample in golden if sample.origin is not None
    )
    for mapping in golden.mappings:
        explain(mapping, counts[mapping.file])
    if output is None or str(output) == "-":
        with click.open_file("-", "wb") as stream:
            stream.writelines(f"{line}\n".encode() for line in native_lines(golden))
        return
    write_samples(golden, output, force=force)
    say(
        f"wrote {counted(len(golden), 'sample')} to {shown_name(str(output))}", err=True
    )


def columns_from(options: tuple[str, ...]) -> dict[str, str]:
    """The column of each field that --column names. Raises ConfigError."""
    columns = {}
    for text in options:
        field, sign, column = text.partition("=")
        if not sign:
            raise ConfigError(
                f"--column {text}: expected FIELD=COLUMN.",
                hint="For example: --column question=frage",
            )
        columns[field.strip()] = column.strip()
    return columns


def explain(mapping: ColumnMapping, samples: int) -> None:
    """Say on standard error which column each field was read from."""
    rows = list(mapping.columns.items())
    if mapping.recorded:
        left_out = ", ".join(
            f"{field} in {column}" for field, column in mapping.recorded.items()
        )
        rows.append(("recorded, left out", left_out))
    if mapping.ignored:
        rows.append(
            (
                "ignored",
                ", ".join(
                    name or "(a column without a name)" for name in mapping.ignored
                ),
            )
        )
    rows += [("note", note) for note in mapping.notes]
    say(
        f"{shown_name(mapping.file)}: {counted(samples, 'sample')} ({mapping.format})",
        err=True,
    )
    for name, value in rows:
        say(f"  {name:<18}  {value}", err=True)
