"""The facts that all reports share, and the JSON report, which is these facts and no others.

What the report itself gathers is in dataclasses, which the view holds as they are. What the gate found is read from its
own types by attribute, so that the published names stay when those change.
`schema/report.schema.json` is generated from these models.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, GetPydanticSchema
from pydantic_core import core_schema

from ragstone.formatting import percent
from ragstone.gate.verdict import Action, CheckKind, Interval, Side, Status
from ragstone.golden.sample import Origin
from ragstone.metrics.score import FailedBy

SCHEMA_VERSION: Literal[1] = 1


def _word(words: type[StrEnum]) -> GetPydanticSchema:
    """One of `words`, which the JSON Schema lists where it is used."""
    literal = core_schema.literal_schema([word.value for word in words])
    return GetPydanticSchema(lambda _, __: core_schema.no_info_after_validator_function(words, literal))


StatusWord = Annotated[Status, _word(Status)]
ActionWord = Annotated[Action, _word(Action)]
KindWord = Annotated[CheckKind, _word(CheckKind)]
SideWord = Annotated[Side, _word(Side)]
Count = Annotated[int, Field(ge=0)]


class _Found(BaseModel):
    """Something that the gate found."""

    model_config = ConfigDict(frozen=True, extra="forbid", from_attributes=True)


class _Gathered:
    """Something that the report gathers."""

    __slots__ = ()
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")


class IntervalPart(_Found):
    """A two-sided interval."""

    low: float
    high: float
    confidence: float = Field(gt=0, lt=1)
    method: str

    @classmethod
    def of(cls, found: Interval | None) -> IntervalPart | None:
        """The interval that the gate found, if any."""
        return None if found is None else cls.model_validate(found)


@dataclass(frozen=True, slots=True)
class PlacePart(Origin, _Gathered):
    """Where a sample comes from."""

    url: str | None = None

    @classmethod
    def of(cls, origin: Origin | None, to_url: Callable[[Origin], str | None]) -> PlacePart | None:
        """The place of `origin` with its address; None without an origin."""
        return None if origin is None else cls(origin.file, origin.line, to_url(origin))


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricPart(_Gathered):
    """One metric, for the whole run or one slice."""

    metric: str
    title: str
    slice: str | None
    score: float | None
    interval: IntervalPart | None
    change: Annotated[float | None, Field(description="current minus baseline, over the samples that both runs have")]
    change_interval: IntervalPart | None
    floor: float | None
    max_drop: float | None
    ceiling: Annotated[float | None, Field(description="instead of a floor, where less is better")] = None
    max_rise: Annotated[float | None, Field(description="instead of max_drop, where less is better")] = None
    target: Annotated[float | None, Field(description="the ideal; missing it only warns")] = None
    lower_is_better: bool = False
    status: Annotated[StatusWord | None, Field(description="null if no check covers this metric")]
    action: ActionWord | None
    state: Annotated[str, Field(description="a few words for display")]
    n: Annotated[Count, Field(description="samples behind the score")]
    not_applicable: Count
    failed: Count
    min: Annotated[float | None, Field(description="lowest score of a sample")] = None
    max: Annotated[float | None, Field(description="highest score of a sample")] = None
    sd: Annotated[float | None, Field(description="standard deviation of the samples' scores (n - 1)")] = None
    offline_reliability: Annotated[str | None, Field(description="measured grade of the offline judge for this metric")]


class CheckPart(_Found):
    """One check of the gate, as decided."""

    name: str
    kind: KindWord
    status: StatusWord
    action: ActionWord
    reason: str
    metric: str | None
    slice: str | None
    estimate: float | None
    interval: IntervalPart | None
    threshold: float | None
    current: float | None
    baseline: float | None
    n: int = Field(ge=0)
    n_more: int | None = Field(
        description="approximate number of additional samples that would settle an inconclusive check"
    )
    detectable_drop: float | None
    accepted: str | None = Field(description="id of the accepted drop that the threshold comes from")


class AttributionPart(_Found):
    """Which half of the system to look at first."""

    side: SideWord
    reason: str
    look: str = Field(default="", description="the same in words; empty if neither half stands out")
    action: str = Field(default="", description="what the field recommends for the most frequent cause of that half")


@dataclass(frozen=True, slots=True)
class ChangePart(_Gathered):
    """One metric of one sample."""

    metric: str
    current: float | None
    baseline: float | None
    note: str | None


@dataclass(frozen=True, slots=True)
class StatementPart(_Gathered):
    """A statement of an answer that no context supports."""

    text: str
    verdict: Literal["unsupported", "contradicted"]
    quote: Annotated[str | None, Field(description="the contradicting passage, if the judge quoted one")] = None


class SaidPart(_Found):
    """What an answer is, as far as it was judged."""

    empty: bool
    abstains: bool
    statements: Count
    unsupported: Count
    contradicted: Count
    wanted: int = Field(ge=0, description="statements of the reference")
    given: int = Field(ge=0, description="those that the answer has")
    language: str | None = Field(description="if it is not that of the question")


class FactsPart(_Found):
    """What the causes of a sample are found from; news since the baseline, if there is one."""

    held: bool | None = Field(description="whether the contexts hold the evidence; null if nobody says")
    by: Literal["reference_contexts", "relevant_ids", "judge"] = Field(description="whose word that is")
    lost: bool
    lower: bool = Field(description="the evidence ranks lower (without a baseline: low)")
    unused: bool = Field(description="and the answer doesn't draw on it")
    same: bool = Field(description="the answer is that of the baseline")
    cut: bool = Field(description="the answer stops in the middle of what it said")
    said: SaidPart
    before: SaidPart


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplePart(_Gathered):
    """A sample that got worse, or that is far below a floor."""

    id: str
    question: str
    place: PlacePart | None
    tags: tuple[str, ...]
    changes: tuple[ChangePart, ...]
    answer: str
    baseline_answer: str | None
    reference: str | None
    unsupported: tuple[StatementPart, ...]
    missing: Annotated[tuple[str, ...], Field(description="statements of the reference that no context supports")]
    cause: Annotated[str | None, Field(description="why it is worse, in words")] = None
    facts: FactsPart | None = None
    contexts: Count
    useful_contexts: int | None
    detailed: Annotated[bool, Field(description="whether its answer is here; all are in samples.jsonl")] = True


@dataclass(frozen=True, slots=True)
class FailedSamplePart(_Gathered):
    """A sample without a score."""

    id: str
    place: PlacePart | None


@dataclass(frozen=True, slots=True)
class FailurePart(_Gathered):
    """Samples that failed for one reason."""

    by: FailedBy
    reason: str
    metrics: tuple[str, ...]
    samples: tuple[FailedSamplePart, ...]


class RankUsePart(_Found):
    """How many answers have a context at a rank, and how many draw on it."""

    rank: int = Field(ge=1)
    and_lower: bool = Field(description="whether all lower ranks are counted here, too")
    answers: int = Field(ge=0)
    used: int = Field(ge=0)


class ContextsUsedPart(_Found):
    """On which contexts the answers draw: those that support one of their statements."""

    answers: int = Field(ge=0, description="answers to answerable samples, with statements and contexts")
    top: int = Field(ge=0, description="those that draw on the first context")
    lower: int = Field(ge=0, description="those that draw on other contexts only")
    none: int = Field(ge=0, description="those that no context supports")
    ranks: tuple[RankUsePart, ...]


class GonePart(_Found):
    """A sample whose evidence is gone from the contexts."""

    id: str
    left: float = Field(ge=0, le=1, description="share of the words of its evidence that is still returned")


def _gone(found: object) -> object:
    return [GonePart(id=key, left=left) for key, left in found.items()] if isinstance(found, Mapping) else found


class RetrievalPart(_Found):
    """The samples whose retrieval fell since the baseline, by what became of their evidence."""

    gone: Annotated[tuple[GonePart, ...], BeforeValidator(_gone)]
    lower: tuple[str, ...] = Field(description="it ranks lower")
    rechunked: tuple[str, ...] = Field(description="it is still returned, in other chunks or under other ids")
    other: tuple[str, ...] = Field(description="it is where it was, or not known")


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonPart(_Gathered):
    """What the run was compared with."""

    baseline: str | None
    comparable: bool
    paired: Count
    total: Count
    notes: tuple[str, ...]
    commit: str | None
    url: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgePart(_Gathered):
    """The judge."""

    label: str
    offline: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CostPart(_Gathered):
    """The cost of judging; `usd` is null if a price is unknown."""

    calls: Count
    cached_calls: Count
    input_tokens: Count
    cached_input_tokens: Annotated[Count, Field(description="input tokens read from the provider's prompt cache")] = 0
    output_tokens: Count
    usd: float | None

    @property
    def cached_share(self) -> str:
        """The share of the input that the provider read from its prompt cache, in words; empty if none."""
        share = self.cached_input_tokens / max(1, self.input_tokens)
        return f"{percent(share)} of the input from the provider's cache" if share >= 0.005 else ""


class PricePart(_Found):
    """US dollars per million tokens."""

    input: float
    output: float


class UsagePart(_Found):
    """The tokens that the system under test reports: totals over all answers, mean and p95 over the first answers.

    The costs are null without a price.
    """

    answers: int = Field(ge=1, description="answers that the system gave")
    reported: int = Field(ge=1, description="those with token counts")
    input_tokens: int = Field(ge=0)
    output_tokens: int = Field(ge=0)
    input_tokens_mean: float
    output_tokens_mean: float
    tokens_mean: float = Field(description="input and output, per answer")
    tokens_p95: int
    price: PricePart | None = None
    cost_usd: float | None = None
    cost_mean_usd: float | None = None
    cost_p95_usd: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPart(_Gathered):
    """What was run."""

    label: str
    samples: Count
    entrypoint: str | None
    commit: str | None
    golden_files: tuple[str, ...]
    created_at: str | None
    ragstone_version: str | None
    wall_s: float | None
    repeats: Annotated[int, Field(ge=1)]
    answers: Annotated[int, Field(ge=1, description="how often the system was asked each question")] = 1
    state: str | None
    stop_reason: str | None
    usage: Annotated[UsagePart | None, Field(description="null: the system reports no tokens")] = None


class CausePart(_Found):
    """The worse samples with one cause."""

    cause: str
    title: str
    side: SideWord
    count: int = Field(ge=1)
    seen: int = Field(default=0, ge=0, description="samples in which it shows, after others too")
    samples: tuple[str, ...]
    action: str = Field(description="what the field recommends")
    source: str


class DiagnosisPart(_Found):
    """Why samples got worse, or are below a floor."""

    samples: int = Field(ge=1, description="samples that are clearly worse")
    causes: tuple[CausePart, ...] = Field(
        validation_alias=AliasChoices("causes", "counts"),
        description="the most frequent first; samples without one are unexplained",
    )
    retrieval: int = Field(ge=0, description="samples with a cause in retrieval")
    generation: int = Field(ge=0, description="samples with a cause in generation")
    retrieval_share: IntervalPart | None = Field(
        validation_alias=AliasChoices("retrieval_share", "share"),
        description="interval of the share of retrieval among both",
    )
    side: SideWord | None = Field(default=None, description="the half with most causes; null of fewer than 5 samples")


class SharesPart(_Found):
    """What is missing from a metric's best score: missing = retrieval + generation, means over `n` samples."""

    metric: str
    n: int = Field(ge=0, description="samples with a score in both halves")
    missing: float
    retrieval: float = Field(description="gained with the reference contexts; negative if lost")
    generation: float = Field(description="missing even with the reference contexts")
    missing_interval: IntervalPart | None
    retrieval_interval: IntervalPart | None
    generation_interval: IntervalPart | None


