"""An evaluation as another tool has it: cases with their scores, bounds, and what of it can't be translated."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from ragstone.formatting import counted
from ragstone.golden.aliases import normal
from ragstone.metrics.registry import is_known

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Grade:
    """One score of one case; None could not be scored. `threshold` and `passed` are None where the tool has none."""

    value: float | None
    threshold: float | None = None
    passed: bool | None = None


@dataclass(slots=True)
class Case:
    """One question: `row` of a golden set, the `answer` that was recorded for it, and its grades by metric."""

    row: dict[str, object]
    answer: dict[str, object] | None = None
    grades: dict[str, Grade] = field(default_factory=dict)


@dataclass(slots=True)
class Evaluation:
    """What was read. Metrics have the names of the tool.

    `bounds` are those that the source declares, by metric. `per_case`: one failed case fails the evaluation.
    `metrics`, `system` and `limits` are tables of ragstone.toml and, the last, of thresholds.toml. `live` is the
    entrypoint that was evaluated. `translated` and `left_out` are pairs of what, and to what or why not.
    """

    tool: str
    per_case: bool
    files: list[str] = field(default_factory=list)
    cases: list[Case] = field(default_factory=list)
    bounds: dict[str, float] = field(default_factory=dict)
    metrics: dict[str, dict[str, Any]] = field(default_factory=dict)
    system: dict[str, Any] = field(default_factory=dict)
    limits: dict[str, float] = field(default_factory=dict)
    live: str | None = None
    translated: list[tuple[str, str]] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)


@dataclass(slots=True)
class Rule:
    """One metric as Ragstone reads it: its name there, its bound (the most lenient of all cases), and its scores.

    `values` and `bounds` are by the number of the case. `computed`: whether Ragstone can measure it.
    """

    source: str
    metric: str
    lower: bool
    bound: float | None
    values: dict[int, float | None]
    bounds: dict[int, float]
    computed: bool


@cache
def known_names() -> Mapping[str, dict[str, Any]]:
    """Each name of another tool's metric, in normal form, with the entry of names.toml, whose key is ``metric``."""
    table = tomllib.loads(files(__package__).joinpath("names.toml").read_text("utf-8"))
    return {name: {"metric": metric, **entry} for metric, entry in table.items() for name in entry["names"]}


def entry_of(name: str) -> dict[str, Any] | None:
    """What is known of a metric of another tool: ``AnswerRelevancy``, ``Contextual Recall``, ``context-recall``."""
    forms = [normal(name), normal(name.partition("(")[0].partition("[")[0])]
    forms += [form.removesuffix("_metric") for form in forms]
    return next((known_names()[form] for form in forms if form in known_names()), None)


def rules_of(found: Evaluation) -> list[Rule]:
    """The metrics of an evaluation under Ragstone's names. Says in `found` how each was translated."""
    names = dict.fromkeys((*(name for case in found.cases for name in case.grades), *found.bounds, *found.metrics))
    rules: list[Rule] = []
    for name in names:
        entry = entry_of(name) or {}
        metric = str(entry.get("metric") or own_name(name))
        if any(rule.metric == metric for rule in rules):
            metric, entry = own_name(name), {}
        if any(rule.metric == metric for rule in rules):
            metric = next(
                free for n in range(2, len(names) + 2) if all(r.metric != (free := f"{metric}_{n}") for r in rules)
            )
        if "rubric" in entry:
            found.metrics.setdefault(name, {"rubric": entry["rubric"]})
        grades = {at: case.grades[name] for at, case in enumerate(found.cases) if name in case.grades}
        rule = _rule(name, metric, grades, found, lower=bool(entry.get("lower_is_better")))
        rule.computed = is_known(metric) or name in found.metrics
        note = f" ({entry['note']})" if "note" in entry else ""
        if name in found.metrics:
            found.metrics[metric] = found.metrics.pop(name)
            note = ", a rubric, which needs a language model as the judge"
        if rule.computed:
            found.translated.append((f"metric {name}", metric + note))
        else:
            found.left_out.append((f"metric {name}", "Ragstone measures nothing of the kind; its scores are kept"))
        rules.append(rule)
    return rules


def own_name(name: str) -> str:
    """A name for a metric that only this evaluation has."""
    found = normal(name.partition("[")[0]) or "metric"
    return found if re.match("[a-z]", found) else f"metric_{found}"


def _rule(name: str, metric: str, grades: Mapping[int, Grade], found: Evaluation, *, lower: bool) -> Rule:
    """The scores of a metric, if they decide as the tool did; else its outcomes: 1 passed, 0 failed."""
    judged = [one for one in grades.values() if None not in (one.value, one.threshold, one.passed)]
    if judged and not lower and not all(_holds(one, lower=False) == one.passed for one in judged):
        lower = all(_holds(one, lower=True) == one.passed for one in judged)
    bounds = {at: one.threshold for at, one in grades.items() if one.threshold is not None}
    values = {at: _unit(one.value) for at, one in grades.items()}
    outside = [one.value for at, one in grades.items() if one.value is not None and values[at] is None]
    differ = any(_holds(one, lower=lower) != one.passed for one in judged)
    undecided = [one for one in grades.values() if one.passed is not None and one.threshold is None]
    if outside and not any(one.passed is not None for one in grades.values()):
        found.left_out.append(
            (f"scores of {name}", f"{counted(len(outside), 'score')} not in [0, 1], such as {outside[0]:g}")
        )
        values = {at: value for at, value in values.items() if value is not None}
    elif outside or differ or undecided:
        why = "are not in [0, 1]" if outside else "don't decide alone"
        found.translated.append((f"scores of {name}", f"1 where it passed and 0 where it failed, because they {why}"))
        lower = False
        values = {at: None if one.passed is None else float(one.passed) for at, one in grades.items()}
        bounds = dict.fromkeys(values, 1.0)
    known = [*bounds.values(), *([found.bounds[name]] if name in found.bounds and not bounds else [])]
    bound = (max if lower else min)(known) if known else None
    if bound is not None and _unit(bound) is None:
        found.left_out.append((f"threshold {bound:g} of {name}", "it is not in [0, 1]"))
        bound, bounds = None, {}
    return Rule(name, metric, lower, bound, values, bounds, computed=False)


def _holds(grade: Grade, *, lower: bool) -> bool:
    value, threshold = grade.value, grade.threshold
    assert value is not None  # noqa: S101 - its callers look
    assert threshold is not None  # noqa: S101
    return value <= threshold if lower else value >= threshold


def _unit(value: float | None) -> float | None:
    """`value` in [0, 1], with a rounding error taken off; None outside."""
    if value is None or not math.isfinite(value) or not -_ROUNDING <= value <= 1 + _ROUNDING:
        return None
    return min(1.0, max(0.0, value))


def as_number(value: object) -> float | None:
    """`value` as a finite number; None for text, and for NaN, which stands for a metric that failed."""
    if isinstance(value, bool):
        return float(value)
    try:
        found = float(value) if isinstance(value, int | float | str) else math.nan
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def unique_ids(cases: Iterable[Case]) -> None:
    """Give cases an id where two have the same, or the same question without one."""
    seen: dict[object, int] = {}
    for case in cases:
        key = case.row.get("id") or (str(case.row.get("question")), str(case.row.get("history")))
        seen[key] = seen.get(key, 0) + 1
        if seen[key] > 1:
            base = case.row.get("id") or "repeated"
            case.row["id"] = f"{base}-{seen[key]}" if case.row.get("id") else f"{base}-{len(seen)}-{seen[key]}"
