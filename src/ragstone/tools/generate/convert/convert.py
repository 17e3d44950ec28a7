"""Convert any readable golden set to native JSONL."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ragstone.errors import ConfigError
from ragstone.golden.convert import native_lines
from ragstone.golden.load import FORMATS, load_golden_set
from ragstone.golden.sample import ColumnMapping, GoldenSet

_OTHER_FORMATS = {ending for ending, name in FORMATS.items() if name != "jsonl"} | {".xls"}


@dataclass(frozen=True, slots=True)
class Conversion:
    """A golden set being converted to the native format."""

    golden_set: GoldenSet

    def lines(self) -> Iterator[str]:
        """Native JSONL, line by line, without line breaks."""
        return native_lines(self.golden_set)

    def sources(self) -> tuple[tuple[ColumnMapping, int], ...]:
        """Each file's mapping and its number of samples."""
        counts = Counter(sample.origin.file for sample in self.golden_set if sample.origin is not None)
        return tuple((mapping, counts[mapping.file]) for mapping in self.golden_set.mappings)


def convert(paths: Sequence[str], *, root: Path, columns: Mapping[str, str]) -> Conversion:
    """Read `paths` (files and globs, relative to `root`). Raises GoldenSetError."""
    return Conversion(load_golden_set(paths, root=root, columns=columns))


def check_target(target: Path) -> None:
    """Raise ConfigError if the name of `target` is that of another format: it would be read as that."""
    ending = target.suffix.lower()
    if ending in _OTHER_FORMATS:
        raise ConfigError(
            f"can't write {ending}: the native format is JSON Lines.",
            where=str(target),
            hint=f"Write to {target.with_suffix('.jsonl').name}, for example.",
        )


def write_conversion(conversion: Conversion, target: Path, *, force: bool = False) -> None:
    """Write native JSONL to `target` atomically.

    Raises ConfigError if the name is that of another format, if the file exists and `force` is not given, or if it
    can't be written.
    """
    check_target(target)
    if target.exists() and not force:
        raise ConfigError("already exists.", where=str(target), hint="Use another file name, or add --force.")
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as stream:
                stream.writelines(f"{line}\n" for line in conversion.lines())
            Path(name).chmod(target.stat().st_mode & 0o777 if target.exists() else 0o644)
            Path(name).replace(target)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(name).unlink()
            raise
    except OSError as error:
        raise ConfigError(f"can't be written: {error.strerror}.", where=str(target)) from None
