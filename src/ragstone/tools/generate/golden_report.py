"""`ragstone golden`: what is in a golden set, what in it needs a look, and what size of
loss it shows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath

from ragstone.golden.sample import GoldenSet, Sample
from ragstone.pipeline.plan import PlannedMetric
from ragstone.report.templates import render_text_template
from ragstone.tools.generate.documents import read_documents
from ragstone.tools.generate.near_duplicates import similar_pairs, words_of

_KNOWN = 0.5
"""If fewer of the ids match documents, their scheme is unknown, and nothing is said of
those that don't."""

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
) -> GoldenReport:
    """The report on `golden`, held against the documents in `corpus`. Raises
    ConfigError."""
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
    missing = [(sample_id, name) for sample_id, name in ids if _stem(name) not in stems]
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
