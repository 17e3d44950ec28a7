"""`ragstone golden`: what is in a golden set, which samples should be looked at, and
how small a loss it can show."""

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
from ragstone.history.level import ScoredRun, scores_of, why_incomparable
from ragstone.metrics.registry import is_relative, lower_is_better
from ragstone.pipeline.plan import PlannedMetric
from ragstone.report.templates import render_text_template
from ragstone.tools.generate.documents import read_documents
from ragstone.tools.generate.near_duplicates import similar_pairs, words_of
from ragstone.tools.judging.label_table import PASS_MARK

MIN_RUNS = 5
"""Nothing is said of a question with scores in fewer runs."""

MAX_RUNS = 200
"""So many runs of the history are read, the newest."""

_MIN_FLIPS = 3
"""A question flip-flops if it changed between answered and not answered so often, or
more, and if `_MIN_FLIP_SHARE` is reached, too."""

_MIN_FLIP_SHARE = 0.2
"""The least share of steps from one run to the next in which it changed."""

_MIN_KNOWN_SHARE = 0.5
"""If a smaller share of the relevant ids are those of documents, they are written in
another way, and none is called missing."""

_CHUNK_SUFFIX = re.compile(r"[-_ ](?:chunk|part|page|section|p|c|s)?[-_ ]?\d+$")
"""What the id of a chunk has behind the name of its document."""

_MAX_SHOWN = 5
"""The text shows so many samples of each problem."""

_MAX_START_CHARACTERS = 100


class Repeat(Struct, frozen=True):
    """Two samples that ask the same, or nearly."""

    first: str
    second: str
    """The ids of the two samples."""
    similarity: float
    """How similar their questions are worded, in [0, 1]."""


class References(Struct):
    """How the references of a golden set agree with its documents."""

    documents: int
    missing_ids: list[tuple[str, str]]
    """The id of a sample, and a relevant id that is of no document."""
    ids_checked: bool
    """False if most relevant ids are of no document: then none is called missing."""
    missing_passages: list[tuple[str, str]]
    """The id of a sample, and the start of a reference context whose words are in no
    document in this order."""


class Records(Struct):
    """What the history of the main branch says of the questions, by sample id."""

    runs: int
    never_answered: list[str] = []
    always_answered: list[str] = []
    flip_flopped: list[tuple[str, int, int]] = []
    """The id of a sample, how often it changed between answered and not answered, and
    how often it could have: in the steps from one run to the next."""


class GoldenReport(Struct, frozen=True):
    """The report on a golden set."""

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
    """The smallest loss that the samples show, for each metric."""

    def json(self) -> dict[str, object]:
        """The report for programs."""
        document: dict[str, object] = to_builtins(self)
        document["shows"] = {row.metric: row.detectable for row in self.shows}
        return document

    def text(self) -> str:
        """The report for people."""
        return render_text_template(
            "golden_report.txt.j2", __package__, report=self, max_shown=_MAX_SHOWN
        )


def golden_report(
    golden: GoldenSet,
    shows: Sequence[PlannedMetric],
    *,
    corpus: Path | None = None,
    history: History | None = None,
) -> GoldenReport:
    """Report on `golden`, compared with the documents in `corpus` and the runs in
    `history`, if they are given. Raises ConfigError if the documents can't be read."""
    tags = Counter[str]()
    wordings = []
    for sample in golden:
        tags.update(sample.tags or ("(no tag)",))
        # In a conversation, the same question may mean something else after other
        # messages of the user.
        texts = [message.text for message in sample.history if message.role == "user"]
        wordings.append(" ".join([*texts, sample.question]))
    repeats = []
    for pair in similar_pairs(wordings):
        first = golden[pair.first]
        second = golden[pair.second]
        # Similar questions do no harm in one group, which the gate counts as one. The
        # same question does, unless a conversation comes back to it.
        is_one_group = first.group is not None and first.group == second.group
        is_same = pair.similarity >= 1.0
        if not is_one_group or (is_same and first.turn is None):
            repeats.append(Repeat(first.id, second.id, pair.similarity))
    groups = {sample.group for sample in golden if sample.group is not None}
    most_frequent_first = sorted(tags.items(), key=lambda item: (-item[1], item[0]))
    return GoldenReport(
        samples=len(golden),
        drafts=sum(sample.is_draft for sample in golden),
        unanswerable=sum(not sample.answerable for sample in golden),
        without_reference=sum(
            sample.answerable and not sample.reference for sample in golden
        ),
        groups=len(groups),
        tags=dict(most_frequent_first),
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
    # Between spaces, so that only whole words are found.
    all_words = "\n".join(f" {words_of(text)} " for text in documents.values())
    id_count = 0
    missing_ids = []
    missing_passages = []
    for sample in samples:
        relevant_ids = [
            document_id
            for document_id, grade in sample.relevant_ids.items()
            if grade > 0.0
        ]
        id_count += len(relevant_ids)
        for document_id in relevant_ids:
            stem = _stem(document_id)
            # The id may be that of a chunk, such as ``travel-chunk-4`` of ``travel``.
            if stems.isdisjoint({stem, _CHUNK_SUFFIX.sub("", stem)}):
                missing_ids.append((sample.id, document_id))
        for text in sample.reference_contexts:
            words = words_of(text)
            if words and f" {words} " not in all_words:
                start = " ".join(text.split())[:_MAX_START_CHARACTERS]
                missing_passages.append((sample.id, start))
    ids_checked = len(missing_ids) <= (1.0 - _MIN_KNOWN_SHARE) * id_count
    return References(
        documents=len(documents),
        missing_ids=missing_ids if ids_checked else [],
        ids_checked=ids_checked,
        missing_passages=missing_passages,
    )


def _stem(name: str) -> str:
    """The name of a document without folder, extension and section: ``travel`` of
    ``docs/Travel.md#allowance``."""
    path = re.split(r"[#:@?|]", name.casefold())[0]
    return PurePosixPath(path).stem


def records_of(history: History, golden: GoldenSet) -> Records:
    """Find samples of `golden`, without drafts, that were never, always or on and off
    answered in the newest runs of `history`.

    A question is answered in a run if it has a score, and none below `PASS_MARK` (or
    above, where less is better), by metrics that can be compared with the newest run.
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
    # The lowest score (runs, samples) over all metrics; NaN without a score.
    worst = np.full((len(scored_runs), len(codes)), np.nan)
    for metric in sorted(newest.scores):
        if is_relative(metric):
            continue
        rows = [
            row
            for row, run in enumerate(scored_runs)
            if why_incomparable(run.line, newest, metric) is None
        ]
        scores = scores_of([scored_runs[row] for row in rows], codes, metric)
        if lower_is_better(metric):
            scores = 1.0 - scores
        worst[rows] = np.fmin(worst[rows], scores)
    records = Records(len(scored_runs))
    for sample, worst_scores in zip(samples, worst.T, strict=True):
        is_scored = np.isfinite(worst_scores)
        is_answered = worst_scores[is_scored] >= PASS_MARK
        if len(is_answered) < MIN_RUNS:
            continue
        steps = len(is_answered) - 1
        flips = int(np.sum(is_answered[1:] != is_answered[:-1]))
        if is_answered.all():
            records.always_answered.append(sample.id)
        elif not is_answered.any():
            records.never_answered.append(sample.id)
        elif flips >= max(_MIN_FLIPS, _MIN_FLIP_SHARE * steps):
            records.flip_flopped.append((sample.id, flips, steps))
    # The largest share of flips first.
    records.flip_flopped.sort(key=lambda record: -record[1] / record[2])
    return records
