"""Writes a migrated evaluation: golden set, recorded answers and scores, policy, config, and a page about them."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragstone.app.init import GOLDEN, PLACEHOLDER
from ragstone.app.survey.look import survey
from ragstone.errors import ConfigError, disk_errors
from ragstone.gate.policy_file import read_policy_mapping
from ragstone.gate.policy_table import POLICY_FILE
from ragstone.golden.convert import native_lines
from ragstone.golden.load import golden_set_of_rows
from ragstone.golden.rows import Row, SourceFile
from ragstone.golden.sample import GoldenSet
from ragstone.report.escape import markdown_code, markdown_inline
from ragstone.report.templates import render_text_template
from ragstone.tools.migrate.evaluation import Evaluation, Rule, outcome_of, rules_of

FOLDER = "migrated"
ANSWERS, SCORES, OLD_POLICY, PAGE = (
    f"{FOLDER}/{name}" for name in ("answers.jsonl", "scores.jsonl", POLICY_FILE, "README.md")
)
CONFIG = "ragstone.toml"
_TITLES = {"ragas": "ragas", "deepeval": "DeepEval", "promptfoo": "promptfoo"}


@dataclass(frozen=True, slots=True)
class Migrated:
    """The files that were written, by place in the folder; `policy` is the one that judges the recorded scores."""

    tool: str
    golden: GoldenSet
    files: Mapping[str, str]
    answers: int
    scores: int
    policy: str
    left_out: int


def migrate(found: Evaluation, out: Path, *, force: bool) -> Migrated:
    """Write `found` to the folder `out`. Raises ConfigError if a file exists, or can't be written."""
    rules = rules_of(found)
    computed = [rule for rule in rules if rule.computed]
    outcome = outcome_of(found, rules)
    of_some: list[Rule] = []
    for rule in computed if found.per_case else ():
        # Cases have bounds of their own. Not of rubrics, which not every judge can grade: the row would be an error.
        some = bool(rule.bounds) and -1 not in rule.bounds and len(rule.bounds) < len(found.cases)
        if (some or len(set(rule.bounds.values())) > 1) and rule.metric not in found.metrics:
            of_some += [rule] if some else []
            for at, bound in rule.bounds.items():
                found.cases[at].row.setdefault("max" if rule.lower else "min", {})[rule.metric] = bound  # type: ignore[index]
    golden = _golden(found)
    ids = [sample.id for sample in golden]
    answers = [{"id": name, **case.answer} for name, case in zip(ids, found.cases, strict=True) if case.answer]
    graded = [*rules, *([] if outcome is None else [outcome])]
    scores = [
        {"id": ids[at], "metric": rule.metric, "value": value} for rule in graded for at, value in rule.values.items()
    ]
    judging = rules if outcome is None else [outcome]
    same = all(rule.computed for rule in judging if rule.bound is not None) and not of_some
    policy = POLICY_FILE if same or not scores else OLD_POLICY
    shared: dict[str, Any] = {"title": _TITLES[found.tool], "found": found, "toml": toml}
    texts = {
        GOLDEN: "".join(f"{line}\n" for line in native_lines(golden)),
        ANSWERS: _lines(answers),
        SCORES: _lines(scores),
        POLICY_FILE: _policy(shared, [rule for rule in computed if rule not in of_some], old=False),
        OLD_POLICY: "" if policy == POLICY_FILE else _policy(shared, judging, old=True),
        CONFIG: _config(shared, computed, out, recorded=bool(answers)),
    }
    texts = {place: text for place, text in texts.items() if text}
    texts[PAGE] = render_text_template(
        "page.md.j2", __package__, **shared, files=list(texts), golden=golden, policy=policy, recorded=answers,
        scores=scores, text=markdown_inline, code=markdown_code, rules=rules,
    ) + "\n"  # fmt: skip
    _write(texts, out, force=force)
    return Migrated(found.tool, golden, texts, len(answers), len(scores), policy, len(found.left_out))


def _golden(found: Evaluation) -> GoldenSet:
    source = SourceFile(Path(found.files[0]), found.files[0])
    rows = [(source, Row(case.row)) for case in found.cases]
    return golden_set_of_rows(rows, found.tool)


def _policy(shared: Mapping[str, Any], rules: Sequence[Rule], *, old: bool) -> str:
    bounded = [rule for rule in rules if rule.bound is not None]
    text = render_text_template("policy.toml.j2", __package__, **shared, rules=bounded, old=old) + "\n"
    read_policy_mapping(tomllib.loads(text))
    return text


def _config(shared: Mapping[str, Any], rules: Sequence[Rule], out: Path, *, recorded: bool) -> str:
    found: Evaluation = shared["found"]
    live = found.live
    if live is None and out.is_dir():
        live = next((one.entrypoint for one in survey(out, ports=()).proposals), None)
    entrypoint = f"file:{ANSWERS}" if recorded else live or PLACEHOLDER
    metrics = {rule.metric: found.metrics[rule.metric] for rule in rules if rule.metric in found.metrics}
    return render_text_template(
        "config.toml.j2", __package__, **shared, entrypoint=entrypoint, live=live or PLACEHOLDER, recorded=recorded,
        metrics=metrics, golden=GOLDEN, http=found.system.get("http"),
        measured=[rule.metric for rule in rules if rule.values or rule.bound is not None or rule.metric in metrics],
    ) + "\n"  # fmt: skip


def toml(value: object) -> str:
    """`value` as TOML: text, numbers, lists and inline tables; null in them is left out."""
    if isinstance(value, Mapping):
        pairs = (f"{toml(str(key))} = {toml(one)}" for key, one in value.items() if one is not None)
        return f"{{ {', '.join(pairs)} }}" if value else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(toml(one) for one in value if one is not None)}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _lines(rows: Sequence[Mapping[str, object]]) -> str:
    return "".join(f"{json.dumps(row, ensure_ascii=False, allow_nan=False)}\n" for row in rows)


def _write(texts: Mapping[str, str], out: Path, *, force: bool) -> None:
    existing = [place for place in texts if (out / place).exists()]
    if existing and not force:
        raise ConfigError(
            f"already exists: {', '.join(existing)}.",
            where=str(out),
            hint="Write to another folder with --output, or add --force to overwrite.",
        )
    for place, text in texts.items():
        with disk_errors(out / place, "can't be written"):
            (out / place).parent.mkdir(parents=True, exist_ok=True)
            (out / place).write_text(text, "utf-8", "backslashreplace", "\n")
