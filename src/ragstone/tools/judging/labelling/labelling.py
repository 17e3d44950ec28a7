"""Labels by people: draw a batch of a run's answers, make the pages, and merge what comes back."""

from __future__ import annotations

import hashlib
import json
import math
import random
import re
import tomllib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from ragstone.errors import ConfigError, disk_errors, suggestion
from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.files import replace_text, writing_to
from ragstone.evaluation.record import SampleRecord
from ragstone.evaluation.scores import RunScores
from ragstone.files import refuse_link
from ragstone.formatting import counted, score
from ragstone.judge.judgements import Statement, StatementList
from ragstone.metrics.registry import find_metric
from ragstone.report.templates import read_template, render_text_template
from ragstone.stats.agreement import Agreement, cohen_kappa, fleiss_kappa, krippendorff_alpha
from ragstone.stats.sampling import inclusion_probabilities, systematic_sample
from ragstone.tools.judging.labelling.page import (
    LabellingPage,
    PageItem,
    PageMetric,
    SavedFile,
    SavedRow,
    read_saved,
    render_labelling,
)
from ragstone.tools.judging.labels import ADJUDICATED

By = Literal["random", "uncertainty", "disagreement"]
Scale = Literal["pass-fail", "1-5", "statements"]

BATCH = "batch.json"
LABELS = "labels.jsonl"
_MIN_SHARE = 0.2
"""The share of its size that every answer has, so that no probability of being drawn gets small."""
_FAR = 2
"""From this difference on a scale of 1 to 5, two people disagree."""
_NAME = re.compile(r"[\w][\w.-]{0,63}")
_SCALES: Mapping[Scale, tuple[Literal["nominal", "ordinal", "interval"], Literal["none", "quadratic"]]] = {
    "pass-fail": ("nominal", "none"),
    "1-5": ("ordinal", "quadratic"),
    "statements": ("interval", "quadratic"),
}
"""The level of Krippendorff's alpha, and the weights of Cohen's kappa."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class BatchItem(_Part):
    """A sample of a batch: the probability with which it was drawn, and who labels it."""

    id: str
    probability: float = Field(gt=0.0, le=1.0, allow_inf_nan=False)
    annotators: tuple[str, ...]
    statements: int = Field(default=0, ge=0, description="if labelled one by one; 0 if the answer has none")


class Batch(_Part):
    """The content of batch.json: what was drawn from which run, and how."""

    schema_version: Literal[1] = 1
    key: str
    run: str
    by: By
    scale: Scale
    metrics: tuple[str, ...] = Field(min_length=1)
    population: int
    annotators: tuple[str, ...] = Field(min_length=1)
    items: tuple[BatchItem, ...] = Field(min_length=1)

    @property
    def keys(self) -> dict[str, str]:
        """What pages call the samples, by id: a page must not show a key that is in an id."""
        return {item.id: str(number) for number, item in enumerate(self.items, 1)}

    def of(self, annotator: str) -> tuple[BatchItem, ...]:
        return tuple(item for item in self.items if annotator in item.annotators)


_Value = Annotated[
    Literal["pass", "fail"] | Annotated[int, Field(ge=1, le=5)] | dict[str, bool], Field(union_mode="smart")
]


class _Row(SavedRow):
    labels: dict[str, _Value] = Field(default_factory=dict)


class _Saved(SavedFile):
    ragstone: Literal["label"]
    batch: str
    rows: tuple[_Row, ...]


def draw_batch(
    run: RunDirectory,
    *,
    n: int | None,
    annotators: Sequence[str],
    overlap: int = 0,
    by: By = "random",
    scale: Scale = "pass-fail",
    metrics: Sequence[str] = (),
    seed: int = 0,
) -> Batch:
    """Draw `n` answered samples of `run` (None: all), and assign them: `overlap` of them to everyone, the rest evenly.

    By uncertainty, answers with scores near the middle are drawn more often; by disagreement, those on which judging
    rounds or answers differ. The probability of each is kept, so that estimates can allow for it. Raises ConfigError.
    """
    scores = run.scores()
    names = _metrics(scores, metrics)
    if len(set(annotators)) != len(annotators) or not annotators:
        raise ConfigError("name each annotator once.", hint="--annotators anna,ben")
    for name in annotators:
        if not _NAME.fullmatch(name) or name in {ADJUDICATED, "batch"}:
            raise ConfigError(f"'{name}' can't be an annotator's name.", hint="Use letters, digits, '.', '-' and '_'.")
    ids = sorted(
        name
        for name in scores.samples
        if name not in scores.system.failures and any(name in scores.metrics[metric].values for metric in names)
    )
    if not ids:
        raise ConfigError("has no scored answers to label.", where=str(run.path))
    size = len(ids) if n is None else n
    if not 0 < size <= len(ids) or not 0 <= overlap <= size:
        raise ConfigError(
            f"can't draw {size} of {counted(len(ids), 'scored answer')} with an overlap of {overlap}.",
            hint="--n is at most the number of answers, --overlap at most --n.",
        )
    shares = inclusion_probabilities(np.array([_size(scores, names, name, by) for name in ids]), size)
    if by == "disagreement" and not any(_spread(scores, names, name) for name in ids):
        raise ConfigError(
            "no judging rounds or answers disagree in this run.",
            where=str(run.path),
            hint="Judge several times with RAGSTONE_REPEATS=3, or draw by uncertainty.",
        )
    drawn = systematic_sample(shares, seed=seed).tolist()
    rng = random.Random(seed)  # noqa: S311 - fair, not secret
    rng.shuffle(drawn)
    everyone = tuple(annotators)
    items = [
        BatchItem(
            id=ids[position],
            probability=min(1.0, float(shares[position])),
            annotators=everyone if place < overlap else (everyone[place % len(everyone)],),
        )
        for place, position in enumerate(drawn)
    ]
    if scale == "statements":
        counts = {name: len(_statements(one)) for name, one in run.find(one.id for one in items).items()}
        items = [one.model_copy(update={"statements": counts[one.id]}) for one in items]
    body = json.dumps([run.fingerprint, by, scale, names, [item.model_dump() for item in items]])
    return Batch(
        key=hashlib.sha256(body.encode()).hexdigest()[:16],
        run=run.fingerprint,
        by=by,
        scale=scale,
        metrics=names,
        population=len(ids),
        annotators=everyone,
        items=tuple(items),
    )


def _metrics(scores: RunScores, wanted: Sequence[str]) -> tuple[str, ...]:
    for name in wanted:
        if name not in scores.metrics:
            raise ConfigError(f"the run has no metric '{name}'.", hint=suggestion(name, scores.metrics))
    scored = tuple(name for name, found in scores.metrics.items() if found.values)
    return tuple(wanted) or scored[:1]


def _size(scores: RunScores, metrics: Sequence[str], name: str, by: By) -> float:
    if by == "random":
        return 1.0
    if by == "disagreement":
        return _MIN_SHARE + (1.0 - _MIN_SHARE) * min(1.0, _spread(scores, metrics, name))
    values = [scores.metrics[metric].values[name] for metric in metrics if name in scores.metrics[metric].values]
    return _MIN_SHARE + (1.0 - _MIN_SHARE) * max((1.0 - abs(2.0 * value - 1.0) for value in values), default=0.0)


def _spread(scores: RunScores, metrics: Sequence[str], name: str) -> float:
    """The largest range of the readings of one metric, in [0, 1]."""
    found = 0.0
    for metric in metrics:
        readings = [value for one in scores.metrics[metric].readings.get(name, ()) for value in one]
        readings += [value for value in scores.metrics[metric].answers.get(name, ()) if value is not None]
        if readings:
            found = max(found, max(readings) - min(readings))
    return found


def write_batch(run: RunDirectory, batch: Batch, folder: Path, *, redact: Callable[[str], str] = str) -> list[Path]:
    """Write batch.json and a page for each annotator to `folder`; the pages. Raises ConfigError if it has a batch."""
    with disk_errors(folder, "can't be written"):
        refuse_link(folder)
    if (folder / BATCH).exists():
        raise ConfigError("already has a batch.", where=str(folder), hint="Use another folder, or remove this one.")
    with writing_to(folder):
        folder.mkdir(parents=True, exist_ok=True)
    records, keys = run.find(item.id for item in batch.items), batch.keys
    pages = []
    for annotator in batch.annotators:
        items = [_page_item(records[one.id], keys[one.id], redact) for one in batch.of(annotator)]
        random.Random(f"{batch.key} {annotator}").shuffle(items)  # noqa: S311 - an order of one's own
        pages.append(folder / f"{annotator}.html")
        replace_text(pages[-1], _page(batch, items, annotator, f"Labels by {annotator}"))
    replace_text(folder / BATCH, batch.model_dump_json(indent=1) + "\n")
    return pages


def _page(batch: Batch, items: Sequence[PageItem], annotator: str, title: str) -> str:
    return render_labelling(
        LabellingPage(
            kind="label",
            title=title,
            key=f"{batch.key}-{annotator}",
            items=tuple(items),
            metrics=tuple(_page_metric(name) for name in batch.metrics),
            scale=batch.scale,
            annotator=annotator,
            file=annotator,
            footer=f"Save the file, and put it beside {BATCH}. Then: ragstone label merge FOLDER",
        )
    )


def _page_metric(name: str) -> PageMetric:
    known, asked = find_metric(name), questions().get(name)
    hint = f"{asked['ask']}\nFor example: {asked['example']}" if asked else known.info.source if known else ""
    return PageMetric(name, known.info.title if known else name, hint)


@cache
def questions() -> dict[str, dict[str, str]]:
    """What a metric asks of a person, in two sentences (`ask`), and a labelled `example`, by the metric's name."""
    return tomllib.loads(read_template("questions.toml", "ragstone.tools.judging.labelling"))


