"""Settings from defaults, then the config file, the environment and flags
(options.toml), which are passed in."""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec import Struct
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from ragstone.errors import ConfigError, first_invalid, suggestion
from ragstone.files import read_regular, read_table
from ragstone.printable import shown_name
from ragstone.settings.settings import METRICS, TABLES, Settings
from ragstone.settings.source import shown
from ragstone.settings.toml_lines import KeyPath, key_lines, line_of


def default_text(field: FieldInfo, unset: str = "") -> str:
    """The default of a setting in Markdown: its value, or what happens without one
    (`unset`); empty for nothing."""
    value = field.get_default(call_default_factory=True)
    if value is None or value is False or value in ((), {}):
        return unset
    if isinstance(value, float):
        return f"`{value:g}`"
    return f"`{value}`"


class Option(Struct, frozen=True):
    """A setting and its names: table and key in the file, environment variable, and
    flag (without dashes), if any.

    `text` is the one description that help and documentation show, and `unset` what
    happens where no value is given. `metavar` stands for the value of the flag in help.
    `is_path`: relative values set outside the file are relative to the current
    directory, not to the file's folder. `path_after` is the scheme after which a value
    is a path: ``file`` in ``file:answers.jsonl``. `of_gate`: the decision needs it, not
    the evaluation. `secret`: it is never shown, and never in a file.
    """

    key: str
    env: str
    text: str
    unset: str = ""
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
        if scheme != self.path_after:
            return None
        return path.strip() or None

    @property
    def table(self) -> str:
        return self.key.partition(".")[0]

    @property
    def name(self) -> str:
        return self.key.partition(".")[2]

    @property
    def field(self) -> FieldInfo:
        """The setting itself: its type and its default."""
        table = Settings.model_fields[self.table].annotation
        assert isinstance(table, type)  # noqa: S101 - for the type checker
        assert issubclass(table, BaseModel)  # noqa: S101
        return table.model_fields[self.name]

    @property
    def sentence(self) -> str:
        """The description with a capital, without a full stop, in Markdown."""
        return self.text[:1].upper() + self.text[1:]

    @property
    def default(self) -> str:
        """The default, as documentation shows it."""
        return default_text(self.field, self.unset)


TEXTS: Mapping[str, Any] = read_table("options.toml", __package__)
"""What is said of each setting, by table and key."""


def _options() -> Iterator[Option]:
    for table, rows in TEXTS.items():
        for name, row in rows.items():
            if "env" in row:
                yield Option(f"{table}.{name}", **row)


OPTIONS = tuple(_options())

SECRET_VARIABLES = tuple(option.env for option in OPTIONS if option.secret)
"""Variables of settings that are secret, and so come from nowhere else."""


def option_of(key: str) -> Option:
    """The option of the setting `key`, such as ``judge.api_key``."""
    return next(option for option in OPTIONS if option.key == key)


def variable_of(key: str) -> str:
    return option_of(key).env


MAX_TOML_BYTES = 1_000_000


def read_text(
    path: Path, *, within: Path | None = None, limit: int = MAX_TOML_BYTES
) -> str:
    """The UTF-8 text of a config file of at most `limit` bytes. Raises ConfigError."""
    try:
        return read_regular(path, within=within, limit=limit).decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(
            f"can't be read: {error.strerror}.", where=str(path)
        ) from None
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"not valid TOML: not UTF-8 ({error.reason} at byte {error.start}).",
            where=str(path),
        ) from None


