"""The parts of a report: text and numbers, as `report.json` has them.

Every string may be foreign (written by a user, a system under test or a judge), and must
be escaped when it is rendered.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Literal

from msgspec import Struct

from ragstone.evaluation.manifest import Cost
from ragstone.evaluation.usage import SystemUsage
from ragstone.gate.findings import SENSITIVITY, Level
from ragstone.gate.golden_set_change import GoldenSetChange
from ragstone.gate.speed_and_price import UsageChange
from ragstone.gate.verdict import (
    Action,
    Attribution,
    Changed,
    Check,
    Diagnosis,
    Interval,
    OracleShares,
    Status,
)
from ragstone.golden.sample import Origin
from ragstone.metrics.score import FailedBy


class Links(Struct, frozen=True):
    """Links in a report."""

    origin: Callable[[Origin], str | None] = lambda _: None
    """Turns a place in the golden set into a URL, or None if there is none."""
    run: str | None = None
    """The page of the run."""
    baseline: str | None = None
    """The page of the baseline's run."""
    baseline_name: str | None = None
    """What reports call the baseline; None for its path."""


NO_LINKS = Links()


class Place(Struct, frozen=True):
    """A place in the golden set: an `Origin` with a link."""

    file: str
    line: int | None = None
    url: str | None = None
    """The address of the place."""

    def __str__(self) -> str:
        return str(Origin(self.file, self.line))


class VerdictPart(Struct, frozen=True, kw_only=True):
    """The verdict of the run."""

    status: Status
    passed: bool
    """Whether the job goes on."""
    exit_code: int
    headline: str
    """Line one of every report: `lead` and `fact`."""
    lead: str
    """What happened, and whether it blocks."""
    fact: str
    """In how many answers, or by how much."""
    reason: str
    """Why the run has this status, in one sentence."""


class FindingPart(Struct, frozen=True):
    """A finding about the run, beside its checks."""

    kind: str
    """The kind of the finding, such as ``drop`` or ``step_changes``."""
    level: Level
    """How much the finding matters. Alerts come directly below line one of every report."""
    text: str
    """One sentence, or a command."""
    where: str | None = None
    """The metric, slice, sample, turn, hop or tool that the finding is about."""


class Limit(Struct, frozen=True):
    """A limit of a metric."""

    kind: str
    """``floor``, ``ceiling``, ``drop`` or ``rise``."""
    value: float
    """The lowest or highest score, or the largest loss."""
    warns: bool
    """Whether a value beyond the limit only warns."""


class MetricPart(Struct, frozen=True, kw_only=True):
    """A metric, over the whole run or in one slice."""

    metric: str
    title: str
    slice: str | None
    score: float | None
    interval: Interval | None
    change: float | None
    """Current minus baseline, over the samples that both runs have."""
    current: float | None
    """The score over the samples that both runs have; None if other checks cover the
    metric, but none of its change."""
    baseline: float | None
    limits: tuple[Limit, ...]
    lower_is_better: bool
    status: Status | None
    """None if no check covers the metric."""
    action: Action | None
    state: str
    """The status in a few words."""
    check: str | None
    """The name of the check that the status comes from."""
    n: int
    """The number of samples behind the score."""
    not_applicable: int
    failed: int
    offline_reliability: str | None
    """The measured grade of the offline judge for this metric."""

    @property
    def loss(self) -> float:
        """By how much the score got worse; negative if it got better."""
        change = self.change or 0.0
        return change if self.lower_is_better else -change

    def limit(self, kinds: Collection[str]) -> float | None:
        """Return the limit of one of these kinds, None if there is none."""
        return next((limit.value for limit in self.limits if limit.kind in kinds), None)


class CheckPart(Check, frozen=True, kw_only=True):
    """A check, with its title, and with its numbers as text."""

    title: str
    shown: str
    """The estimate as text; empty if the title or the reason says it."""
    required: str
    """The threshold as text."""


class ChangePart(Struct, frozen=True):
    """One metric of one sample."""

    metric: str
    current: float | None
    baseline: float | None
    note: str | None


class StatementPart(Struct, frozen=True):
    """A statement of an answer that no context supports."""

    text: str
    verdict: Literal["unsupported", "contradicted"]
    quote: str | None = None
    """The passage that contradicts the statement, if the judge quoted one."""


class SamplePart(Struct, frozen=True, kw_only=True):
    """A sample that got worse, or that is far below a floor."""

    id: str
    question: str
    place: Place | None = None
    tags: tuple[str, ...] = ()
    changes: tuple[ChangePart, ...] = ()
    detailed: bool = False
    """Whether the part has the answer and the statements."""
    answer: str = ""
    baseline_answer: str | None = None
    reference: str | None = None
    unsupported: tuple[StatementPart, ...] = ()
    missing: tuple[str, ...] = ()
    """The statements of the reference that no context supports."""
    cause: str | None = None
    """The title of the cause, if one was found."""

    @property
    def same_answer(self) -> bool:
        """Whether the answer is the baseline's."""
        return self.baseline_answer == self.answer


