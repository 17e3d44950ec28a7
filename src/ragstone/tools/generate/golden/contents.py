"""What a golden set consists of, which samples repeat or contradict each other, and which give their answer away."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ragstone.golden.sample import Sample
from ragstone.judge.judgements import Verdict
from ragstone.judge.offline.judge import OfflineJudge
from ragstone.judge.protocol import Call, JudgementFailed, Ledger
from ragstone.system.response import Context
from ragstone.tools.generate.near_duplicates import similar_pairs, words_of

MIN_ANSWER_WORDS = 3
"""Words from which on a reference that stands in its question gives the answer away, unlike those of "A or B?"."""


@dataclass(frozen=True, slots=True)
class SimilarSamples:
    """Two samples with the same question, or nearly; `similarity` is that of the wording, in [0, 1].

    `contradiction` is a clause: why their answers can't both be right, if that is found.
    """

    first: Sample
    second: Sample
    similarity: float
    contradiction: str | None = None

    def __str__(self) -> str:
        return f"{self.first.id} and {self.second.id} ({self.first.origin} and {self.second.origin})"

    def json(self) -> dict[str, object]:
        samples = (self.first, self.second)
        return {
            "ids": [sample.id for sample in samples],
            "places": [str(sample.origin) for sample in samples],
            "questions": [sample.question for sample in samples],
            "similarity": self.similarity,
            "contradiction": self.contradiction,
        }


@dataclass(frozen=True, slots=True)
class Contents:
    """What a golden set consists of.

    `tags` counts samples by tag and kind; samples without a tag are under "". `groups` is the number of groups,
    `largest_group` the size of the largest. `duplicates` have the same question, word for word, and `near_duplicates`
    nearly the same wording.
    """

    samples: int
    drafts: int
    kinds: Mapping[str, int]
    tags: Mapping[str, Mapping[str, int]]
    with_passages: int
    with_relevant_ids: int
    groups: int
    largest_group: int
    duplicates: tuple[SimilarSamples, ...]
    near_duplicates: tuple[SimilarSamples, ...]
    answers_in_questions: tuple[str, ...]

    @property
    def unanswerable(self) -> float:
        """The share of unanswerable samples, in [0, 1]."""
        return self.kinds.get("unanswerable", 0) / self.samples if self.samples else 0.0

    @property
    def contradictions(self) -> tuple[SimilarSamples, ...]:
        pairs = (*self.duplicates, *self.near_duplicates)
        return tuple(pair for pair in pairs if pair.contradiction is not None)

    def json(self) -> dict[str, object]:
        counts = ("samples", "drafts", "kinds", "tags", "with_passages", "with_relevant_ids", "groups", "largest_group")
        return {
            **{name: getattr(self, name) for name in counts},
            "unanswerable": self.unanswerable,
            "duplicates": [pair.json() for pair in self.duplicates],
            "near_duplicates": [pair.json() for pair in self.near_duplicates],
            "answers_in_questions": list(self.answers_in_questions),
        }


async def examine(samples: Sequence[Sample]) -> Contents:
    """The contents of `samples`; pairs with the same question, or nearly, are compared by the offline judge."""
    tags: dict[str, Counter[str]] = defaultdict(Counter)
    same: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        for tag in sample.tags or ("",):
            tags[tag][_kind(sample)] += 1
        same[words_of(sample.question) or sample.question].append(sample)
    by_size = sorted(tags.items(), key=lambda item: (-item[1].total(), item[0]))
    groups = Counter(sample.group for sample in samples if sample.group is not None)
    duplicates = [SimilarSamples(members[0], other, 1.0) for members in same.values() for other in members[1:]]
    distinct = [members[0] for members in same.values()]
    near = [
        SimilarSamples(distinct[pair.first], distinct[pair.second], pair.similarity)
        for pair in similar_pairs([sample.question for sample in distinct])
    ]
    judge = OfflineJudge()
    return Contents(
        samples=len(samples),
        drafts=sum(sample.draft for sample in samples),
        kinds=Counter(_kind(sample) for sample in samples),
        tags={tag: dict(counts) for tag, counts in by_size},
        with_passages=sum(bool(sample.reference_contexts) for sample in samples),
        with_relevant_ids=sum(bool(sample.relevant_ids) for sample in samples),
        groups=len(groups),
        largest_group=max(groups.values(), default=0),
        duplicates=tuple([replace(pair, contradiction=await _contradiction(judge, pair)) for pair in duplicates]),
        near_duplicates=tuple([replace(pair, contradiction=await _contradiction(judge, pair)) for pair in near]),
        answers_in_questions=tuple(sample.id for sample in samples if _gives_answer_away(sample)),
    )


def _kind(sample: Sample) -> str:
    if not sample.answerable:
        return "unanswerable"
    return "with reference" if sample.reference else "without reference"


def _gives_answer_away(sample: Sample) -> bool:
    """Whether the reference stands in the question, word for word."""
    reference = words_of(sample.reference or "")
    is_long = len(reference.split()) >= MIN_ANSWER_WORDS
    return is_long and f" {reference} " in f" {words_of(sample.question)} "


async def _contradiction(judge: OfflineJudge, pair: SimilarSamples) -> str | None:
    """Why the answers of two samples contradict each other; None if the offline judge can't tell that they do."""
    first, second = pair.first, pair.second
    if first.answerable != second.answerable:
        return "only one of them is answerable"
    if not first.reference or not second.reference:
        return None
    for sample, other in ((first, second), (second, first)):
        call = Call(sample.id, 0, Ledger())
        try:
            statements = (await judge.statements(sample.question, sample.reference or "", call=call)).statements
            table = await judge.support([Context(other.reference or "")], statements, call=call)
        except JudgementFailed:
            continue
        if any(support.verdict is Verdict.CONTRADICTED for support in table.supports):
            return "the offline judge finds a contradiction in their references"
    return None