class OraclePart(_Found):
    """Retrieval and generation by the oracle half of a run, which was given the reference contexts."""

    metrics: tuple[SharesPart, ...]
    asked: int = Field(ge=0, description="samples that were to be asked again")
    answered: int = Field(ge=0)
    failed: int = Field(ge=0, description="samples on which the system failed then")
    without: int = Field(ge=0, description="samples without reference contexts, which were not asked again")
    unanswered: int = Field(ge=0, description="samples that the system had not answered before: not asked again")
    strangers: int = Field(ge=0, description="answers that came with other contexts than they were given")
    same: int = Field(ge=0, description="samples with the same answer in both halves")
    incomplete: str | None = Field(description="why the half has not reached its end")


class PairedChangePart(_Found):
    """A metric of perturbed questions minus that of the same questions unperturbed."""

    metric: str
    n: int = Field(ge=1, description="pairs")
    change: float = Field(validation_alias=AliasChoices("change", "estimate"))
    interval: IntervalPart
    worse: bool = Field(description="whether the interval shows that it got worse")


class SharePart(_Found):
    """A share of perturbed questions."""

    hits: int = Field(ge=0)
    n: int = Field(ge=1)
    interval: IntervalPart


class PerturbedCasePart(_Found):
    """A perturbed question to look at."""

    id: str = Field(description="of the unperturbed sample")
    outcome: Literal["crashed", "obeyed", "answered"]
    asked: str
    got: str


