"""The JSON report, a versioned document. `schema/report.schema.json` is generated from these models."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ragstone.metrics.score import FailedBy

SCHEMA_VERSION: Literal[1] = 1

Status = Literal["pass", "fail", "inconclusive", "error"]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class IntervalPart(_Part):
    """A two-sided interval."""

    low: float
    high: float
    confidence: float = Field(gt=0, lt=1)
    method: str


class PlacePart(_Part):
    """Where a sample comes from."""

    file: str
    line: int | None = None
    url: str | None = None


class MetricPart(_Part):
    """One metric, for the whole run or one slice."""

    metric: str
    title: str
    slice: str | None
    score: float | None
    interval: IntervalPart | None
    change: float | None = Field(description="current minus baseline, over the samples that both runs have")
    change_interval: IntervalPart | None
    floor: float | None
    max_drop: float | None
    ceiling: float | None = Field(default=None, description="instead of a floor, where less is better")
    max_rise: float | None = Field(default=None, description="instead of max_drop, where less is better")
    target: float | None = Field(default=None, description="the ideal; missing it only warns")
    lower_is_better: bool = False
    status: Status | None = Field(description="null if no check covers this metric")
    action: Literal["block", "warn"] | None
    state: str = Field(description="a few words for display")
    n: int = Field(ge=0, description="samples behind the score")
    not_applicable: int = Field(ge=0)
    failed: int = Field(ge=0)
    min: float | None = Field(default=None, description="lowest score of a sample")
    max: float | None = Field(default=None, description="highest score of a sample")
    sd: float | None = Field(default=None, description="standard deviation of the samples' scores (n - 1)")
    offline_reliability: str | None = Field(description="measured grade of the offline judge for this metric")


class CheckPart(_Part):
    """One check of the gate, as decided."""

    name: str
    kind: Literal[
        "floor",
        "ceiling",
        "drop",
        "rise",
        "target",
        "drift",
        "coverage",
        "must_pass",
        "latency",
        "usage",
        "error_rate",
        "agreement",
        "baseline",
        "answers",
    ]
    status: Status
    action: Literal["block", "warn"]
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


class AttributionPart(_Part):
    """Which half of the system to look at first."""

    side: Literal["retrieval", "generation", "both", "unclear"]
    reason: str


class ChangePart(_Part):
    """One metric of one sample."""

    metric: str
    current: float | None
    baseline: float | None
    note: str | None


class StatementPart(_Part):
    """A statement of an answer that no context supports."""

    text: str
    verdict: Literal["unsupported", "contradicted"]
    quote: str | None = Field(default=None, description="the contradicting passage, if the judge quoted one")


class SamplePart(_Part):
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
    missing: tuple[str, ...] = Field(description="statements of the reference that no context supports")
    cause: str | None = Field(default=None, description="why it is worse, in words")
    contexts: int = Field(ge=0)
    useful_contexts: int | None
    detailed: bool = Field(default=True, description="whether its answer is here; all are in samples.jsonl")


class FailedSamplePart(_Part):
    """A sample without a score."""

    id: str
    place: PlacePart | None


class FailurePart(_Part):
    """Samples that failed for one reason."""

    by: FailedBy
    reason: str
    metrics: tuple[str, ...]
    samples: tuple[FailedSamplePart, ...]


class RankUsePart(_Part):
    """How many answers have a context at a rank, and how many draw on it."""

    rank: int = Field(ge=1)
    and_lower: bool = Field(description="whether all lower ranks are counted here, too")
    answers: int = Field(ge=0)
    used: int = Field(ge=0)


class ContextsUsedPart(_Part):
    """On which contexts the answers draw: those that support one of their statements."""

    answers: int = Field(ge=0, description="answers to answerable samples, with statements and contexts")
    top: int = Field(ge=0, description="those that draw on the first context")
    lower: int = Field(ge=0, description="those that draw on other contexts only")
    none: int = Field(ge=0, description="those that no context supports")
    ranks: tuple[RankUsePart, ...]


class GonePart(_Part):
    """A sample whose evidence is gone from the contexts."""

    id: str
    left: float = Field(ge=0, le=1, description="share of the words of its evidence that is still returned")


class RetrievalPart(_Part):
    """The samples whose retrieval fell since the baseline, by what became of their evidence."""

    gone: tuple[GonePart, ...]
    lower: tuple[str, ...] = Field(description="it ranks lower")
    rechunked: tuple[str, ...] = Field(description="it is still returned, in other chunks or under other ids")
    other: tuple[str, ...] = Field(description="it is where it was, or not known")


class ComparisonPart(_Part):
    """What the run was compared with."""

    baseline: str | None
    comparable: bool
    paired: int = Field(ge=0)
    total: int = Field(ge=0)
    notes: tuple[str, ...]
    commit: str | None
    url: str | None


class JudgePart(_Part):
    """The judge."""

    label: str
    offline: bool


class CostPart(_Part):
    """The cost of judging; `usd` is null if a price is unknown."""

    calls: int = Field(ge=0)
    cached_calls: int = Field(ge=0)
    input_tokens: int = Field(ge=0)
    cached_input_tokens: int = Field(default=0, ge=0, description="input tokens read from the provider's prompt cache")
    output_tokens: int = Field(ge=0)
    usd: float | None


class PricePart(_Part):
    """US dollars per million tokens."""

    input: float
    output: float


class UsagePart(_Part):
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


class RunPart(_Part):
    """What was run."""

    label: str
    samples: int = Field(ge=0)
    entrypoint: str | None
    commit: str | None
    golden_files: tuple[str, ...]
    created_at: str | None
    ragstone_version: str | None
    wall_s: float | None
    repeats: int = Field(ge=1)
    answers: int = Field(default=1, ge=1, description="how often the system was asked each question")
    state: str | None
    stop_reason: str | None
    usage: UsagePart | None = Field(default=None, description="null: the system reports no tokens")


class CausePart(_Part):
    """The worse samples with one cause."""

    cause: str
    title: str
    side: Literal["retrieval", "generation", "both", "unclear"]
    count: int = Field(ge=1)
    samples: tuple[str, ...]
    action: str = Field(description="what the field recommends")
    source: str


class DiagnosisPart(_Part):
    """Why samples got worse, or are below a floor."""

    samples: int = Field(ge=1, description="samples that are clearly worse")
    causes: tuple[CausePart, ...] = Field(description="the most frequent first; samples without one are unexplained")
    retrieval: int = Field(ge=0, description="samples with a cause in retrieval")
    generation: int = Field(ge=0, description="samples with a cause in generation")
    retrieval_share: IntervalPart | None = Field(description="interval of the share of retrieval among both")


class SharesPart(_Part):
    """What is missing from a metric's best score: missing = retrieval + generation, means over `n` samples."""

    metric: str
    n: int = Field(ge=0, description="samples with a score in both halves")
    missing: float
    retrieval: float = Field(description="gained with the reference contexts; negative if lost")
    generation: float = Field(description="missing even with the reference contexts")
    missing_interval: IntervalPart | None
    retrieval_interval: IntervalPart | None
    generation_interval: IntervalPart | None


class OraclePart(_Part):
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


class PairedChangePart(_Part):
    """A metric of perturbed questions minus that of the same questions unperturbed."""

    metric: str
    n: int = Field(ge=1, description="pairs")
    change: float
    interval: IntervalPart
    worse: bool = Field(description="whether the interval shows that it got worse")


class SharePart(_Part):
    """A share of perturbed questions."""

    hits: int = Field(ge=0)
    n: int = Field(ge=1)
    interval: IntervalPart


class PerturbedCasePart(_Part):
    """A perturbed question to look at."""

    id: str = Field(description="of the unperturbed sample")
    outcome: Literal["crashed", "obeyed", "answered"]
    asked: str
    got: str


class PerturbedKindPart(_Part):
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


class RobustnessPart(_Part):
    """What perturbed questions show; no part of the verdict."""

    samples: int = Field(ge=0, description="questions that were drawn")
    incomplete: str | None = Field(description="why not all were asked or judged")
    kinds: tuple[PerturbedKindPart, ...]


class ReportDocument(_Part):
    """A Ragstone report."""

    schema_version: Literal[1] = 1
    title: str
    status: Status
    passed: bool
    exit_code: int = Field(ge=0, le=8)
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
