"""A finished run as other tools want it: parameters, figures, and what has no score. No text has a secret."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from ragstone.app.history import line_of
from ragstone.app.recorded import read_verdict
from ragstone.config.settings import Settings
from ragstone.errors import RunDirectoryError
from ragstone.files import read_table
from ragstone.history.lines import MeanPart, RunLine
from ragstone.metrics.registry import find_metric
from ragstone.metrics.score import FailedBy
from ragstone.project.gate import read_policy
from ragstone.run.directory import RunDirectory
from ragstone.run.manifest import Manifest
from ragstone.run.redact import Redactor
from ragstone.run.scores import RunScores, without_drafts

_TABLES = read_table("facts.toml", __package__)
_LATEST = 2**63 / 1e9  # in the year 2262, the end of nanoseconds in 64 bits


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Scores that one metric lacks for one reason; they are in no mean. `by` is what failed, None if nothing did."""

    metric: str
    state: Literal["not_applicable", "failed"]
    by: FailedBy | None
    reason: str
    samples: int


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """What is said of a run as a whole: its `name` is the start and the commit, such as ``2026-11-21T10:00 3a0015c``.

    `parameters` are what was evaluated, by whom and how; `figures` are finite numbers. A figure that is not known is
    missing, never 0. `verdict` and `reason` are the gate's; None without one. `texts`: whether questions, answers and
    messages may leave.
    """

    run: RunDirectory
    name: str
    verdict: str | None
    reason: str | None
    parameters: Mapping[str, str]
    figures: Mapping[str, float]
    left_out: tuple[LeftOut, ...]
    redact: Redactor
    texts: bool

    @property
    def started(self) -> datetime | None:
        """When the run was started; None if its manifest does not say, or says what no other tool can store."""
        try:
            started = datetime.fromisoformat(self.run.manifest.created_at)
        except ValueError:
            return None
        started = started if started.tzinfo is not None else started.replace(tzinfo=UTC)
        return started if 0 < started.timestamp() < _LATEST else None

    @property
    def ended_s(self) -> float | None:
        """When the run ended, in seconds since 1970; None if its manifest does not say."""
        ended = None if self.started is None else self.started.timestamp() + self.run.manifest.wall_s
        return ended if ended is not None and ended < _LATEST else None

    def shows_why(self, metric: str) -> bool:
        """Whether it may leave why `metric` does not apply: a rubric or a function may have put a text into that."""
        return self.texts or find_metric(metric) is not None


def read_finished(path: Path | None, settings: Settings, redact: Redactor, *, texts: bool = False) -> FinishedRun:
    """The run in `path` (default: that of `settings`).

    Slices are those of the recorded policy, else of the policy in `settings`. Raises RunDirectoryError for a run that
    is not finished, or can't be read.
    """
    run = RunDirectory.open(path if path is not None else settings.path(settings.run.out))
    manifest = run.manifest
    if manifest.state != "finished":
        raise RunDirectoryError(
            f"the run was {manifest.state}, not finished.",
            where=str(run.path),
            hint="Finish it with --resume, then export it.",
        )
    recorded = read_verdict(run)
    scores, drafts = without_drafts(run.scores())
    policy = recorded.terms.policy_again() if recorded is not None else read_policy(settings, manifest.metrics)
    line = line_of(run, manifest, scores, policy)
    figures = dict(_figures(manifest, scores, line, 0 if drafts is None else len(drafts.samples)))
    commit = (manifest.system.commit or manifest.system.version or "")[:7]
    found = FinishedRun(
        run=run,
        name=redact(f"{manifest.created_at[:16]} {commit}".strip()),
        verdict=manifest.verdict,
        reason=None if recorded is None else redact(recorded.view.reason),
        parameters={name: redact(value) for name, value in _parameters(manifest) if value},
        figures={redact(name): value for name, value in figures.items() if value is not None and _finite(value)},
        left_out=(),
        redact=redact,
        texts=texts,
    )
    return replace(found, left_out=tuple(_left_out(found, scores)))


def _parameters(manifest: Manifest) -> Iterator[tuple[str, str]]:
    yield "judge", manifest.judge.label()
    for name, value in manifest.judge.parameters:
        yield f"judge.parameters.{name}", value
    yield "golden.files", ", ".join(manifest.golden.files)
    yield "metrics", ", ".join(f"{name} {version}" for name, version in manifest.metrics.items())
    for name, found in _listed("parameters", manifest):
        yield name, "" if found is None else str(found)


def _listed(table: str, manifest: Manifest) -> Iterator[tuple[str, Any]]:
    for name, path in _TABLES[table].items():
        found: Any = manifest
        for part in path.split("."):
            found = getattr(found, part, None)
        yield name, found


def _figures(manifest: Manifest, scores: RunScores, line: RunLine, drafts: int) -> Iterator[tuple[str, float | None]]:
    for name, found in scores.metrics.items():
        if name in line.metrics:
            yield from _mean(name, line.metrics[name])
        yield f"{name}/not_applicable", len(found.not_applicable)
        yield f"{name}/failed", len(found.failed)
        if found.values or found.failed:
            yield f"{name}/coverage", len(found.values) / (len(found.values) + len(found.failed))
    for tag, means in line.slices.items():
        for name, mean in means.items():
            yield from _mean(f"slices/{tag}/{name}", mean)
    yield "samples/drafts", drafts
    if any(found.values or found.failed for found in scores.metrics.values()):
        yield "coverage", line.coverage
    yield "latency/p50_s", line.latency_p50_s
    yield "latency/p95_s", line.latency_p95_s
    yield from _listed("figures", manifest)


def _finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number with hundreds of digits
        return False


def _mean(name: str, found: MeanPart) -> Iterator[tuple[str, float]]:
    for part in ("mean", "low", "high", "n"):
        yield f"{name}/{part}", getattr(found, part)


def _left_out(run: FinishedRun, scores: RunScores) -> Iterator[LeftOut]:
    for metric, found in scores.metrics.items():
        shown, redact = run.shows_why(metric), run.redact
        reasons = Counter(redact(reason) if shown else "" for reason in found.not_applicable.values())
        for reason, count in reasons.most_common():
            yield LeftOut(metric, "not_applicable", None, reason, count)
        failed = Counter((one.by, redact(one.reason) if run.texts else "") for one in found.failed.values())
        for (by, reason), count in failed.most_common():
            yield LeftOut(metric, "failed", by, reason, count)