def _page_item(
    record: SampleRecord,
    key: str,
    redact: Callable[[str], str],
    *,
    others: Mapping[str, tuple[str, ...]] | None = None,
) -> PageItem:
    sample, response = record.sample, record.response
    listed = _statements(record)
    return PageItem(
        key=key,
        name=redact(sample.id),
        question=redact(sample.question),
        answer=redact(response.answer),
        reference=redact(sample.reference or ""),
        contexts=tuple((redact(one.id) if one.id else None, redact(one.text)) for one in response.contexts),
        evidence=tuple(map(redact, sample.reference_contexts)),
        tags=tuple(map(redact, sample.tags)),
        statements=tuple((one.id, redact(one.text)) for one in listed),
        others=others or {},
    )


def _statements(record: SampleRecord) -> tuple[Statement, ...]:
    found = record.judgements[0].statements if record.judgements else None
    return found.statements if isinstance(found, StatementList) else ()


def read_batch(folder: Path) -> Batch:
    """The batch in `folder`. Raises ConfigError."""
    return read_saved(Batch, folder / BATCH, "Draw one with `ragstone label draw RUN`.", "a batch of answers to label")


@dataclass(frozen=True, slots=True)
class AnnotatorStatus:
    """How far an annotator is: `labelled` of `assigned` samples have a label for every metric."""

    annotator: str
    assigned: int
    labelled: int
    saved: bool


