"""The view model of a report: raw text and numbers, neither escaped nor formatted.

Every string may be foreign (written by a user, a system under test or a judge). Renderers escape for their target.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote

from ragstone.formatting import percent
from ragstone.gate.alignment import ContextsUsed
from ragstone.gate.robustness import Robustness
from ragstone.gate.verdict import (
    Action,
    Attribution,
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
from ragstone.run.manifest import SystemUsage


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
class Spread:
    """How the scores of the samples differ: lowest, highest, and standard deviation (n - 1; None for one sample)."""

    lowest: float
    highest: float
    deviation: float | None


@dataclass(frozen=True, slots=True)
class MetricRow:
    """One metric (of one slice): its score, change, thresholds and state.

    `change` is current minus baseline over the samples that both runs have. `status` is None if no check covers the
    metric. `state` is a few words. `deciding` is the check that the state comes from. Where less is better, there are a
    ceiling and an allowed rise instead of a floor and an allowed drop.
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
    status: Status | None
    action: Action | None
    state: str
    deciding: Check | None
    n: int
    not_applicable: int
    failed: int
    grade: str | None
    ceiling: float | None = None
    max_rise: float | None = None
    lower_is_better: bool = False
    spread: Spread | None = None
    """None without a score."""

    target: float | None = None
    """The ideal that the policy names, on the metric's own scale."""

    @property
    def level(self) -> float | None:
        """The floor or ceiling."""
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
class MetricChange:
    """One metric of one sample: its score in both runs, and the note that came with the score."""

    metric: str
    title: str
    current: float | None
    baseline: float | None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class BadStatement:
    """A statement of the answer that no context supports."""

    text: str
    verdict: Literal["unsupported", "contradicted"]
    quote: str | None = None
    """The contradicting passage, if the judge quoted one."""


@dataclass(frozen=True, slots=True)
class WorstSample:
    """A sample that got worse, or that is far below a floor, with the problems of its answer.

    `missing` are the statements of the reference that no context supports. `useful_contexts` is None if usefulness was
    not judged. `detailed` is False if its record is not available.
    """

    id: str
    question: str
    changes: tuple[MetricChange, ...]
    origin: Origin | None = None
    url: str | None = None
    tags: tuple[str, ...] = ()
    answer: str = ""
    baseline_answer: str | None = None
    reference: str | None = None
    unsupported: tuple[BadStatement, ...] = ()
    missing: tuple[str, ...] = ()
    cause: str | None = None
    contexts: int = 0
    useful_contexts: int | None = None
    detailed: bool = False


@dataclass(frozen=True, slots=True)
class FailedSample:
    """A sample without a score, by name."""

    id: str
    origin: Origin | None
    url: str | None


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Samples that failed for one reason. `metrics` is empty if the system under test gave no response."""

    by: FailedBy
    reason: str
    metrics: tuple[str, ...]
    samples: tuple[FailedSample, ...]


@dataclass(frozen=True, slots=True)
class JudgeFacts:
    """Who judged. `grades` are (metric title, grade) pairs of the offline judge's measured reliability."""

    label: str
    offline: bool
    grades: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What was run. Everything that a plain score file doesn't contain is None or empty."""

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
    """The tokens that the system reports for its answers; None if it reports none."""


@dataclass(frozen=True, slots=True)
class CostFacts:
    """The cost of judging. `usd` is None if a price is unknown."""

    calls: int
    cached_calls: int
    input_tokens: int
    output_tokens: int
    usd: float | None
    cached_input_tokens: int = 0
    """Input tokens that the provider read from its prompt cache."""

    @property
    def cached_share(self) -> str:
        """The share of the input that the provider read from its prompt cache, in words; empty if none."""
        share = self.cached_input_tokens / max(1, self.input_tokens)
        return f"{percent(share)} of the input from the provider's cache" if share >= 0.005 else ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What the run was compared with. `label` is None if there was no baseline."""

    label: str | None
    comparable: bool
    paired: int
    total: int
    notes: tuple[str, ...]
    commit: str | None = None
    url: str | None = None


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
    origin: Origin | None
    url: str | None
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
    reason: str
    run: RunFacts
    metrics: tuple[MetricRow, ...]
    checks: tuple[CheckRow, ...]
    all_checks: tuple[Check, ...]
    attribution: Attribution | None
    worst: tuple[WorstSample, ...]
    failures: tuple[FailureGroup, ...]
    comparison: Comparison | None
    judge: JudgeFacts | None
    cost: CostFacts | None
    warnings: tuple[str, ...]
    resolution: str | None
    notes: tuple[str, ...]
    reproduce: tuple[str, ...]
    accept: tuple[str, ...]
    differences: tuple[Differences, ...]
    sample_metrics: tuple[str, ...]
    samples: tuple[SampleRow, ...]
    samples_total: int
    worse_left: int = 0
    """Samples that lost but are not in `worst`."""

    trends: tuple[Trend, ...] = ()
    contexts_used: ContextsUsed | None = None
    retrieval: RetrievalChanges | None = None
    diagnosis: Diagnosis | None = None
    oracle: OracleShares | None = None
    robustness: Robustness | None = None
    run_url: str | None = None
    artifact_url: str | None = None
