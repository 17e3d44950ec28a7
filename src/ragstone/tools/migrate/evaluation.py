"""An evaluation as another tool has it: cases with their scores, bounds, and what of it can't be translated."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from ragstone.golden.aliases import normal
from ragstone.metrics.registry import is_known

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Grade:
    """One score of one case; None could not be scored. `threshold` and `passed` are None where the tool has none.

    With a `threshold` alone, the metric is asked for, and was not scored yet.
    """

    value: float | None
    threshold: float | None = None
    passed: bool | None = None


@dataclass(slots=True)
class Case:
    """One question: `row` of a golden set, the `answer` that was recorded for it, its grades by metric, its outcome."""

    row: dict[str, object]
    answer: dict[str, object] | None = None
    grades: dict[str, Grade] = field(default_factory=dict)
    passed: bool | None = None


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
    """One metric as Ragstone reads it: its name in the `source` and here, its bound (the most lenient of all cases).

    `values` and `bounds` are by the number of the case, -1 is all of them. `lower`: less is better, None
    if nobody says. `computed`: whether Ragstone can measure it.
    """

    source: str
    metric: str
    lower: bool | None = None
    bound: float | None = None
    values: dict[int, float | None] = field(default_factory=dict)
    bounds: dict[int, float] = field(default_factory=dict)
    computed: bool = False

    def holds(self, value: float) -> bool:
        return _holds(value, self.bound, lower=self.lower)


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
    rules: list[Rule] = []
    for name in dict.fromkeys((*(name for case in found.cases for name in case.grades), *found.bounds, *found.metrics)):
        entry = {} if name in found.metrics else entry_of(name) or {}
        metric, taken = str(entry.get("metric") or _own_name(name)), {rule.metric for rule in rules}
        if metric in taken or (name in found.metrics and is_known(metric)):
            entry = {}
            metric = next(free for n in range(1, len(taken) + 3) if (free := f"{_own_name(name)}_{n}") not in taken)
        rubric = found.metrics.pop(name, {"rubric": entry["rubric"]} if "rubric" in entry else None)
        if rubric is not None:
            found.metrics[metric] = rubric
        grades = {at: case.grades[name] for at, case in enumerate(found.cases) if name in case.grades}
        rule = _rule(Rule(name, metric, entry.get("lower_is_better")), grades, found)
        rule.computed = rubric is not None or is_known(metric)
        notes = [entry["note"]] if "note" in entry else []
        notes += ["a rubric, which needs a language model as the judge"] if rubric is not None else []
        if rule.computed:
            found.translated.append((f"metric {name}", f"{metric} ({'; '.join(notes)})" if notes else metric))
        else:
            found.left_out.append((f"metric {name}", "Ragstone measures nothing of the kind; its scores are kept"))
        rules.append(rule)
    return rules


def outcome_of(found: Evaluation, rules: Sequence[Rule]) -> Rule | None:
    """The outcome of each case as a metric, if the bounds of the metrics alone don't give the outcomes; else None."""
    outcomes = {at: float(case.passed) for at, case in enumerate(found.cases) if case.passed is not None}
    bounded = [rule for rule in rules if rule.bound is not None]
    for at, outcome in outcomes.items():
        scored = [rule.holds(value) for rule in bounded if (value := rule.values.get(at)) is not None]
        if not scored or bool(outcome) != all(scored):
            return Rule(found.tool, f"{found.tool}_outcome", False, 1.0, {**outcomes})
    return None


def _own_name(name: str) -> str:
    """A name for a metric that only this evaluation has."""
    found = normal(name) or "metric"
    return found if re.match("[a-z]", found) else f"metric_{found}"


def _rule(rule: Rule, grades: Mapping[int, Grade], found: Evaluation) -> Rule:
    """`rule` with the scores of a metric if they decide as the tool did, else with its outcomes: 1 passed, 0 failed."""
    name, decided = rule.source, [one for one in grades.values() if one.passed is not None]
    judged = [one for one in decided if one.value is not None and one.threshold is not None]

    def agrees(lower: bool) -> bool:
        return all(one.passed == _holds(one.value, one.threshold, lower=lower) for one in judged)

    turned = bool(judged) and not agrees(bool(rule.lower)) and agrees(not rule.lower)
    outside = [one.value for one in grades.values() if one.value is not None and _unit(one.value) is None]
    asked = {at for at, one in grades.items() if one.threshold is not None and one.value is None and one.passed is None}
    rule.values = {at: _unit(one.value) for at, one in grades.items() if at not in asked}
    rule.bounds = {at: one.threshold for at, one in grades.items() if one.threshold is not None}
    if not rule.bounds and name in found.bounds:
        rule.bounds = {-1: found.bounds[name]}
    if outside and not decided:
        found.left_out.append((f"scores of {name}", f"they are not in [0, 1], such as {outside[0]:g}"))
        rule.values = {at: value for at, value in rule.values.items() if value is not None}
    elif (
        outside
        or len(judged) < sum(one.value is not None for one in decided)
        or not (turned or agrees(bool(rule.lower)))
    ):
        found.translated.append(
            (f"scores of {name}", "1 where it passed and 0 where it failed: no threshold decides alone")
        )
        rule.lower, turned = False, False
        rule.values = {at: None if one.passed is None else float(one.passed) for at, one in grades.items()}
        rule.bounds = dict.fromkeys(rule.values, 1.0)
    elif turned and rule.lower is not None:
        found.translated.append((f"scores of {name}", "1 − the score, because less is better here"))
        rule.values = {at: None if value is None else _turned(value) for at, value in rule.values.items()}
        rule.bounds = {at: _turned(bound) for at, bound in rule.bounds.items()}
        turned = False
    rule.lower = bool(rule.lower) is not turned
    known = rule.bounds.values()
    rule.bound = (max if rule.lower else min)(known) if known else None
    if rule.bound is not None and (_unit(rule.bound) is None or rule.bound == (1.0 if rule.lower else 0.0)):
        found.left_out.append((f"threshold {rule.bound:g} of {name}", "every score passes it, or none can"))
        rule.bound, rule.bounds = None, {}
    return rule


def _turned(value: float) -> float:
    return round(1.0 - value, 12)


def _holds(value: float | None, threshold: float | None, *, lower: bool | None) -> bool:
    if value is None or threshold is None:
        return False
    return value <= threshold + _ROUNDING if lower else value >= threshold - _ROUNDING


def _unit(value: float | None) -> float | None:
    """`value` in [0, 1], with a rounding error taken off; None outside."""
    if value is None or not -_ROUNDING <= value <= 1 + _ROUNDING:
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
