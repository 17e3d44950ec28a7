"""Checks that thresholds.toml is valid, and that each of its rules checks something."""

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

_KEYS = {True: "'max', 'max_rise'", False: "'min', 'max_drop'"}
"""The keys for metrics where lower is better, and for the others."""
_BETTER = {True: "lower", False: "higher"}
_FITS_LOWER_IS_BETTER = {"max": True, "max_rise": True, "min": False, "max_drop": False}
"""Whether each key is for metrics where lower is better."""


def validate_policy(document: dict[str, Any], source: Source) -> PolicyTable:
    """Check a document that is structured like thresholds.toml, and return its tables.
    Raises ConfigError."""
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
    """Raise ConfigError for a rule that checks nothing, or that limits a drop or drift
    that is not measured."""
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
    # A headline metric that is only named gets its default floor and drop.
    has_defaults = path == ("metrics", name) and name in DEFAULT_METRICS
    if rule.checks_nothing and not has_defaults:
        is_lower_better = bool(rule.lower_is_better or lower_is_better(name))
        raise source.error(
            path,
            f"[{table}] has none of {_KEYS[is_lower_better]} and 'max_drift', so it checks nothing.",
            "Set one of them, or remove the table.",
        )


def _check_directions(table: PolicyTable, source: Source) -> None:
    """Raise ConfigError for a key that doesn't fit the direction of its metric.

    For a metric that is not built in, the first key says whether lower is better, and
    those of all tables must agree with it.
    """
    is_lower_better: dict[str, bool] = {}
    for path, name, rule in table.rules():
        built_in = lower_is_better(name)
        if built_in is not None:
            is_lower_better[name] = built_in
        for key in ("lower_is_better", *_FITS_LOWER_IS_BETTER):
            value = getattr(rule, key)
            if value is None:
                continue
            fits_lower = _FITS_LOWER_IS_BETTER.get(key, value)
            expected = is_lower_better.setdefault(name, fits_lower)
            if fits_lower is not expected:
                table_name = ".".join(path)
                raise source.error(
                    (*path, key),
                    f"'{table_name}.{key}' doesn't fit: {_BETTER[expected]} is better for {name}.",
                    f"Its keys are {_KEYS[expected]}.",
                )
