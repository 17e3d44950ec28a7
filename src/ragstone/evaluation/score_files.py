"""Reads scores of other evaluators: from files with one score or one sample in each row,
and from plain mappings."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from ragstone.errors import ConfigError
from ragstone.evaluation.scores import MetricScores, RunScores, SampleFacts
from ragstone.formatting import join_first
from ragstone.golden import cells
from ragstone.golden.aliases import (
    FIELD_NAMES,
    FIELDS,
    NO_SCORES,
    SCORES,
    normalise_name,
)
from ragstone.golden.load import read_rows, require_fields
from ragstone.golden.matching import SampleFinder
from ragstone.golden.reader import derived_id
from ragstone.golden.sample import MAX_SAMPLES, GoldenSet
from ragstone.metrics.registry import find_metric
from ragstone.metrics.score import Failed

ROUNDING_ERROR = 1e-9
"""A score may be outside of [0, 1] by so much, as sums of floats are."""

_NON_METRIC_COLUMNS = NO_SCORES | FIELD_NAMES
"""Columns whose numbers are not scores, even if they are in [0, 1]."""

_MISSING_TEXTS = frozenset({"", "nan", "none", "null", "n/a", "na"})
_EXPECTED = (
    'Expected lines such as {"id": "q1", "metric": "faithfulness", "value": 0.9}, or CSV with that header; or a table '
    "with one sample per row, with its id or question and a column for each metric."
)


class _Collector(Struct, frozen=True):
    """Collects single scores for a run."""

    metrics: dict[str, MetricScores] = {}
    samples: dict[str, SampleFacts] = {}

    def add(
        self,
        metric: str,
        sample_id: str,
        value: object,
        where: str,
        facts: SampleFacts,
    ) -> None:
        """Add a score that was read from the place `where`; a missing one counts as
        failed. `facts` are those of the sample. Raises ConfigError for a duplicate, and
        for a value that is no score."""
        scores = self.metrics.setdefault(metric, MetricScores({}))
        if sample_id in scores.applies_to:
            raise ConfigError(
                f"duplicate value of '{metric}' for sample '{sample_id}'.", where=where
            )
        self.samples.setdefault(sample_id, facts)
        if _is_missing(value):
            scores.failed[sample_id] = Failed("judge", "no value was given")
            return
        number = _number(value)
        if number is None:
            raise ConfigError(
                f"a score must be a number in [0, 1], found {str(value)[:80]!r}.",
                where=where,
                hint="Leave the row out if the metric does not apply. Use null, or an empty cell, if scoring failed: "
                "that counts against coverage.",
            )
        if not -ROUNDING_ERROR <= number <= 1.0 + ROUNDING_ERROR:
            raise ConfigError(
                f"a score must be in [0, 1], found {number:g}.",
                where=where,
                hint="Divide by the maximum value of the metric.",
            )
        scores.values[sample_id] = min(1.0, max(0.0, number))


def read_score_file(
    path: Path, golden: GoldenSet | None = None, *, policy_metrics: Collection[str] = ()
) -> RunScores:
    """The scores in `path`, a table in any format that a golden set may have.

    A row has either one score (``id, metric, value[, group]``), or all scores of one
    sample, with a column for each metric, as ragas writes them. A row of the second
    kind is matched with the sample of `golden` with the same id or question; without
    `golden`, its id or question identifies the sample. A column is a metric if its name
    is known, or is among `policy_metrics`, the metrics of a policy.

    A value must be in [0, 1]. An empty value, null or NaN is a failed score, which
    counts against coverage. Samples of `golden` with bounds are part of the run even
    without a row. Raises ConfigError with the line of the first error.
    """
    label = str(path)
    rows = list(read_rows(path, required=(), expected=_EXPECTED))
    if not rows:
        raise ConfigError("contains no scores.", where=label, hint=_EXPECTED)
    scores = _Collector()
    remarks: tuple[str, ...] = ()
    _, first_row = rows[0]
    column_names = {name.lower() for name in first_row}
    if "metric" in column_names or "value" in column_names:
        for where, row in rows:
            _add_score_row(scores, row, where)
    else:
        metrics, remarks = _metric_columns(rows, policy_metrics, label)
        finder = None if golden is None else SampleFinder(golden)
        for where, row in rows:
            _add_sample_row(scores, row, where, metrics, finder)
    if len(scores.samples) > MAX_SAMPLES:
        raise ConfigError(
            f"has scores of {len(scores.samples):,} samples, more than {MAX_SAMPLES:,}.",
            where=label,
            hint="Split the file, and compare each part by itself.",
        )
    for sample in golden or ():
        if sample.id in scores.samples or sample.bounds:
            scores.samples[sample.id] = SampleFacts.of(sample)
    return RunScores(label, scores.metrics, scores.samples, remarks=remarks)


def _add_score_row(scores: _Collector, row: Mapping[str, object], where: str) -> None:
    """Add the score of a row ``id, metric, value[, group]``."""
    by_name = require_fields(row, ("id", "metric", "value"), where, _EXPECTED)
    group = by_name.get("group")
    scores.add(
        _require_text(by_name["metric"], "metric", where),
        _require_text(by_name["id"], "id", where),
        by_name["value"],
        where,
        SampleFacts(group=str(group) if group else None),
    )


def _add_sample_row(
    scores: _Collector,
    row: Mapping[str, object],
    where: str,
    metrics: Iterable[str],
    finder: SampleFinder | None,
) -> None:
    """Add the scores of a sample, from those columns in `metrics` that its row has."""
    by_name = {normalise_name(name): value for name, value in row.items()}
    question = _first_text(by_name, FIELDS["question"].names, cells.to_question)
    row_id = _first_text(by_name, FIELDS["id"].names)
    sample_id = _sample_id(finder, row_id, question, where)
    group = _first_text(by_name, FIELDS["group"].strong)
    facts = SampleFacts(question, group=group or None)
    for name in metrics:
        if name in row:
            place = f"{where}: column '{name}'"
            scores.add(name.strip(), sample_id, row[name], place, facts)


def _first_text(
    row: Mapping[str, object],
    names: Iterable[str],
    read: Callable[[object], str | None] = cells.to_text,
) -> str:
    """The text in the first of the columns `names` that has a text, in one line; empty
    if none has one."""
    for name in names:
        with suppress(cells.CellError):
            text = read(row.get(name))
            if text is not None:
                return " ".join(text.split())
    return ""


def _sample_id(
    finder: SampleFinder | None, row_id: str, question: str, where: str
) -> str:
    """The id of a row's sample: as `finder` finds it, or without a finder the row's id,
    or one made of its question. Raises ConfigError if there is no such sample."""
    if finder is not None:
        sample = finder.find(row_id, question)
        if sample is not None:
            return sample.id
    elif row_id:
        return row_id
    elif question:
        return derived_id(question, None, ())
    text = question or row_id
    problem = f"no sample matches {text[:80]!r}." if text else "no id and no question."
    raise ConfigError(
        problem,
        where=where,
        hint="Name the golden set that was scored with --golden, or give the rows its ids.",
    )


def _metric_columns(
    rows: Sequence[tuple[str, Mapping[str, object]]],
    policy_metrics: Collection[str],
    label: str,
) -> tuple[list[str], tuple[str, ...]]:
    """The columns with scores, and a remark on other columns of numbers. Raises
    ConfigError if there is no column with scores."""
    columns: dict[str, list[object]] = {}
    for _, row in rows:
        for name, value in row.items():
            columns.setdefault(name, []).append(value)
    metrics: list[str] = []
    number_columns: list[str] = []
    for name, values in columns.items():
        is_named = name.strip() in policy_metrics or normalise_name(name) in SCORES
        if is_named or find_metric(name) is not None:
            metrics.append(name)
        elif normalise_name(name) not in _NON_METRIC_COLUMNS:
            numbers = {_number(value) for value in values if not _is_missing(value)}
            if numbers and None not in numbers:
                number_columns.append(name)
    remark = f"Columns of numbers that no rule names are left out: {join_first(number_columns)}."
    if metrics:
        return metrics, (remark,) if number_columns else ()
    if not number_columns:
        raise ConfigError("'metric' is missing.", where=label, hint=_EXPECTED)
    keys = [json.dumps(name, ensure_ascii=False) for name in number_columns[:3]]
    rules = "\n".join(f"  [metrics.{key}]\n  min = 0.80" for key in keys)
    raise ConfigError(
        f"there is no verdict. {remark}",
        where=label,
        hint=f"Write a rule for each metric in thresholds.toml, such as:\n{rules}\n"
        "Scores are from 0 to 1: divide each by the maximum value of its metric.",
    )


def scores_from_mapping(
    scores: Mapping[str, Mapping[str, float | None]], *, label: str = "scores"
) -> RunScores:
    """A run with the scores ``{metric: {sample_id: value}}``.

    A value must be in [0, 1]. None or NaN is a failed score, which counts against
    coverage. If a metric does not apply to a sample, leave the sample out. `label`
    names the run in messages. Raises ConfigError for anything else.
    """
    collected = _Collector({str(metric): MetricScores({}) for metric in scores})
    for metric, by_sample in scores.items():
        if not isinstance(by_sample, Mapping):
            raise ConfigError(
                f"{label}: '{metric}' must map sample ids to values, found {type(by_sample).__name__}."
            )
        for sample_id, value in by_sample.items():
            where = f"{label}: metric '{metric}', sample '{sample_id}'"
            collected.add(str(metric), str(sample_id), value, where, SampleFacts())
    return RunScores(label, collected.metrics, collected.samples)


def _is_missing(value: object) -> bool:
    """Whether `value` is None, NaN, or a text that stands for a missing value."""
    return str(value).strip().lower() in _MISSING_TEXTS


def _number(value: object) -> float | None:
    """`value` as a float; None if it is no finite number."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _require_text(value: object, field: str, where: str) -> str:
    if not isinstance(value, str | int) or not str(value).strip():
        raise ConfigError(
            f"'{field}' must be a non-empty string, found {str(value)[:80]!r}.",
            where=where,
        )
    return str(value)
