"""The gate's output: checks, and the verdict over all of them."""

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


COMPARING = frozenset({CheckKind.BASELINE, CheckKind.PAIRED, CheckKind.GOLDEN_SET})
"""Checks of what a run is compared with."""

SYSTEM = frozenset({CheckKind.ANSWERS, CheckKind.ERROR_RATE})
"""Checks of whether the system answers at all."""

LEVELS = frozenset({CheckKind.FLOOR, CheckKind.CEILING})
"""Checks of a mean. A ceiling is the floor of a metric where less is better."""

CHANGES = frozenset({CheckKind.DROP, CheckKind.RISE})
"""Checks of a change from the baseline. A rise is the drop of a metric where less is
better."""


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
    """Of the mean of a floor or ceiling, for other questions of this kind."""
    threshold: float | None = None
    """The bound that `estimate` is compared with; for a drop: minus `max_drop`."""
    current: float | None = None
    """Of paired samples: the share that is left if every edit of the golden set is
    accepted."""
    baseline: float | None = None
    n: int = 0
    """The number of samples, or pairs, behind the estimate."""
    accepted: str | None = None
    """The id of the accepted drop that the threshold comes from, if any."""
    sample: str | None = None
    """The id of the one sample that it is about, if any."""
    short_reason: str | None = None
    """The reason without the name of the metric or sample, for readers who see that
    already."""
    p_value: float | None = None
    """That of "no loss on these questions", for a drop or rise, and of "no more broke
    than by chance", for broken questions."""
    unsettled: bool = False
    """It would be decided otherwise, or more surely, if the system were asked again."""
    by_words: bool = False
    """Only the words of the offline judge show it, and the facts are still there; then
    it warns."""
    edit: str | None = None
    """The fingerprint of the golden set's edit that it is about, if it is about one."""

    @property
    def place(self) -> tuple[str | None, str | None]:
        """The metric and the slice that it is about."""
        return self.metric, self.slice

    @property
    def passed(self) -> bool:
        return self.status is Status.PASS

    @property
    def failed(self) -> bool:
        return self.status is Status.FAIL

    @property
    def blocks(self) -> bool:
        """Whether it blocks if it does not pass."""
        return self.action is Action.BLOCK

    @property
    def level(self) -> Level:
        """How much it matters: what only warns is no more than a warning."""
        if self.status is Status.PASS:
            return Level.PASSED
        if self.blocks:
            return _LEVELS[self.status]
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


_LEVELS = {
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
"""A change of fewer samples is no argument for anything, must-pass samples and a total
collapse apart."""


class CauseCount(Struct, frozen=True):
    """The worse samples with one cause, and what to do about it."""

    cause: str
    title: str
    side: Side
    action: str
    source: str
    """An address."""
    samples: tuple[str, ...]
    seen: int = 0
    """The samples that show it: some have another cause that comes first."""

    @property
    def count(self) -> int:
        return len(self.samples)


class Diagnosis(Struct, frozen=True):
    """Why samples got worse, or are below their floors."""

    counts: tuple[CauseCount, ...]
    """The most frequent cause first."""
    samples: int
    enough: int = MIN_SAMPLES
    """So many samples with a cause are an argument."""

    def count_of(self, side: Side) -> int:
        """The samples with a cause in this half."""
        return sum(cause.count for cause in self.counts if cause.side is side)

    @property
    def side(self) -> Side | None:
        """The half with at least twice as many causes as the other; None of too few
        samples."""
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
        """The most frequent cause in this half (for none alone: of all); None if too
        few samples have one."""
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
    """With the numbers behind it."""
    cause: CauseCount | None = None
    """The most frequent one, of enough samples."""


class Regression(Struct, frozen=True):
    """One sample that got worse, or that is far below its floor: the change in one
    metric."""

    sample_id: str
    metric: str
    current: float
    baseline: float | None


class Comparability(Struct, frozen=True):
    """Whether and where two runs can be compared."""

    comparable: bool
    """False means that no drop was checked."""
    notes: tuple[str, ...] = ()
    """Plain sentences on the differences."""
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
    how: str


class MetricShares(Struct, frozen=True):
    """What is missing from a metric's best score. Without samples, all shares are 0 and
    all intervals None."""

    metric: str
    title: str
    n: int
    """The number of samples."""
    missing: float = 0.0
    """`retrieval` + `generation`."""
    retrieval: float = 0.0
    """What the answers gain if the system is given the reference contexts; negative if
    they lose."""
    generation: float = 0.0
    retrieval_interval: Interval | None = None
    generation_interval: Interval | None = None


class OracleShares(Struct, frozen=True):
    """Retrieval and generation by the oracle half of a run."""

    metrics: tuple[MetricShares, ...]
    asked: int
    """The samples that were to be asked again."""
    answered: int
    """Those that were."""
    failed: int
    """Those on which the system failed then."""
    without: int
    """Those without reference contexts, which were not asked."""
    unanswered: int
    """Those on which the system had failed before, which were not asked."""
    strangers: int
    """The answers that came with other contexts than they were given."""
    same: int
    """The answers that are the same in both halves."""
    incomplete: str | None = None
    """Why the half has not reached its end."""


class Sensitivity(Struct, frozen=True):
    """What the golden set could have shown."""

    loss: float | None
    """The smallest loss of a mean that is found in 4 of 5 runs, and never less than as
    many broken questions as fail a run; None: none at all."""
    broken: int | None = None
    """The broken questions that fail a run; None: not even all of them do."""


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
    regressed_left: int = 0
    """The number of samples with a loss that are not in `regressions`."""
    lower_is_better: frozenset[str] = frozenset()
    """The metrics of which less is better."""


class GateVerdict(Struct, frozen=True):
    """The verdict of a whole run."""

    status: Status
    """It follows from the blocking checks."""
    reason: str
    """Why, in one sentence."""
    findings: tuple[Finding, ...] = ()
    """All that is said of the run, in the order of the registry, the checks first."""
    comparability: Comparability | None = None
    """It is None without a baseline."""
    explanation: Explanation = field(default_factory=Explanation)
    inconclusive_blocks: bool = False
    """An inconclusive run ends the job."""

    def unproven(self, why: str) -> GateVerdict:
        """This verdict for a run that was not checked in full, for the reason `why` (a
        sentence): it can't pass."""
        if self.status is not Status.PASS:
            return self
        return replace(
            self,
            status=Status.INCONCLUSIVE,
            reason=f"{why} For the rest, {self.reason}",
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
        warnings = self.texts(Level.WARNING)
        asides = self.texts(Level.ASIDE)
        return (*warnings, *asides)

    @property
    def notes(self) -> tuple[str, ...]:
        """Footnotes."""
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
        """The data of the first finding of one kind; None without one."""
        for finding in self.of_kind(kind):
            return finding.data
        return None

    def without(self, kind: str) -> GateVerdict:
        """This verdict without the findings of one kind."""
        findings = [finding for finding in self.findings if finding.kind != kind]
        return replace(self, findings=tuple(findings))

    @property
    def oracle(self) -> OracleShares | None:
        """Retrieval and generation by the oracle half of the run; None if it has none.
        It decides nothing."""
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
        if errors <= COMPARING:
            return BaselineError.exit_code
        return JudgeError.exit_code
