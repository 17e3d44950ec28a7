"""Scores from other evaluators: one score per row, one sample per row, and plain
mappings."""

from __future__ import annotations

import codecs
import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ragstone.errors import ConfigError, GoldenSetError
from ragstone.evaluation.scores import MetricScores, RunScores, SampleFacts
from ragstone.formatting import some
from ragstone.golden import cells
from ragstone.golden.aliases import FIELDS, NO_SCORES, RECORDED, SCORES, normal
from ragstone.golden.formats import delimited, json_text
from ragstone.golden.formats.registry import BY_ENDING
from ragstone.golden.load import table_rows
from ragstone.golden.reader import derived_id
from ragstone.golden.rows import MAX_FILE_BYTES, Row, SourceFile
from ragstone.golden.sample import MAX_SAMPLES, GoldenSet
from ragstone.metrics.registry import find_metric
from ragstone.metrics.score import Failed

_HEAD_BYTES = 4096
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
    the same question; without `golden`, it is known by its id, question or place. A
    column is a metric if its name is known, or `named` by a policy. Values are in [0, 1]; an
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
        ids = _row_names(rows) if golden is None else _joined(rows, golden)
        if any(_id(row) is None and not _question(row) for _, row in rows):
            placed = f"{label}: rows without an id and a question are compared by their place."
            remarks = (*remarks, placed)
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

    A file without an ending of these is JSON Lines, CSV or TSV. If there are fields
    `required`, every row has them, and all names are in lower case; empty cells are
    None. `expected` tells the user what a row looks like; `limit` is in
    bytes. Raises ConfigError.
    """
    source = SourceFile(path, str(path), limit=limit)
    try:
        for row in _read(source, path.suffix.lower()):
            where = source.at(row.line)
            if required:
                yield where, _with_fields(row.values, required, where, expected)
            else:
                yield where, row.values
    except GoldenSetError as error:
        raise ConfigError(error.message, where=error.where, hint=expected) from None


def _read(source: SourceFile, ending: str) -> Iterable[Row]:
    if ending in BY_ENDING:
        return table_rows(source)
    try:
        with source.open() as stream:
            head = stream.read(_HEAD_BYTES).removeprefix(codecs.BOM_UTF8).lstrip()
    except OSError as error:
        raise source.unreadable(error) from None
    if head.startswith((b"{", b"[")):
        return json_text.read_rows(source)
    return delimited.read_csv(source)


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
        is_named = name.strip() in named or normal(name) in SCORES
        if is_named or find_metric(name) is not None:
            metrics.append(name)
        elif normal(name) not in _no_scores() and _numbers(rows, name):
            others.append(name)
    remark = f"Columns of numbers that no rule names are left out: {some(others)}."
    if metrics:
        return metrics, (remark,) if others else ()
    if not others:
        raise ConfigError("'metric' is missing.", where=rows[0][0], hint=_EXPECTED)
    raise ConfigError(
        f"there is no verdict. {remark}", where=label, hint=_rules(rows, others)
    )


def _rules(rows: Rows, columns: Sequence[str]) -> str:
    """The rules that could be written for those of `columns` that may be scores."""
    lines: list[str] = []
    for name in columns:
        numbers = _numbers(rows, name)
        if min(numbers) >= 0.0 and max(numbers) <= 1.0:
            key = json.dumps(name, ensure_ascii=False)
            lines.append(f"  [metrics.{key}]\n  min = 0.80")
    if not lines:
        return "Scores are from 0 to 1: divide each by the maximum value of its metric."
    rules = "\n".join(lines[:3])
    return f"Write a rule for each metric in thresholds.toml, such as:\n{rules}"


def _no_scores() -> frozenset[str]:
    """Columns of numbers that are none, though the numbers may be in [0, 1]."""
    names = set(NO_SCORES)
    for aliases in (*FIELDS.values(), *RECORDED.values()):
        names.update(aliases.strong, aliases.weak)
    return frozenset(names)


def _numbers(rows: Rows, name: str) -> list[float]:
    """The numbers of a column; none if it has any other value."""
    values = [row[name] for _, row in rows if not _is_missing(row.get(name))]
    try:
        numbers = [_as_number(value) for value in values]
    except (TypeError, ValueError, OverflowError):
        return []
    return [] if any(math.isnan(number) for number in numbers) else numbers


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


def _id(row: Mapping[str, object]) -> str | None:
    aliases = FIELDS["id"]
    return _cell(row, (*aliases.strong, *aliases.weak))


def _row_names(rows: Rows) -> list[str]:
    """A name of each row: its id, else one of its question, or of its place. Several
    rows with one question are numbered."""
    names: list[str] = []
    rows_by_question: Counter[str] = Counter()
    for number, (_, row) in enumerate(rows, start=1):
        name, question = _id(row), _question(row)
        if name is None and question:
            rows_by_question[question] += 1
            count = rows_by_question[question]
            name = derived_id(question, None, ())
            if count > 1:
                name = f"{name}-{count}"
        names.append(name or f"row {number}")
    return names


def _joined(rows: Rows, golden: GoldenSet) -> list[str]:
    """The id of the sample in `golden` that each row is of: by its own id, else by its
    question; or by place, where no row has either. Raises ConfigError for a row of no
    sample."""
    ids = {sample.id for sample in golden}
    ids_by_question: dict[str, list[str]] = {}
    for sample in golden:
        question = " ".join(sample.question.split())
        ids_by_question.setdefault(question, []).append(sample.id)
    names: list[str] = []
    for where, row in rows:
        name, question = _id(row), _question(row)
        if name in ids:
            names.append(name)
        elif ids_by_question.get(question):
            names.append(ids_by_question[question].pop(0))
        elif not names and _is_in_order(rows, golden):
            return [sample.id for sample in golden]
        else:
            raise ConfigError(
                f"the row is of no sample: {(question or 'it has no id and no question')[:80]!r}.",
                where=where,
                hint="Name the golden set that these scores are of with --golden, or give the rows its ids.",
            )
    return names


def _is_in_order(rows: Rows, golden: GoldenSet) -> bool:
    """Whether rows can be of the samples at the same places: as many, and nothing says
    otherwise."""
    if len(rows) != len(golden):
        return False
    return not any(_question(row) or _id(row) for _, row in rows)


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


def _as_number(value: object) -> float:
    """`value` as a number: "85%" is 0.85. Raises TypeError, ValueError or
    OverflowError."""
    if isinstance(value, str) and value.strip().endswith("%"):
        return float(value.strip().removesuffix("%")) / 100.0
    return float(value)  # type: ignore[arg-type]


def _number(value: object, where: str) -> float | None:
    """The score in `value`, or the end of [0, 1] that it misses by a rounding error;
    None if it is missing."""
    if _is_missing(value):
        return None
    try:
        number = _as_number(value)
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
