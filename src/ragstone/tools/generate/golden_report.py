"""`ragstone golden`: what is in a golden set, what in it needs a look, and what size of
loss it shows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from ragstone.golden.sample import GoldenSet, Sample
from ragstone.history.codes import sample_code
from ragstone.history.file import History
from ragstone.history.level import Look, incomparable, scores_of
from ragstone.metrics.registry import is_relative, lower_is_better
from ragstone.pipeline.plan import PlannedMetric
from ragstone.report.templates import render_text_template
from ragstone.tools.generate.documents import read_documents
from ragstone.tools.generate.near_duplicates import similar_pairs, words_of
from ragstone.tools.judging.table import PASS_MARK

MIN_RUNS = 5
"""Runs with scores of a question from which anything is said of it."""

MAX_RUNS = 200
"""The newest runs, which are read."""

_FLIPS = 3
_FLIP_SHARE = 0.2
"""A question flip-flops if it changed so often, and between this share of its runs and
the next one."""

_KNOWN = 0.5
"""If fewer of the ids match documents, their scheme is unknown, and nothing is said of
those that don't."""

_CHUNK = re.compile(r"[-_ ](?:chunk|part|page|section|p|c|s)?[-_ ]?\d+$")
_MAX_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Repeat:
    """Two samples whose questions say the same, or nearly; `similarity` is that of the
    wording, in [0, 1]."""

    first: str
    second: str
    similarity: float


@dataclass(slots=True)
class References:
    """How the references of a golden set agree with its documents."""

    documents: int
    missing_ids: list[tuple[str, str]]
    """Sample and relevant id, where no document has it."""
    ids_checked: bool
    """False if hardly any relevant id is that of a document, so that their scheme is
    unknown."""
    missing_passages: list[tuple[str, str]]
    """Sample and the start of a reference context whose words no document has in this
    order."""


@dataclass(slots=True)
class Records:
    """What the history of the main branch says of the questions, by id."""

    runs: int
    never_answered: list[str] = field(default_factory=list)
    always_answered: list[str] = field(default_factory=list)
    flip_flopped: list[tuple[str, int, int]] = field(default_factory=list)
    """Id, how often it changed, and of how many pairs of runs."""


@dataclass(frozen=True, slots=True)
class GoldenReport:
    """One report on a golden set. `shows` says which loss its samples show, by
    metric."""

    samples: int
    drafts: int
    unanswerable: int
    without_reference: int
    groups: int
    tags: dict[str, int]
    repeats: list[Repeat]
    references: References | None
    records: Records | None
    shows: tuple[PlannedMetric, ...]

    def json(self) -> dict[str, object]:
        document = asdict(self)
        document["shows"] = {row.metric: row.detectable for row in self.shows}
        return document

    def text(self) -> str:
        return render_text_template(
            "golden_report.txt.j2", __package__, report=self, shown=_MAX_SHOWN
        )


def golden_report(
    golden: GoldenSet,
    shows: Sequence[PlannedMetric],
    *,
    corpus: Path | None = None,
    history: History | None = None,
) -> GoldenReport:
    """The report on `golden`, held against the documents in `corpus` and the runs in
    `history`. Raises ConfigError."""
    tags = Counter(tag for sample in golden for tag in sample.tags or ("(no tag)",))
    ids = [sample.id for sample in golden]
    pairs = similar_pairs([_wording(sample) for sample in golden])
    repeats = [
        Repeat(ids[pair.first], ids[pair.second], pair.similarity)
        for pair in pairs
        if not _counts_as_one(golden[pair.first], golden[pair.second], pair.similarity)
    ]
    return GoldenReport(
        samples=len(golden),
        drafts=sum(sample.draft for sample in golden),
        unanswerable=sum(not sample.answerable for sample in golden),
        without_reference=sum(
            sample.answerable and not sample.reference for sample in golden
        ),
        groups=len({sample.group for sample in golden if sample.group is not None}),
        tags=dict(sorted(tags.items(), key=lambda item: (-item[1], item[0]))),
        repeats=repeats,
        references=None if corpus is None else check_references(golden.samples, corpus),
        records=None if history is None else records_of(history, golden),
        shows=tuple(shows),
    )


