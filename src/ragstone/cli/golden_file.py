"""Writes golden sets as native JSON Lines, and prints which columns they were read
from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import click

from ragstone.cli.output import check_output, say
from ragstone.errors import ConfigError
from ragstone.evaluation.run_files import replace_texts
from ragstone.formatting import counted
from ragstone.golden.formats.registry import BY_ENDING, LINES
from ragstone.golden.native_format import native_lines
from ragstone.golden.sample import ColumnMapping, GoldenSet, Sample
from ragstone.printable import shown_name

_OTHER_FORMATS = (BY_ENDING.keys() - LINES.endings) | {".xls"}


def check_target(target: Path, *, force: bool) -> None:
    """Raise ConfigError if `target` exists (unless `force`), is a link, or has the
    ending of another format, as which it would be read."""
    ending = target.suffix.lower()
    if ending in _OTHER_FORMATS:
        raise ConfigError(
            f"can't write {ending}: golden sets are written as JSON Lines.",
            where=str(target),
            hint=f"Use another ending, such as {target.with_suffix('.jsonl').name}.",
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
    """Write native JSON Lines to `target` atomically. Raises ConfigError like
    `check_target`, and if it can't be written."""
    check_target(target, force=force)
    # The new file keeps the permissions of the one that it replaces.
    mode = target.stat().st_mode & 0o777 if target.exists() else None
    replace_texts(target, (f"{line}\n" for line in native_lines(samples)))
    if mode is not None:
        target.chmod(mode)


def write_golden_set(golden: GoldenSet, target: Path, *, force: bool) -> None:
    """Write `golden` to `target` and say so, or to standard output if `target` is
    ``-``. Raises ConfigError like `write_samples`."""
    if str(target) == "-":
        with click.open_file("-", "wb") as stream:
            stream.writelines(f"{line}\n".encode() for line in native_lines(golden))
        return
    write_samples(golden, target, force=force)
    say(
        f"wrote {counted(len(golden), 'sample')} to {shown_name(str(target))}", err=True
    )


def print_columns(golden: GoldenSet) -> None:
    """Print to standard error which columns the fields of each file were read from."""
    counts = Counter(
        sample.origin.file for sample in golden if sample.origin is not None
    )
    for mapping in golden.mappings:
        _print_mapping(mapping, counts[mapping.file])


def _print_mapping(mapping: ColumnMapping, samples: int) -> None:
    rows = list(mapping.columns.items())
    if mapping.recorded:
        columns = mapping.recorded.items()
        recorded = ", ".join(f"{field} in {column}" for field, column in columns)
        rows.append(("recorded, left out", recorded))
    if mapping.ignored:
        names = [name or "(a column without a name)" for name in mapping.ignored]
        rows.append(("ignored", ", ".join(names)))
    rows += [("note", note) for note in mapping.notes]
    say(
        f"{shown_name(mapping.file)}: {counted(samples, 'sample')} ({mapping.format})",
        err=True,
    )
    for name, value in rows:
        say(f"  {name:<18}  {value}", err=True)
