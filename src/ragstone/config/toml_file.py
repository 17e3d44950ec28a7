"""Config files as text and as TOML, with errors that say where."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from ragstone.errors import ConfigError
from ragstone.files import read_regular

MAX_TOML_BYTES = 1_000_000


def read_toml(path: Path, *, within: Path | None = None) -> dict[str, Any]:
    """The document in `path`. Raises ConfigError with the line of a syntax error."""
    return parse_toml(read_text(path, within=within), path)


def read_text(path: Path, *, within: Path | None = None, limit: int = MAX_TOML_BYTES) -> str:
    """The UTF-8 text of a config file of at most `limit` bytes. Raises ConfigError."""
    try:
        return read_regular(path, within=within, limit=limit).decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"can't be read: {error.strerror}.", where=str(path)) from None
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"not valid TOML: not UTF-8 ({error.reason} at byte {error.start}).", where=str(path)
        ) from None


def parse_toml(text: str, path: Path) -> dict[str, Any]:
    """The document in `text`, read from `path`. Raises ConfigError with the line of a syntax error."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ConfigError("not valid TOML: nested too deeply", where=str(path)) from None
    except ValueError as error:  # a syntax error, or a number with thousands of digits
        raise ConfigError(f"not valid TOML: {error}", where=str(path)) from None
