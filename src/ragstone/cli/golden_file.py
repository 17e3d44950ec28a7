"""A golden set as a file: which columns it was read from, and native JSON Lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import click

from ragstone.cli.output import check_output, say
from ragstone.errors import ConfigError
from ragstone.evaluation.files import replace_texts
from ragstone.formatting import counted
from ragstone.golden.formats.registry import BY_ENDING, LINES
from ragstone.golden.native_format import native_lines
from ragstone.golden.sample import ColumnMapping, GoldenSet, Sample
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


def write_golden_set(golden: GoldenSet, target: Path, *, force: bool) -> None:
    """Write `golden` to `target`, or to standard output if that is ``-``, and say so.
    Raises ConfigError as `write_samples`."""
    if str(target) == "-":
        with click.open_file("-", "wb") as stream:
            stream.writelines(f"{line}\n".encode() for line in native_lines(golden))
        return
    write_samples(golden, target, force=force)
    say(
        f"wrote {counted(len(golden), 'sample')} to {shown_name(str(target))}", err=True
    )


def explain(golden: GoldenSet) -> None:
    """Say on standard error which columns the fields of each file were read from."""
    counts = Counter(
        sample.origin.file for sample in golden if sample.origin is not None
    )
    for mapping in golden.mappings:
        _explain(mapping, counts[mapping.file])


def _explain(mapping: ColumnMapping, samples: int) -> None:
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
