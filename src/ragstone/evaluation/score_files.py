"""Scores from other evaluators: one score per row, one sample per row, and plain
mappings."""

from __future__ import annotations

import codecs
import json
import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from ragstone.errors import ConfigError, GoldenSetError
from ragstone.evaluation.scores import MetricScores, RunScores, SampleFacts
from ragstone.formatting import counted, some
from ragstone.golden import cells
from ragstone.golden.aliases import FIELDS, NO_SCORES, RECORDED, SCORES, normal
from ragstone.golden.formats import delimited, json_text
from ragstone.golden.formats.registry import BY_ENDING
from ragstone.golden.load import table_rows
from ragstone.golden.reader import derived_id
from ragstone.golden.rows import MAX_FILE_BYTES, SourceFile
from ragstone.golden.sample import MAX_SAMPLES, GoldenSet
from ragstone.metrics.registry import find_metric
from ragstone.metrics.score import Failed

_HEAD_BYTES = 4096
ROUNDING = 1e-9
"""By so much a score may miss [0, 1], as a sum of floats does."""

_EMPTY = frozenset({"", "nan", "none", "null", "n/a", "na"})
_NO_SCORES = NO_SCORES | {
    name
    for table in (FIELDS, RECORDED)
    for one in table.values()
    for name in (*one.strong, *one.weak)
}
"""Columns of numbers that are none, though the numbers may be in [0, 1]."""

_REQUIRED = ("id", "metric", "value")


def read_score_file(
    path: str | Path,
    golden: GoldenSet | None = None,
    *,
    named: Collection[str] | None = None,
) -> RunScores:
    """The scores in `path`: JSON Lines, or a table in any format that a golden set may
    have.

    Either one `id, metric, value[, group]` per row, or one sample per row with a column
    for each metric, as ragas has it: the sample of `golden` with the same id, or else
    the same question, or else at the same place; without `golden`, it is known by its
    id or question. A column is a metric if its name is known, or `named` by a policy;
    without `named`, every column of numbers in [0, 1] is one. Values are in [0, 1]; an
    empty one, null or NaN is a failed score, which counts against coverage. A sample of
    `golden` with bounds of its own is in the run though no row is of it. Raises
    ConfigError with the line of the first error.
    """
    rows = read_rows(Path(path), required=(), expected=_EXPECTED)
    first = next(rows, None)
    if first is None:
        raise ConfigError("contains no scores.", where=str(path), hint=_EXPECTED)
    rows = chain([first], rows)
    scores = None
    if not {"metric", "value"} & {name.lower() for name in first[1]}:
        wide = list(rows)
        metrics, unnamed = _metric_columns([row for _, row in wide], named)
        if metrics:
            scores = _one_sample_per_row(wide, metrics, str(path), golden)
            scores = replace(scores, remarks=(*scores.remarks, *_left_out(unnamed)))
        elif unnamed:
            raise _no_metric(unnamed, str(path))
        rows = iter(wide)
    if scores is None:
        scores = _one_score_per_row(_with_fields(rows, _REQUIRED, _EXPECTED), str(path))
    if len(scores.samples) > MAX_SAMPLES:
        raise ConfigError(
            f"has scores of {len(scores.samples):,} samples, more than {MAX_SAMPLES:,}.",
            where=str(path),
            hint="Split the file, and compare each part by itself.",
        )
    facts = {
        sample.id: SampleFacts.of(sample)
        for sample in golden or ()
        if sample.id in scores.samples or sample.bounds
    }
    return replace(scores, samples={**scores.samples, **facts})


