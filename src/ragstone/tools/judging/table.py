"""Labels as a table: one CSV file per annotator, filled in by a spreadsheet, an editor
or the page, and read back."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path

from msgspec import Struct

from ragstone.errors import ConfigError
from ragstone.evaluation.files import replace_text
from ragstone.golden.cells import is_blank, number
from ragstone.golden.load import read_rows
from ragstone.printable import clean

MAX_LABELS_BYTES = 32 * 1024 * 1024
"""Maximum size of a file of labels: some 300,000 labels without texts."""

MAX_CELL = 30_000
"""Characters of a text in a table. Spreadsheets break cells of more than 32,767."""

PASS_MARK = 0.5
"""From this value on, a score or label counts as a pass when the two are compared as
pass or fail."""

SETTLED = "settled"
"""The annotator of labels that people agreed on after they had disagreed: the name of a
file of these."""

TEXTS = ("question", "answer", "reference", "contexts")
"""Columns for people, which are not read back."""

OWN_COLUMNS = ("id", "probability", "comment", "disagreement", *TEXTS)
"""Columns that are no metrics."""

_EXPECTED = "Expected a table of `ragstone label`, or one with id and a column for each metric, as CSV or JSON Lines."
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "'")
"""A spreadsheet would calculate a cell that begins like this."""
_WORDS = {
    **dict.fromkeys(("pass", "true", "yes", "good", "correct"), 1.0),
    **dict.fromkeys(("fail", "false", "no", "bad", "wrong"), 0.0),
}


def write_table(
    path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, str]]
) -> None:
    """Write a CSV file that spreadsheets read as it is: UTF-8 with a mark, and no text
    as a formula."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, columns, restval="", lineterminator="\n")
    writer.writeheader()
    for row in rows:
        cells = {column: as_text(cell) for column, cell in row.items()}
        writer.writerow(cells)
    replace_text(path, "\N{BYTE ORDER MARK}" + stream.getvalue())


def refuse_existing(path: Path, hint: str) -> None:
    """Raise ConfigError, with what to do, rather than have a table overwritten that
    people may have filled in."""
    if path.exists():
        raise ConfigError("already exists.", where=str(path), hint=hint)


def as_text(cell: str) -> str:
    """`cell` with an apostrophe in front if a spreadsheet would take it for a
    formula."""
    return f"'{cell}" if cell.startswith(_FORMULA) else cell


def from_text(cell: str) -> str:
    """`cell` without the apostrophe of `as_text`."""
    content = cell.removeprefix("'")
    is_marked = content != cell and content.startswith(_FORMULA)
    return content if is_marked else cell


def shown_text(text: str) -> str:
    """`text` for a cell: nothing invisible in it, and cut where spreadsheets break
    it."""
    if len(text) > MAX_CELL:
        beginning = clean(text[:MAX_CELL])
        return f"{beginning}\n[cut: {len(text):,} characters]"
    return clean(text)


class Labels(Struct):
    """Human labels: metric → sample id → annotator → label in [0, 1].

    `probabilities` are those with which the samples were drawn, by id; empty if all had
    the same. `texts` are the texts that people saw, by id and column.
    """

    by_metric: dict[str, dict[str, dict[str, float]]] = {}
    probabilities: dict[str, float] = {}
    texts: dict[str, dict[str, str]] = {}

    def mean(self, metric: str) -> dict[str, float]:
        """The label of each sample: the settled one, else the mean over annotators."""
        means = {}
        for sample_id, labels in self.by_metric[metric].items():
            mean = sum(labels.values()) / len(labels)
            means[sample_id] = labels.get(SETTLED, mean)
        return means

    def annotators(self, metric: str) -> tuple[str, ...]:
        """The sorted names of everyone who labelled `metric`; settled labels are
        nobody's own."""
        names = set(chain.from_iterable(self.by_metric[metric].values()))
        return tuple(sorted(names - {SETTLED}))


