"""A file of rules and the lines of its keys, so that every message says where."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from ragstone.errors import ConfigError, expected, suggestion
from ragstone.settings.toml_lines import KeyPath, line_of

MAX_RULES_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class Source:
    """Where rules were read."""

    file: str | None = None
    """It is None for a mapping."""
    lines: Mapping[KeyPath, int] = field(default_factory=dict)
    """The lines of the keys, from 1."""

    def line_of(self, path: KeyPath) -> int | None:
        """The line of a key, or else of the nearest table above it."""
        return line_of(self.lines, path)

    def where(self, path: KeyPath) -> str | None:
        """``thresholds.toml:12`` for a key; None for a mapping."""
        line = self.line_of(path)
        if self.file is None or line is None:
            return self.file
        return f"{self.file}:{line}"

    def error(
        self, path: KeyPath, message: str, hint: str | None = None
    ) -> ConfigError:
        """The error that something is wrong with a key."""
        return ConfigError(message, where=self.where(path), hint=hint)

    def invalid(self, error: ValidationError, model: type[BaseModel]) -> ConfigError:
        """The first error that pydantic found in a document of `model`, in our words."""
        errors = error.errors()
        # An unknown key is usually a misspelt one, and often explains other errors.
        misspelt = [each for each in errors if each["type"] == "extra_forbidden"]
        details = [*misspelt, *errors][0]
        parts = list(map(str, details["loc"]))
        if "[key]" in parts:
            parts = parts[: parts.index("[key]")]
        path = tuple(parts)
        key = ".".join(path)
        if misspelt:
            known = fields_at(model, path[:-1])
            return self.error(
                path, f"unknown key '{key}'.", suggestion(path[-1], known)
            )
        if details["type"] == "missing":
            return self.error(path, f"'{key}' is missing.")
        value = details["input"]
        is_number = isinstance(value, int | float) and 1 < value <= 100
        hint: str | None = None
        if details["type"] == "less_than_equal" and is_number:
            hint = f"Scores and shares are in [0, 1]: did you mean {value / 100:g}?"
        message = f"'{key}' {expected(details)}, found {shown(value)}."
        return self.error(path, message, hint)


def fields_at(table: type[BaseModel], path: KeyPath) -> Collection[str]:
    """The keys of the table at `path` in a document of `table`."""
    model: Any = table
    for part in path:
        if isinstance(model, type) and issubclass(model, BaseModel):
            model = model.model_fields[part].annotation
        else:  # a dict or a list: the part is the name or the place
            model = get_args(model)[-1]
    return list(model.model_fields)


def shown(value: object) -> str:
    """A value for an error message."""
    text = json.dumps(value, ensure_ascii=False, default=str, skipkeys=True)
    if len(text) <= 80:
        return text
    return text[:77] + "..."
