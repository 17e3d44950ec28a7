"""Reads thresholds.toml, and checks what its rules mean."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ragstone.errors import ConfigError
from ragstone.gate.policy_table import DEFAULT_METRICS, SHORT_FORMS, MetricRule, PolicyTable
from ragstone.gate.source import MAX_RULES_BYTES, KeyPath, Source, key_lines
from ragstone.metrics.registry import is_relative, lower_is_better
from ragstone.settings.load import parse_toml, read_text


def read_policy_file(path: Path, *, within: Path | None = None) -> tuple[PolicyTable, Source]:
    """The content of the policy file `path`, and the line of every key. Raises ConfigError."""
    if not os.path.lexists(path):
        raise ConfigError(f"policy file not found: {path}", hint="Run `ragstone init` to write one.")
    text = read_text(path, within=within, limit=MAX_RULES_BYTES)
    document, source = parse_toml(text, path), Source(str(path), key_lines(text))
    return _validated(document, source), source


def read_policy_mapping(mapping: Mapping[str, Any]) -> PolicyTable:
    """The policy in a mapping that is structured like the file. Raises ConfigError."""
    return _validated(dict(mapping), Source())


def policy_schema() -> dict[str, Any]:
    """The JSON Schema of thresholds.toml."""
    schema = PolicyTable.model_json_schema()
    must_pass = schema["properties"]["must_pass"]
    ids = {"type": "array", "items": {"type": "string", "minLength": 1}}
    schema["properties"]["must_pass"] = {
        "anyOf": [{"$ref": must_pass.pop("$ref")}, ids, {"enum": list(SHORT_FORMS)}],
        **must_pass,
    }
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "Ragstone thresholds.toml"}


def _validated(document: dict[str, Any], source: Source) -> PolicyTable:
    try:
        table = PolicyTable.model_validate(document)
    except ValidationError as error:
        raise source.invalid(error, PolicyTable, document) from None
    for path, name, rule in table.rules():
        _check_direction(path, name, rule, source)
        _check_target(path, rule, source)
        _check_comparison(path, name, rule, source)
    _check_one_direction(table, source)
    _check_must_pass(table, source)
    return table


def _check_comparison(path: KeyPath, name: str, rule: MetricRule, source: Source) -> None:
    """Raise ConfigError for a rule that checks nothing, or that needs a comparison that there is not."""
    if path[0] == "slices" and rule.max_drift is not None:
        raise source.error(
            (*path, "max_drift"),
            f"'{'.'.join(path)}.max_drift': drift is measured over all samples, not by slice.",
            f"Put it under [metrics.{name}].",
        )
    compared = [key for key in ("max_drop", "max_drift") if getattr(rule, key) is not None]
    if compared and is_relative(name):
        raise source.error(
            (*path, compared[0]),
            f"'{'.'.join(path)}.{compared[0]}': {name} compares a run with its baseline, so it has no drop.",
            "Set min instead, for example 0.45.",
        )
    if rule.checks_nothing and not (path == ("metrics", name) and name in DEFAULT_METRICS):
        lower = rule.lower_is_better or lower_is_better(name)
        keys = "'max', 'max_rise'" if lower else "'min', 'max_drop'"
        raise source.error(
            path,
            f"[{'.'.join(path)}] has none of {keys}, 'max_drift' and 'target', so it checks nothing.",
            "Set one of them, or remove the table.",
        )


def _check_must_pass(table: PolicyTable, source: Source) -> None:
    """Raise ConfigError for a metric that must-pass samples have nothing to reach in."""
    floors = table.in_force
    path = ("must_pass", "metrics")
    for name in table.must_pass.metrics or ():
        rule = floors[name] if name in floors else MetricRule()
        if rule.max is not None or rule.min is not None:
            continue
        if rule.max_rise is not None or lower_is_better(name):
            raise source.error(
                path, f"'must_pass.metrics' names '{name}', which has no ceiling.", f"Set 'max' under [metrics.{name}]."
            )
        if table.must_pass.min is None:
            hint = f"Set 'min' under [must_pass], or under [metrics.{name}]."
            raise source.error(path, f"'must_pass.metrics' names '{name}', which has no floor.", hint)


_OTHER_WAY = {"min": "max", "max": "min", "max_drop": "max_rise", "max_rise": "max_drop"}


def _check_direction(path: KeyPath, name: str, rule: MetricRule, source: Source) -> None:
    """Raise ConfigError for keys that don't fit the direction of the metric."""
    known = lower_is_better(name)
    lower = known
    if lower is None:
        lower = rule.lower_is_better
    elif rule.lower_is_better not in (None, known):
        raise source.error(
            (*path, "lower_is_better"),
            f"'{'.'.join(path)}.lower_is_better' is wrong: {'lower' if known else 'higher'} is better for {name}.",
            "Remove it; it is only for metrics that Ragstone doesn't know.",
        )
    set_ = [key for key in _OTHER_WAY if getattr(rule, key) is not None]
    if lower is None:
        # A foreign metric: the keys say which way is better, so they must agree.
        lower = bool({"max", "max_rise"} & set(set_))
    for key in set_:
        if (key in ("max", "max_rise")) is not lower:
            word = "lower" if lower else "higher"
            raise source.error(
                (*path, key),
                f"'{'.'.join(path)}.{key}' doesn't fit: {word} is better for {name}"
                f"{'' if known is not None else ', as the other keys say'}.",
                f"Use '{_OTHER_WAY[key]}'.",
            )


def _check_target(path: KeyPath, rule: MetricRule, source: Source) -> None:
    """Raise ConfigError for a target that asks for no more than the floor or ceiling."""
    if rule.target is None:
        return
    for key, bound, beyond in (("min", rule.min, "above"), ("max", rule.max, "below")):
        if bound is not None and (rule.target <= bound if key == "min" else rule.target >= bound):
            raise source.error(
                (*path, "target"),
                f"'{'.'.join(path)}.target' is {rule.target:g}, which is not {beyond} '{key}' ({bound:g}).",
                f"'{key}' is what must hold, 'target' what would be good: set it {beyond} '{key}', or remove it.",
            )


def _check_one_direction(table: PolicyTable, source: Source) -> None:
    """Raise ConfigError if two tables disagree on which way a foreign metric is better."""
    first: dict[str, tuple[KeyPath, bool]] = {}
    for path, name, rule in table.rules():
        if lower_is_better(name) is not None or not rule.says_direction:
            continue
        before, lower = first.setdefault(name, (path, rule.less_is_better))
        if lower is not rule.less_is_better:
            raise source.error(
                path,
                f"[{'.'.join(before)}] and [{'.'.join(path)}] disagree on whether lower is better for {name}.",
                "Use min and max_drop in both, or max and max_rise in both.",
            )
