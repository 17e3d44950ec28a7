"""Reads thresholds.toml with the line of every key, for precise error messages."""

from __future__ import annotations

import json
import os
import tomllib
import types
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from ragstone.config import parse_toml, read_text
from ragstone.errors import ConfigError, expected, suggestion
from ragstone.gate.policy_table import DEFAULT_METRICS, KeyPath, MetricRule, PolicyTable
from ragstone.metrics.registry import is_relative, lower_is_better

MAX_POLICY_BYTES = 1_000_000
_ENDS_OF_LONG_VALUES = ("]", "}", '"""', "'''")


def read_policy_file(path: Path, *, within: Path | None = None) -> tuple[PolicyTable, dict[KeyPath, int]]:
    """The content of the policy file `path`, and the line of every key. Raises ConfigError."""
    if not os.path.lexists(path):
        raise ConfigError(f"policy file not found: {path}", hint="Run `ragstone init` to write one.")
    text = read_text(path, within=within, limit=MAX_POLICY_BYTES)
    document = parse_toml(text, path)
    lines = key_lines(text)
    return _validated(document, str(path), lines), lines


def read_policy_mapping(mapping: Mapping[str, Any]) -> PolicyTable:
    """The same from a mapping. Raises ConfigError."""
    return _validated(dict(mapping), None, {})


def line_of(lines: Mapping[KeyPath, int], path: KeyPath) -> int | None:
    """The line of `path`, or else of the nearest table above it."""
    while path:
        if path in lines:
            return lines[path]
        path = path[:-1]
    return None


def policy_schema() -> dict[str, Any]:
    """The JSON Schema of thresholds.toml."""
    schema = PolicyTable.model_json_schema()
    must_pass = schema["properties"]["must_pass"]
    ids = {"type": "array", "items": {"type": "string", "minLength": 1}}
    schema["properties"]["must_pass"] = {"anyOf": [{"$ref": must_pass.pop("$ref")}, ids], **must_pass}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "Ragstone thresholds.toml"}


def key_lines(text: str) -> dict[KeyPath, int]:
    """The line (from 1) of every key and table of the TOML document `text`.

    The document is split into the smallest parts that are valid TOML (a header, or a key with its value, on one or more
    lines), so that tomllib alone decides what a key is.
    """
    lines: dict[KeyPath, int] = {}
    table: KeyPath = ()
    for number, statement in statements(text):
        for path in _paths(tomllib.loads(statement)):
            lines.setdefault(table + path if not statement.lstrip().startswith("[") else path, number)
        if statement.lstrip().startswith("["):
            table = _innermost(tomllib.loads(statement))
    return lines


def statements(text: str) -> Iterator[tuple[int, str]]:
    """The smallest parts of a TOML document that are valid TOML, each with its line."""
    held: list[str] = []
    start = 1
    for number, line in enumerate(text.split("\n"), start=1):
        if not held:
            start = number
        held.append(line)
        if len(held) > 1 and not any(sign in line for sign in _ENDS_OF_LONG_VALUES):
            continue
        statement = "\n".join(held)
        try:
            parsed = tomllib.loads(statement)
        except tomllib.TOMLDecodeError:
            continue
        held = []
        if parsed:
            yield start, statement


def _paths(document: Mapping[str, Any]) -> Iterator[KeyPath]:
    for key, value in document.items():
        yield (key,)
        if isinstance(value, dict):
            yield from ((key, *rest) for rest in _paths(value))


def _innermost(document: Any) -> KeyPath:
    path: KeyPath = ()
    while document:
        if isinstance(document, list):
            document = document[-1]
            continue
        key, document = next(iter(document.items()))
        path = (*path, key)
    return path


def _validated(document: dict[str, Any], file: str | None, lines: Mapping[KeyPath, int]) -> PolicyTable:
    try:
        table = PolicyTable.model_validate(document)
    except ValidationError as error:
        raise _as_config_error(error, document, file, lines) from None
    for path, name, rule in table.rules():
        _check_direction(path, name, rule, file, lines)
        _check_target(path, rule, file, lines)
        has_defaults = path == ("metrics", name) and name in DEFAULT_METRICS
        if path[0] == "slices" and rule.max_drift is not None:
            raise ConfigError(
                f"'{'.'.join(path)}.max_drift': drift is measured over all samples, not by slice.",
                where=_where(file, lines, (*path, "max_drift")),
                hint=f"Put it under [metrics.{name}].",
            )
        compared = [key for key in ("max_drop", "max_drift") if getattr(rule, key) is not None]
        if compared and is_relative(name):
            raise ConfigError(
                f"'{'.'.join(path)}.{compared[0]}': {name} compares a run with its baseline, so it has no drop.",
                where=_where(file, lines, (*path, compared[0])),
                hint="Set min instead, for example 0.45.",
            )
        if rule.checks_nothing and not has_defaults:
            lower = rule.lower_is_better or lower_is_better(name)
            keys = ("max", "max_rise") if lower else ("min", "max_drop")
            raise ConfigError(
                f"[{'.'.join(path)}] has none of '{keys[0]}', '{keys[1]}', 'max_drift' and 'target', so it checks "
                "nothing.",
                where=_where(file, lines, path),
                hint="Set one of them, or remove the table.",
            )
    _check_one_direction(table, file, lines)
    floors = DEFAULT_METRICS if table.metrics is None else table.metrics
    for name in table.must_pass.metrics or ():
        rule = floors[name] if name in floors else MetricRule()
        if rule.max is not None or rule.min is not None:
            continue
        if rule.max_rise is not None or lower_is_better(name):
            raise ConfigError(
                f"'must_pass.metrics' names '{name}', which has no ceiling.",
                where=_where(file, lines, ("must_pass", "metrics")),
                hint=f"Set 'max' under [metrics.{name}].",
            )
        if table.must_pass.min is None:
            raise ConfigError(
                f"'must_pass.metrics' names '{name}', which has no floor.",
                where=_where(file, lines, ("must_pass", "metrics")),
                hint=f"Set 'min' under [must_pass], or under [metrics.{name}].",
            )
    return table


