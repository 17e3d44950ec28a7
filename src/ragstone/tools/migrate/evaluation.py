"""An evaluation as another tool has it: cases with their scores, bounds, and what of it can't be translated."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.resources import files
from itertools import count
from pathlib import Path, PurePosixPath
from typing import Any

from ragstone.app.survey.look import MAX_SOURCE_BYTES
from ragstone.files import read_regular
from ragstone.golden import cells
from ragstone.golden.aliases import normal
from ragstone.metrics.registry import is_known

_ROUNDING = 1e-9
_MAX_NAME = 56
"""Length of a metric's name, with room for a number."""


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

    `bounds` are those that the source declares, by metric, and `lower` says of some whether less is better.
    `per_case`: one failed case fails the evaluation. `metrics`, `system` and `limits` are tables of ragstone.toml and,
    the last, of thresholds.toml. `live` is the entrypoint that was evaluated. `translated` and `left_out` are pairs of
    what, and to what or why not.
    """

    tool: str
    per_case: bool
    files: list[str] = field(default_factory=list)
    cases: list[Case] = field(default_factory=list)
    bounds: dict[str, float] = field(default_factory=dict)
    lower: dict[str, bool] = field(default_factory=dict)
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


@lru_cache(maxsize=4096)
def entry_of(name: str) -> dict[str, Any] | None:
    """What is known of a metric of another tool: ``AnswerRelevancy``, ``Contextual Recall``, ``context-recall``."""
    forms = [normal(name), normal(name.partition("(")[0].partition("[")[0])]
    forms += [form.removesuffix("_metric") for form in forms]
    return next((known_names()[form] for form in forms if form in known_names()), None)


def canonical(name: str) -> str:
    """One name for all names that a metric has."""
    entry = entry_of(name)
    return normal(name) if entry is None else str(entry["metric"])


def rules_of(found: Evaluation) -> list[Rule]:
    """The metrics of an evaluation under Ragstone's names. Says in `found` how each was translated."""
    rules: dict[str, Rule] = {}
    grades: dict[str, dict[int, Grade]] = {}
    for at, case in enumerate(found.cases):
        for name, grade in case.grades.items():
            grades.setdefault(name, {})[at] = grade
    for name in dict.fromkeys((*grades, *found.bounds, *found.metrics)):
        entry = {} if name in found.metrics else entry_of(name) or {}
        metric = str(entry.get("metric") or _own_name(name))
        if metric in rules or (name in found.metrics and is_known(metric)):
            entry, metric = {}, _free(_own_name(name), rules)
        rubric = found.metrics.pop(name, {"rubric": entry["rubric"]} if "rubric" in entry else None)
        if rubric is not None:
            found.metrics[metric] = rubric
        lower = bool(entry.get("lower_is_better")) if entry else found.lower.get(name)
        rules[metric] = rule = _rule(Rule(name, metric, lower), grades.get(name, {}), found)
        rule.computed = rubric is not None or is_known(metric)
        notes = [entry["note"]] if "note" in entry else []
        notes += ["a rubric, which needs a language model as the judge"] if rubric is not None else []
        if rule.computed:
            found.translated.append((f"metric {name}", f"{metric} ({'; '.join(notes)})" if notes else metric))
        else:
            found.left_out.append((f"metric {name}", "Ragstone measures nothing of the kind; its scores are kept"))
    return [*rules.values()]


def outcome_of(found: Evaluation, rules: Sequence[Rule]) -> Rule | None:
    """The outcome of each case as a metric, if the bounds of the metrics alone don't give the outcomes; else None."""
    outcomes = {at: float(case.passed) for at, case in enumerate(found.cases) if case.passed is not None}
    bounded = [rule for rule in rules if rule.bound is not None]
    for at, outcome in outcomes.items():
        scored = [rule.holds(value) for rule in bounded if (value := rule.values.get(at)) is not None]
        if not scored or bool(outcome) != all(scored):
            name = _free(f"{found.tool}_outcome", {rule.metric for rule in rules})
            return Rule(found.tool, name, False, 1.0, {**outcomes})
    return None


def _own_name(name: str) -> str:
    """A name for a metric that only this evaluation has."""
    found = normal(name)[:_MAX_NAME] or "metric"
    return found if re.match("[a-z]", found) else f"metric_{found}"


def _free(name: str, taken: Container[str]) -> str:
    """`name`, with a number if it is taken, or Ragstone's own."""
    if name not in taken and not is_known(name):
        return name
    return next(free for number in count(1) if (free := f"{name}_{number}") not in taken)


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
    undecided = len(judged) < sum(one.value is not None for one in decided)
    if outside and not decided:
        found.left_out.append((f"scores of {name}", f"they are not in [0, 1], such as {outside[0]:g}"))
        rule.values = {at: value for at, value in rule.values.items() if value is not None}
    elif outside or undecided or not (turned or agrees(bool(rule.lower))):
        how = "1 where it passed and 0 where it failed: no threshold decides alone"
        found.translated.append((f"scores of {name}", how))
        rule.lower, turned = False, False
        rule.values = {at: None if one.passed is None else float(one.passed) for at, one in grades.items()}
        rule.bounds = dict.fromkeys(rule.values, 1.0)
    elif turned and rule.lower is not None:
        found.translated.append((f"scores of {name}", "1 − the score, because less is better here"))
        rule.values = {at: None if value is None else _turned(value) for at, value in rule.values.items()}
        rule.bounds = {at: _turned(bound) for at, bound in rule.bounds.items()}
        turned = False
    rule.lower = bool(rule.lower) is not turned
    idle = {at: bound for at, bound in rule.bounds.items() if _unit(bound) is None or bound == float(rule.lower)}
    for bound in dict.fromkeys(idle.values()):
        found.left_out.append((f"threshold {bound:g} of {name}", "every score passes it, or none can"))
    rule.bounds = {at: bound for at, bound in rule.bounds.items() if at not in idle}
    if rule.bounds:
        rule.bound = (max if rule.lower else min)(rule.bounds.values())
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
    """`value` ("85%" is 0.85) as a finite number; None for text, and for NaN, which stands for a metric that failed."""
    try:
        if isinstance(value, str) and value.strip().endswith("%"):
            return as_number(float(value.strip()[:-1]) / 100)
        found = float(value) if isinstance(value, int | float | str) else math.nan
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def text_of(value: object) -> str:
    """What a system answered, as text: an object as JSON. Raises CellError for characters that are not allowed."""
    return cells.sound(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))


def filled(fields: Mapping[str, object]) -> dict[str, object]:
    """The fields that have something in them."""
    return {key: value for key, value in fields.items() if value not in (None, "", [], ())}


def content(root: Path, name: PurePosixPath) -> bytes:
    """The source in a file below `root`; nothing if it can't be read or is too large."""
    try:
        return read_regular(root / name, limit=MAX_SOURCE_BYTES, within=root)
    except OSError:
        return b""


def unique_ids(cases: Iterable[Case]) -> None:
    """Give cases another id where two have the same, or the same question without one; an id that can't be is none."""
    taken: set[str] = set()
    asked: set[str] = set()
    times: Counter[str] = Counter()
    for case in cases:
        try:
            name = cells.identifier(case.row.pop("id", None))
        except cells.CellError:
            question = f"{case.row.get('question')} {case.row.get('history')}"
            if question not in asked:
                asked.add(question)
                continue
            name = "repeated"
        unique = name
        while unique in taken:
            times[name] += 1
            unique = f"{name}-{times[name] + 1}"
        taken.add(unique)
        case.row["id"] = unique