def batch_status(folder: Path) -> tuple[Batch, list[AnnotatorStatus]]:
    """Who has done what. Raises ConfigError for a file that can't be read or is of another batch."""
    batch = read_batch(folder)
    found = []
    for annotator in batch.annotators:
        saved = _saved(folder, batch, annotator)
        labels = _values(batch, saved) if saved is not None else {}
        assigned = [item.id for item in batch.of(annotator)]
        done = sum(all(name in labels.get(metric, {}) for metric in batch.metrics) for name in assigned)
        found.append(AnnotatorStatus(annotator, len(assigned), done, saved is not None))
    return batch, found


def _saved(folder: Path, batch: Batch, annotator: str) -> _Saved | None:
    path = folder / f"{annotator}.json"
    if not path.exists():
        return None
    saved = read_saved(_Saved, path, "Save it again from the page.")
    if saved.batch != f"{batch.key}-{annotator}" or saved.annotator != annotator:
        raise ConfigError(
            f"is a file of another batch or annotator ({saved.annotator}).",
            where=str(path),
            hint="Each page saves a file with the annotator's name: put those of this batch into its folder.",
        )
    keys = batch.keys
    known = {keys[item.id] for item in (batch.items if annotator == ADJUDICATED else batch.of(annotator))}
    for row in saved.rows:
        if row.key not in known:
            raise ConfigError(f"has a label of '{row.key}', which was not assigned to {annotator}.", where=str(path))
    names = {key: name for name, key in keys.items()}
    rows = tuple(row.model_copy(update={"key": names[row.key]}) for row in saved.rows)
    return saved.model_copy(update={"rows": rows})


