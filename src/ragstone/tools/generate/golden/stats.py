"""`ragstone golden stats`: what a golden set consists of, what it can detect, and what in it needs a look."""

from __future__ import annotations

import asyncio
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median, quantiles

from ragstone.gate.policy import Policy
from ragstone.gate.resolution import expected_rules, resolution, sights
from ragstone.golden.sample import GoldenSet, Sample
from ragstone.judge.judgements import Verdict
from ragstone.judge.offline.judge import OfflineJudge
from ragstone.judge.protocol import Call, JudgementFailed, Ledger
from ragstone.report.templates import render_text_template
from ragstone.run.scores import RunScores
from ragstone.system.response import Context
from ragstone.tools.generate.golden.corpus import Corpus, CorpusCheck, check_references
from ragstone.tools.generate.golden.subsets import kind_of
from ragstone.tools.generate.near_duplicates import similar_pairs, words_of

FEWEST = 100
"""With fewer samples, a golden set detects only large drops."""

_MIN_FOR_OUTLIERS = 20
_FENCE = 3.0
"""Quartile ranges beyond the quartiles, on the logarithm of the length: Tukey's outer fence."""
_MIN_RATIO = 3.0
"""An outlier is also at least so many times longer or shorter than the median."""


@dataclass(frozen=True, slots=True)
class SimilarSamples:
    """Two samples with nearly the same question; `similarity` is that of the wording, in [0, 1].

    `contradiction` is a clause: why their answers can't both be right, if that is found.
    """

    first: Sample
    second: Sample
    similarity: float
    contradiction: str | None = None

    def __str__(self) -> str:
        return f"{self.first.id} and {self.second.id} ({self.first.origin} and {self.second.origin})"

    def json(self) -> dict[str, object]:
        both = (self.first, self.second)
        return {
            "ids": [one.id for one in both],
            "places": [str(one.origin) for one in both],
            "questions": [one.question for one in both],
            "references": [one.reference for one in both],
        }


@dataclass(frozen=True, slots=True)
class Outlier:
    """A text that is much longer or shorter than the others of its `field`; lengths in characters."""

    id: str
    field: str
    length: int
    median: float


@dataclass(frozen=True, slots=True)
class Contents:
    """What a golden set consists of. `duplicates` are the samples with the same question, word for word.

    `tags` counts samples by tag and kind; samples without a tag are under "". `groups` is the number of groups,
    `largest_group` the size of the largest.
    """

    samples: int
    kinds: Mapping[str, int]
    tags: Mapping[str, Mapping[str, int]]
    with_passages: int
    with_relevant_ids: int
    groups: int
    largest_group: int
    duplicates: tuple[tuple[Sample, ...], ...]
    similar: tuple[SimilarSamples, ...]
    outliers: tuple[Outlier, ...]

    @property
    def unanswerable(self) -> float:
        """The share of unanswerable samples, in [0, 1]."""
        return self.kinds.get("unanswerable", 0) / self.samples if self.samples else 0.0


def examine(samples: Sequence[Sample]) -> Contents:
    """The health of `samples`. Pure."""
    tags: dict[str, Counter[str]] = defaultdict(Counter)
    for sample in samples:
        for tag in sample.tags or ("",):
            tags[tag][kind_of(sample)] += 1
    same: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        same[words_of(sample.question) or sample.question].append(sample)
    distinct = [members[0] for members in same.values()]
    pairs = similar_pairs([sample.question for sample in distinct])
    groups = Counter(sample.group for sample in samples if sample.group is not None)
    return Contents(
        samples=len(samples),
        kinds=Counter(kind_of(sample) for sample in samples),
        tags={tag: dict(counts) for tag, counts in sorted(tags.items(), key=lambda one: (-one[1].total(), one[0]))},
        with_passages=sum(bool(sample.reference_contexts) for sample in samples),
        with_relevant_ids=sum(bool(sample.relevant_ids) for sample in samples),
        groups=len(groups),
        largest_group=max(groups.values(), default=0),
        duplicates=tuple(tuple(members) for members in same.values() if len(members) > 1),
        similar=tuple(SimilarSamples(distinct[one.first], distinct[one.second], one.similarity) for one in pairs),
        outliers=tuple(_outliers(samples)),
    )


def _outliers(samples: Sequence[Sample]) -> list[Outlier]:
    lengths = {
        "question": {one.id: len(one.question) for one in samples},
        "reference": {one.id: len(one.reference) for one in samples if one.reference},
        "reference_contexts": {
            one.id: sum(map(len, one.reference_contexts)) for one in samples if one.reference_contexts
        },
    }
    found: list[Outlier] = []
    for name, by_id in lengths.items():
        if len(by_id) < _MIN_FOR_OUTLIERS:
            continue
        logs = {sample_id: math.log(max(1, length)) for sample_id, length in by_id.items()}
        low, _, high = quantiles(logs.values(), n=4)
        middle = median(by_id.values())
        reach = max(_FENCE * (high - low), 0.0)
        far = [
            Outlier(sample_id, name, by_id[sample_id], middle)
            for sample_id, value in logs.items()
            if not low - reach <= value <= high + reach
            and not middle / _MIN_RATIO < by_id[sample_id] < middle * _MIN_RATIO
        ]
        found += sorted(far, key=lambda one: -abs(logs[one.id] - math.log(max(1.0, middle))))
    return found


