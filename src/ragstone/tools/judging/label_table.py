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
from ragstone.evaluation.run_files import replace_text
from ragstone.golden.cells import is_blank, to_number
from ragstone.golden.load import read_rows
from ragstone.printable import clean

MAX_LABELS_BYTES = 32 * 1024 * 1024
"""The largest file of labels that is read: some 300,000 labels without texts."""

MAX_CELL_CHARACTERS = 30_000
"""A longer text is cut in a table. Spreadsheets can't hold more than 32,767."""

PASS_MARK = 0.5
"""A score or label of this value or more counts as a pass, a lower one as a fail."""

SETTLED = "settled"
"""The name of the file, and so of its "annotator", with the labels that people agreed
on after they had disagreed. They decide."""

TEXTS = ("question", "answer", "reference", "contexts")
"""The columns with texts of a sample. A change in them has no effect."""

RESERVED_COLUMNS = ("id", "probability", "comment", "disagreement", *TEXTS)
"""Names of columns that no metric can have."""

_EXPECTED = "Expected a table of `ragstone label`, or one with id and a column for each metric, as CSV or JSON Lines."
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "'")
"""A spreadsheet takes a cell that begins with one of these for a formula. With the
apostrophe, a cell that has one of its own can be read back."""

_MAX_SHOWN_CHARACTERS = 80

_LABEL_BY_WORD = {
    **dict.fromkeys(("pass", "true", "yes", "good", "correct"), 1.0),
    **dict.fromkeys(("fail", "false", "no", "bad", "wrong"), 0.0),
}