def _counts_as_one(first: Sample, second: Sample, similarity: float) -> bool:
    """Whether a golden set already says that two samples are related: the gate counts
    them as one.

    The same question twice in a group is repeated all the same, unless a conversation
    comes back to it.
    """
    if first.group is None or first.group != second.group:
        return False
    return similarity < 1.0 or (first.turn is not None and second.turn is not None)


def _wording(sample: Sample) -> str:
    """The question, after what the user said before it: in a conversation, the same
    words may ask something else."""
    earlier = [message.text for message in sample.history if message.role == "user"]
    return " ".join([*earlier, sample.question])


def check_references(samples: Sequence[Sample], corpus: Path) -> References:
    """Compare `relevant_ids` and `reference_contexts` with the documents in `corpus`.
    Raises ConfigError."""
    documents = read_documents([corpus]).texts
    stems = set(map(_stem, documents))
    words = "\n".join(f" {words_of(text)} " for text in documents.values())
    ids = [
        (sample.id, name)
        for sample in samples
        for name, grade in sample.relevant_ids.items()
        if grade > 0.0
    ]
    missing = [
        (sample_id, name)
        for sample_id, name in ids
        if stems.isdisjoint((_stem(name), _document(name)))
    ]
    is_known = len(missing) <= (1.0 - _KNOWN) * len(ids)
    references = References(len(documents), missing if is_known else [], is_known, [])
    for sample in samples:
        for text in sample.reference_contexts:
            passage = words_of(text)
            if passage and f" {passage} " not in words:
                references.missing_passages.append(
                    (sample.id, " ".join(text.split())[:100])
                )
    return references


def _stem(name: str) -> str:
    """The name of a document without folder, extension and section: ``travel`` of
    ``docs/Travel.md#allowance``."""
    return PurePosixPath(re.split(r"[#:@?|]", name.casefold())[0]).stem


def _document(name: str) -> str:
    """The stem of the document that a chunk is of: ``travel`` of ``travel-chunk-4``."""
    return _CHUNK.sub("", _stem(name))


def records_of(history: History, golden: GoldenSet) -> Records:
    """What happened to each sample that counts, in the runs with the newest run's judge
    and metrics.

    A question is answered in a run if none of its scores there is below 0.5 (above,
    where less is better).
    """
    samples = [sample for sample in golden if not sample.draft]
    looks = [
        Look(line, history.samples[line.samples])
        for line in history.gated
        if line.samples
    ][-MAX_RUNS:]
    worst = _worst_scores(
        looks, [sample_code(sample.id, sample.content_hash()) for sample in samples]
    )
    records = Records(len(looks))
    for sample, scores in zip(samples, worst.T, strict=True):
        answered = scores[np.isfinite(scores)] >= PASS_MARK
        flips = int(np.sum(answered[1:] != answered[:-1]))
        if len(answered) < MIN_RUNS:
            continue
        if answered.all():
            records.always_answered.append(sample.id)
        elif not answered.any():
            records.never_answered.append(sample.id)
        elif flips >= max(_FLIPS, _FLIP_SHARE * (len(answered) - 1)):
            records.flip_flopped.append((sample.id, flips, len(answered) - 1))
    records.flip_flopped.sort(key=lambda record: -record[1] / record[2])
    return records


def _worst_scores(looks: Sequence[Look], codes: Sequence[str]) -> NDArray[np.float64]:
    """The lowest score (runs, samples) over the metrics that are comparable with the
    newest run; NaN without one."""
    worst = np.full((len(looks), len(codes)), np.nan)
    if not looks:
        return worst
    newest = looks[-1].line
    for metric in sorted(newest.scores):
        if is_relative(metric):
            continue
        rows = [
            row
            for row, look in enumerate(looks)
            if incomparable(look.line, newest, metric) is None
        ]
        scores = scores_of([looks[row] for row in rows], codes, metric)
        worst[rows] = np.fmin(
            worst[rows], 1.0 - scores if lower_is_better(metric) else scores
        )
    return worst