@dataclass(frozen=True, slots=True)
class GoldenReport:
    """All that `ragstone golden stats` says. `drafts` count in `health`, but not in `seen`, what the others detect."""

    health: Contents
    drafts: int
    contradictions: tuple[SimilarSamples, ...]
    corpus: CorpusCheck | None
    seen: str | None

    @property
    def problems(self) -> int:
        """How many findings are almost certainly mistakes: duplicates, contradictions and missing references."""
        missing = len(self.corpus.missing_ids) + len(self.corpus.missing_passages) if self.corpus is not None else 0
        return len(self.health.duplicates) + len(self.contradictions) + missing

    @property
    def enough(self) -> bool:
        """Whether it has enough samples to detect more than large drops."""
        return self.health.samples - self.drafts >= FEWEST

    def text(self) -> str:
        """The report for a terminal, with the first findings of each kind."""
        contradicted = {(one.first.id, one.second.id) for one in self.contradictions}
        similar = [one for one in self.health.similar if (one.first.id, one.second.id) not in contradicted]
        return render_text_template("stats.txt.j2", __package__, found=self, fewest=FEWEST, similar=similar)

    def json(self) -> dict[str, object]:
        health, corpus = self.health, self.corpus
        counts = ("kinds", "tags", "with_passages", "with_relevant_ids", "groups", "largest_group")
        found: dict[str, object] = {
            "samples": health.samples,
            "drafts": self.drafts,
            "unanswerable": health.unanswerable,
            **{name: getattr(health, name) for name in counts},
            "enough": self.enough,
            "resolution": self.seen,
            "duplicates": [[sample.id for sample in members] for members in health.duplicates],
            "near_duplicates": [one.json() | {"similarity": one.similarity} for one in health.similar],
            "contradictions": [one.json() | {"why": one.contradiction} for one in self.contradictions],
            "outliers": [asdict(one) for one in health.outliers],
            "corpus": None,
        }
        if corpus is not None:
            found["corpus"] = {
                **{name: getattr(corpus, name) for name in ("documents", "unread", "ids", "known_ids")},
                "missing_ids": [{"id": one.sample_id, "relevant_id": one.what} for one in corpus.missing_ids],
                "passages": corpus.passages,
                "missing_passages": [{"id": one.sample_id, "start": one.what} for one in corpus.missing_passages],
            }
        return found


def report_on(
    golden: GoldenSet,
    policy: Policy,
    *,
    corpus: Corpus | None = None,
    run: RunScores | None = None,
    offline: bool = False,
) -> GoldenReport:
    """Examine `golden`. `run` gives the variances for what it detects; without it, typical ones are assumed, and
    `offline` says that the offline judge will score it.
    """
    health = examine(golden.samples)
    counting = [sample for sample in golden if not sample.draft]
    rules = expected_rules(policy, run, offline=offline)
    seen, _ = resolution(sights(rules, policy, run, samples=len(counting)))
    same = [SimilarSamples(members[0], other, 1.0) for members in health.duplicates for other in members[1:]]
    return GoldenReport(
        health=health,
        drafts=len(golden) - len(counting),
        contradictions=tuple(asyncio.run(_contradictions([*same, *health.similar]))),
        corpus=check_references(golden.samples, corpus) if corpus is not None else None,
        seen=seen,
    )


async def _contradictions(pairs: Sequence[SimilarSamples]) -> list[SimilarSamples]:
    judge = OfflineJudge()
    found = [replace(one, contradiction=await _contradiction(judge, one.first, one.second)) for one in pairs]
    return [one for one in found if one.contradiction is not None]


async def _contradiction(judge: OfflineJudge, first: Sample, second: Sample) -> str | None:
    """Why the answers of two samples contradict each other; None if the offline judge can't tell that they do."""
    if first.answerable != second.answerable:
        return "only one of them is answerable"
    if not first.reference or not second.reference:
        return None
    for sample, other in ((first, second), (second, first)):
        call = Call(sample.id, 0, Ledger())
        try:
            said = await judge.statements(sample.question, sample.reference or "", call=call)
            table = await judge.support([Context(other.reference or "")], said.statements, call=call)
        except JudgementFailed:
            continue
        if any(one.verdict is Verdict.CONTRADICTED for one in table.supports):
            return "the offline judge finds a contradiction in their references"
    return None