def _values(batch: Batch, saved: _Saved) -> dict[str, dict[str, float]]:
    """Labels in [0, 1] by metric and sample. A label by statements counts when each statement has one."""
    found: dict[str, dict[str, float]] = defaultdict(dict)
    counts = {item.id: item.statements for item in batch.items}
    for row in saved.rows:
        for metric, value in row.labels.items():
            if metric in batch.metrics and (number := _number(value, counts[row.key])) is not None:
                found[metric][row.key] = number
    return found


def _number(value: _Value, statements: int) -> float | None:
    if isinstance(value, str):
        return float(value == "pass")
    if isinstance(value, dict):
        return sum(value.values()) / statements if statements and len(value) == statements else None
    return (value - 1) / 4.0


@dataclass(frozen=True, slots=True)
class MetricAgreement:
    """How well people agree on one metric: Cohen's kappa of each two, Fleiss' of all, Krippendorff's alpha."""

    metric: str
    twice: int
    cohen: tuple[tuple[str, str, Agreement], ...]
    fleiss: Agreement | None
    alpha: Agreement | None


@dataclass(frozen=True, slots=True)
class MergedLabels:
    """Merged labels: `rows` for `ragstone calibrate`; `open` are samples and metrics that people must still settle."""

    batch: Batch
    rows: tuple[dict[str, object], ...]
    agreement: tuple[MetricAgreement, ...]
    open: tuple[tuple[str, str, Mapping[str, float]], ...]
    adjudicated: int
    missing: tuple[AnnotatorStatus, ...]

    def labels(self, metric: str) -> int:
        return sum(row["metric"] == metric for row in self.rows)

    def text(self) -> str:
        return render_text_template("merged.txt.j2", __package__, merged=self, word=_word)


def merge_labels(folder: Path, *, confidence: float = 0.95, seed: int = 0) -> MergedLabels:
    """Merge the files that the pages of the batch in `folder` saved.

    All labels are in the rows, so that agreement is that of what people said. Where they disagree, the adjudicated
    label (`adjudicate.json`) is a row of its own, which decides. Raises ConfigError.
    """
    batch, status = batch_status(folder)
    given: dict[str, dict[str, dict[str, float]]] = {metric: defaultdict(dict) for metric in batch.metrics}
    comments: dict[tuple[str, str], str] = {}
    for annotator in batch.annotators:
        saved = _saved(folder, batch, annotator)
        if saved is None:
            continue
        for metric, own in _values(batch, saved).items():
            for name, value in own.items():
                given[metric][name][annotator] = value
        comments.update({(row.key, annotator): row.comment for row in saved.rows if row.comment.strip()})
    if not any(given.values()):
        raise ConfigError(
            "no annotator has saved a label yet.", where=str(folder), hint="Each page saves a file: put it here."
        )
    settled = _saved(folder, batch, ADJUDICATED)
    final = _values(batch, settled) if settled is not None else {}
    share = {item.id: item.probability for item in batch.items}
    rows: list[dict[str, object]] = []
    still_open = []
    for metric, by_id in given.items():
        for name in sorted(by_id):
            values = by_id[name]
            rows += [
                _label_row(name, metric, value, who, share[name], comments.get((name, who), ""))
                for who, value in values.items()
            ]
            label = final.get(metric, {}).get(name)
            if label is not None:
                rows.append(_label_row(name, metric, label, ADJUDICATED, share[name], ""))
            elif disagree(list(values.values()), batch.scale):
                still_open.append((name, metric, values))
    return MergedLabels(
        batch=batch,
        rows=tuple(rows),
        agreement=tuple(_agreement(batch, metric, by_id, confidence, seed) for metric, by_id in given.items()),
        open=tuple(still_open),
        adjudicated=sum(map(len, final.values())),
        missing=tuple(one for one in status if one.labelled < one.assigned),
    )


