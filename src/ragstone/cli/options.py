"""Options shared by several commands, and their settings."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import click

from ragstone.errors import ConfigError
from ragstone.settings.load import (
    CONFIG_FILE,
    OPTIONS,
    PYPROJECT,
    load_settings,
    option_of,
)
from ragstone.settings.settings import Settings

Function = TypeVar("Function", bound=Callable[..., Any])

FLAGS = {
    option.flag.replace("-", "_"): option.key
    for option in OPTIONS
    if option.flag is not None
}
"""Flag (as a Python name) to the setting it overrides."""


def setting(flag: str, **changes: Any) -> Callable[[Function], Function]:
    """The click option for the setting `FLAGS[flag]`.

    Type, help and default are those of the setting, unless they are in `changes`. A
    `help` in `changes` may end with a default, as ``Help  [default: x]``.
    """
    option = option_of(FLAGS[flag])
    text, has_default, default = changes.pop("help", "").partition("  [default: ")
    default = default.removesuffix("]")
    if not has_default:
        default = option.default.replace("`", "")
    arguments: dict[str, Any] = {
        **_type_of(option.field.annotation),
        "metavar": option.metavar,
        **changes,
    }
    text = text or option.sentence.replace("`", "")
    annotation = option.field.annotation
    types = (annotation, *get_args(annotation))
    is_list = any(get_origin(part) is tuple for part in types)
    if is_list and option.is_path:  # a path can contain a comma
        arguments["multiple"] = True
        text += ", can be repeated"
    elif is_list:
        text += ", separated by commas"
    arguments["help"] = f"{text}."
    if default:
        arguments["help"] = f"{text}  [default: {default}]"
    return click.option(f"--{flag.replace('_', '-')}", **arguments)


def _type_of(annotation: object) -> dict[str, Any]:
    """The arguments by which click knows the type of a setting. Its values are
    validated later, like those from a file."""
    is_union = get_origin(annotation) in (Union, UnionType)
    parts = get_args(annotation) if is_union else (annotation,)
    types = [part for part in parts if part is not NoneType]
    if bool in types:
        return {"is_flag": True, "default": None}
    if len(types) == 1 and get_origin(types[0]) is Literal:
        return {"type": click.Choice(get_args(types[0]))}
    # Without the constraints that Annotated adds.
    plain_types = {getattr(part, "__origin__", part) for part in types}
    if int in plain_types:
        return {"type": int}
    return {"type": float if float in plain_types else str}


PATH = click.Path(path_type=Path)

_PATH_VALUES = ("FILE", "DIR", "FOLDER", "RUN")
"""Names of values that are paths."""


def option(
    *names: str,
    help: str,
    value: str | None = None,
    choices: Sequence[str] = (),
    **attributes: Any,
) -> Callable[[Function], Function]:
    """An option of one command. `value` is the name of its value in help; unless there
    is a `type`, it is a path if its name is one of _PATH_VALUES."""
    if choices:
        attributes = {"type": click.Choice(choices), **attributes}
    elif value in _PATH_VALUES:
        attributes = {"type": PATH, **attributes}
    if "default" in attributes:
        attributes = {"show_default": True, **attributes}
    return click.option(*names, metavar=value, help=help, **attributes)


CONFIG = click.option(
    "--config",
    type=PATH,
    help=f"Config file  [default: {CONFIG_FILE}, here or above, or {PYPROJECT}]",
)


def _settings_in(*tables: str) -> tuple[Callable[[Function], Function], ...]:
    """The options of all settings in `tables` that the decision alone does not need."""
    return tuple(
        setting(flag)
        for flag, key in FLAGS.items()
        if option_of(key).table in tables and not option_of(key).of_gate
    )


EVALUATION = _settings_in("golden", "system", "judge", "run")

GATE = tuple(setting(name) for name, key in FLAGS.items() if option_of(key).of_gate)

CHECK = tuple(map(setting, ("golden", "entrypoint", "judge", "thresholds", "baseline")))
"""The settings that are also flags of `ragstone check`. It reads all others from the
file and the environment, like the gate."""

OUTPUT = option(
    "-o", "--output", value="FILE", help="Output file  [default: standard output]"
)
JSON_LINES = option(
    "-o", "--output", value="FILE", required=True, help="JSON Lines file to write."
)
COLUMNS = option(
    "--column",
    "columns",
    value="FIELD=COLUMN",
    multiple=True,
    help="Read a field from this column; can be repeated. Overrides [golden.columns] in the config.",
)
FORCE = option("--force", is_flag=True, help="Overwrite the output file.")


def output_format(
    *names: str, what: str = "Output format."
) -> Callable[[Function], Function]:
    """The option `--format`, as the parameter `format_name`: one of `names`, by default
    the first."""
    return option("--format", "format_name", choices=names, default=names[0], help=what)


FORMAT = output_format("text", "json")

VERBOSE = option(
    "--verbose", is_flag=True, help="Print the whole report, not what fits on a screen."
)

REPORT = (
    output_format("text", "md", "json", "junit", "html", what="Report format."),
    OUTPUT,
    VERBOSE,
)
"""Options for the format of a report and where to write it. A file gets the whole
report."""

POLICY = setting("thresholds", type=PATH)
"""The path of the policy, for commands that read no other setting."""


def with_options(
    *groups: tuple[Callable[[Function], Function], ...],
) -> Callable[[Function], Function]:
    """A decorator that adds all options of `groups` to a command, in their order."""

    def apply(function: Function) -> Function:
        options = list(chain.from_iterable(groups))
        for option in reversed(options):
            function = option(function)
        return function

    return apply


FAILED = option(
    "--failed",
    value="RUN",
    help="Evaluate only the samples of this run that did not pass.",
)


def settings_of_run(flags: Mapping[str, object], failed: Path | None) -> Settings:
    """The settings of a command that evaluates. With a run `failed`, only the samples
    that did not pass in it are evaluated. Raises ConfigError."""
    if failed is None:
        return settings_from(flags)
    from ragstone.evaluation.directory import RunDirectory
    from ragstone.pipeline.failed_samples import failed_samples

    return settings_from({**flags, "only": failed_samples(RunDirectory.open(failed))})


def settings_from(
    flags: Mapping[str, object],
    environ: Mapping[str, str] = os.environ,
    *,
    within: Path | None = None,
) -> Settings:
    """The settings from the flags of a command, the environment and the config file.
    With `within`, all files must be inside that folder."""
    overrides = {
        key: flags[flag]
        for flag, key in FLAGS.items()
        if flag in flags and flags[flag] not in (None, ())
    }
    config = flags.get("config")
    return load_settings(
        directory=Path(),
        environ=environ,
        overrides=overrides,
        config=config if isinstance(config, Path) else None,
        within=within,
    )


def columns_from(options: tuple[str, ...]) -> dict[str, str]:
    """The column of each field, from the values of --column. Raises ConfigError."""
    columns = {}
    for text in options:
        field, equals_sign, column = text.partition("=")
        if not equals_sign:
            raise ConfigError(
                f"'{text}' must have the form FIELD=COLUMN.",
                where="--column",
                hint="For example: --column question=frage",
            )
        columns[field.strip()] = column.strip()
    return columns