def parse_toml(text: str, path: Path) -> dict[str, Any]:
    """The document in `text`, read from `path`. Raises ConfigError with the line of a
    syntax error."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ConfigError(
            "not valid TOML: nested too deeply", where=str(path)
        ) from None
    except ValueError as error:  # a syntax error, or a number with thousands of digits
        raise ConfigError(
            f"not valid TOML: {error}", where=str(path), hint=_excerpt(text, str(error))
        ) from None


def _excerpt(text: str, message: str) -> str | None:
    """The line of a syntax error with its number, unless it may have a secret in it."""
    place = re.search(r"at line (\d+)", message)
    lines = text.splitlines()
    number = int(place[1]) if place else 0
    if not 0 < number <= len(lines):
        return None
    line = lines[number - 1].strip()[:120]
    if re.search("key|token|secret|password|header", line, re.IGNORECASE):
        return None
    return f"{number} | {line}"


CONFIG_FILE = "ragstone.toml"
PYPROJECT = "pyproject.toml"
_PREFIX = "RAGSTONE_"
_JUDGE = "judge.name"
_NO_OVERRIDES: Mapping[str, object] = MappingProxyType({})


def load_settings(
    *,
    directory: Path,
    environ: Mapping[str, str],
    overrides: Mapping[str, object] = _NO_OVERRIDES,
    config: Path | None = None,
    within: Path | None = None,
) -> Settings:
    """Merge all sources into Settings.

    `overrides` maps option keys (``system.entrypoint``) to values, None meaning "not
    set", and "" that no source sets an optional one. `config` names the file; without
    it, ragstone.toml, then [tool.ragstone] of pyproject.toml in `directory` are tried,
    and, without `within`, the next ragstone.toml above it in its repository. `within`
    is the folder that this and every other named file must be in (on GitHub, the
    workspace). Raises ConfigError with file, key and expectation.
    """
    file, table, read, root = _read_file(directory, config, within)
    _refuse_misspelt(environ)
    merged = {name: dict(values) for name, values in table.items()}
    from_file: set[str] = set()
    for name, values in table.items():
        from_file |= {f"{name}.{key}" for key in values}
    origin: dict[str, str] = {}
    for option in OPTIONS:
        if not option.in_file and option.name in table.get(option.table, {}):
            raise ConfigError(
                f"'{option.key}' must not be set in a file.",
                where=read.at(option.table, option.name),
                hint=f"Remove it, and set the environment variable {option.env}.",
            )
        value, source = _value_outside(option, environ, overrides)
        if value is None:
            continue
        from_file.discard(option.key)
        own = merged.setdefault(option.table, {})
        if value == "" and option.field.default is None:
            own.pop(option.name, None)
        else:
            own[option.name] = _placed_value(option, value, directory, root)
            origin[option.key] = source
    _place_judge(merged, directory if _JUDGE in origin else root)
    placed = {"root": root, "within": within, "config": config, "file": file}
    of_file = _of_file(table, placed, root) if file else None
    merged_and_placed = {
        **merged,
        **placed,
        "from_file": frozenset(from_file),
        "of_file": of_file,
    }
    try:
        return Settings.model_validate(merged_and_placed)
    except ValidationError as error:
        _refuse_unknown(error, table, read)
        invalid = _invalid(error, origin, read)
    raise invalid


def _invalid(
    error: ValidationError, origin: Mapping[str, str], read: _ConfigText
) -> ConfigError:
    """What is wrong with the first invalid setting, and where its value is from."""
    place, wanted, invalid = first_invalid(error.errors())
    names = list(map(str, place))
    path = ".".join(names)
    source = origin.get(".".join(names[:2]), read.name)
    message = wanted
    if source != f"option for {path}":
        colon = "" if wanted.startswith("must ") else ":"
        message = f"'{path}'{colon} {wanted}"
    if "api_key" not in path and "headers" not in path:
        message += f", found {shown(invalid)}"
    if source == read.name:
        source = read.at(*place)
    return ConfigError(f"{message}.", where=source)


def _value_outside(
    option: Option, environ: Mapping[str, str], overrides: Mapping[str, object]
) -> tuple[object | None, str]:
    """The value of an option that is not from the file, None if there is none, and
    where it is from."""
    override = overrides.get(option.key)
    if override is not None:
        return override, f"option for {option.key}"
    text = environ.get(option.env, "")
    return text if text.strip() else None, f"environment variable {option.env}"


def _placed_value(option: Option, value: object, directory: Path, root: Path) -> object:
    """A value with its path, if it has one, relative to `root`."""
    if option.is_path:
        return _from_directory(value, directory, root)
    path = option.path_in(str(value))
    if option.key == "system.entrypoint" and path is not None:
        return f"{option.path_after}:{_from_directory(path, directory, root)}"
    return value


def _refuse_misspelt(environ: Mapping[str, str]) -> None:
    """Raise ConfigError for a variable that is almost one of ours; other variables may
    belong to the workflow."""
    names = {option.env.removeprefix(_PREFIX) for option in OPTIONS}
    for name in environ:
        tail = name.removeprefix(_PREFIX)
        if tail == name or tail in names or not environ[name]:
            continue
        for close in difflib.get_close_matches(tail, names, n=1, cutoff=0.85):
            raise ConfigError(
                "there is no setting with this name.",
                where=f"environment variable {name}",
                hint=f"Did you mean '{_PREFIX}{close}'?",
            )


class _ConfigText(Struct, frozen=True):
    """The text of a config file, its name in messages, and the table in which its keys
    are."""

    name: str
    text: str = ""
    table: KeyPath = ()

    def at(self, *key: object) -> str:
        """``ragstone.toml:4`` for a key, or for the nearest table above it."""
        path = (*self.table, *map(str, key))
        line = line_of(key_lines(self.text), path)
        file = self.name.partition(" [")[0]
        return self.name if line is None else f"{file}:{line}"


def _read_file(
    directory: Path, config: Path | None, within: Path | None
) -> tuple[Path | None, dict[str, dict[str, Any]], _ConfigText, Path]:
    """The config file, its tables, its text, and the folder that its paths are relative
    to."""
    if config is not None and not os.path.lexists(config):
        raise ConfigError(
            f"config file not found: {shown_name(str(config))}",
            hint="Run `ragstone init` to write one.",
        )
    file = config or _config_in(directory)
    if file is None and within is None:
        file = _config_above(directory)
    if file is None:
        return None, {}, _ConfigText("defaults"), directory
    name = str(config or os.path.relpath(file, directory))
    text = read_text(file, within=within)
    read = _ConfigText(name, text)
    document: object = parse_toml(text, file)
    if file.name == PYPROJECT:
        place = name if config else f"{PYPROJECT} [tool.ragstone]"
        read = _ConfigText(place, text, ("tool", "ragstone"))
        for table in read.table:
            document = document.get(table, {}) if isinstance(document, dict) else {}
    return file, _tables(document, read), read, file.parent


def _config_in(directory: Path) -> Path | None:
    """The config file in `directory`."""
    for name in (CONFIG_FILE, PYPROJECT):
        path = directory / name
        # A dangling link is a config that can't be read, not a missing one.
        if os.path.lexists(path):
            return path
    return None


def _config_above(directory: Path) -> Path | None:
    """The next ragstone.toml in a folder above `directory`, inside its repository."""
    start = directory.resolve()
    nearest = None
    for folder in (start, *start.parents):
        file = folder / CONFIG_FILE
        if nearest is None and os.path.lexists(file):
            nearest = file
        if os.path.lexists(folder / ".git"):
            return nearest
    return None


def _from_directory(value: object, directory: Path, root: Path) -> object:
    """Convert a path (or paths) relative to `directory` into one relative to `root`."""
    if isinstance(value, (tuple, list)):
        return tuple(_from_directory(item, directory, root) for item in value)
    if (
        not isinstance(value, str)
        or Path(value).is_absolute()
        or directory.resolve() == root.resolve()
    ):
        return value
    if "/" not in value and not (directory / value).exists():
        # A bare name that doesn't exist is a command (python3), or a new directory next
        # to the config file.
        return value
    return os.path.relpath(directory / value, root)


def _place_judge(merged: Mapping[str, dict[str, Any]], base: Path) -> None:
    """Take the file of a fitted judge, which is not taken from the settings' root
    later, from `base`."""
    option = option_of(_JUDGE)
    judge = merged.get(option.table, {})
    file = option.path_in(str(judge.get(option.name, "")))
    if file is not None:
        judge[option.name] = f"{option.path_after}:{base / file}"


def _of_file(
    table: Mapping[str, Mapping[str, Any]], placed: Mapping[str, object], root: Path
) -> Settings | None:
    """The settings in `table`, the config file's content, alone; None if they are not
    valid by themselves."""
    merged = {name: dict(value) for name, value in table.items()}
    _place_judge(merged, root)
    try:
        return Settings.model_validate({**merged, **placed})
    except ValidationError:
        return None


def _tables(document: object, read: _ConfigText) -> dict[str, dict[str, Any]]:
    if not isinstance(document, dict):
        raise ConfigError(f"must be a table, found {shown(document)}.", where=read.at())
    for name, value in document.items():
        if name not in TABLES:
            raise ConfigError(
                f"unknown table '{name}'.",
                where=read.at(name),
                hint=suggestion(name, TABLES),
            )
        if not isinstance(value, dict):
            raise ConfigError(
                f"'{name}' must be a table, found {shown(value)}.", where=read.at(name)
            )
    return document


def _refuse_unknown(
    error: ValidationError, table: Mapping[str, Any], read: _ConfigText
) -> None:
    """Raise ConfigError for a key in `table` that no setting has."""
    for problem in error.errors(include_url=False):
        place = problem["loc"]
        if problem["type"] != "extra_forbidden":
            continue
        is_threshold = place[0] == METRICS and place[-1] in _THRESHOLDS
        if is_threshold and not _DEFINES & table[METRICS][str(place[1])].keys():
            raise ConfigError(
                f"'{METRICS}.{place[1]}' sets thresholds, which belong in the policy.",
                where=read.at(*place[:2]),
                hint="Write them in thresholds.toml. Here, [metrics.NAME] defines a metric, by 'rubric' or "
                "'python'.",
            ) from None
        names: Mapping[str, Any] = TEXTS
        for part in place[:-1]:
            names = names.get(str(part), names)
        raise ConfigError(
            f"unknown key '{'.'.join(map(str, place))}'.",
            where=read.at(*place),
            hint=suggestion(str(place[-1]), names),
        ) from None


_DEFINES = frozenset({"rubric", "python"})
_THRESHOLDS = frozenset({"min", "max", "max_drop", "max_rise", "max_drift", "action"})
