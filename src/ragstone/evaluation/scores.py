"""The scores of one run, as input for the gate, from any source."""

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

_QUESTION_CHARS = 300

STEPS = 2520
"""A history keeps scores in steps of 1/2520, so that a fraction of up to ten verdicts
is exact."""


class SampleFacts(Struct, frozen=True):
    """The data of a sample that the gate and the reports need, without its record. The
    question is clipped."""

    question: str = ""
    tags: tuple[str, ...] = ()
    group: str | None = None
    origin: Origin | None = None
    content_hash: str | None = None
    answerable: bool = True
    reference: str | None = None
    """The fingerprint of the reference answer; None if there is none."""
    draft: bool = False
    """Whether the sample counts in no check."""
    parts: tuple[str, ...] = ()
    """`Sample.part_hashes`; empty if they are not known."""
    bounds: tuple[Bound, ...] = ()
    """The floors and ceilings of its own scores."""
    turn: ConversationTurn | None = None
    """The conversation that it is a turn of."""

    @classmethod
    def of(cls, sample: Sample) -> SampleFacts:
        return cls(
            question=sample.question[:_QUESTION_CHARS],
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
    """One metric over a run: every sample is in exactly one of the three, by id.

    `answers` has the score of each answer to a sample in `values`, in the order in
    which the system was asked (None: the metric does not apply to that answer). It is
    empty if the system was asked each question once.
    """

    values: BySample[float]
    not_applicable: BySample[str] = {}
    failed: BySample[Failed] = {}
    version: str | None = None
    answers: BySample[tuple[float | None, ...]] = {}

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
    """Statements of an answer: how many are supported, and of these how many
    `unquoted`."""

    supported: int
    unquoted: int = 0


class SystemFacts(Struct, frozen=True):
    """How the system under test behaved, by sample id.

    `latencies_s` are the seconds of the first answer, and `usage` its tokens, if they
    were reported: one for each sample, so that they are independent. `failures` are
    one-line failures, and `failed_answers` how many answers failed, of samples with one
    or more. `answers` are the fingerprints of the answers that the system gave.
    `used_contexts` are those that support the first answer, if there are contexts and
    support verdicts. `contexts` are hashes of its contexts, equal in this process if
    the contexts are. `kinds` are what the `answers` are, of each sample with one that
    doesn't just answer. `ranked` has the contexts of the newest answer in their order,
    and `citations` whether all that the newest answer cites is among its contexts, of
    each that cites. `reworded` are the samples whose contexts have what all answers
    say. `verdicts` counts the supported statements of the first answer. `steps` are the
    facts of the newest answer's steps, and of what a turn takes over from earlier ones.
    """

    latencies_s: BySample[float] = {}
    failures: BySample[str] = {}
    failed_answers: BySample[int] = {}
    answers: BySample[tuple[str, ...]] = {}
    used_contexts: BySample[UsedContexts] = {}
    usage: BySample[TokenUsage] = {}
    contexts: BySample[int] = {}
    kinds: BySample[tuple[AnswerKind, ...]] = {}
    ranked: BySample[RankedContexts] = {}
    citations: BySample[bool] = {}
    reworded: BySample[Rewording] = {}
    verdicts: BySample[VerdictCounts] = {}
    steps: BySample[StepFacts] = {}


def fingerprint(text: str) -> str:
    """A fingerprint of `text`, ignoring case and the kind of white space; empty without
    a letter or digit."""
    if not any(character.isalnum() for character in text):
        return ""
    return hashlib.sha256(
        " ".join(text.split()).casefold().encode("utf-8", "surrogatepass")
    ).hexdigest()[:16]


_Part = TypeVar("_Part", MetricScores, SystemFacts)


class RunScores(Struct, frozen=True):
    """A run for the gate. `manifest` is None for plain score files and mappings;
    `label` names it in messages. `remarks` are sentences on how a score file was read,
    `rounds` what the rounds of a run added to it.

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
        """What the tokens of the system cost; None if it is not known."""
        return None if self.manifest is None else self.manifest.price

    @property
    def offline(self) -> bool:
        """Whether the offline judge scored it."""
        return self.manifest is not None and self.manifest.judge.offline

    @property
    def steady(self) -> bool:
        """Whether the system is known to say the same when it is asked again."""
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
"""Stands for a run that there is not: it has no samples and no scores."""


def rekeyed(run: RunScores, name_of: Callable[[str], str | None]) -> RunScores:
    """`run` with the ids that `name_of` gives to its samples; samples that get None are
    left out."""

    def keyed(values: Mapping[str, _Value]) -> dict[str, _Value]:
        by_name: dict[str, _Value] = {}
        for old_name, value in values.items():
            name = name_of(old_name)
            if name is not None:
                by_name[name] = value
        return by_name

    def within(part: _Part) -> _Part:
        values_by_field: dict[str, Any] = {}
        for name, value in asdict(part).items():
            if isinstance(value, Mapping):
                values_by_field[name] = keyed(value)
        return replace(part, **values_by_field)

    return replace(
        run,
        metrics={name: within(scores) for name, scores in run.metrics.items()},
        samples=keyed(run.samples),
        system=within(run.system),
    )


def without_drafts(run: RunScores) -> tuple[RunScores, RunScores]:
    """`run` without the samples that are drafts, and those alone."""
    drafts = {name for name, facts in run.samples.items() if facts.draft}
    if not drafts:
        return run, NO_RUN
    counting = rekeyed(run, lambda name: None if name in drafts else name)
    return counting, rekeyed(run, lambda name: name if name in drafts else None)


def means(metrics: Mapping[str, MetricScores]) -> str:
    """``faithfulness 0.91, context_recall 0.84``."""
    parts = [f"{name} {score(scores.mean)}" for name, scores in metrics.items()]
    return ", ".join(parts) or "no metrics"