def label_files(places: Sequence[Path]) -> list[Path]:
    """The files of labels in `places`: each file, and every CSV file of a folder.
    Raises ConfigError."""
    files = []
    for place in places:
        tables = sorted(place.glob("*.csv")) if place.is_dir() else [place]
        if not tables:
            raise ConfigError(
                "has no CSV file of labels.",
                where=str(place),
                hint="Draw one: ragstone label RUN",
            )
        files += tables
    return files


def read_labels(
    files: Sequence[Path],
    *,
    measured: Collection[str],
    scale: tuple[float, float] = (0.0, 1.0),
) -> Labels:
    """The labels in `files`, each of which is of one annotator, whose name is the
    file's.

    A file has a row per answer, with its id and a column for each of the metrics that
    were `measured`. A label is a number within `scale` (mapped to [0, 1]), true or
    false, or one of pass/fail, yes/no, good/bad, correct/wrong; an empty one counts for
    nothing. Raises ConfigError with the line.
    """
    low, high = scale
    if not -math.inf < low < high < math.inf:
        raise ConfigError(
            f"a scale must go from the worst to the best value, got {low:g} to {high:g}."
        )
    labels = Labels()
    for path in files:
        annotator = path.stem
        for where, row in read_rows(
            path, required=("id",), expected=_EXPECTED, limit=MAX_LABELS_BYTES
        ):
            sample_id = from_text(str(row["id"]))
            texts = {name: from_text(str(row[name])) for name in TEXTS if row.get(name)}
            labels.texts.setdefault(sample_id, texts)
            metrics = [name for name in measured if name.lower() in row]
            if not metrics:
                names = ", ".join(sorted(measured)) or "none"
                columns = ", ".join(row)[:200]
                raise ConfigError(
                    f"no column has labels: expected a metric of the run ({names}), found {columns}.",
                    where=where,
                    hint=_EXPECTED,
                )
            for name in metrics:
                cell = row[name.lower()]
                label = _label(cell, low, high, where)
                if label is None:
                    continue
                by_sample = labels.by_metric.setdefault(name, {})
                by_annotator = by_sample.setdefault(sample_id, {})
                if annotator in by_annotator:
                    raise ConfigError(
                        f"duplicate label of '{sample_id}' for '{name}'.",
                        where=where,
                        hint="A file is of one annotator.",
                    )
                by_annotator[annotator] = label
                _add_probability(labels, sample_id, row.get("probability"), where)
    places = ", ".join(map(str, files))
    if not labels.by_metric:
        raise ConfigError("no answer has a label yet.", where=places, hint=_EXPECTED)
    drawn = labels.probabilities
    labelled = set[str]().union(*labels.by_metric.values())
    missing = labelled - drawn.keys()
    if drawn and missing:
        raise ConfigError(
            f"'{min(missing)}' has no probability, but other samples have.",
            where=places,
            hint="Give the probability of being drawn for every sample, or for none.",
        )
    probabilities = set(drawn.values())
    if len(probabilities) < 2:
        labels.probabilities = {}  # all were drawn alike
    return labels


def _add_probability(labels: Labels, sample_id: str, cell: object, where: str) -> None:
    if is_blank(cell):
        return
    probability = number(cell)
    if not 0.0 < probability <= 1.0:
        shown = repr(str(cell)[:80])
        raise ConfigError(
            f"a probability of being drawn is above 0 and at most 1, found {shown}.",
            where=where,
        )
    if labels.probabilities.setdefault(sample_id, probability) != probability:
        raise ConfigError(
            f"two different probabilities for '{sample_id}'.", where=where
        )


def _label(cell: object, low: float, high: float, where: str) -> float | None:
    if is_blank(cell):
        return None
    word = str(cell).strip().lower()
    if word in _WORDS:
        return _WORDS[word]
    value = number(cell)
    if low <= value <= high:
        return (value - low) / (high - low)
    shown = str(cell)[:80]
    raise ConfigError(
        f"a label must be a number from {low:g} to {high:g}, or pass or fail, found {shown!r}.",
        where=where,
        hint="For another scale, use --scale WORST BEST, for example --scale 1 5.",
    )
