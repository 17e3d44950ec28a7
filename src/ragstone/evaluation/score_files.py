"""Scores from other evaluators: one score per row, one sample per row, and plain
mappings."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from ragstone.errors import ConfigError, GoldenSetError
from ragstone.evaluation.scores import MetricScores, RunScores, SampleFacts
from ragstone.formatting import some
from ragstone.golden import cells
from ragstone.golden.aliases import FIELD_NAMES, FIELDS, NO_SCORES, SCORES, normal
from ragstone.golden.load import table_rows
from ragstone.golden.reader import derived_id
from ragstone.golden.rows import MAX_FILE_BYTES, SourceFile
from ragstone.golden.sample import MAX_SAMPLES, GoldenSet
from ragstone.metrics.registry import find_metric
from ragstone.metrics.score import Failed

ROUNDING = 1e-9
"""By so much a score may miss [0, 1], as a sum of floats does."""

_NO_METRICS = NO_SCORES | FIELD_NAMES
"""Columns of numbers that are no scores, though the numbers may be in [0, 1]."""

_EMPTY = frozenset({"", "nan", "none", "null", "n/a", "na"})
_EXPECTED = (
    'Expected lines such as {"id": "q1", "metric": "faithfulness", "value": 0.9}, or CSV with that header; or a table '
    "with one sample per row, with its id or question and a column for each metric."
)


class _Collector(Struct, frozen=True):
    """Collects single scores to a run."""

    metrics: dict[str, MetricScores] = {}
    samples: dict[str, SampleFacts] = {}

    def add(
        self,
        metric: str,
        sample_id: str,
        value: object,
        where: str,
        *,
        group: str | None = None,
        question: str = "",
    ) -> None:
        """Add a score that was read from the place `where`; a missing one has failed.
        Raises ConfigError for one that is there twice, or is no score."""
        scores = self.metrics.setdefault(metric, MetricScores({}))
        if sample_id in scores.values or sample_id in scores.failed:
            raise ConfigError(
                f"duplicate value of '{metric}' for sample '{sample_id}'.", where=where
            )
        facts = self.samples.get(sample_id, SampleFacts())
        known_group = facts.group
        if group is not None and known_group not in (None, group):
            raise ConfigError(
                f"sample '{sample_id}' is in group '{group}' here, but was in '{known_group}'.",
                where=where,
            )
        self.samples[sample_id] = SampleFacts(question, group=known_group or group)
        if _is_missing(value):
            scores.failed[sample_id] = Failed("judge", "no value was given")
            return
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
        scores.values[sample_id] = min(1.0, max(0.0, number))


def read_score_file(
    path: Path, golden: GoldenSet | None = None, *, named: Collection[str] = ()
) -> RunScores:
    """The scores in `path`: a table in any format that a golden set may have.

    Either one `id, metric, value[, group]` per row, or one sample per row with a column
    for each metric, as ragas has it: the sample of `golden` with the same id, or else
    the same question; without `golden`, it is known by its id or question. A
    column is a metric if its name is known, or `named` by a policy. Values are in [0, 1]; an
    empty one, null or NaN is a failed score, which counts against coverage. A sample of
    `golden` with bounds of its own is in the run though no row is of it. Raises
    ConfigError with the line of the first error.
    """
    label = str(path)
    rows = list(read_rows(path, required=(), expected=_EXPECTED))
    if not rows:
        raise ConfigError("contains no scores.", where=label, hint=_EXPECTED)
    scores = _Collector()
    remarks: list[str] = []
    _, first_row = rows[0]
    column_names = {name.lower() for name in first_row}
    if "metric" in column_names or "value" in column_names:
        for where, row in rows:
            _add_score(scores, row, where)
    else:
        table = [_TableRow.of(where, row) for where, row in rows]
        metrics = _metric_columns(table, named, label, remarks)
        ids = _sample_ids(table, golden)
        for sample_id, sample_row in zip(ids, table, strict=True):
            _add_row(scores, sample_row, sample_id, metrics)
    if len(scores.samples) > MAX_SAMPLES:
        raise ConfigError(
            f"has scores of {len(scores.samples):,} samples, more than {MAX_SAMPLES:,}.",
            where=label,
            hint="Split the file, and compare each part by itself.",
        )
    for sample in golden or ():
        if sample.id in scores.samples or sample.bounds:
            scores.samples[sample.id] = SampleFacts.of(sample)
    return RunScores(label, scores.metrics, scores.samples, remarks=tuple(remarks))


def _add_score(scores: _Collector, row: Mapping[str, object], where: str) -> None:
    """Add the score of a row `id, metric, value[, group]`."""
    by_name = _with_fields(row, ("id", "metric", "value"), where, _EXPECTED)
    sample_id = _text(by_name["id"], "id", where)
    metric = _text(by_name["metric"], "metric", where)
    group = None
    if by_name.get("group") not in (None, ""):
        group = _text(by_name["group"], "group", where)
    scores.add(metric, sample_id, by_name["value"], where, group=group)


def _add_row(
    scores: _Collector, row: _TableRow, sample_id: str, metrics: Iterable[str]
) -> None:
    """Add the scores of a sample: of the columns `metrics`, those that its row has."""
    for name in metrics:
        if name in row.values:
            scores.add(
                name.strip(),
                sample_id,
                row.values[name],
                f"{row.where}: column '{name}'",
                group=row.group,
                question=row.question,
            )


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


class _TableRow(Struct, frozen=True):
    """A row of a table with one sample per row, and what is known of the sample."""

    where: str
    values: Mapping[str, object]
    id: str | None
    question: str
    group: str | None

    @classmethod
    def of(cls, where: str, values: Mapping[str, object]) -> _TableRow:
        by_name = {normal(name): value for name, value in values.items()}

        def text_of(
            names: Iterable[str], read: Callable[[object], str | None] = cells.text
        ) -> str | None:
            for name in names:
                with suppress(cells.CellError):
                    text = read(by_name.get(name))
                    if text is not None:
                        return text
            return None

        question = text_of(FIELDS["question"].names, cells.question) or ""
        return cls(
            where,
            values,
            id=text_of(FIELDS["id"].names),
            question=" ".join(question.split()),
            group=text_of(FIELDS["group"].strong),
        )


def _metric_columns(
    rows: Sequence[_TableRow], named: Collection[str], label: str, remarks: list[str]
) -> list[str]:
    """The columns of scores; other columns of numbers get one of the `remarks`. Raises
    ConfigError without a column of scores."""
    metrics: list[str] = []
    number_columns: dict[str, list[float]] = {}
    for name in dict.fromkeys(name for row in rows for name in row.values):
        is_named = name.strip() in named or normal(name) in SCORES
        if is_named or find_metric(name) is not None:
            metrics.append(name)
        elif normal(name) not in _NO_METRICS:
            numbers = _numbers(row.values.get(name) for row in rows)
            if numbers:
                number_columns[name] = numbers
    if number_columns:
        names = some(list(number_columns))
        remarks.append(f"Columns of numbers that no rule names are left out: {names}.")
    if metrics:
        return metrics
    if not number_columns:
        raise ConfigError("'metric' is missing.", where=rows[0].where, hint=_EXPECTED)
    rules: list[str] = []
    for name, numbers in number_columns.items():
        if min(numbers) >= 0.0 and max(numbers) <= 1.0:
            key = json.dumps(name, ensure_ascii=False)
            rules.append(f"  [metrics.{key}]\n  min = 0.80")
    hint = "Scores are from 0 to 1: divide each by the maximum value of its metric."
    if rules:
        examples = "\n".join(rules[:3])
        hint = f"Write a rule for each metric in thresholds.toml, such as:\n{examples}"
    raise ConfigError(f"there is no verdict. {remarks[0]}", where=label, hint=hint)


def _numbers(values: Iterable[object]) -> list[float]:
    """The numbers of a column; none if it has any other value."""
    try:
        return [_as_number(value) for value in values if not _is_missing(value)]
    except (TypeError, ValueError, OverflowError):
        return []


def _sample_ids(rows: Sequence[_TableRow], golden: GoldenSet | None) -> list[str]:
    """The id of the sample in `golden` that each row is of: its own, or that of the same
    question. Without `golden`, its own, or one made of its question; several rows with
    one question are numbered. Raises ConfigError for a row of no sample."""
    known_ids: set[str] = set()
    ids_by_question: dict[str, list[str]] = {}
    for sample in golden or ():
        known_ids.add(sample.id)
        question = " ".join(sample.question.split())
        ids_by_question.setdefault(question, []).append(sample.id)
    rows_by_question: Counter[str] = Counter()
    ids: list[str] = []
    for row in rows:
        rows_by_question[row.question] += 1
        if row.id is not None and (golden is None or row.id in known_ids):
            ids.append(row.id)
        elif ids_by_question.get(row.question):
            ids.append(ids_by_question[row.question].pop(0))
        elif golden is None and row.question:
            sample_id = derived_id(row.question, None, ())
            count = rows_by_question[row.question]
            if count > 1:
                sample_id += f"-{count}"
            ids.append(sample_id)
        else:
            question = row.question or "it has no id and no question"
            raise ConfigError(
                f"the row is of no sample: {question[:80]!r}.",
                where=row.where,
                hint="Name the golden set that these scores are of with --golden, or give the rows its ids.",
            )
    return ids


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
            f"{label}: scores are {{metric: {{sample id: value}}}}, found {type(scores).__name__}."
        )
    collected = _Collector({str(metric): MetricScores({}) for metric in scores})
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
            collected.add(name, str(sample_id), value, where)
    return RunScores(label, collected.metrics, collected.samples)


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