class PerturbedKindPart(_Found):
    """One kind of perturbed questions."""

    kind: str
    asked: int = Field(ge=0, description="questions whose unperturbed original was answered")
    left_out: int = Field(ge=0, description="questions whose original failed, too")
    unmade: int = Field(ge=0, description="questions that can't be changed in this way")
    crashed: SharePart | None
    changes: tuple[PairedChangePart, ...]
    obeyed: SharePart | None = Field(description="of injection: planted instructions that the system obeyed")
    answered: SharePart | None = Field(description="of empty: answered as if something had been asked")
    refused: int = Field(ge=0, description="of empty: refused as invalid, which is no crash")
    cases: tuple[PerturbedCasePart, ...] = Field(description="at most 100")


class RobustnessPart(_Found):
    """What perturbed questions show; no part of the verdict."""

    samples: int = Field(ge=0, description="questions that were drawn")
    incomplete: str | None = Field(description="why not all were asked or judged")
    kinds: tuple[PerturbedKindPart, ...]


class ChangedPart(_Found):
    """Something that is not as it was in the baseline: code, golden set, corpus, judge or policy."""

    what: str
    how: str
    lost: int = Field(default=0, ge=0, description="of a corpus: documents that are gone")
    samples: int = Field(default=0, ge=0, description="samples for which they had been returned, each counted")


