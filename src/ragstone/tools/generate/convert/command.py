"""`ragstone convert`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ragstone.commands.options import CONFIG, settings_from
from ragstone.errors import ConfigError
from ragstone.formatting import counted

if TYPE_CHECKING:
    from ragstone.golden.sample import ColumnMapping


@click.command(name="convert")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="JSON Lines file to write  [default: standard output]",
)
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="FIELD=COLUMN",
    help="Read a field from this column; can be repeated. Overrides [golden.columns] in the config.",
)
@click.option("--force", is_flag=True, help="Overwrite the output file.")
@CONFIG
def command(
    files: tuple[str, ...], output: Path | None, columns: tuple[str, ...], force: bool, config: Path | None
) -> None:
    """Convert any golden set that Ragstone can read to native JSONL.

    FILE is a name or a glob: JSONL, JSON, YAML, CSV, TSV, Parquet or Excel (.xlsx). The mapping of columns to fields is
    printed to standard error.
    """
    from ragstone.tools.generate.convert.convert import convert, write_conversion

    mapped = dict(settings_from({"config": config}).golden.columns) | dict(column_pair(column) for column in columns)
    conversion = convert(files, root=Path(), columns=mapped)
    for mapping, samples in conversion.sources():
        explain(mapping, samples)
    if output is None or str(output) == "-":
        with click.open_file("-", "wb") as stream:
            stream.writelines(f"{line}\n".encode() for line in conversion.lines())
        return
    write_conversion(conversion, output, force=force)
    _say(f"wrote {counted(len(conversion.golden_set), 'sample')} to {output}")


def column_pair(text: str) -> tuple[str, str]:
    """Field and column of a --column option. Raises ConfigError."""
    field, sign, column = text.partition("=")
    if not sign:
        raise ConfigError(f"--column {text}: expected FIELD=COLUMN.", hint="For example: --column question=frage")
    return field.strip(), column.strip()


def explain(mapping: ColumnMapping, samples: int) -> None:
    """Say on standard error which column each field was read from."""
    _say(f"{mapping.file}: {counted(samples, 'sample')} ({mapping.format})")
    for field, column in mapping.columns.items():
        _row(field, column)
    if mapping.recorded:
        _row("recorded, left out", ", ".join(f"{field} in {column}" for field, column in mapping.recorded.items()))
    if mapping.ignored:
        _row("ignored", ", ".join(name or "(a column without a name)" for name in mapping.ignored))
    for note in mapping.notes:
        _row("note", note)


def _row(name: str, value: str) -> None:
    from ragstone.report.escape import terminal

    click.echo(f"  {name:<18}  {terminal(value)}", err=True)


def _say(line: str) -> None:
    from ragstone.report.escape import terminal

    click.echo(terminal(line), err=True)
