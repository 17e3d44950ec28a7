"""Scores from other evaluators: JSONL or CSV with `id, metric, value[, group]`, and plain mappings."""

from __future__ import annotations

import codecs
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ragstone.errors import ConfigError, GoldenSetError
from ragstone.golden.formats import delimited, json_text
from ragstone.golden.rows import MAX_FILE_BYTES, SourceFile
from ragstone.metrics.score import Failed
from ragstone.run.scores import MetricScores, RunScores, SampleFacts

_HEAD_BYTES = 4096
_REQUIRED = ("id", "metric", "value")


def read_score_file(path: str | Path) -> RunScores:
    """The scores in `path`, one `id, metric, value[, group]` per line: JSON Lines, or CSV or TSV with a header.

    The format is detected from the first character. Values are in [0, 1]; an empty or null value is a failed score,
    which counts against coverage. Raises ConfigError with the line of the first error.
    """
    scores = _collect(read_rows(Path(path), required=_REQUIRED, expected=_EXPECTED), str(path))
    if not scores.samples:
        raise ConfigError("contains no scores.", where=str(path), hint=_EXPECTED)
    return scores


def read_rows(
    path: Path, *, required: Sequence[str], expected: str, limit: int = MAX_FILE_BYTES
) -> Iterator[tuple[str, Mapping[str, object]]]:
    """The rows of a JSON Lines, CSV or TSV file, each with its place (``scores.csv:12``).

    Every row has the fields `required`; cells of a table are strings, None if empty, and the names of its columns are
    in lower case. `expected` tells the user what a row looks like; `limit` is in bytes. Raises ConfigError.
    """
    source = SourceFile(path, str(path), limit=limit)
    try:
        is_json = _first_sign(source) in (b"{", b"[")
        for row in json_text.read_rows(source) if is_json else delimited.read_csv(source):
            values = row.values if is_json else {name.lower(): cell for name, cell in row.values.items()}
            for name in required:
                if name not in values:
                    found = ", ".join(map(repr, values))[:200]
                    raise ConfigError(f"'{name}' is missing, found: {found}.", where=source.at(row.line), hint=expected)
            yield source.at(row.line), values
    except GoldenSetError as error:
        raise ConfigError(error.message, where=error.where, hint=expected) from None


def _first_sign(source: SourceFile) -> bytes:
    try:
        with source.open() as stream:
            return stream.read(_HEAD_BYTES).removeprefix(codecs.BOM_UTF8).lstrip()[:1]
    except OSError as error:
        raise source.unreadable(error) from None


def scores_from_mapping(scores: Mapping[str, Mapping[str, float | None]], *, label: str = "scores") -> RunScores:
    """The run that ``{metric: {sample_id: value}}`` describes.

    Values are in [0, 1]; None is a failed score, which counts against coverage; where a metric does not apply to a
    sample, the sample is left out. `label` names the run in messages. Raises ConfigError for anything else.
    """
    if not isinstance(scores, Mapping):
        raise ConfigError(
            f"{label}: scores are {{metric: {{sample id: value}}}}, found {type(scores).__name__}.", hint=None
        )
    collected = _Collected(label)
    for metric, values in scores.items():
        if not isinstance(values, Mapping):
            raise ConfigError(f"{label}: '{metric}' must map sample ids to values, found {type(values).__name__}.")
        collected.declare(_text(metric, "metric", label))
        for sample_id, value in values.items():
            where = f"{label}: metric '{metric}', sample '{sample_id}'"
            collected.add(str(sample_id), str(metric), _number(value, where), None, where)
    return collected.scores()


_EXPECTED = 'Expected lines such as {"id": "q1", "metric": "faithfulness", "value": 0.9}, or CSV with that header.'


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

    def add(self, sample_id: str, metric: str, value: float | None, group: str | None, where: str) -> None:
        self.declare(metric)
        if sample_id in self._values[metric] or sample_id in self._failed[metric]:
            raise ConfigError(f"duplicate value of '{metric}' for sample '{sample_id}'.", where=where)
        known = self._groups.setdefault(sample_id, group)
        if group is not None and known is None:
            self._groups[sample_id] = group
        elif group is not None and known != group:
            raise ConfigError(f"sample '{sample_id}' is in group '{group}' here, but was in '{known}'.", where=where)
        if value is None:
            self._failed[metric][sample_id] = Failed("judge", "no value was given")
        else:
            self._values[metric][sample_id] = value

    def scores(self) -> RunScores:
        return RunScores(
            label=self._label,
            metrics={
                metric: MetricScores(values, failed=self._failed[metric]) for metric, values in self._values.items()
            },
            samples={sample_id: SampleFacts(group=group) for sample_id, group in self._groups.items()},
        )


def _collect(rows: Iterator[tuple[str, Mapping[str, object]]], label: str) -> RunScores:
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


def _number(value: object, where: str) -> float | None:
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if isinstance(value, bool):
        return float(value)
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise ConfigError(
            f"a score must be a number in [0, 1], found {str(value)[:80]!r}.", where=where, hint=_NO_VALUE
        ) from None
    if not math.isfinite(number):
        raise ConfigError(f"a score must be a number in [0, 1], found {number}.", where=where, hint=_NO_VALUE)
    if not 0.0 <= number <= 1.0:
        raise ConfigError(
            f"a score must be in [0, 1], found {number:g}.",
            where=where,
            hint="Divide by the maximum value of the metric.",
        )
    return number


def _text(value: object, field: str, where: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
        raise ConfigError(f"'{field}' must be a non-empty string, found {str(value)[:80]!r}.", where=where)
    return str(value)
