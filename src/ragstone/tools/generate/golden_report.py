"""`ragstone golden`: what is in a golden set, what in it needs a run, and what size of
loss it shows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import numpy as np
from msgspec import Struct, to_builtins

from ragstone.golden.sample import GoldenSet, Sample
from ragstone.history.codes import sample_code
from ragstone.history.file import History
from ragstone.history.level import ScoredRun, incomparable, scores_of
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


class Repeat(Struct, frozen=True):
    """Two samples whose questions say the same, or nearly; `similarity` is that of the
    wording, in [0, 1]."""

    first: str
    second: str
    similarity: float


class References(Struct):
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


class Records(Struct):
    """What the history of the main branch says of the questions, by id."""

    runs: int
    never_answered: list[str] = []
    always_answered: list[str] = []
    flip_flopped: list[tuple[str, int, int]] = []
    """Id, how often it changed, and of how many pairs of runs."""


class GoldenReport(Struct, frozen=True):
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
        document: dict[str, object] = to_builtins(self)
        detectable = {row.metric: row.detectable for row in self.shows}
        document["shows"] = detectable
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
    tags = Counter[str]()
    wordings = []
    for sample in golden:
        tags.update(sample.tags or ("(no tag)",))
        # The question, after what the user said before it: in a conversation, the same
        # words may ask something else.
        texts = [message.text for message in sample.history if message.role == "user"]
        wording = " ".join([*texts, sample.question])
        wordings.append(wording)
    repeats = []
    for pair in similar_pairs(wordings):
        first = golden[pair.first]
        second = golden[pair.second]
        similarity = pair.similarity
        # The gate counts a group as one. The same question twice in it is repeated all
        # the same, unless a conversation comes back to it.
        counts_as_one = first.group is not None and first.group == second.group
        if not counts_as_one or (similarity >= 1.0 and first.turn is None):
            repeats.append(Repeat(first.id, second.id, similarity))
    groups = {sample.group for sample in golden if sample.group is not None}
    most_first = sorted(tags.items(), key=lambda item: (-item[1], item[0]))
    return GoldenReport(
        samples=len(golden),
        drafts=sum(sample.is_draft for sample in golden),
        unanswerable=sum(not sample.answerable for sample in golden),
        without_reference=sum(
            sample.answerable and not sample.reference for sample in golden
        ),
        groups=len(groups),
        tags=dict(most_first),
        repeats=repeats,
        references=None if corpus is None else check_references(golden.samples, corpus),
        records=None if history is None else records_of(history, golden),
        shows=tuple(shows),
    )


def check_references(samples: Sequence[Sample], corpus: Path) -> References:
    """Compare `relevant_ids` and `reference_contexts` with the documents in `corpus`.
    Raises ConfigError."""
    documents = read_documents([corpus]).texts
    stems = set(map(_stem, documents))
    wordings = map(words_of, documents.values())
    words = "\n".join(f" {wording} " for wording in wordings)
    ids = 0
    missing = []
    missing_passages = []
    for sample in samples:
        relevant = [name for name, grade in sample.relevant_ids.items() if grade > 0.0]
        ids += len(relevant)
        for name in relevant:
            stem = _stem(name)
            # A chunk is of a document: ``travel-chunk-4`` of ``travel``.
            document_stem = _CHUNK.sub("", stem)
            if stems.isdisjoint({stem, document_stem}):
                missing.append((sample.id, name))
        for text in sample.reference_contexts:
            passage = words_of(text)
            if passage and f" {passage} " not in words:
                start = " ".join(text.split())[:100]
                missing_passages.append((sample.id, start))
    is_known = len(missing) <= (1.0 - _KNOWN) * ids
    if not is_known:
        missing = []
    return References(len(documents), missing, is_known, missing_passages)


def _stem(name: str) -> str:
    """The name of a document without folder, extension and section: ``travel`` of
    ``docs/Travel.md#allowance``."""
    path = re.split(r"[#:@?|]", name.casefold())[0]
    return PurePosixPath(path).stem


def records_of(history: History, golden: GoldenSet) -> Records:
    """What happened to each sample that counts, in the runs with the newest run's judge
    and metrics.

    A question is answered in a run if none of its scores there is below 0.5 (above,
    where less is better).
    """
    samples = [sample for sample in golden if not sample.is_draft]
    codes = [sample_code(sample.id, sample.content_hash()) for sample in samples]
    with_samples = [
        ScoredRun(line, history.samples[line.samples])
        for line in history.gated
        if line.samples is not None
    ]
    scored_runs = with_samples[-MAX_RUNS:]
    if not scored_runs:
        return Records(0)
    newest = scored_runs[-1].line
    shape = (len(scored_runs), len(codes))
    # The lowest score (runs, samples) over the metrics that are comparable with the
    # newest run; NaN without one.
    worst = np.full(shape, np.nan)
    for metric in sorted(newest.scores):
        if is_relative(metric):
            continue
        rows = [
            row
            for row, run in enumerate(scored_runs)
            if incomparable(run.line, newest, metric) is None
        ]
        scores = scores_of([scored_runs[row] for row in rows], codes, metric)
        if lower_is_better(metric):
            scores = 1.0 - scores
        worst[rows] = np.fmin(worst[rows], scores)
    records = Records(len(scored_runs))
    for sample, own in zip(samples, worst.T, strict=True):
        scored = own[np.isfinite(own)]
        answered = scored >= PASS_MARK
        if len(answered) < MIN_RUNS:
            continue
        is_flip = answered[1:] != answered[:-1]
        flips = int(np.sum(is_flip))
        pairs = len(answered) - 1
        min_flips = max(_FLIPS, _FLIP_SHARE * pairs)
        if answered.all():
            records.always_answered.append(sample.id)
        elif not answered.any():
            records.never_answered.append(sample.id)
        elif flips >= min_flips:
            records.flip_flopped.append((sample.id, flips, pairs))
    records.flip_flopped.sort(key=lambda record: -record[1] / record[2])
    return records
