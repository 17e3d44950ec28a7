"""The golden set of a project."""

from __future__ import annotations

from ragstone.config import Settings
from ragstone.errors import ConfigError, GoldenSetError
from ragstone.golden.load import load_golden_set
from ragstone.golden.sample import GoldenSet


def read_golden_set(settings: Settings) -> GoldenSet:
    """The golden set in `settings`. Raises ConfigError if there is none."""
    if not settings.golden.paths:
        raise ConfigError(
            "no golden set.",
            hint="Use --golden FILE, or set paths under [golden] in ragstone.toml (`ragstone init` writes one).",
        )
    return load_golden_set(
        settings.golden.paths,
        root=settings.root,
        columns=settings.golden.columns or None,
        limit=settings.golden.limit,
        within=settings.within,
    )


def golden_size(settings: Settings) -> int:
    """Number of samples that count in the golden set of `settings`; 0 if none can be read yet."""
    try:
        return sum(not sample.draft for sample in read_golden_set(settings))
    except (ConfigError, GoldenSetError):
        return 0