def write_table(
    path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, str]]
) -> None:
    """Write a CSV file for spreadsheets: in UTF-8 with a byte order mark, and with
    nothing that they take for a formula."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, columns, restval="", lineterminator="\n")
    writer.writeheader()
    for row in rows:
        cells = {column: escape_formula(cell) for column, cell in row.items()}
        writer.writerow(cells)
    replace_text(path, "\N{BYTE ORDER MARK}" + stream.getvalue())


def refuse_existing(path: Path, hint: str) -> None:
    """Raise ConfigError with `hint` if `path` exists: people may have filled in the
    table."""
    if path.exists():
        raise ConfigError("already exists.", where=str(path), hint=hint)


def escape_formula(cell: str) -> str:
    """`cell`, with an apostrophe in front if a spreadsheet would take it for a
    formula."""
    return f"'{cell}" if cell.startswith(_FORMULA) else cell


def unescape_formula(cell: str) -> str:
    """`cell` without the apostrophe that `escape_formula` adds."""
    content = cell.removeprefix("'")
    is_escaped = content != cell and content.startswith(_FORMULA)
    return content if is_escaped else cell


def cell_text(text: str) -> str:
    """`text` for a cell: without invisible characters, and cut if it is too long for
    spreadsheets."""
    if len(text) > MAX_CELL_CHARACTERS:
        beginning = clean(text[:MAX_CELL_CHARACTERS])
        return f"{beginning}\n[cut: {len(text):,} characters]"
    return clean(text)


class Labels(Struct):
    """The labels that people gave to the answers of a run."""

    by_metric: dict[str, dict[str, dict[str, float]]] = {}
    """Metric → sample id → annotator → label in [0, 1]."""
    probabilities: dict[str, float] = {}
    """The probability with which each sample was drawn, by id; empty if all had the
    same one."""
    texts: dict[str, dict[str, str]] = {}
    """The texts that people saw, by sample id and column."""

    def mean(self, metric: str) -> dict[str, float]:
        """The label of each sample: the settled one, or the mean over annotators."""
        means = {}
        for sample_id, labels in self.by_metric[metric].items():
            mean = sum(labels.values()) / len(labels)
            means[sample_id] = labels.get(SETTLED, mean)
        return means

    def annotators(self, metric: str) -> tuple[str, ...]:
        """The sorted names of everyone who labelled `metric`, without `SETTLED`."""
        names = set(chain.from_iterable(self.by_metric[metric].values()))
        return tuple(sorted(names - {SETTLED}))


def label_files(paths: Sequence[Path]) -> list[Path]:
    """List the files of labels: each of `paths` that is a file, and every CSV file in
    each that is a folder. Raises ConfigError for a folder without any."""
    files = []
    for path in paths:
        tables = sorted(path.glob("*.csv")) if path.is_dir() else [path]
        if not tables:
            raise ConfigError(
                "has no CSV file of labels.",
                where=str(path),
                hint="Draw answers to label: ragstone label RUN",
            )
        files += tables
    return files


def read_labels(
    files: Sequence[Path],
    *,
    metrics: Collection[str],
    scale: tuple[float, float] = (0.0, 1.0),
) -> Labels:
    """Read the labels in `files`, each of which is named after its annotator.

    A file has a row for each answer, with its id and a column for each labelled metric
    of `metrics`, the metrics of the run. A label is a number within `scale` (mapped to
    [0, 1]), true or false, or one of pass/fail, yes/no, good/bad, correct/wrong; an
    empty cell is no label. Raises ConfigError with the line.
    """
    low, high = scale
    if not -math.inf < low < high < math.inf:
        raise ConfigError(
            f"a scale must go from the worst to the best value, got {low:g} to {high:g}.",
            hint="For example: --scale 1 5",
        )
    labels = Labels()
    for path in files:
        annotator = path.stem
        for where, row in read_rows(
            path, required=("id",), expected=_EXPECTED, max_bytes=MAX_LABELS_BYTES
        ):
            sample_id = unescape_formula(str(row["id"]))
            texts = {
                name: unescape_formula(str(row[name]))
                for name in TEXTS
                if row.get(name)
            }
            labels.texts.setdefault(sample_id, texts)
            # read_rows turns the names of columns into lower case.
            labelled_metrics = [name for name in metrics if name.lower() in row]
            if not labelled_metrics:
                names = ", ".join(sorted(metrics)) or "none"
                columns = ", ".join(row)[:200]
                raise ConfigError(
                    f"no column has labels: expected a metric of the run ({names}), found {columns}.",
                    where=where,
                    hint=_EXPECTED,
                )
            for name in labelled_metrics:
                cell = row[name.lower()]
                label = _read_label(cell, low, high, where)
                if label is None:
                    continue
                by_sample = labels.by_metric.setdefault(name, {})
                by_annotator = by_sample.setdefault(sample_id, {})
                if annotator in by_annotator:
                    raise ConfigError(
                        f"duplicate label of '{sample_id}' for '{name}'.",
                        where=where,
                        hint="Give each annotator a file, and each answer one row in it.",
                    )
                by_annotator[annotator] = label
                _add_probability(labels, sample_id, row.get("probability"), where)
    all_files = ", ".join(map(str, files))
    if not labels.by_metric:
        raise ConfigError("no answer has a label yet.", where=all_files, hint=_EXPECTED)
    labelled_ids = set[str]().union(*labels.by_metric.values())
    missing = labelled_ids - labels.probabilities.keys()
    if labels.probabilities and missing:
        raise ConfigError(
            f"'{min(missing)}' has no probability of being drawn, but other samples have one.",
            where=all_files,
            hint="Fill in the column 'probability' for every sample, or for none.",
        )
    distinct_probabilities = set(labels.probabilities.values())
    if len(distinct_probabilities) == 1:
        labels.probabilities = {}
    return labels


def _add_probability(labels: Labels, sample_id: str, cell: object, where: str) -> None:
    """Read the probability with which a sample was drawn, if `cell` has one. Raises
    ConfigError."""
    if is_blank(cell):
        return
    probability = to_number(cell)
    if not 0.0 < probability <= 1.0:
        text = str(cell)[:_MAX_SHOWN_CHARACTERS]
        raise ConfigError(
            f"a probability of being drawn must be above 0 and at most 1, found {text!r}.",
            where=where,
        )
    if labels.probabilities.setdefault(sample_id, probability) != probability:
        raise ConfigError(
            f"two different probabilities for '{sample_id}'.", where=where
        )


def _read_label(cell: object, low: float, high: float, where: str) -> float | None:
    """The label in [0, 1] that `cell` has, as a word or as a number from `low` to
    `high`; None if it is empty. Raises ConfigError."""
    if is_blank(cell):
        return None
    word = str(cell).strip().lower()
    if word in _LABEL_BY_WORD:
        return _LABEL_BY_WORD[word]
    value = to_number(cell)
    if low <= value <= high:
        return (value - low) / (high - low)
    text = str(cell)[:_MAX_SHOWN_CHARACTERS]
    raise ConfigError(
        f"a label must be a number from {low:g} to {high:g}, or pass or fail, found {text!r}.",
        where=where,
        hint="For another scale, use --scale WORST BEST, for example --scale 1 5.",
    )
