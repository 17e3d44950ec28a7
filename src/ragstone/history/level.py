"""The level of the main branch in a metric: the runs that form it, and the losses that
the branch has not recovered from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ragstone.evaluation.scores import SCORE_STEPS, RunScores
from ragstone.gate.comparability import is_judged
from ragstone.history.codes import decode, sample_code
from ragstone.history.file import History
from ragstone.history.lines import BelowPart, RunLine, SamplesLine
from ragstone.stats.arrays import Floats

LEVEL_RUNS = 6
"""Number of healthy runs whose mean is the level. With more, the noise of the current
run would still dominate (`bench/level.py`), and a gain would count later."""


class ScoredRun(Struct, frozen=True):
    """A run of the main branch with per-sample scores."""

    line: RunLine
    samples: SamplesLine
    """The samples of its scores."""


class MetricPast(Struct, frozen=True):
    """The runs of the main branch that are comparable in one metric. Runs are given by
    their index in `runs`."""

    runs: tuple[ScoredRun, ...]
    """The comparable runs, the oldest first."""
    healthy: tuple[int, ...]
    """The runs that may form the level: without a loss of this metric, and fit to be a
    baseline but for losses of other metrics."""
    accepted_at: int
    """The run with the last accepted drop: the runs before it no longer form the
    level."""
    open_losses: tuple[BelowPart, ...] = ()
    """The losses that are not over."""

    @property
    def level_candidates(self) -> list[int]:
        """The healthy runs since the last accepted drop."""
        return [index for index in self.healthy if index >= self.accepted_at]

    def reference_runs(self, *, is_main: bool) -> tuple[ScoredRun, ...]:
        """The runs to compare with: for a run of the main branch those that form its
        level, for a pull request those of the branch as it is now."""
        indexes = self.level_candidates
        if self.open_losses and not is_main:
            first = min(map(self.start_of, self.open_losses))
            indexes = list(range(first, len(self.runs)))
        return tuple(self.runs[index] for index in indexes[-LEVEL_RUNS:])

    def start_of(self, loss: BelowPart) -> int:
        """The run with which a loss began."""
        return _index_of(self.runs, loss.since)


def runs_before(history: History, line: RunLine) -> tuple[ScoredRun, ...]:
    """The runs before that of `line` that have scores and a decision, the oldest first.
    Of several runs of a commit on GitHub, the first one counts."""
    runs: list[ScoredRun] = []
    for earlier in history.gated:
        samples = history.samples.get(earlier.samples or "")
        is_undecided = not earlier.eligible and earlier.verdict == "error"
        is_later = earlier.time > line.time or earlier.attempt == line.attempt
        is_again = was_run(runs, earlier)
        if samples and not is_undecided and not is_later and not is_again:
            runs.append(ScoredRun(earlier, samples))
    return tuple(runs)


def was_run(runs: Iterable[ScoredRun], line: RunLine) -> bool:
    """Whether one of `runs` was of the same commit as that of `line`, both on
    GitHub."""
    if line.github_run is None or line.commit is None:
        return False
    return any(
        run.line.github_run is not None and run.line.commit == line.commit
        for run in runs
    )


def past_of(runs: Sequence[ScoredRun], line: RunLine, metric: str) -> MetricPast:
    """The past of `metric`: those of `runs` whose scores can be compared with those of
    `line`, and their losses."""
    comparable = tuple(
        run for run in runs if why_incomparable(run.line, line, metric) is None
    )
    open_by_slice: dict[str | None, BelowPart] = {}
    below_level: set[int] = set()
    for index, run in enumerate(comparable):
        for part in run.line.below:
            if part.metric != metric:
                continue
            open_by_slice[part.slice] = part
            below_level.update(range(_index_of(comparable, part.since), index + 1))
            if part.until is not None:
                del open_by_slice[part.slice]
                below_level -= set(range(_index_of(comparable, part.until), index + 1))
    starts = {
        part: _index_of(comparable, part.since) for part in open_by_slice.values()
    }
    first_below = min(starts.values(), default=len(comparable))
    below_level.update(range(first_below, len(comparable)))
    # A run that failed only for another metric's loss is healthy in this one.
    healthy = tuple(
        index
        for index, run in enumerate(comparable)
        if index not in below_level and (run.line.eligible or run.line.below)
    )
    # Without a healthy run before it, a loss can't be judged: main is compared with its
    # baseline's run alone.
    first_healthy = min(healthy, default=len(comparable))
    open_losses = tuple(part for part in starts if starts[part] > first_healthy)
    accepted_at = 0
    accepted_before: set[str] = set()
    for index in healthy:
        accepted = {
            entry.id
            for entry in comparable[index].line.accepted
            if entry.metric == metric
        }
        if not accepted <= accepted_before:
            accepted_at = index
            accepted_before |= accepted
    return MetricPast(comparable, healthy, accepted_at, open_losses)


def at_level(
    baseline: RunScores, current: RunScores, levels: Mapping[str, Sequence[ScoredRun]]
) -> RunScores:
    """`baseline` with the scores of the level: for each sample, the mean over the runs
    that `levels` has for the metric.

    `answers` has the score of each of these runs, the oldest first. Samples and metrics
    that the runs don't have keep the baseline's scores. Stored scores are rounded: one
    that rounds to the same as the current run's is replaced by that.
    """
    metrics = dict(baseline.metrics)
    common_ids = [name for name in current.samples if name in baseline.samples]
    codes = [
        sample_code(name, current.samples[name].content_hash) for name in common_ids
    ]
    for metric in levels.keys() & metrics.keys() & current.metrics.keys():
        of_baseline = metrics[metric]
        values = dict(of_baseline.values)
        answers = dict(of_baseline.answers)
        failed = dict(of_baseline.failed)
        not_applicable = dict(of_baseline.not_applicable)
        by_sample = scores_of(levels[metric], codes, metric).T
        for sample_id, run_scores in zip(common_ids, by_sample, strict=True):
            scores = run_scores[np.isfinite(run_scores)]
            if not len(scores):
                continue
            exact = current.metrics[metric].values.get(sample_id, -1.0)
            is_equal = np.rint(scores * SCORE_STEPS) == round(exact * SCORE_STEPS)
            scores = np.where(is_equal, exact, scores)
            # A mean of equal scores could differ from them in its last digit.
            is_steady = scores.min() == scores.max()
            values[sample_id] = float(scores[0] if is_steady else scores.mean())
            answers[sample_id] = tuple(scores.tolist())
            failed.pop(sample_id, None)
            not_applicable.pop(sample_id, None)
        metrics[metric] = replace(
            of_baseline,
            values=values,
            answers=answers,
            failed=failed,
            not_applicable=not_applicable,
        )
    return replace(baseline, metrics=metrics)


def why_incomparable(earlier: RunLine, current: RunLine, metric: str) -> str | None:
    """Why the scores of `metric` in two runs can't be compared; None if they can."""
    if earlier.part != current.part:
        return "earlier runs evaluated another half of the system"
    if metric not in earlier.scores:
        return f"earlier runs have no scores for {metric}"
    version = current.versions.get(metric)
    if earlier.versions.get(metric) != version:
        return (
            f"{metric} is version {version} now, and was {earlier.versions.get(metric)}"
        )
    if earlier.judge_key != current.judge_key and is_judged(metric, version):
        if earlier.judge == current.judge:
            return f"the prompts or parameters of the judge ({current.judge}) changed"
        return f"the judge changed from {earlier.judge} to {current.judge}"
    return None


def scores_of(runs: Sequence[ScoredRun], codes: Sequence[str], metric: str) -> Floats:
    """The scores (runs, samples) of `metric` for the samples with these codes, NaN if
    missing."""
    scores = np.full((len(runs), len(codes)), np.nan)
    for row, run in zip(scores, runs, strict=True):
        decoded = decode(run.line.scores[metric]).tolist()
        by_code = dict(zip(run.samples.ids, decoded, strict=True))
        row[:] = [by_code.get(code, np.nan) for code in codes]
    return scores


def _index_of(runs: Sequence[ScoredRun], fingerprint: str) -> int:
    """The index of the run with this fingerprint; the number of `runs` if there is
    none."""
    for index, run in enumerate(runs):
        if run.line.run == fingerprint:
            return index
    return len(runs)