class FailedSamplePart(Struct, frozen=True):
    """A sample without a score."""

    id: str
    place: Place | None


class FailurePart(Struct, frozen=True):
    """Samples that failed for one reason."""

    by: FailedBy
    reason: str
    metrics: tuple[str, ...]
    samples: tuple[FailedSamplePart, ...]
    trace: tuple[str, ...] = ()
    """For the first of the samples, the last lines of the user's code in the traceback,
    and the error; or the last lines that the system printed."""


class Cell(Struct, frozen=True):
    """One score in the table of samples."""

    value: float | None
    change: float | None
    state: Literal["scored", "not_applicable", "failed", "absent"]
    reason: str | None = None
    """Why there is no value."""
    worse: bool = False
    """Whether the score got worse."""


class SampleRow(Struct, frozen=True):
    """One row in the table of samples."""

    id: str
    question: str
    tags: tuple[str, ...]
    place: Place | None
    cells: tuple[Cell, ...]
    """One for each of `SamplesPart.metrics`."""
    latency_s: float | None
    failure: str | None
    cause: str | None = None


class SamplesPart(Struct, frozen=True, kw_only=True):
    """The samples of the run."""

    total: int = 0
    worst: tuple[SamplePart, ...] = ()
    """The samples that lost most, or fall short of their floors by most."""
    worst_omitted: int = 0
    """The number of samples that lost but are not in `worst`."""
    failures: tuple[FailurePart, ...] = ()
    metrics: tuple[str, ...] = ()
    """The columns of `rows`."""
    rows: tuple[SampleRow, ...] = ()
    """The first rows of the table of samples, which begins with the worst."""

    @property
    def worst_total(self) -> int:
        return len(self.worst) + self.worst_omitted


class ExplanationPart(Struct, frozen=True, kw_only=True):
    """What the samples show about the reasons."""

    attribution: Attribution | None = None
    """Where to look first."""
    diagnosis: Diagnosis | None = None
    """The causes of the worse samples, counted."""
    oracle: OracleShares | None = None
    """How much is lost in retrieval, and how much in generation."""
    changes: tuple[Changed, ...] = ()
    """What changed since the baseline."""
    golden_set_change: GoldenSetChange | None = None
    """How many of the baseline's questions changed."""
    usage_changes: tuple[UsageChange, ...] = ()
    """What an answer took and cost in the baseline, and in this run."""


class ComparisonPart(Struct, frozen=True, kw_only=True):
    """What the run was compared with."""

    baseline: str | None
    comparable: bool = False
    paired: int = 0
    """The number of samples that were compared."""
    total: int = 0
    notes: tuple[str, ...] = ()
    commit: str | None = None
    url: str | None = None


class JudgePart(Struct, frozen=True, kw_only=True):
    """The judge of the run."""

    label: str
    offline: bool
    """Whether the judge is not a language model."""


class RunPart(Struct, frozen=True, kw_only=True):
    """What was run; of a run without a manifest, only its name and size are known."""

    label: str
    samples: int
    entrypoint: str | None = None
    commit: str | None = None
    golden_files: tuple[str, ...] = ()
    created_at: str | None = None
    ragstone_version: str | None = None
    wall_s: float | None = None
    repeats: int = 1
    """How often each answer was judged."""
    answers: int = 1
    """How often each question was asked."""
    state: str | None = None
    stop_reason: str | None = None
    usage: SystemUsage | None = None
    """None if the system reports no tokens."""
    judge: JudgePart | None = None
    cost: Cost | None = None
    """What judging cost."""
    reproduce: tuple[str, ...] = ()
    """Comments and commands that start the run again."""
    url: str | None = None


class Document(Struct, frozen=True, kw_only=True):
    """A report: what `report.json` has, and all that the other
    formats show."""

    schema_version: Literal[1] = 1
    title: str = "Ragstone"
    verdict: VerdictPart
    findings: tuple[FindingPart, ...]
    """The findings, in the order in which reports show them."""
    metrics: tuple[MetricPart, ...]
    checks: tuple[CheckPart, ...]
    explanation: ExplanationPart
    samples: SamplesPart
    comparison: ComparisonPart | None
    run: RunPart

    def texts(self, level: Level) -> tuple[str, ...]:
        """Return the sentences of the findings of a level."""
        return tuple(
            finding.text for finding in self.findings if finding.level is level
        )

    @property
    def alerts(self) -> tuple[str, ...]:
        """The alerts that line one doesn't have: it has those of a run that passes."""
        return tuple(
            text
            for text in self.texts(Level.ALERT)
            if text not in self.verdict.headline
        )

    @property
    def resolution(self) -> str | None:
        """What loss the golden set could have shown; None if a warning says it."""
        for finding in self.findings:
            if finding.level is Level.FACT and finding.kind == SENSITIVITY:
                return finding.text
        return None

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings, then the asides."""
        return (*self.texts(Level.WARNING), *self.texts(Level.ASIDE))