def _label_row(name: str, metric: str, label: float, who: str, share: float, comment: str) -> dict[str, object]:
    row: dict[str, object] = {"id": name, "metric": metric, "label": label, "annotator": who, "probability": share}
    return row | ({"comment": comment} if comment else {})


def disagree(values: Sequence[float], scale: Scale) -> bool:
    """Whether labels in [0, 1] of one answer differ so much that people have to settle them."""
    return len(values) > 1 and max(values) - min(values) >= (_FAR / 4.0 if scale == "1-5" else 1e-9)


def _agreement(
    batch: Batch, metric: str, by_id: Mapping[str, Mapping[str, float]], confidence: float, seed: int
) -> MetricAgreement:
    names = batch.annotators
    ids = sorted(by_id)
    table: NDArray[np.float64] = np.array(
        [[by_id[name].get(who, math.nan) for name in ids] for who in names], dtype=np.float64
    )
    twice = int(np.sum(np.sum(~np.isnan(table), axis=0) >= 2)) if ids else 0
    if twice == 0:
        return MetricAgreement(metric, 0, (), None, None)
    level, weights = _SCALES[batch.scale]
    pairs = []
    for (one, mine), (other, theirs) in combinations(zip(names, table, strict=True), 2):
        both = ~np.isnan(mine) & ~np.isnan(theirs)
        if both.any():
            kappa = cohen_kappa(mine[both], theirs[both], weights=weights, confidence=confidence, seed=seed)
            pairs.append((one, other, kappa))
    complete = len(names) > 2 and bool(np.any(~np.isnan(table).any(axis=0)))
    return MetricAgreement(
        metric,
        twice,
        tuple(pairs),
        fleiss_kappa(table, confidence=confidence, seed=seed) if complete else None,
        krippendorff_alpha(table, level=level, confidence=confidence, seed=seed),
    )


def write_adjudication(
    merged: MergedLabels, run: RunDirectory, folder: Path, *, redact: Callable[[str], str] = str
) -> Path:
    """Write the page on which people settle their disagreements; names are not shown. Raises ConfigError."""
    if run.fingerprint != merged.batch.run:
        raise ConfigError("is not the run that the batch was drawn from.", where=str(run.path))
    others: dict[str, dict[str, tuple[str, ...]]] = defaultdict(dict)
    for name, metric, values in merged.open:
        said = sorted(values.values())
        others[name][metric] = (
            f"{len(said)} labels: " + ", ".join(_word(value, merged.batch.scale) for value in said),
        )
    records, keys = run.find(others), merged.batch.keys
    items = [_page_item(records[name], keys[name], redact, others=said) for name, said in others.items()]
    path = folder / f"{ADJUDICATED}.html"
    replace_text(path, _page(merged.batch, items, ADJUDICATED, "Labels to settle"))
    return path


def _word(value: float, scale: Scale) -> str:
    if scale == "pass-fail":
        return "pass" if value == 1.0 else "fail"
    return f"{1 + 4 * value:.0f}" if scale == "1-5" else score(value)
