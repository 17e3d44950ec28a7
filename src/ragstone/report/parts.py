"""The view model of a report: raw text and numbers, neither escaped nor formatted.

It holds the facts of the JSON report, under the names that its schema has, and what only other formats show. Every
string may be foreign (written by a user, a system under test or a judge). Renderers escape for their target.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote

from ragstone.evaluation.manifest import Cost, SystemUsage
from ragstone.gate.alignment import ContextsUsed
from ragstone.gate.facts import Facts
from ragstone.gate.golden_set_change import GoldenSetChange
from ragstone.gate.headline import Headline
from ragstone.gate.usage_change import UsageChange
from ragstone.gate.verdict import (
    Action,
    Attribution,
    Changed,
    Check,
    Diagnosis,
    Interval,
    OracleShares,
    RetrievalChanges,
    Status,
)
from ragstone.golden.sample import Origin
from ragstone.history.trend import Trend
from ragstone.metrics.score import FailedBy

TITLE = "Ragstone"
"""The title of a report that has no other name."""


@dataclass(frozen=True, slots=True)
class Links:
    """Links in a report. `origin` turns a place in the golden set into a URL, or None if there is none.

    `run` and `baseline` are the pages of the two runs, `artifact` is the download of the run directory.
    `baseline_name` is shown for the baseline in place of its path.
    """

    origin: Callable[[Origin], str | None] = lambda _: None
    run: str | None = None
    baseline: str | None = None
    artifact: str | None = None
    baseline_name: str | None = None

    @classmethod
    def from_pattern(
        cls, pattern: str, *, run: str | None = None, baseline: str | None = None, artifact: str | None = None
    ) -> Links:
        """Links from a pattern with ``{file}`` and ``{line}``, such as ``https://host/o/r/blob/SHA/{file}#L{line}``.

        Without a line the fragment is left out. (On GitHub, add ``?plain=1``, because otherwise line anchors don't work
        in Markdown and CSV files.) Absolute paths and paths that leave the repository get no link.
        """

        def url(origin: Origin) -> str | None:
            path = origin.file.replace("\\", "/").removeprefix("./")
            if path.startswith("/") or ".." in path.split("/") or path[1:2] == ":":
                return None
            base = pattern if origin.line is not None else pattern.partition("#")[0]
            return base.replace("{file}", quote(path, errors="replace")).replace("{line}", str(origin.line))

        return cls(origin=url, run=run, baseline=baseline, artifact=artifact)


@dataclass(frozen=True, slots=True)
class PlacePart(Origin):
    """Where a sample comes from."""

    url: str | None = None

    @classmethod
    def of(cls, origin: Origin | None, to_url: Callable[[Origin], str | None]) -> PlacePart | None:
        """The place of `origin` with its address; None without an origin."""
        return None if origin is None else cls(origin.file, origin.line, to_url(origin))


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricRow:
    """The row of a metric, for the whole run or one slice.

    `change` is current minus baseline, over the samples that both runs have. Where less is better, `ceiling` and
    `max_rise` are in place of `floor` and `max_drop`. `target` is the ideal: missing it only warns. `status` and
    `action` are None if no check covers the metric; `state` is a few words for display, and `deciding` the check that
    it comes from. `n` are the samples behind the score; `min`, `max` and `sd` (n - 1) are of their scores.
    `offline_reliability` is the measured grade of the offline judge for this metric. `level_warns` and `change_warns`:
    being beyond the floor or ceiling, or the drop or rise, only warns.
    """

    metric: str
    title: str
    slice: str | None
    score: float | None
    interval: Interval | None
    change: float | None
    change_interval: Interval | None
    floor: float | None
    max_drop: float | None
    ceiling: float | None
    max_rise: float | None
    target: float | None
    lower_is_better: bool
    status: Status | None
    action: Action | None
    state: str
    deciding: Check | None
    n: int
    not_applicable: int
    failed: int
    min: float | None
    max: float | None
    sd: float | None
    offline_reliability: str | None
    level_warns: bool = False
    change_warns: bool = False

    @property
    def level(self) -> float | None:
        return self.floor if self.ceiling is None else self.ceiling

    @property
    def allowed_change(self) -> float | None:
        """The largest change allowed, with its sign."""
        if self.max_rise is not None:
            return self.max_rise
        return None if self.max_drop is None else -self.max_drop


@dataclass(frozen=True, slots=True)
class CheckRow:
    """A check other than a floor or drop of a metric: coverage, latency, errors, must-pass, agreement."""

    title: str
    found: str
    wanted: str
    check: Check


@dataclass(frozen=True, slots=True)
class ChangePart:
    """One metric of one sample."""

    metric: str
    current: float | None
    baseline: float | None
    note: str | None


@dataclass(frozen=True, slots=True)
class StatementPart:
    """A statement of an answer that no context supports, and the contradicting passage if the judge quoted one."""

    text: str
    verdict: Literal["unsupported", "contradicted"]
    quote: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplePart:
    """A sample that got worse, or that is far below a floor.

    `missing` are the statements of the reference that no context supports, `cause` is why it is worse, in words.
    `detailed`: its answer is here.
    """

    id: str
    question: str
    place: PlacePart | None
    tags: tuple[str, ...]
    changes: tuple[ChangePart, ...]
    answer: str
    baseline_answer: str | None
    reference: str | None
    unsupported: tuple[StatementPart, ...]
    missing: tuple[str, ...]
    cause: str | None
    facts: Facts | None
    contexts: int
    useful_contexts: int | None
    detailed: bool


@dataclass(frozen=True, slots=True)
class FailedSamplePart:
    """A sample without a score."""

    id: str
    place: PlacePart | None


@dataclass(frozen=True, slots=True)
class FailurePart:
    """Samples that failed for one reason."""

    by: FailedBy
    reason: str
    metrics: tuple[str, ...]
    samples: tuple[FailedSamplePart, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonPart:
    """What the run was compared with."""

    baseline: str | None
    comparable: bool
    paired: int
    total: int
    notes: tuple[str, ...]
    commit: str | None
    url: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeFacts:
    """Who judged. `grades` are pairs of a metric and the offline judge's measured reliability for it."""

    label: str
    offline: bool
    grades: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPart:
    """What was run; of a run without a manifest, only its name and size are known.

    `answers` is how often the system was asked each question. `usage` is None if it reports no tokens.
    """

    label: str
    samples: int
    entrypoint: str | None = None
    commit: str | None = None
    golden_files: tuple[str, ...] = ()
    created_at: str | None = None
    ragstone_version: str | None = None
    wall_s: float | None = None
    repeats: int = 1
    answers: int = 1
    state: str | None = None
    stop_reason: str | None = None
    usage: SystemUsage | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """One score in the table of samples. `worse`: it got worse. `reason` says why there is no value."""

    value: float | None
    change: float | None
    state: Literal["scored", "not_applicable", "failed", "absent"]
    reason: str | None = None
    worse: bool = False


