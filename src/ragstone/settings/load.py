"""Loads the settings: defaults, overridden by the config file, the environment and flags.
options.toml lists their names. The environment and the flags are passed in."""

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
from msgspec.structs import replace
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from ragstone.errors import ConfigError, first_invalid, suggestion
from ragstone.files import read_regular, read_table
from ragstone.printable import shown_name
from ragstone.settings.settings import METRICS, TABLES, Settings
from ragstone.settings.source import show_value
from ragstone.settings.toml_lines import KeyPath, key_lines, line_of


def default_text(field: FieldInfo, unset: str = "") -> str:
    """The default of a setting in Markdown. If the default is nothing, it is the text
    `unset`, which says what happens then."""
    value = field.get_default(call_default_factory=True)
    if value is None or value is False or value in ((), {}):
        return unset
    if isinstance(value, float):
        return f"`{value:g}`"
    return f"`{value}`"


class Option(Struct, frozen=True):
    """A setting, and its names in the file, in the environment and as a flag. Its other
    fields are keys of options.toml."""

    key: str
    """Table and key in the file, such as ``judge.name``."""
    env: str
    text: str
    """The description, which help and documentation share."""
    unset: str = ""
    """What happens if no value is given."""
    flag: str | None = None
    """The flag without dashes, if there is one."""
    metavar: str | None = None
    """The name of the flag's value in help."""
    in_file: bool = True
    """Whether it can be set in a file."""
    secret: bool = False
    """Whether its value is never shown, and never in a file."""
    is_path: bool = False
    """Whether its value is a path. Outside of the file, paths are relative to the current
    directory, not to the file's folder."""
    path_after: str | None = None
    """The scheme after which its value is a path: ``file`` in ``file:answers.jsonl``."""
    of_gate: bool = False
    """Whether only the decision needs it, not the evaluation."""

    def path_in(self, value: str) -> str | None:
        """The path in a `value` with the scheme `path_after`; None if it has another
        scheme or no path."""
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
        """The field of Settings, which has the type and the default."""
        table = Settings.model_fields[self.table].annotation
        assert isinstance(table, type)  # noqa: S101 - for the type checker
        assert issubclass(table, BaseModel)  # noqa: S101
        return table.model_fields[self.name]

    @property
    def sentence(self) -> str:
        """The description with a capital letter and without a full stop, in
        Markdown."""
        return self.text[:1].upper() + self.text[1:]

    @property
    def default(self) -> str:
        """The default, as documentation shows it."""
        return default_text(self.field, self.unset)


TEXTS: Mapping[str, Any] = read_table("options.toml", __package__)
"""The rows of options.toml, by table and key."""


def _read_options() -> Iterator[Option]:
    """The settings that can be set outside of the config file."""
    for table, rows in TEXTS.items():
        for name, row in rows.items():
            if "env" in row:
                yield Option(f"{table}.{name}", **row)


OPTIONS = tuple(_read_options())

SECRET_VARIABLES = tuple(option.env for option in OPTIONS if option.secret)
"""The variables of secret settings, which can be set nowhere else."""


def option_of(key: str) -> Option:
    """The option of the setting `key`, such as ``judge.api_key``."""
    return next(option for option in OPTIONS if option.key == key)


def variable_of(key: str) -> str:
    """The environment variable of the setting `key`."""
    return option_of(key).env


MAX_TOML_BYTES = 1_000_000
_MAX_LINE_CHARACTERS = 120


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
            f"not valid TOML: it is not UTF-8 ({error.reason} at byte {error.start}).",
            where=str(path),
        ) from None


