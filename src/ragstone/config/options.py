"""Every setting that can be set outside the config file, with its environment variable and flag: see options.toml."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.resources import files

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from ragstone.config.settings import Settings


def default_text(field: FieldInfo) -> str:
    """The default of a setting in Markdown: its value, or what happens without one; empty for nothing."""
    value = field.get_default(call_default_factory=True)
    if value is None or value is False or value in ((), {}):
        extra = field.json_schema_extra
        return str(extra.get("unset", "")) if isinstance(extra, dict) else ""
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


@dataclass(frozen=True, slots=True)
class Option:
    """A setting and its names: table and key in the file, environment variable, and flag (without dashes), if any.

    `metavar` stands for the value of the flag in help. `is_path`: relative values set outside the file are relative to
    the current directory, not to the file's folder.
    `path_after` is the scheme after which a value is a path: ``file`` in ``file:answers.jsonl``.
    `of_gate`: the decision needs it, not the evaluation. `secret`: it is never shown, and never in a file.
    """

    key: str
    env: str
    flag: str | None = None
    metavar: str | None = None
    in_file: bool = True
    secret: bool = False
    is_path: bool = False
    path_after: str | None = None
    of_gate: bool = False

    def path_in(self, value: str) -> str | None:
        """The path in a `value` with the scheme `path_after`, None if it has none."""
        scheme, _, path = value.strip().partition(":")
        return path.strip() or None if scheme == self.path_after else None

    @property
    def table(self) -> str:
        return self.key.partition(".")[0]

    @property
    def name(self) -> str:
        return self.key.partition(".")[2]

    @property
    def field(self) -> FieldInfo:
        """The setting itself: its type, its default, and the one description that help and documentation show."""
        table = Settings.model_fields[self.table].annotation
        assert isinstance(table, type)  # noqa: S101 - for the type checker
        assert issubclass(table, BaseModel)  # noqa: S101
        return table.model_fields[self.name]

    @property
    def sentence(self) -> str:
        """The description with a capital, without a full stop, in Markdown."""
        text = self.field.description or ""
        return text[:1].upper() + text[1:]


_TABLES = tomllib.loads(files("ragstone.config").joinpath("options.toml").read_text("utf-8"))
OPTIONS = tuple(Option(f"{table}.{name}", **names) for table, rows in _TABLES.items() for name, names in rows.items())

SECRET_VARIABLES = tuple(option.env for option in OPTIONS if option.secret)
"""Variables of settings that are secret, and so come from nowhere else."""


def option_of(key: str) -> Option:
    """The option of the setting `key`, such as ``judge.api_key``."""
    return next(option for option in OPTIONS if option.key == key)


def variable_of(key: str) -> str:
    """The environment variable of the setting `key`."""
    return option_of(key).env
