"""The scores of one run, as the gate reads them, from any source."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Set
from typing import Any, TypeVar

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from ragstone.errors import ConfigError, suggestion
from ragstone.evaluation.answer_kinds import AnswerKind
from ragstone.evaluation.manifest import Manifest
from ragstone.evaluation.ranked import RankedContexts
from ragstone.evaluation.rewording import Rewording
from ragstone.evaluation.round_facts import RoundFacts
from ragstone.evaluation.step_facts import StepFacts
from ragstone.formatting import counted, score
from ragstone.golden.sample import Bound, ConversationTurn, Origin, Sample
from ragstone.metrics.alignment import UsedContexts
from ragstone.metrics.score import Failed
from ragstone.settings.settings import SystemPrice
from ragstone.system.response import TokenUsage

_Value = TypeVar("_Value")
BySample = dict[str, _Value]
"""Values by the id of their sample."""

_MAX_QUESTION_CHARACTERS = 300

SCORE_STEPS = 2520
"""A history stores scores in steps of 1/2520, the least common multiple of 1 to 10, so
that shares of up to ten verdicts are exact."""


class SampleFacts(Struct, frozen=True):
    """The data of a sample that the gate and the reports need, without its record."""

    question: str = ""
    """The question, clipped."""
    tags: tuple[str, ...] = ()
    group: str | None = None
    origin: Origin | None = None
    content_hash: str | None = None
    answerable: bool = True
    reference: str | None = None
    """The fingerprint of the reference answer; None if there is none."""
    draft: bool = False
    """Whether the sample is a draft, which counts in no check."""
    parts: tuple[str, ...] = ()
    """The `Sample.part_hashes`; empty if they are not known."""
    bounds: tuple[Bound, ...] = ()
    """The floors and ceilings of the sample's own scores."""
    turn: ConversationTurn | None = None
    """The place in a conversation; None for a sample that is no turn."""

    @classmethod
    def of(cls, sample: Sample) -> SampleFacts:
        return cls(
            question=sample.question[:_MAX_QUESTION_CHARACTERS],
            tags=sample.tags,
            group=sample.group,
            origin=sample.origin,
            content_hash=sample.content_hash(),
            answerable=sample.answerable,
            reference=fingerprint(sample.reference) if sample.reference else None,
            draft=sample.is_draft,
            parts=sample.part_hashes(),
            bounds=sample.bounds,
            turn=sample.turn,
        )


class MetricScores(Struct, frozen=True):
    """One metric over a run: every sample is in either `values`, `not_applicable` (with
    the reason) or `failed`."""

    values: BySample[float]
    not_applicable: BySample[str] = {}
    failed: BySample[Failed] = {}
    version: str | None = None
    answers: BySample[tuple[float | None, ...]] = {}
    """The score of each answer to a sample in `values`, None for an answer without a
    score. Empty if the system was asked each question once."""

    @property
    def applies_to(self) -> Set[str]:
        """The samples that the metric applies to, with a score or not."""
        return self.values.keys() | self.failed.keys()

    @property
    def mean(self) -> float | None:
        """The mean over the samples that have a score; None if there are none."""
        if not self.values:
            return None
        return sum(self.values.values()) / len(self.values)

    def __repr__(self) -> str:
        samples = counted(len(self.values), "sample")
        return f"MetricScores(mean {score(self.mean)} of {samples}, {len(self.failed):,} failed)"


_NO_SCORES = MetricScores({})
_NO_FACTS = SampleFacts()


class VerdictCounts(Struct, frozen=True):
    """How many statements of an answer are supported, and how many of these without a
    quote from the contexts."""

    supported: int
    unquoted: int = 0


class SystemFacts(Struct, frozen=True):
    """How the system under test behaved, by sample id.

    Where the system was asked more than once, latencies, usage, contexts and verdicts
    are those of the first answer alone: one for each sample, so that they are
    independent.
    """

    latencies_s: BySample[float] = {}
    failures: BySample[str] = {}
    """The failure in one line, of each sample with a failed answer."""
    failed_answers: BySample[int] = {}
    """How many answers failed, of each sample with a failed answer."""
    answers: BySample[tuple[str, ...]] = {}
    """The fingerprint of each answer that did not fail."""
    used_contexts: BySample[UsedContexts] = {}
    """The contexts that support the answer, if support was judged."""
    usage: BySample[TokenUsage] = {}
    """The tokens, if the system reports them."""
    contexts: BySample[int] = {}
    """A hash of the contexts, which can be compared within this process only."""
    kinds: BySample[tuple[AnswerKind, ...]] = {}
    """The kind of each of the `answers`, unless all just answer."""
    ranked: BySample[RankedContexts] = {}
    """The contexts of the last answer in their order."""
    citations: BySample[bool] = {}
    """Whether all that the last answer cites is among its contexts, if it cites."""
    reworded: BySample[Rewording] = {}
    """What the words of all answers show, if the contexts have what they say."""
    verdicts: BySample[VerdictCounts] = {}
    steps: BySample[StepFacts] = {}
    """The facts of the steps of the last answer."""