_OTHER_WAY = {"min": "max", "max": "min", "max_drop": "max_rise", "max_rise": "max_drop"}


def _check_direction(
    path: KeyPath, name: str, rule: MetricRule, file: str | None, lines: Mapping[KeyPath, int]
) -> None:
    """Raise ConfigError for keys that don't fit the direction of the metric."""
    known = lower_is_better(name)
    lower = known
    if lower is None:
        lower = rule.lower_is_better
    elif rule.lower_is_better not in (None, known):
        raise ConfigError(
            f"'{'.'.join(path)}.lower_is_better' is wrong: in {name}, {'less' if known else 'more'} is better.",
            where=_where(file, lines, (*path, "lower_is_better")),
            hint="Remove it; it is only for metrics that Ragstone doesn't know.",
        )
    set_ = [key for key in _OTHER_WAY if getattr(rule, key) is not None]
    if lower is None:
        # A foreign metric: the keys say which way is better, so they must agree.
        lower = bool({"max", "max_rise"} & set(set_))
    for key in set_:
        if (key in ("max", "max_rise")) is not lower:
            word = "less" if lower else "more"
            raise ConfigError(
                f"'{'.'.join(path)}.{key}' doesn't fit: in {name}, {word} is better"
                f"{'' if known is not None else ' as the other keys say'}.",
                where=_where(file, lines, (*path, key)),
                hint=f"Use '{_OTHER_WAY[key]}'.",
            )


def _check_target(path: KeyPath, rule: MetricRule, file: str | None, lines: Mapping[KeyPath, int]) -> None:
    """Raise ConfigError for a target that asks for no more than the floor or ceiling."""
    if rule.target is None:
        return
    for key, bound, beyond in (("min", rule.min, "above"), ("max", rule.max, "below")):
        if bound is not None and (rule.target <= bound if key == "min" else rule.target >= bound):
            raise ConfigError(
                f"'{'.'.join(path)}.target' is {rule.target:g}, which is not {beyond} '{key}' ({bound:g}).",
                where=_where(file, lines, (*path, "target")),
                hint=f"'{key}' is what must hold, 'target' what would be good: set it {beyond} '{key}', or remove it.",
            )


def _check_one_direction(table: PolicyTable, file: str | None, lines: Mapping[KeyPath, int]) -> None:
    """Raise ConfigError if two tables disagree on which way a foreign metric is better."""
    first: dict[str, tuple[KeyPath, bool]] = {}
    for path, name, rule in table.rules():
        if lower_is_better(name) is not None or not rule.says_direction:
            continue
        before, lower = first.setdefault(name, (path, rule.less_is_better))
        if lower is not rule.less_is_better:
            raise ConfigError(
                f"[{'.'.join(before)}] and [{'.'.join(path)}] disagree on whether less of {name} is better.",
                where=_where(file, lines, path),
                hint="Use min and max_drop in both, or max and max_rise in both.",
            )


def _as_config_error(
    error: ValidationError, document: Mapping[str, Any], file: str | None, lines: Mapping[KeyPath, int]
) -> ConfigError:
    # An unknown key is usually a misspelt one, and often explains other errors.
    found = sorted(error.errors(), key=lambda one: one["type"] != "extra_forbidden")[0]
    path = _key_path(found["loc"], document)
    where = _where(file, lines, path)
    key = ".".join(path)
    if found["type"] == "extra_forbidden":
        fields = _fields_at(path[:-1])
        return ConfigError(f"unknown key '{key}'.", where=where, hint=suggestion(path[-1], fields))
    value = found["input"]
    hint = None
    if found["type"] == "less_than_equal" and isinstance(value, int | float) and 1 < value <= 100:
        hint = f"Scores and shares are in [0, 1]: did you mean {value / 100:g}?"
    return ConfigError(f"'{key}' {expected(found)}, found {shown(value)}.", where=where, hint=hint)


def _where(file: str | None, lines: Mapping[KeyPath, int], path: KeyPath) -> str | None:
    line = line_of(lines, path)
    return file if file is None or line is None else f"{file}:{line}"


def _key_path(loc: tuple[int | str, ...], document: Mapping[str, Any]) -> KeyPath:
    path: list[str] = []
    value: Any = document
    for part in loc:
        if part == "[key]":
            break
        path.append(str(part))
        if isinstance(value, Mapping) and part in value:
            value = value[str(part)]
    return tuple(path)


def _fields_at(path: KeyPath) -> Collection[str]:
    model: Any = PolicyTable
    for part in path:
        if isinstance(model, type) and issubclass(model, BaseModel):
            model = _inner(model.model_fields[part].annotation)
        else:  # a dict by name: the part is the name
            model = get_args(model)[1]
    return list(model.model_fields)


def _inner(annotation: Any) -> Any:
    if get_origin(annotation) in {Union, types.UnionType}:
        return next(option for option in get_args(annotation) if option is not type(None))
    return annotation


def shown(value: object) -> str:
    """A value for an error message."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 80 else text[:77] + "..."