def parse_toml(text: str, path: Path) -> dict[str, Any]:
    """The document in `text`, which was read from `path`. Raises ConfigError with the
    line of a syntax error."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ConfigError(
            "not valid TOML: nested too deeply.", where=str(path)
        ) from None
    except ValueError as error:  # a syntax error, or a number with thousands of digits
        raise ConfigError(
            f"not valid TOML: {error}", where=str(path), hint=_excerpt(text, str(error))
        ) from None


def _excerpt(text: str, message: str) -> str | None:
    """The line of a syntax error with its number; None if the line is unknown or may
    contain a secret."""
    place = re.search(r"at line (\d+)", message)
    lines = text.splitlines()
    number = int(place[1]) if place else 0
    if not 0 < number <= len(lines):
        return None
    line = lines[number - 1].strip()[:_MAX_LINE_CHARACTERS]
    if re.search("key|token|secret|password|header", line, re.IGNORECASE):
        return None
    return f"{number} | {line}"


CONFIG_FILE = "ragstone.toml"
PYPROJECT = "pyproject.toml"
_PREFIX = "RAGSTONE_"
_JUDGE_NAME = "judge.name"
_NO_OVERRIDES: Mapping[str, object] = MappingProxyType({})
_SIMILAR_NAMES = 0.85
"""How similar a variable must be to one of Ragstone's to be taken for a misspelling, by
difflib."""


class _ConfigFile(Struct, frozen=True):
    """What a config file says; without a file, nothing."""

    name: str
    """The name for messages."""
    root: Path
    """The folder to which its paths are relative."""
    path: Path | None = None
    text: str = ""
    prefix: KeyPath = ()
    """The table in which its tables are: ``tool.ragstone`` in pyproject.toml."""
    tables: dict[str, dict[str, Any]] = {}

    def where(self, *key: object) -> str:
        """The place of a key, or of the nearest table above it, such as
        ``ragstone.toml:4``."""
        path = (*self.prefix, *map(str, key))
        line = line_of(key_lines(self.text), path)
        file = self.name.partition(" [")[0]
        return self.name if line is None else f"{file}:{line}"

    def copy_tables(self) -> dict[str, dict[str, Any]]:
        """A copy of the tables whose values can be replaced."""
        return {name: dict(values) for name, values in self.tables.items()}


def load_settings(
    *,
    directory: Path,
    environ: Mapping[str, str],
    overrides: Mapping[str, object] = _NO_OVERRIDES,
    config: Path | None = None,
    within: Path | None = None,
) -> Settings:
    """Merge all sources into Settings.

    `overrides` maps option keys (``system.entrypoint``) to values. None means that it is
    not overridden; an empty text unsets an optional setting. `config` is the config
    file. Without it, ragstone.toml and then [tool.ragstone] of pyproject.toml in
    `directory` are tried, and, without `within`, the next ragstone.toml above it in its
    repository. `within` is the folder that the config and every file named in it must
    be in; on GitHub, it is the workspace. Raises ConfigError with file, key and
    expectation.
    """
    file = _read_config_file(directory, config, within)
    _refuse_misspelt(environ)
    merged = file.copy_tables()
    from_file: set[str] = set()
    for name, values in file.tables.items():
        from_file |= {f"{name}.{key}" for key in values}
    sources: dict[str, str] = {}
    for option in OPTIONS:
        if not option.in_file and option.name in file.tables.get(option.table, {}):
            raise ConfigError(
                f"'{option.key}' must not be set in a file.",
                where=file.where(option.table, option.name),
                hint=f"Remove it, and set the environment variable {option.env}.",
            )
        value, source = _value_outside(option, environ, overrides)
        if value is None:
            continue
        from_file.discard(option.key)
        table = merged.setdefault(option.table, {})
        if value == "" and option.field.default is None:
            table.pop(option.name, None)
        else:
            table[option.name] = _relative_to_root(option, value, directory, file.root)
            sources[option.key] = source
    _place_judge_file(merged, directory if _JUDGE_NAME in sources else file.root)
    places = {
        "root": file.root,
        "within": within,
        "config": config,
        "file": file.path,
    }
    try:
        return Settings.model_validate(
            {
                **merged,
                **places,
                "from_file": frozenset(from_file),
                "file_settings": _settings_of_file(file, places),
            }
        )
    except ValidationError as error:
        _refuse_unknown_keys(error, file)
        raise _invalid_setting(error, sources, file) from None


def _invalid_setting(
    error: ValidationError, sources: Mapping[str, str], file: _ConfigFile
) -> ConfigError:
    """An error about the first invalid setting and where its value is from."""
    place, expectation, value = first_invalid(error.errors())
    names = list(map(str, place))
    path = ".".join(names)
    source = sources.get(".".join(names[:2]), file.name)
    message = expectation
    if source != f"option for {path}":
        colon = "" if expectation.startswith("must ") else ":"
        message = f"'{path}'{colon} {expectation}"
    if "api_key" not in path and "headers" not in path:
        message += f", found {show_value(value)}"
    if source == file.name:
        source = file.where(*place)
    return ConfigError(f"{message}.", where=source)


def _value_outside(
    option: Option, environ: Mapping[str, str], overrides: Mapping[str, object]
) -> tuple[object | None, str]:
    """The value of an option from a flag or the environment (None if there is none), and
    the name of that source."""
    override = overrides.get(option.key)
    if override is not None:
        return override, f"option for {option.key}"
    text = environ.get(option.env, "")
    return text if text.strip() else None, f"environment variable {option.env}"


def _relative_to_root(
    option: Option, value: object, directory: Path, root: Path
) -> object:
    """`value`, in which a path relative to `directory` is made relative to `root`."""
    if option.is_path:
        return _from_directory(value, directory, root)
    path = option.path_in(str(value))
    if option.key == "system.entrypoint" and path is not None:
        return f"{option.path_after}:{_from_directory(path, directory, root)}"
    return value


def _refuse_misspelt(environ: Mapping[str, str]) -> None:
    """Raise ConfigError for a variable that is almost one of Ragstone's. Other variables
    with the prefix may belong to the workflow."""
    names = {option.env.removeprefix(_PREFIX) for option in OPTIONS}
    for name in environ:
        suffix = name.removeprefix(_PREFIX)
        if suffix == name or suffix in names or not environ[name]:
            continue
        for close in difflib.get_close_matches(
            suffix, names, n=1, cutoff=_SIMILAR_NAMES
        ):
            raise ConfigError(
                "there is no setting with this name.",
                where=f"environment variable {name}",
                hint=f"Did you mean '{_PREFIX}{close}'?",
            )


def _read_config_file(
    directory: Path, config: Path | None, within: Path | None
) -> _ConfigFile:
    """Read the file `config`, or else the one that is found from `directory`. Raises
    ConfigError."""
    if config is not None and not os.path.lexists(config):
        raise ConfigError(
            f"config file not found: {shown_name(str(config))}",
            hint="Run `ragstone init` to write one.",
        )
    path = config or _config_in(directory)
    if path is None and within is None:
        path = _config_above(directory)
    if path is None:
        return _ConfigFile("defaults", directory)
    name = str(config or os.path.relpath(path, directory))
    text = read_text(path, within=within)
    file = _ConfigFile(name, path.parent, path, text)
    document: object = parse_toml(text, path)
    if path.name == PYPROJECT:
        name = name if config else f"{PYPROJECT} [tool.ragstone]"
        file = replace(file, name=name, prefix=("tool", "ragstone"))
        for table in file.prefix:
            document = document.get(table, {}) if isinstance(document, dict) else {}
    return replace(file, tables=_check_tables(document, file))


def _config_in(directory: Path) -> Path | None:
    """The config file in `directory`; None if there is none."""
    for name in (CONFIG_FILE, PYPROJECT):
        path = directory / name
        # A dangling link is a config that can't be read, which is an error.
        if os.path.lexists(path):
            return path
    return None


def _config_above(directory: Path) -> Path | None:
    """The next ragstone.toml in `directory` or above it, inside its repository; None if
    there is none, or no repository."""
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
    """The path (or paths) `value`, relative to `directory`, as relative to `root`."""
    if isinstance(value, (tuple, list)):
        return tuple(_from_directory(item, directory, root) for item in value)
    if (
        not isinstance(value, str)
        or Path(value).is_absolute()
        or directory.resolve() == root.resolve()
    ):
        return value
    if "/" not in value and not (directory / value).exists():
        # A bare name that doesn't exist is a command, such as python3, or a directory to
        # be made next to the config file.
        return value
    return os.path.relpath(directory / value, root)


def _place_judge_file(tables: Mapping[str, dict[str, Any]], base: Path) -> None:
    """Make the path of a fitted judge relative to `base`. The judge is not opened from
    the root of the settings, unlike other files."""
    option = option_of(_JUDGE_NAME)
    judge = tables.get(option.table, {})
    path = option.path_in(str(judge.get(option.name, "")))
    if path is not None:
        judge[option.name] = f"{option.path_after}:{base / path}"


def _settings_of_file(
    file: _ConfigFile, places: Mapping[str, object]
) -> Settings | None:
    """The settings of the file alone; None if there is no file, or they are not valid
    by themselves."""
    if file.path is None:
        return None
    tables = file.copy_tables()
    _place_judge_file(tables, file.root)
    try:
        return Settings.model_validate({**tables, **places})
    except ValidationError:
        return None


def _check_tables(document: object, file: _ConfigFile) -> dict[str, dict[str, Any]]:
    """`document`, if its keys are known tables. Raises ConfigError."""
    if not isinstance(document, dict):
        raise ConfigError(
            f"must be a table, found {show_value(document)}.", where=file.where()
        )
    for name, value in document.items():
        if name not in TABLES:
            raise ConfigError(
                f"unknown table '{name}'.",
                where=file.where(name),
                hint=suggestion(name, TABLES),
            )
        if not isinstance(value, dict):
            raise ConfigError(
                f"'{name}' must be a table, found {show_value(value)}.",
                where=file.where(name),
            )
    return document


_KINDS_OF_METRICS = frozenset({"rubric", "python"})
"""The keys of which a custom metric has one."""

_THRESHOLDS = frozenset({"min", "max", "max_drop", "max_rise", "max_drift", "action"})


def _refuse_unknown_keys(error: ValidationError, file: _ConfigFile) -> None:
    """Raise ConfigError if `error` is about a key that no setting has."""
    for problem in error.errors(include_url=False):
        place = problem["loc"]
        if problem["type"] != "extra_forbidden":
            continue
        is_threshold = place[0] == METRICS and place[-1] in _THRESHOLDS
        if is_threshold and not (
            _KINDS_OF_METRICS & file.tables[METRICS][str(place[1])].keys()
        ):
            raise ConfigError(
                f"'{METRICS}.{place[1]}' sets thresholds, which belong in the policy.",
                where=file.where(*place[:2]),
                hint="Write them in thresholds.toml. Here, [metrics.NAME] defines a metric, by 'rubric' or "
                "'python'.",
            ) from None
        known_keys: Mapping[str, Any] = TEXTS
        for part in place[:-1]:
            known_keys = known_keys.get(str(part), known_keys)
        raise ConfigError(
            f"unknown key '{'.'.join(map(str, place))}'.",
            where=file.where(*place),
            hint=suggestion(str(place[-1]), known_keys),
        ) from None