def fingerprint(text: str) -> str:
    """A fingerprint of `text` that ignores case and the kind of white space; empty if
    there is no letter or digit."""
    if not any(character.isalnum() for character in text):
        return ""
    return hashlib.sha256(
        " ".join(text.split()).casefold().encode("utf-8", "surrogatepass")
    ).hexdigest()[:16]


_Part = TypeVar("_Part", MetricScores, SystemFacts)


class RunScores(Struct, frozen=True):
    """A run as the gate reads it.

    - `label`: what messages call the run.
    - `manifest`: None for scores from a file or a mapping.
    - `remarks`: sentences on how a score file was read.
    - `rounds`: what the rounds of the run added to it.

    ``scores["faithfulness"]`` is the same as ``scores.metrics["faithfulness"]``, and
    raises ConfigError if the run does not have that metric.
    """

    label: str
    metrics: Mapping[str, MetricScores]
    samples: Mapping[str, SampleFacts]
    system: SystemFacts = field(default_factory=SystemFacts)
    manifest: Manifest | None = None
    remarks: tuple[str, ...] = ()
    rounds: RoundFacts = field(default_factory=RoundFacts)

    def __getitem__(self, metric: str) -> MetricScores:
        if metric not in self.metrics:
            raise ConfigError(
                f"this run has no metric '{metric}'.",
                hint=suggestion(str(metric), self.metrics),
            )
        return self.metrics[metric]

    def scores_of(self, metric: str) -> MetricScores:
        """The scores of `metric`; empty if it was not measured."""
        return self.metrics.get(metric, _NO_SCORES)

    def facts_of(self, sample_id: str) -> SampleFacts:
        """The facts of a sample; empty if the run does not have it."""
        return self.samples.get(sample_id, _NO_FACTS)

    @property
    def is_unanswered(self) -> bool:
        """Whether the system gave no answer to any of the samples."""
        failed = self.system.failures.keys() >= self.samples.keys()
        return bool(self.samples) and failed and not any(self.system.answers.values())

    @property
    def part(self) -> str | None:
        """The half of the system that was evaluated; None for the whole system, or if
        it is not known."""
        return None if self.manifest is None else self.manifest.system.part

    @property
    def price(self) -> SystemPrice | None:
        """The price of the system's tokens; None if it is not known."""
        return None if self.manifest is None else self.manifest.price

    @property
    def offline(self) -> bool:
        """Whether the offline judge scored the run."""
        return self.manifest is not None and self.manifest.judge.offline

    @property
    def steady(self) -> bool:
        """Whether the system was asked again and said the same."""
        return self.rounds.confirm.steady

    @property
    def confirmed(self) -> bool:
        """Whether the system was asked again because of a doubt, or there are answers
        of earlier runs."""
        return self.rounds.confirm.asked_again or (
            self.manifest is not None and bool(self.manifest.earlier)
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self.metrics)

    def __repr__(self) -> str:
        samples = counted(len(self.samples), "sample")
        return f"RunScores({self.label!r}: {samples}, {means(self.metrics)})"


NO_RUN = RunScores("no run", {}, {})
"""Stands for a missing run: it has no samples and no scores."""


def rekey_samples(run: RunScores, new_id: Callable[[str], str | None]) -> RunScores:
    """`run` with the ids that `new_id` returns for its samples; samples for which it
    returns None are left out."""

    def rekey_values(values: Mapping[str, _Value]) -> dict[str, _Value]:
        by_id: dict[str, _Value] = {}
        for old_id, value in values.items():
            sample_id = new_id(old_id)
            if sample_id is not None:
                by_id[sample_id] = value
        return by_id

    def rekey_part(part: _Part) -> _Part:
        values_by_field: dict[str, Any] = {}
        for name, value in asdict(part).items():
            if isinstance(value, Mapping):
                values_by_field[name] = rekey_values(value)
        return replace(part, **values_by_field)

    return replace(
        run,
        metrics={name: rekey_part(scores) for name, scores in run.metrics.items()},
        samples=rekey_values(run.samples),
        system=rekey_part(run.system),
    )


def split_drafts(run: RunScores) -> tuple[RunScores, RunScores]:
    """`run` without its drafts, and `run` with its drafts alone."""
    draft_ids = {name for name, facts in run.samples.items() if facts.draft}
    if not draft_ids:
        return run, NO_RUN
    without = rekey_samples(run, lambda name: None if name in draft_ids else name)
    return without, rekey_samples(run, lambda name: name if name in draft_ids else None)


def means(metrics: Mapping[str, MetricScores]) -> str:
    """``faithfulness 0.91, context_recall 0.84``."""
    parts = [f"{name} {score(scores.mean)}" for name, scores in metrics.items()]
    return ", ".join(parts) or "no metrics"
