"""Checks what the rules of thresholds.toml mean."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from ragstone.gate.policy_table import (
    DEFAULT_METRICS,
    MetricRule,
    PolicyTable,
)
from ragstone.metrics.registry import is_relative, lower_is_better
from ragstone.settings.source import Source
from ragstone.settings.toml_lines import KeyPath


def validated(document: dict[str, Any], source: Source) -> PolicyTable:
    """The policy in a document that is structured like the file. Raises ConfigError."""
    try:
        table = PolicyTable.model_validate(document)
    except ValidationError as error:
        raise source.invalid(error, PolicyTable) from None
    _check_directions(table, source)
    for path, name, rule in table.rules():
        _check_comparison(path, name, rule, source)
    return table


def _check_comparison(
    path: KeyPath, name: str, rule: MetricRule, source: Source
) -> None:
    """Raise ConfigError for a rule that checks nothing, or that needs a comparison that
    there is not."""
    table = ".".join(path)
    if path[0] == "slices" and rule.max_drift is not None:
        raise source.error(
            (*path, "max_drift"),
            f"'{table}.max_drift': drift is measured over all samples, not by slice.",
            f"Put it under [metrics.{name}].",
        )
    for key in ("max_drop", "max_drift"):
        if getattr(rule, key) is not None and is_relative(name):
            raise source.error(
                (*path, key),
                f"'{table}.{key}': {name} compares a run with its baseline, so it has no drop.",
                "Set min instead, for example 0.45.",
            )
    has_default = path == ("metrics", name) and name in DEFAULT_METRICS
    if rule.checks_nothing and not has_default:
        is_lower = bool(rule.lower_is_better or lower_is_better(name))
        raise source.error(
            path,
            f"[{table}] has none of {_KEYS[is_lower]} and 'max_drift', so it checks nothing.",
            "Set one of them, or remove the table.",
        )


_KEYS = {True: "'max', 'max_rise'", False: "'min', 'max_drop'"}
_BETTER = {True: "lower", False: "higher"}
_IS_LOWER = {"max": True, "max_rise": True, "min": False, "max_drop": False}


def _check_directions(table: PolicyTable, source: Source) -> None:
    """Raise ConfigError for a key that doesn't fit the direction of its metric.

    Of a metric that Ragstone doesn't know, the keys say which way is better, so they
    must agree, in all tables.
    """
    directions = {}
    for path, name, rule in table.rules():
        built_in = lower_is_better(name)
        if built_in is not None:
            directions[name] = built_in
        for key in ("lower_is_better", *_IS_LOWER):
            value = getattr(rule, key)
            if value is None:
                continue
            is_lower = _IS_LOWER.get(key, value)
            expected = directions.setdefault(name, is_lower)
            if is_lower is not expected:
                table_name = ".".join(path)
                raise source.error(
                    (*path, key),
                    f"'{table_name}.{key}' doesn't fit: {_BETTER[expected]} is better for {name}.",
                    f"Its keys are {_KEYS[expected]}.",
                )