def read_rows(
    path: Path, *, required: Sequence[str], expected: str, limit: int = MAX_FILE_BYTES
) -> Iterator[tuple[str, Mapping[str, object]]]:
    """The rows of a file in any format of a golden set, each with its place
    (``scores.csv:12``).

    A file without an ending of these is JSON Lines, CSV or TSV. If there are fields
    `required`, every row has them, and all names are in lower case; empty cells are
    None. `expected` tells the user what a row looks like; `limit` is in bytes. Raises
    ConfigError.
    """
    source = SourceFile(path, str(path), limit=limit)
    try:
        if path.suffix.lower() in BY_ENDING:
            read = table_rows(source)
        else:
            read = (
                json_text.read_rows
                if _first_sign(source) in (b"{", b"[")
                else delimited.read_csv
            )(source)
        rows = ((source.at(row.line), row.values) for row in read)
        yield from _with_fields(rows, required, expected) if required else rows
    except GoldenSetError as error:
        raise ConfigError(error.message, where=error.where, hint=expected) from None


def _with_fields(
    rows: Iterable[tuple[str, Mapping[str, object]]],
    required: Sequence[str],
    expected: str,
) -> Iterator[tuple[str, Mapping[str, object]]]:
    for where, row in rows:
        values = {str(name).lower(): cell for name, cell in row.items()}
        for name in required:
            if name not in values:
                columns = ", ".join(map(repr, values))[:200]
                raise ConfigError(
                    f"'{name}' is missing, found: {columns}.",
                    where=where,
                    hint=expected,
                )
        yield where, values


def _metric_columns(
    rows: Sequence[Mapping[str, object]], named: Collection[str] | None
) -> tuple[list[str], dict[str, tuple[float, float]]]:
    """The columns of scores in a table with one sample per row, and the smallest and
    the largest number in each other column of numbers that could be scores."""
    metrics: list[str] = []
    unnamed: dict[str, tuple[float, float]] = {}
    for name in dict.fromkeys(str(name) for row in rows for name in row):
        if (
            normal(name) in SCORES
            or find_metric(name) is not None
            or name.strip() in (named or ())
        ):
            metrics.append(name)
            continue
        numbers = [
            _as_number(row[name])
            for row in rows
            if name in row and not _is_missing(row[name])
        ]
        if normal(name) in _NO_SCORES or not numbers or any(map(math.isnan, numbers)):
            continue
        limits = min(numbers), max(numbers)
        if named is None and limits[0] >= 0.0 and limits[1] <= 1.0:
            metrics.append(name)
        else:
            unnamed[name] = limits
    return metrics, unnamed


def _left_out(unnamed: Mapping[str, tuple[float, float]]) -> tuple[str, ...]:
    """A remark that names the columns of numbers that are no metric."""
    if not unnamed:
        return ()
    columns = [
        f"'{name}' ({least:g} to {largest:g})"
        for name, (least, largest) in unnamed.items()
    ]
    return (f"Columns of numbers that no rule names are left out: {some(columns)}.",)


def _no_metric(unnamed: Mapping[str, tuple[float, float]], label: str) -> ConfigError:
    in_range = [
        name
        for name, (least, largest) in unnamed.items()
        if least >= 0.0 and largest <= 1.0
    ]
    lines = [
        f"  [metrics.{json.dumps(name, ensure_ascii=False)}]\n  min = 0.80"
        for name in in_range[:3]
    ]
    rules = "Write a rule for each metric in thresholds.toml, such as:\n" + "\n".join(
        lines
    )
    return ConfigError(
        f"there is no verdict. {_left_out(unnamed)[0]}",
        where=label,
        hint=rules
        if lines
        else "Scores are from 0 to 1: divide each by the maximum value of its metric.",
    )