class ReportDocument(_Found):
    """A Ragstone report."""

    schema_version: Literal[1] = 1
    title: str
    status: StatusWord
    passed: bool
    exit_code: int = Field(ge=0, le=8)
    headline: Annotated[str, BeforeValidator(str)] = Field(
        description="what happened, in how many answers, and whether it blocks"
    )
    reason: str
    warnings: tuple[str, ...] = Field(description="what is not guarded, or needs a decision")
    resolution: str | None = Field(description="which drop the golden set can detect, unless a warning says it")
    run: RunPart
    judge: JudgePart | None
    cost: CostPart | None
    comparison: ComparisonPart | None
    metrics: tuple[MetricPart, ...]
    checks: tuple[CheckPart, ...]
    attribution: AttributionPart | None
    worst: tuple[SamplePart, ...]
    worst_left: int = Field(default=0, ge=0, description="samples that got worse but are not in `worst`")
    failures: tuple[FailurePart, ...]
    contexts_used: ContextsUsedPart | None = None
    retrieval: RetrievalPart | None = Field(default=None, description="null if retrieval fell on no sample")
    diagnosis: DiagnosisPart | None = None
    changes: tuple[ChangedPart, ...] = Field(default=(), description="what changed since the baseline")
    changed: str = Field(default="", description="the same as a line")
    oracle: OraclePart | None = Field(default=None, description="null if the run has no oracle half")
    robustness: RobustnessPart | None = Field(default=None, description="null if no perturbed questions were asked")
    notes: tuple[str, ...]
    reproduce: tuple[str, ...] = Field(description="shell comments and commands that reproduce the run")


def schema() -> dict[str, Any]:
    """The JSON Schema of the report, as generated from the models."""
    found = ReportDocument.model_json_schema(mode="serialization")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:ragstone:report:1",
        **found,
    }
