"""Labels by people: read from a file, and what they say of a sample."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ragstone.errors import ConfigError
from ragstone.evaluation.score_files import read_rows

MAX_LABELS_BYTES = 32 * 1024 * 1024
"""Maximum size of a file of labels, and of one that a labelling page saved: some 300,000 labels."""

PASS_MARK = 0.5
"""From this value on, a score or label counts as a pass when the two are compared as pass or fail."""

ADJUDICATED = "adjudicate"
"""The annotator of a label that people settled on after they had disagreed."""

_EXPECTED = 'Expected lines such as {"id": "q1", "metric": "faithfulness", "label": "pass"}, or CSV with that header.'
_WORDS = {
    **dict.fromkeys(("pass", "true", "yes", "good", "correct"), 1.0),
    **dict.fromkeys(("fail", "false", "no", "bad", "wrong"), 0.0),
}


@dataclass(frozen=True, slots=True)
class Labels:
    """Human labels: metric → sample id → annotator → label in [0, 1].

    `probabilities` are those with which labelled samples were drawn, by id; empty if all had the same.
    """

    by_metric: Mapping[str, Mapping[str, Mapping[str, float]]]
    probabilities: Mapping[str, float] = field(default_factory=dict)

    def mean(self, metric: str) -> dict[str, float]:
        """The label of each sample: the adjudicated one, else the mean over annotators."""
        found = self.by_metric[metric].items()
        return {i: each.get(ADJUDICATED, sum(each.values()) / len(each)) for i, each in found}

    def annotators(self, metric: str) -> tuple[str, ...]:
        """The sorted names of everyone who labelled `metric`; adjudicated labels are nobody's own."""
        return tuple(sorted({name for each in self.by_metric[metric].values() for name in each} - {ADJUDICATED}))


def read_labels(path: str | Path, *, metric: str | None = None, scale: tuple[float, float] = (0.0, 1.0)) -> Labels:
    """The labels in `path`.

    A label is a number within `scale` (mapped to [0, 1]), true or false, or one of pass/fail, yes/no, good/bad,
    correct/wrong. `metric` is for lines that name none. Raises ConfigError with the line.
    """
    low, high = scale
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ConfigError(f"a scale must go from the worst to the best value, got {low:g} to {high:g}.")
    found: dict[str, dict[str, dict[str, float]]] = {}
    shares: dict[str, float] = {}
    first = ""
    for where, row in read_rows(Path(path), required=("id", "label"), expected=_EXPECTED, limit=MAX_LABELS_BYTES):
        label = _label(row["label"], low, high, where)
        if label is None:
            continue
        name = _name(row, "metric", metric, where)
        sample_id = _name(row, "id", None, where)
        annotator = _name(row, "annotator", "", where)
        each = found.setdefault(name, {}).setdefault(sample_id, {})
        if annotator in each:
            who = f" by {annotator}" if annotator else ""
            raise ConfigError(
                f"duplicate label of '{sample_id}' for '{name}'{who}.",
                where=where,
                hint="If there were several annotators, name them in a field 'annotator'.",
            )
        each[annotator] = label
        first = first or where
        share = _probability(row.get("probability"), where)
        if share is not None and shares.setdefault(sample_id, share) != share:
            raise ConfigError(f"two different probabilities for '{sample_id}'.", where=where)
    labelled = {sample_id for by_id in found.values() for sample_id in by_id}
    if shares and labelled - shares.keys():
        raise ConfigError(
            f"'{min(labelled - shares.keys())}' has no probability, but other samples have.",
            where=first,
            hint="Give the probability of being drawn for every sample, or for none.",
        )
    if not found:
        raise ConfigError("contains no labels.", where=str(path), hint=_EXPECTED)
    return Labels(found, {} if len(set(shares.values())) < 2 else shares)


def _probability(value: object, where: str) -> float | None:
    if value is None or value == "":
        return None
    try:
        share = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        share = math.nan
    if not 0.0 < share <= 1.0:
        raise ConfigError(
            f"a probability of being drawn is above 0 and at most 1, found {str(value)[:80]!r}.", where=where
        )
    return share


def _name(row: Mapping[str, object], field: str, default: str | None, where: str) -> str:
    value = row.get(field)
    if value is None or value == "":
        if default is None:
            hint = "Name the metric in each line, or use --metric." if field == "metric" else _EXPECTED
            raise ConfigError(f"'{field}' is missing.", where=where, hint=hint)
        return default
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ConfigError(f"'{field}' must be a string, found {str(value)[:80]!r}.", where=where)
    return str(value)


def _label(value: object, low: float, high: float, where: str) -> float | None:
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, str) and value.strip().lower() in _WORDS:
        return _WORDS[value.strip().lower()]
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if math.isfinite(number) and low <= number <= high:
        return (number - low) / (high - low)
    hint = "For another scale, use --scale WORST BEST, for example --scale 1 5."
    raise ConfigError(
        f"a label must be a number from {low:g} to {high:g}, or pass or fail, found {str(value)[:80]!r}.",
        where=where,
        hint=hint,
    )
