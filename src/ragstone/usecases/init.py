"""Write starter files without overwriting existing ones."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from ragstone.errors import ConfigError

STARTER_FILES = {
    "ragstone.toml": "ragstone.toml",
    "thresholds.toml": "thresholds.toml",
    "golden.jsonl": "golden/golden.jsonl",
    "workflow.yml": ".github/workflows/ragstone.yml",
}
"""Shipped file to the path it is written to."""


@dataclass(frozen=True, slots=True)
class Written:
    """Paths that were written, and paths that were kept because they existed."""

    written: tuple[str, ...]
    kept: tuple[str, ...]


def write_starter(directory: Path, *, entrypoint: str) -> Written:
    """Write the starter files to `directory`. Raises ConfigError if a file can't be written."""
    written: list[str] = []
    kept: list[str] = []
    for name, place in STARTER_FILES.items():
        text = (resources.files(__package__) / "starter" / name).read_text(encoding="utf-8")
        if name == "ragstone.toml":
            text = text.replace("python:my_package.rag:answer", _toml_text(entrypoint))
        path = directory / place
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as stream:
                stream.write(text)
        except FileExistsError:
            kept.append(place)
        except OSError as error:
            raise ConfigError(f"can't be written: {error.strerror}.", where=str(path)) from None
        else:
            written.append(place)
    return Written(tuple(written), tuple(kept))


def _toml_text(value: str) -> str:
    if any(character in value for character in '"\\\n') or not value.isprintable():
        raise ConfigError(f"an entrypoint can't contain quotes, backslashes or line breaks: {value!r}")
    return value
