"""What the gate puts out: checks, and the verdict over all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from ragstone.errors import (
    EXIT_GATE_FAILED,
    EXIT_INCONCLUSIVE,
    EXIT_PASS,
    BaselineError,
    JudgeError,
    SystemUnderTestError,
)
from ragstone.formatting import clipped
from ragstone.gate.findings import ORACLE, Finding, Level
from ragstone.stats.estimate import Estimate


class Status(StrEnum):
    PASS = "pass"  # noqa: S105 - a verdict, not a password
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"
    ERROR = "error"


class CheckKind(StrEnum):
    FLOOR = "floor"
    CEILING = "ceiling"
    DROP = "drop"
    RISE = "rise"
    DRIFT = "drift"
    COVERAGE = "coverage"
    APPLICABILITY = "applicability"
    MUST_PASS = "must_pass"  # noqa: S105 - a kind of check
    QUESTIONS = "questions"
    LATENCY = "latency"
    USAGE = "usage"
    SYSTEM_RISE = "system_rise"
    ERROR_RATE = "error_rate"
    AGREEMENT = "agreement"
    BASELINE = "baseline"
    PAIRED = "paired"
    GOLDEN_SET = "golden_set"
    ANSWERS = "answers"
    SHARE = "share"
    PLANTED = "planted"
    QUOTES = "quotes"


COMPARISON_KINDS = frozenset(
    {CheckKind.BASELINE, CheckKind.PAIRED, CheckKind.GOLDEN_SET}
)
"""The kinds of checks of what a run is compared with."""

ANSWERING_KINDS = frozenset({CheckKind.ANSWERS, CheckKind.ERROR_RATE})
"""The kinds of checks of whether the system answers at all."""

LEVEL_KINDS = frozenset({CheckKind.FLOOR, CheckKind.CEILING})
"""The kinds of checks of a mean. A ceiling is the floor of a metric where less is
better."""

CHANGE_KINDS = frozenset({CheckKind.DROP, CheckKind.RISE})
"""The kinds of checks of a change from the baseline. A rise is the drop of a metric
where less is better."""


class Action(StrEnum):
    """The effect of a check that does not pass."""

    BLOCK = "block"
    WARN = "warn"


class Interval(Struct, frozen=True):
    """A two-sided interval."""

    low: float
    high: float
    confidence: float
    """In (0, 1)."""
    method: str
    """A readable name (``paired bootstrap``)."""

    @classmethod
    def of(cls, estimate: Estimate) -> Interval:
        """The limits of an estimate."""
        return cls(estimate.low, estimate.high, estimate.confidence, estimate.method)


class Check(Struct, frozen=True):
    """One requirement, and its result."""

    name: str
    kind: str
    """A `CheckKind`, or the kind of a check that a project adds."""
    status: Status
    action: Action
    reason: str
    """One plain sentence."""
    metric: str | None = None
    slice: str | None = None
    estimate: float | None = None
    """In the metric's unit: the mean for a floor or ceiling, current minus baseline for
    a drop or rise, a share for coverage, error rate and paired samples, seconds for
    latency. In drift checks a loss is negative, whichever way is better."""
    interval: Interval | None = None
    """The interval of the estimate, for other questions of this kind."""
    threshold: float | None = None
    """The bound that `estimate` is compared with; for a drop: minus `max_drop`."""
    current: float | None = None
    """The value in this run: a mean, a share, seconds, tokens or US dollars."""
    baseline: float | None = None
    """The same value in the baseline, if both are compared."""
    n: int = 0
    """The number of samples, or pairs, behind the estimate."""
    accepted: str | None = None
    """The id of the accepted drop that the threshold comes from, if any."""
    sample: str | None = None
    """The id of the sample, for a check of a single one."""
    short_reason: str | None = None
    """The reason without the name of the metric or sample, for readers who see that
    already."""
    p_value: float | None = None
    """The probability of the result by chance: of as large a loss, for a drop or rise,
    and of as many broken questions, for their check."""
    unsettled: bool = False
    """Whether more answers of the system could change the result, or make it surer."""
    by_words: bool = False
    """Whether only the word comparison of the offline judge shows a loss, while the
    facts are still in the answers. Then the check warns."""
    edit: str | None = None
    """The fingerprint of the edit of the golden set, for a check of one."""

    @property
    def place(self) -> tuple[str | None, str | None]:
        """The metric and the slice of the check."""
        return self.metric, self.slice

    @property
    def passed(self) -> bool:
        return self.status is Status.PASS

    @property
    def failed(self) -> bool:
        return self.status is Status.FAIL

    @property
    def blocks(self) -> bool:
        """Whether the run does not pass if this check does not."""
        return self.action is Action.BLOCK

    @property
    def level(self) -> Level:
        """How much the check matters: one that only warns is at most a warning."""
        if self.status is Status.PASS:
            return Level.PASSED
        if self.blocks:
            return _BLOCKING_LEVELS[self.status]
        return Level.WARNING

    @property
    def finding(self) -> Finding:
        """This check as a finding."""
        where = self.metric or self.sample
        return Finding(self.kind, self.level, self.reason, where, self)

    @property
    def is_beyond(self) -> bool:
        """Whether the estimate is worse than the bound of a floor, ceiling, drop, rise
        or share allows, shown or not."""
        if self.estimate is None or self.threshold is None:
            return False
        if self.kind in (CheckKind.CEILING, CheckKind.RISE, CheckKind.SHARE):
            return self.estimate > self.threshold
        return self.estimate < self.threshold


_BLOCKING_LEVELS = {
    Status.FAIL: Level.FAILURE,
    Status.INCONCLUSIVE: Level.DOUBT,
    Status.ERROR: Level.ERROR,
}


class Side(StrEnum):
    """Which half of the system a regression points at."""

    RETRIEVAL = "retrieval"
    GENERATION = "generation"
    BOTH = "both"
    UNCLEAR = "unclear"


MIN_SAMPLES = 5
"""Nothing is concluded from the change of fewer samples, except for must-pass samples
and a total collapse."""


class CauseCount(Struct, frozen=True):
    """The worse samples with one cause, and what to do about it."""

    cause: str
    title: str
    side: Side
    action: str
    source: str
    """The address of a page on the cause."""
    samples: tuple[str, ...]
    """The ids of the samples whose first cause this is."""
    seen: int = 0
    """The number of samples that show it, also behind another cause."""

    @property
    def count(self) -> int:
        return len(self.samples)


class Diagnosis(Struct, frozen=True):
    """Why samples got worse, or are below their floors."""

    counts: tuple[CauseCount, ...]
    """The causes, the most frequent first."""
    samples: int
    """The number of samples that were looked at."""
    enough: int = MIN_SAMPLES
    """The number of samples with a cause from which on it is a reason."""

    def count_of(self, side: Side) -> int:
        """The number of samples with a cause in this half."""
        return sum(cause.count for cause in self.counts if cause.side is side)

    @property
    def side(self) -> Side | None:
        """The half with at least twice as many samples as the other; None if too few
        samples have a cause in either."""
        retrieval = self.count_of(Side.RETRIEVAL)
        generation = self.count_of(Side.GENERATION)
        if retrieval + generation < self.enough:
            return None
        if retrieval >= 2 * generation:
            return Side.RETRIEVAL
        if generation >= 2 * retrieval:
            return Side.GENERATION
        return Side.BOTH

    def cause(self, side: Side) -> CauseCount | None:
        """The most frequent cause in this half, or of all if `side` is no single half;
        None if too few samples have it."""
        is_half = side in (Side.RETRIEVAL, Side.GENERATION)
        for cause in self.counts:
            if cause.side is side or not is_half:
                return cause if cause.count >= self.enough else None
        return None

    def titles(self) -> dict[str, str]:
        """The title of the cause, by sample id."""
        titles: dict[str, str] = {}
        for cause in self.counts:
            titles |= dict.fromkeys(cause.samples, cause.title)
        return titles


class Attribution(Struct, frozen=True):
    """Where to look first."""

    side: Side
    reason: str
    """A sentence with the numbers behind it."""
    cause: CauseCount | None = None
    """The most frequent cause; None if too few samples have one."""


class Regression(Struct, frozen=True):
    """The scores in one metric of a sample that got worse, or that is far below its
    floor."""

    sample_id: str
    metric: str
    current: float
    baseline: float | None


class Comparability(Struct, frozen=True):
    """Whether and where two runs can be compared."""

    comparable: bool
    """Whether drops could be checked."""
    notes: tuple[str, ...] = ()
    """Sentences on the differences between the runs."""
    paired: int = 0
    """The number of compared samples."""
    total: int = 0
    """The number of samples of the current run."""
    metrics: tuple[str, ...] = ()
    """The compared metrics."""
    skipped: Mapping[str, str] = {}
    """The metrics that are not compared, each with the reason."""


class Changed(Struct, frozen=True):
    """What is not as it was in the baseline."""

    what: str
    """The golden set, the corpus, the judge, the policy or the code."""
    how: str
    """What is different about it."""


class MetricShares(Struct, frozen=True):
    """What is missing from a metric's best score, and how much of it is retrieval and
    generation. Without samples, all shares are 0 and all intervals None."""

    metric: str
    title: str
    n: int
    """The number of samples."""
    missing: float = 0.0
    """`retrieval` + `generation`."""
    retrieval: float = 0.0
    """The mean score that the answers gain if the system is given the reference
    contexts; negative if they lose."""
    generation: float = 0.0
    """What is missing even with the reference contexts."""
    retrieval_interval: Interval | None = None
    generation_interval: Interval | None = None


class OracleShares(Struct, frozen=True):
    """The shares of retrieval and generation, by the oracle half of a run: its samples
    asked again, with their reference contexts."""

    metrics: tuple[MetricShares, ...]
    asked: int
    """The number of samples that were to be asked again."""
    answered: int
    """The number of these that the system answered."""
    failed: int
    """The number of these on which the system failed."""
    without: int
    """The number of samples that were not asked for want of reference contexts."""
    unanswered: int
    """The number of samples that were not asked because the system had failed on them
    before."""
    strangers: int
    """The number of answers that came with other contexts than the system was given."""
    same: int
    """The number of answers that are the same in both halves."""
    incomplete: str | None = None
    """Why the half did not reach its end; None if it did."""


class Sensitivity(Struct, frozen=True):
    """What the golden set could have shown."""

    loss: float | None
    """The smallest loss of a mean that is found in 4 of 5 runs, but at least the share
    of the questions that must break to fail a run; None if no loss is found."""
    broken: int | None = None
    """The number of broken questions that fails a run; None if not even all of them
    do."""


class Explanation(Struct, frozen=True):
    """Which samples got worse, or are below what they must reach, and why."""

    attribution: Attribution | None = None
    """Where to look first."""
    diagnosis: Diagnosis | None = None
    """The causes, counted."""
    outdated_ids: tuple[str, ...] = ()
    """The samples whose relevant ids no longer fit the corpus, sorted."""
    regressions: tuple[Regression, ...] = ()
    """The worst samples, the worst first."""
    omitted_regressions: int = 0
    """The number of samples with a loss that `regressions` leaves out."""
    lower_is_better: frozenset[str] = frozenset()
    """The metrics where less is better."""


class GateVerdict(Struct, frozen=True):
    """The verdict of a whole run."""

    status: Status
    """What follows from the blocking checks."""
    reason: str
    """Why, in one sentence."""
    findings: tuple[Finding, ...] = ()
    """All that is said of the run: first the checks, then the rest, each in the order
    of its registry."""
    comparability: Comparability | None = None
    """Where the run can be compared with its baseline; None without a baseline."""
    explanation: Explanation = field(default_factory=Explanation)
    inconclusive_blocks: bool = False
    """Whether an inconclusive run ends the job with an error code."""

    def as_unproven(self, reason: str) -> GateVerdict:
        """This verdict, but inconclusive instead of passed: the run was not checked in
        full, for the `reason` (a sentence)."""
        if self.status is not Status.PASS:
            return self
        return replace(
            self,
            status=Status.INCONCLUSIVE,
            reason=f"{reason} For the rest, {self.reason}",
        )

    def with_findings(
        self, *before: Finding, after: Iterable[Finding] = ()
    ) -> GateVerdict:
        """This verdict with more findings, before and after those that it has."""
        findings = (*before, *self.findings, *after)
        return replace(self, findings=findings)

    def __repr__(self) -> str:
        name = type(self).__name__
        reason = clipped(self.reason)
        return f"{name}({self.status.value!r}, {reason!r})"

    @property
    def checks(self) -> tuple[Check, ...]:
        """The checks, in the order in which they were made."""
        return tuple(
            finding.data for finding in self.findings if isinstance(finding.data, Check)
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences for the top of every report: on what is not guarded or needs a
        decision, then the asides."""
        return (*self.texts(Level.WARNING), *self.texts(Level.ASIDE))

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for the footnotes of a report."""
        return self.texts(Level.NOTE)

    def texts(self, level: Level) -> tuple[str, ...]:
        """The sentences of the findings of one level that are not checks."""
        findings = (finding for finding in self.findings if finding.level is level)
        return tuple(
            finding.text for finding in findings if not isinstance(finding.data, Check)
        )

    def of_kind(self, kind: str) -> tuple[Finding, ...]:
        """The findings of one kind."""
        return tuple(finding for finding in self.findings if finding.kind == kind)

    def data(self, kind: str) -> Any:
        """The data of the first finding of one kind; None if there is none."""
        for finding in self.of_kind(kind):
            return finding.data
        return None

    def without_kind(self, kind: str) -> GateVerdict:
        """This verdict without the findings of one kind."""
        findings = [finding for finding in self.findings if finding.kind != kind]
        return replace(self, findings=tuple(findings))

    @property
    def oracle(self) -> OracleShares | None:
        """The shares of retrieval and generation, which decide nothing; None if the run
        has no oracle half."""
        shares: OracleShares | None = self.data(ORACLE)
        return shares

    @property
    def compared_metrics(self) -> tuple[str, ...]:
        """The metrics that were compared with those of the baseline."""
        if self.comparability is None:
            return ()
        return self.comparability.metrics

    @property
    def is_compared(self) -> bool:
        """Whether the run could be compared with its baseline."""
        return self.comparability is not None and self.comparability.comparable

    @property
    def passed(self) -> bool:
        return self.exit_code == EXIT_PASS

    @property
    def exit_code(self) -> int:
        """0 pass (or inconclusive, if allowed) · 1 fail · 4 no answers · 5 coverage · 6
        baseline · 8 inconclusive."""
        match self.status:
            case Status.FAIL:
                return EXIT_GATE_FAILED
            case Status.ERROR:
                return self._exit_code_of_errors
            case Status.INCONCLUSIVE if self.inconclusive_blocks:
                return EXIT_INCONCLUSIVE
        return EXIT_PASS

    @property
    def _exit_code_of_errors(self) -> int:
        errors = {check.kind for check in self.checks if check.status is Status.ERROR}
        if CheckKind.ANSWERS in errors:
            return SystemUnderTestError.exit_code
        if errors <= COMPARISON_KINDS:
            return BaselineError.exit_code
        return JudgeError.exit_code
