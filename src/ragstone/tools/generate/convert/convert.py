"""Golden sets written as native JSONL."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from ragstone.errors import ConfigError, disk_errors
from ragstone.golden.convert import native_lines
from ragstone.golden.formats.registry import BY_ENDING, LINES
from ragstone.golden.sample import Sample

_OTHER_FORMATS = (BY_ENDING.keys() - LINES.endings) | {".xls"}


def check_target(target: Path) -> None:
    """Raise ConfigError if the name of `target` is that of another format: it would be read as that."""
    ending = target.suffix.lower()
    if ending in _OTHER_FORMATS:
        raise ConfigError(
            f"can't write {ending}: the native format is JSON Lines.",
            where=str(target),
            hint=f"Write to {target.with_suffix('.jsonl').name}, for example.",
        )


def refuse_existing(target: Path, *, force: bool) -> None:
    """Raise ConfigError if `target` exists, unless `force` is given."""
    if target.exists() and not force:
        raise ConfigError("already exists.", where=str(target), hint="Use another file name, or add --force.")


def write_samples(samples: Iterable[Sample], target: Path, *, force: bool = False) -> None:
    """Write native JSONL to `target` atomically.

    Raises ConfigError if the name is that of another format, if the file exists and `force` is not given, or if it
    can't be written.
    """
    check_target(target)
    refuse_existing(target, force=force)
    with disk_errors(target, "can't be written"):
        descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as stream:
                stream.writelines(f"{line}\n" for line in native_lines(samples))
            Path(name).chmod(target.stat().st_mode & 0o777 if target.exists() else 0o644)
            Path(name).replace(target)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(name).unlink()
            raise