@dataclass(frozen=True, slots=True)
class SampleRow:
    """One row in the table of samples; `cells` are in the order of ReportView.sample_metrics."""

    id: str
    question: str
    tags: tuple[str, ...]
    place: PlacePart | None
    cells: tuple[Cell, ...]
    latency_s: float | None
    failure: str | None
    cause: str | None = None
    """Why it is worse, in words."""

    changed: tuple[str, ...] = ()
    """What differs from the baseline: ``answer``, ``contexts``, ``scores``."""


@dataclass(frozen=True, slots=True)
class Differences:
    """Paired differences (current minus baseline) of one metric, in bins over [-1, 1]; exact zeros are separate."""

    metric: str
    title: str
    lower_is_better: bool
    edges: tuple[float, ...]
    counts: tuple[int, ...]
    worse: int
    same: int
    better: int


@dataclass(frozen=True, slots=True)
class ReportView:
    """Everything that a report shows, the verdict first, with `warnings` directly below it."""

    title: str
    status: Status
    passed: bool
    exit_code: int
    headline: Headline
    reason: str
    run: RunPart
    metrics: tuple[MetricRow, ...]
    checks: tuple[Check, ...]
    check_rows: tuple[CheckRow, ...]
    attribution: Attribution | None
    worst: tuple[SamplePart, ...]
    failures: tuple[FailurePart, ...]
    comparison: ComparisonPart | None
    judge: JudgeFacts | None
    cost: Cost | None
    warnings: tuple[str, ...]
    resolution: str | None
    notes: tuple[str, ...]
    reproduce: tuple[str, ...]
    accept: tuple[str, ...]
    differences: tuple[Differences, ...]
    sample_metrics: tuple[str, ...]
    samples: tuple[SampleRow, ...]
    samples_total: int
    asides: int = 0
    """How many of `warnings`, the last ones, change nothing about this run."""

    worst_left: int = 0
    """Samples that lost but are not in `worst`."""

    trends: tuple[Trend, ...] = ()
    contexts_used: ContextsUsed | None = None
    retrieval: RetrievalChanges | None = None
    diagnosis: Diagnosis | None = None
    oracle: OracleShares | None = None
    run_url: str | None = None
    artifact_url: str | None = None
    changed: str = ""
    """What changed since the baseline: a line, empty if nothing did."""

    changes: tuple[Changed, ...] = ()
    golden_set_change: GoldenSetChange | None = None
    usage_changes: tuple[UsageChange, ...] = ()
    usage: str = ""
    """What an answer took and cost before, and now: a line, empty if nothing is known."""

    @property
    def explained(self) -> Diagnosis | None:
        """The causes to speak of: none of a run that passes."""
        return None if self.status is Status.PASS else self.diagnosis
