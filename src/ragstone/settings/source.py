"""Knows from which file and lines rules were read, so that every message can say
where."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from ragstone.errors import ConfigError, expected, suggestion
from ragstone.settings.toml_lines import KeyPath, line_of

MAX_RULES_BYTES = 1_000_000
_MAX_SHOWN_CHARACTERS = 80


@dataclass(frozen=True, slots=True)
class Source:
    """Where rules were read from: a file, or a mapping in memory."""

    file: str | None = None
    """None for a mapping."""
    lines: Mapping[KeyPath, int] = field(default_factory=dict)
    """The lines of the keys, from 1."""

    def line_of(self, path: KeyPath) -> int | None:
        """The line of a key, or else of the nearest table above it."""
        return line_of(self.lines, path)

    def where(self, path: KeyPath) -> str | None:
        """The place of a key, such as ``thresholds.toml:12``; None for a mapping."""
        line = self.line_of(path)
        if self.file is None or line is None:
            return self.file
        return f"{self.file}:{line}"

    def error(
        self, path: KeyPath, message: str, hint: str | None = None
    ) -> ConfigError:
        """An error about a key."""
        return ConfigError(message, where=self.where(path), hint=hint)

    def invalid(self, error: ValidationError, model: type[BaseModel]) -> ConfigError:
        """The first error that pydantic found in a document of `model`, worded for
        users."""
        errors = error.errors()
        # An unknown key is usually a misspelt one, and often explains other errors.
        unknown_keys = [
            details for details in errors if details["type"] == "extra_forbidden"
        ]
        details = [*unknown_keys, *errors][0]
        parts = list(map(str, details["loc"]))
        if "[key]" in parts:  # as pydantic marks an error about the key itself
            parts = parts[: parts.index("[key]")]
        path = tuple(parts)
        key = ".".join(path)
        if unknown_keys:
            known_keys = fields_at(model, path[:-1])
            return self.error(
                path, f"unknown key '{key}'.", suggestion(path[-1], known_keys)
            )
        if details["type"] == "missing":
            return self.error(path, f"'{key}' is missing.")
        value = details["input"]
        is_percentage = isinstance(value, int | float) and 1 < value <= 100
        hint: str | None = None
        if details["type"] == "less_than_equal" and is_percentage:
            hint = f"Scores and shares are in [0, 1]: did you mean {value / 100:g}?"
        message = f"'{key}' {expected(details)}, found {show_value(value)}."
        return self.error(path, message, hint)


def fields_at(table: type[BaseModel], path: KeyPath) -> Collection[str]:
    """The keys of the table at `path` in a document of `table`."""
    model: Any = table
    for part in path:
        if isinstance(model, type) and issubclass(model, BaseModel):
            model = model.model_fields[part].annotation
        else:  # of a dict or a list, of which `part` is a key or an index
            model = get_args(model)[-1]
    return list(model.model_fields)


def show_value(value: object) -> str:
    """A value for an error message, as JSON that is cut if it is long."""
    text = json.dumps(value, ensure_ascii=False, default=str, skipkeys=True)
    if len(text) <= _MAX_SHOWN_CHARACTERS:
        return text
    return f"{text[: _MAX_SHOWN_CHARACTERS - 3]}..."