def _as_number(value: object) -> float:
    """`value` as a number, NaN if it is none."""
    try:
        return _clamped(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _is_missing(value: object) -> bool:
    if isinstance(value, str):
        return value.strip().lower() in _EMPTY
    return value is None or (isinstance(value, float) and math.isnan(value))


def _clamped(value: object) -> float:
    """`value` as a number ("85%" is 0.85), or the end of [0, 1] that it misses by a
    rounding error."""
    text = value.strip() if isinstance(value, str) else ""
    number = float(text[:-1]) / 100.0 if text.endswith("%") else float(value)  # type: ignore[arg-type]
    return (
        min(1.0, max(0.0, number)) if -ROUNDING <= number <= 1.0 + ROUNDING else number
    )


def _one_sample_per_row(
    rows: Sequence[tuple[str, Mapping[str, object]]],
    metrics: Sequence[str],
    label: str,
    golden: GoldenSet | None,
) -> RunScores:
    identities = [
        (where, _cell(row, "id"), " ".join((_cell(row, "question") or "").split()))
        for where, row in rows
    ]
    names, remarks = (
        _named(identities, label)
        if golden is None
        else _joined(identities, golden, label)
    )
    collected = _Collected(label)
    for (where, row), name in zip(rows, names, strict=True):
        group = _cell(row, "group")
        for metric in metrics:
            if metric in row:
                place = f"{where}: column '{metric}'"
                collected.add(
                    name, metric.strip(), _number(row[metric], place), group, place
                )
    scores, questions = (
        collected.scores(),
        {name: identity[2] for name, identity in zip(names, identities, strict=True)},
    )
    facts = {
        name: replace(facts, question=questions[name])
        for name, facts in scores.samples.items()
    }
    return replace(scores, samples=facts, remarks=remarks)


def _cell(row: Mapping[str, object], field: str) -> str | None:
    """The text of `row` under one of the names of `field`."""
    by_name = {normal(str(name)): value for name, value in row.items()}
    aliases = FIELDS[field]
    for name in (*aliases.strong, *(() if field == "group" else aliases.weak)):
        value = by_name.get(name)
        try:
            read = cells.question(value) if field == "question" else cells.text(value)
        except cells.CellError:
            continue
        if read is not None:
            return read
    return None


Asked = Sequence[tuple[str, str | None, str]]
"""Of each row its place, its id and its question."""


def _named(rows: Asked, label: str) -> tuple[list[str], tuple[str, ...]]:
    """A name of each row: its id, or else its question; of several rows with one
    question, with a number. And a remark if there are rows that have neither, which are
    known by their place alone."""
    names: list[str] = []
    times: Counter[str] = Counter()
    for number, (_, name, question) in enumerate(rows, start=1):
        if name is None:
            name = derived_id(question, None, ()) if question else f"row {number}"
            times[name] += 1
            name = f"{name}-{times[name]}" if times[name] > 1 else name
        names.append(name)
    placed = any(name is None and not question for _, name, question in rows)
    remark = f"{label}: there are rows without an id and a question, so they are compared by their place."
    return names, (remark,) if placed else ()


def _joined(
    rows: Asked, golden: GoldenSet, label: str
) -> tuple[list[str], tuple[str, ...]]:
    """The id of the sample in `golden` that each row is of, and a remark if that is
    known by its place alone."""
    ids = {sample.id for sample in golden}
    listed: dict[str, list[str]] = {}
    for sample in golden:
        listed.setdefault(" ".join(sample.question.split()), []).append(sample.id)
    of = {question: iter(same) for question, same in listed.items()}
    matches = [
        name if name in ids else next(of.get(question_text, iter(())), None)
        for _, name, question_text in rows
    ]
    names = [name for name in matches if name is not None]
    if len(names) == len(rows):
        return names, ()
    if (
        not names
        and len(rows) == len(golden)
        and not any(question for _, _, question in rows)
    ):
        remark = f"{label}: its rows have no ids of the golden set and no questions, so each is read as the sample at"
        return [sample.id for sample in golden], (
            f"{remark} its place: row 1 is '{golden[0].id}'.",
        )
    where, name, question = rows[matches.index(None)]
    raise ConfigError(
        f"{len(rows) - len(names)} of {counted(len(rows), 'row')} are of no sample of the golden set, first "
        f"{(question or name or 'one without id and question')[:80]!r}.",
        where=where,
        hint="Name the golden set that these scores are of with --golden, or give the rows its ids.",
    )


def _first_sign(source: SourceFile) -> bytes:
    try:
        with source.open() as stream:
            return stream.read(_HEAD_BYTES).removeprefix(codecs.BOM_UTF8).lstrip()[:1]
    except OSError as error:
        raise source.unreadable(error) from None


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
    collected = _Collected(label)
    for metric, values in scores.items():
        if not isinstance(values, Mapping):
            raise ConfigError(
                f"{label}: '{metric}' must map sample ids to values, found {type(values).__name__}."
            )
        collected.declare(_text(metric, "metric", label))
        for sample_id, value in values.items():
            where = f"{label}: metric '{metric}', sample '{sample_id}'"
            collected.add(
                str(sample_id),
                str(metric),
                _number(value, where, strict=True),
                None,
                where,
            )
    return collected.scores()


_EXPECTED = (
    'Expected lines such as {"id": "q1", "metric": "faithfulness", "value": 0.9}, or CSV with that header; or a table '
    "with one sample per row, with its id or question and a column for each metric."
)


class _Collected:
    """Scores as they come in, each sample and metric once."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._values: dict[str, dict[str, float]] = {}
        self._failed: dict[str, dict[str, Failed]] = {}
        self._groups: dict[str, str | None] = {}

    def declare(self, metric: str) -> None:
        self._values.setdefault(metric, {})
        self._failed.setdefault(metric, {})

    def add(
        self,
        sample_id: str,
        metric: str,
        value: float | None,
        group: str | None,
        where: str,
    ) -> None:
        self.declare(metric)
        if sample_id in self._values[metric] or sample_id in self._failed[metric]:
            raise ConfigError(
                f"duplicate value of '{metric}' for sample '{sample_id}'.", where=where
            )
        group_before = self._groups.setdefault(sample_id, group)
        if group is not None and group_before is None:
            self._groups[sample_id] = group
        elif group is not None and group_before != group:
            raise ConfigError(
                f"sample '{sample_id}' is in group '{group}' here, but was in '{group_before}'.",
                where=where,
            )
        if value is None:
            self._failed[metric][sample_id] = Failed("judge", "no value was given")
        else:
            self._values[metric][sample_id] = value

    def scores(self) -> RunScores:
        return RunScores(
            label=self._label,
            metrics={
                metric: MetricScores(values, failed=self._failed[metric])
                for metric, values in self._values.items()
            },
            samples={
                sample_id: SampleFacts(group=group)
                for sample_id, group in self._groups.items()
            },
        )


def _one_score_per_row(
    rows: Iterator[tuple[str, Mapping[str, object]]], label: str
) -> RunScores:
    collected = _Collected(label)
    for where, row in rows:
        group = row.get("group")
        collected.add(
            _text(row["id"], "id", where),
            _text(row["metric"], "metric", where),
            _number(row["value"], where),
            None if group in (None, "") else _text(group, "group", where),
            where,
        )
    return collected.scores()


_NO_VALUE = (
    "Leave the row out if the metric does not apply. Use null, or an empty cell, if scoring failed: that counts "
    "against coverage."
)


def _number(value: object, where: str, *, strict: bool = False) -> float | None:
    """The score in `value`; None if it is missing. `strict`: only None is."""
    if _is_missing(value) and not (strict and value is not None):
        return None
    if isinstance(value, bool):
        return float(value)
    try:
        number = _clamped(value)
    except (TypeError, ValueError, OverflowError):
        raise ConfigError(
            f"a score must be a number in [0, 1], found {str(value)[:80]!r}.",
            where=where,
            hint=_NO_VALUE,
        ) from None
    if not math.isfinite(number):
        raise ConfigError(
            f"a score must be a number in [0, 1], found {number}.",
            where=where,
            hint=_NO_VALUE,
        )
    if not 0.0 <= number <= 1.0:
        raise ConfigError(
            f"a score must be in [0, 1], found {number:g}.",
            where=where,
            hint="Divide by the maximum value of the metric.",
        )
    return number


def _text(value: object, field: str, where: str) -> str:
    if (
        isinstance(value, bool)
        or not isinstance(value, str | int)
        or not str(value).strip()
    ):
        raise ConfigError(
            f"'{field}' must be a non-empty string, found {str(value)[:80]!r}.",
            where=where,
        )
    return str(value)
