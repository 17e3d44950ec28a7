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
    """The option that sets `FLAGS[flag]`: its type, help and default are the setting's,
    unless they are `changes`.

    A `help` may end with a default of its own.
    """
    option = option_of(FLAGS[flag])
    text, own, default = changes.pop("help", "").partition("  [default: ")
    default = default.removesuffix("]") if own else option.default.replace("`", "")
    arguments: dict[str, Any] = {
        **_type_of(option.field.annotation),
        "metavar": option.metavar,
        **changes,
    }
    text = text or option.sentence.replace("`", "")
    if any(
        get_origin(part) is tuple
        for part in (option.field.annotation, *get_args(option.field.annotation))
    ):
        arguments["multiple"] = option.is_path  # a path can contain a comma
        text += ", can be repeated" if option.is_path else ", separated by commas"
    arguments["help"] = f"{text}."
    if default:
        arguments["help"] = f"{text}  [default: {default}]"
    return click.option(f"--{flag.replace('_', '-')}", **arguments)


def _type_of(annotation: object) -> dict[str, Any]:
    """What click is to know of a setting of this type; all else is validated with the
    other sources."""
    is_union = get_origin(annotation) in (Union, UnionType)
    parts = get_args(annotation) if is_union else (annotation,)
    types = [part for part in parts if part is not NoneType]
    if bool in types:
        return {"is_flag": True, "default": None}
    if len(types) == 1 and get_origin(types[0]) is Literal:
        return {"type": click.Choice(get_args(types[0]))}
    plain = {
        getattr(part, "__origin__", part) for part in types
    }  # without what Annotated adds
    return {"type": next((part for part in (int, float) if part in plain), str)}


PATH = click.Path(path_type=Path)
_PATHS = ("FILE", "DIR", "FOLDER", "RUN")


def option(
    *names: str,
    help: str,
    value: str | None = None,
    choices: Sequence[str] = (),
    **attributes: Any,
) -> Callable[[Function], Function]:
    """An option of one command. `value` stands for its value in help, and is a path if
    it is called so."""
    if choices or value in _PATHS:
        attributes = {"type": click.Choice(choices) if choices else PATH, **attributes}
    if "default" in attributes:
        attributes = {"show_default": True, **attributes}
    return click.option(*names, metavar=value, help=help, **attributes)


CONFIG = click.option(
    "--config",
    type=PATH,
    help=f"Config file  [default: {CONFIG_FILE}, here or above, or {PYPROJECT}]",
)


def _settings(*tables: str) -> tuple[Callable[[Function], Function], ...]:
    return tuple(
        setting(flag)
        for flag, key in FLAGS.items()
        if option_of(key).table in tables and not option_of(key).of_gate
    )


EVALUATION = _settings("golden", "system", "judge", "run")

GATE = tuple(setting(name) for name, key in FLAGS.items() if option_of(key).of_gate)

CHECK = tuple(map(setting, ("golden", "entrypoint", "judge", "thresholds", "baseline")))
"""What changes what `ragstone check` finds; the file and the environment say the rest,
as for the gate."""

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
    """`--format`, the parameter `format_name`: one of `names`, the first by default."""
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
"""Which report, and where to. A file has the whole report."""

POLICY = setting("thresholds", type=PATH)
"""For commands that read no other setting."""


def with_options(
    *groups: tuple[Callable[[Function], Function], ...],
) -> Callable[[Function], Function]:
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
    """`settings_from` for a run, of the samples that did not pass in `failed`, if it is
    named. Raises ConfigError."""
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
    """Settings from the flags of a command and the process's environment; files must be
    inside `within`."""
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
    """The column of each field that --column names. Raises ConfigError."""
    columns = {}
    for text in options:
        field, sign, column = text.partition("=")
        if not sign:
            raise ConfigError(
                f"--column {text}: expected FIELD=COLUMN.",
                hint="For example: --column question=frage",
            )
        columns[field.strip()] = column.strip()
    return columns
