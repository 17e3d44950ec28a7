"""Scores from other evaluators: one score per row, one sample per row, and plain
mappings."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ragstone.errors import ConfigError, GoldenSetError
from ragstone.evaluation.scores import MetricScores, RunScores, SampleFacts
from ragstone.formatting import some
from ragstone.golden import cells
from ragstone.golden.aliases import FIELDS, NO_SCORES, RECORDED, SCORES, normal
from ragstone.golden.load import table_rows
from ragstone.golden.reader import derived_id
from ragstone.golden.rows import MAX_FILE_BYTES, SourceFile
from ragstone.golden.sample import MAX_SAMPLES, GoldenSet
from ragstone.metrics.registry import find_metric
from ragstone.metrics.score import Failed

ROUNDING = 1e-9
"""By so much a score may miss [0, 1], as a sum of floats does."""

_EMPTY = frozenset({"", "nan", "none", "null", "n/a", "na"})
_EXPECTED = (
    'Expected lines such as {"id": "q1", "metric": "faithfulness", "value": 0.9}, or CSV with that header; or a table '
    "with one sample per row, with its id or question and a column for each metric."
)

Rows = Sequence[tuple[str, Mapping[str, object]]]
"""Rows, each with its place."""


@dataclass(frozen=True, slots=True)
class _Value:
    """The score of a sample by a metric, and the place that it was read from."""

    sample_id: str
    metric: str
    value: object
    where: str
    group: str | None = None


def read_score_file(
    path: Path, golden: GoldenSet | None = None, *, named: Collection[str] = ()
) -> RunScores:
    """The scores in `path`: a table in any format that a golden set may have.

    Either one `id, metric, value[, group]` per row, or one sample per row with a column
    for each metric, as ragas has it: the sample of `golden` with the same id, or else
    the same question; without `golden`, it is known by its id or question. A column is
    a metric if its name is known, or `named` by a policy. Values are in [0, 1]; an
    empty one, null or NaN is a failed score, which counts against coverage. A sample of
    `golden` with bounds of its own is in the run though no row is of it. Raises
    ConfigError with the line of the first error.
    """
    label = str(path)
    rows = list(read_rows(path, required=(), expected=_EXPECTED))
    if not rows:
        raise ConfigError("contains no scores.", where=label, hint=_EXPECTED)
    remarks: tuple[str, ...] = ()
    questions: dict[str, str] = {}
    if {"metric", "value"} & {name.lower() for name in rows[0][1]}:
        values = _one_score_per_row(rows)
    else:
        metrics, remarks = _metric_columns(rows, named, label)
        ids = _sample_ids(rows, golden)
        values = _one_sample_per_row(rows, metrics, ids)
        for sample_id, (_, row) in zip(ids, rows, strict=True):
            questions[sample_id] = _question(row)
    scores = _collect(values, label)
    if len(scores.samples) > MAX_SAMPLES:
        raise ConfigError(
            f"has scores of {len(scores.samples):,} samples, more than {MAX_SAMPLES:,}.",
            where=label,
            hint="Split the file, and compare each part by itself.",
        )
    samples = {
        name: replace(facts, question=questions.get(name, ""))
        for name, facts in scores.samples.items()
    }
    for sample in golden or ():
        if sample.id in samples or sample.bounds:
            samples[sample.id] = SampleFacts.of(sample)
    return replace(scores, samples=samples, remarks=remarks)


def read_rows(
    path: Path, *, required: Sequence[str], expected: str, limit: int = MAX_FILE_BYTES
) -> Iterator[tuple[str, Mapping[str, object]]]:
    """The rows of a file in any format of a golden set, each with its place
    (``scores.csv:12``).

    If there are fields `required`, every row has them, and all names are in lower case;
    empty cells are None. `expected` tells the user what a row looks like; `limit` is in
    bytes. Raises ConfigError.
    """
    source = SourceFile(path, str(path), limit=limit)
    try:
        for row in table_rows(source):
            where = source.at(row.line)
            if required:
                yield where, _with_fields(row.values, required, where, expected)
            else:
                yield where, row.values
    except GoldenSetError as error:
        raise ConfigError(error.message, where=error.where, hint=expected) from None


def _with_fields(
    row: Mapping[str, object], required: Sequence[str], where: str, expected: str
) -> Mapping[str, object]:
    values = {str(name).lower(): cell for name, cell in row.items()}
    for name in required:
        if name not in values:
            columns = ", ".join(map(repr, values))[:200]
            raise ConfigError(
                f"'{name}' is missing, found: {columns}.", where=where, hint=expected
            )
    return values


def _one_score_per_row(rows: Rows) -> Iterator[_Value]:
    for where, row in rows:
        values = _with_fields(row, ("id", "metric", "value"), where, _EXPECTED)
        group = values.get("group")
        yield _Value(
            _text(values["id"], "id", where),
            _text(values["metric"], "metric", where),
            values["value"],
            where,
            None if group in (None, "") else _text(group, "group", where),
        )


def _one_sample_per_row(
    rows: Rows, metrics: Sequence[str], ids: Sequence[str]
) -> Iterator[_Value]:
    for sample_id, (where, row) in zip(ids, rows, strict=True):
        group = _cell(row, FIELDS["group"].strong)
        for metric in metrics:
            if metric in row:
                place = f"{where}: column '{metric}'"
                yield _Value(sample_id, metric.strip(), row[metric], place, group)


def _metric_columns(
    rows: Rows, named: Collection[str], label: str
) -> tuple[list[str], tuple[str, ...]]:
    """The columns of scores in a table with one sample per row, and a remark on other
    columns of numbers. Raises ConfigError without a column of scores."""
    metrics: list[str] = []
    others: list[str] = []
    for name in dict.fromkeys(name for _, row in rows for name in row):
        if (
            normal(name) in SCORES
            or name.strip() in named
            or find_metric(name) is not None
        ):
            metrics.append(name)
        elif normal(name) not in _no_scores() and _has_numbers(rows, name):
            others.append(name)
    remark = f"Columns of numbers that no rule names are left out: {some(others)}."
    if metrics:
        return metrics, (remark,) if others else ()
    if not others:
        raise ConfigError("'metric' is missing.", where=rows[0][0], hint=_EXPECTED)
    rule = f"[metrics.{json.dumps(others[0], ensure_ascii=False)}]\n  min = 0.80"
    raise ConfigError(
        f"there is no verdict. {remark}",
        where=label,
        hint=f"Write a rule for each metric in thresholds.toml, such as:\n  {rule}",
    )


def _no_scores() -> frozenset[str]:
    """Columns of numbers that are none, though the numbers may be in [0, 1]."""
    names = set(NO_SCORES)
    for aliases in (*FIELDS.values(), *RECORDED.values()):
        names.update(aliases.strong, aliases.weak)
    return frozenset(names)


def _has_numbers(rows: Rows, name: str) -> bool:
    """Whether each value of the column is a number, and there is one."""
    values = [row[name] for _, row in rows if not _is_missing(row.get(name))]
    try:
        return bool(values) and not any(
            math.isnan(float(str(value))) for value in values
        )
    except ValueError:
        return False


def _cell(
    row: Mapping[str, object],
    names: Iterable[str],
    read: Callable[[object], str | None] = cells.text,
) -> str | None:
    """The text of `row` under the first of `names` that it has."""
    by_name = {normal(name): value for name, value in row.items()}
    for name in names:
        try:
            text = read(by_name.get(name))
        except cells.CellError:
            continue
        if text is not None:
            return text
    return None


def _question(row: Mapping[str, object]) -> str:
    aliases = FIELDS["question"]
    names = (*aliases.strong, *aliases.weak)
    return " ".join((_cell(row, names, cells.question) or "").split())


def _sample_ids(rows: Rows, golden: GoldenSet | None) -> list[str]:
    """The id of the sample that each row is of: its own, or that of its question.
    Raises ConfigError for a row that is of no sample."""
    ids = FIELDS["id"]
    by_question: dict[str, str] = {}
    for sample in golden or ():
        by_question[" ".join(sample.question.split())] = sample.id
    known_ids = set(by_question.values()) | {sample.id for sample in golden or ()}
    names: list[str] = []
    for where, row in rows:
        name = _cell(row, (*ids.strong, *ids.weak))
        question = _question(row)
        if golden is None and name is None and question:
            name = derived_id(question, None, ())
        elif golden is not None and name not in known_ids:
            name = by_question.get(question)
        if name is None:
            raise ConfigError(
                f"the row is of no sample: {(question or 'it has no id and no question')[:80]!r}.",
                where=where,
                hint="Name the golden set that these scores are of with --golden, or give the rows its ids.",
            )
        names.append(name)
    return names


def scores_from_mapping(
    scores: Mapping[str, Mapping[str, float | None]], *, label: str = "scores"
) -> RunScores:
    """The run that ``{metric: {sample_id: value}}`` describes.

    Values are in [0, 1]; None is a failed score, which counts against coverage; where a
    metric does not apply to a sample, the sample is left out. `label` names the run in
    messages. Raises ConfigError for anything else.
    """
    if not isinstance(scores, Mapping):
        raise ConfigError(
            f"{label}: scores are {{metric: {{sample id: value}}}}, found {type(scores).__name__}.",
            hint=None,
        )
    values: list[_Value] = []
    for metric, by_sample in scores.items():
        if not isinstance(by_sample, Mapping):
            raise ConfigError(
                f"{label}: '{metric}' must map sample ids to values, found {type(by_sample).__name__}."
            )
        name = _text(metric, "metric", label)
        for sample_id, value in by_sample.items():
            where = f"{label}: metric '{metric}', sample '{sample_id}'"
            if value is not None and _is_missing(value):
                raise _no_number(value, where)
            values.append(_Value(str(sample_id), name, value, where))
    collected = _collect(values, label)
    unscored = {str(metric): MetricScores({}) for metric in scores}
    return replace(collected, metrics={**unscored, **collected.metrics})


def _collect(values: Iterable[_Value], label: str) -> RunScores:
    """The run of these scores. Raises ConfigError for one that is there twice, or is
    none."""
    metrics: dict[str, MetricScores] = {}
    groups: dict[str, str | None] = {}
    for score in values:
        sample_id = score.sample_id
        metric = metrics.setdefault(score.metric, MetricScores({}))
        if sample_id in metric.applies_to:
            raise ConfigError(
                f"duplicate value of '{score.metric}' for sample '{sample_id}'.",
                where=score.where,
            )
        group = groups.get(sample_id) or score.group
        if score.group is not None and group != score.group:
            raise ConfigError(
                f"sample '{sample_id}' is in group '{score.group}' here, but was in '{group}'.",
                where=score.where,
            )
        groups[sample_id] = group
        number = _number(score.value, score.where)
        if number is None:
            metric.failed[sample_id] = Failed("judge", "no value was given")
        else:
            metric.values[sample_id] = number
    samples = {name: SampleFacts(group=group) for name, group in groups.items()}
    return RunScores(label, metrics, samples)


def _is_missing(value: object) -> bool:
    if isinstance(value, str):
        return value.strip().lower() in _EMPTY
    return value is None or (isinstance(value, float) and math.isnan(value))


def _number(value: object, where: str) -> float | None:
    """The score in `value`, or the end of [0, 1] that it misses by a rounding error;
    None if it is missing."""
    if _is_missing(value):
        return None
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise _no_number(value, where) from None
    if not math.isfinite(number):
        raise _no_number(value, where)
    if not -ROUNDING <= number <= 1.0 + ROUNDING:
        raise ConfigError(
            f"a score must be in [0, 1], found {number:g}.",
            where=where,
            hint="Divide by the maximum value of the metric.",
        )
    return min(1.0, max(0.0, number))


def _no_number(value: object, where: str) -> ConfigError:
    return ConfigError(
        f"a score must be a number in [0, 1], found {str(value)[:80]!r}.",
        where=where,
        hint="Leave the row out if the metric does not apply. Use null, or an empty cell, if scoring failed: that "
        "counts against coverage.",
    )


def _text(value: object, field: str, where: str) -> str:
    is_text = isinstance(value, str | int) and not isinstance(value, bool)
    if not is_text or not str(value).strip():
        raise ConfigError(
            f"'{field}' must be a non-empty string, found {str(value)[:80]!r}.",
            where=where,
        )
    return str(value)
