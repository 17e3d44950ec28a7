"""Compares a run with the history of its branch, and adds it to that history."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from ragstone.errors import RunDirectoryError, parse_errors
from ragstone.evaluation.directory import HISTORY, RunDirectory
from ragstone.evaluation.manifest import AcceptedDrop
from ragstone.evaluation.scores import RunScores, split_drafts
from ragstone.formatting import counted
from ragstone.gate.policy import Policy
from ragstone.gate.verdict import Check
from ragstone.history.codes import CompactScores, compact_scores
from ragstone.history.drift import Drift, measure_drift
from ragstone.history.entry import run_line
from ragstone.history.file import History, write_history
from ragstone.history.level import at_level, past_of, runs_before, was_run
from ragstone.history.lines import RunLine
from ragstone.metrics.registry import is_relative


class RunHistory(Struct, frozen=True):
    """The history that a run is compared with, and what its own line says."""

    history: History = field(default_factory=History)
    file: Path | None = None
    """Where the history is stored; None for the run directory."""
    is_main: bool = True
    """Whether the run is one of the main branch, and is added to the history. The run
    of a pull request is only compared with it."""
    pull_request: int | None = None
    github_run: int | None = None
    event: str | None = None
    release: str | None = None

    def line(self, run: RunDirectory, scores: RunScores, policy: Policy) -> RunLine:
        """The line of `run` in the history. Raises RunDirectoryError if its manifest,
        which may come from anywhere, has values that no line can have."""
        with parse_errors(
            run.path, "its manifest is not valid", kind=RunDirectoryError
        ):
            return run_line(
                scores,
                run.manifest,
                policy,
                fingerprint=run.fingerprint,
                pull_request=self.pull_request,
                github_run=self.github_run,
                event=self.event,
                release=self.release,
            )

    def store(self, run: RunDirectory, history: History) -> None:
        """Write `history` to its file, if `run` is one of the main branch."""
        if self.is_main:
            write_history(self.file or run.path / HISTORY, history)


class HistoryComparison(Struct, frozen=True):
    """What the history of a branch says about a run."""

    drift: Drift = field(default_factory=Drift)
    level: RunScores | None = None
    """The baseline, with the level of the branch as its scores where the history can be
    compared."""
    notes: tuple[str, ...] = ()


def compare_with_history(
    past: RunHistory,
    run: RunDirectory,
    scores: RunScores,
    policy: Policy,
    accepted: tuple[AcceptedDrop, ...],
    baseline: RunScores | None,
) -> HistoryComparison:
    """Compare `run` with `past` before there is a verdict.

    `accepted` are the accepted drops in force. With a `baseline`, the result has the
    level of the branch. A damaged history is a warning.
    """
    standing = run.manifest.standing.model_copy(update={"accepted": accepted})
    undecided = run.manifest.model_copy(
        update={"verdict": "inconclusive", "baseline": standing}
    )
    line = past.line(run.with_manifest(undecided), scores, policy)
    drift = measure_drift(
        past.history,
        line,
        _codes(scores),
        scores,
        policy,
        is_main=past.is_main,
    )
    drift = replace(drift, warnings=(*damage(past.history), *drift.warnings))
    if baseline is None:
        return HistoryComparison(drift)
    # Another run of the same commit is not the past of this one.
    earlier_runs = [
        earlier
        for earlier in runs_before(past.history, line)
        if not past.is_main or not was_run((earlier,), line)
    ]
    levels = {
        name: past_of(earlier_runs, line, name).reference_runs(is_main=past.is_main)
        for name in scores.metrics
        if not is_relative(name)
    }
    run_counts = [len(runs) for runs in levels.values() if runs]
    if not run_counts:
        return HistoryComparison(drift, baseline)
    notes: tuple[str, ...] = ()
    most_runs = max(run_counts)
    if most_runs > 1:
        notes = (
            f"Scores are compared with the level of the branch: the mean of up to {most_runs} comparable runs.",
        )
    return HistoryComparison(drift, at_level(baseline, scores, levels), notes)


def add_run(
    past: RunHistory,
    run: RunDirectory,
    scores: RunScores,
    policy: Policy,
    checks: Sequence[Check],
) -> History:
    """The history with `run` added, trimmed to the size limit. The manifest of `run`
    has its verdict already.

    `checks` are those of the verdict. A drop that failed or is inconclusive is a loss
    of the branch from then on.
    """
    line, codes = past.line(run, scores, policy), _codes(scores)
    if past.is_main:
        drift = measure_drift(past.history, line, codes, scores, policy, decided=checks)
        line = line.model_copy(update={"below": drift.below})
    return past.history.with_run(line, codes).trimmed()


def damage(history: History) -> Iterable[str]:
    """A sentence about the lines of the history that could not be read, if any."""
    if history.damaged:
        lines = counted(len(history.damaged), "line")
        yield f"The history is damaged in {lines}: {history.damaged[0]}"


def add_runs(
    past: RunHistory, directories: Sequence[Path], policy: Policy
) -> tuple[History, list[RunLine]]:
    """The history with the finished runs in `directories` added, and their lines.
    Raises RunDirectoryError."""
    history, added = past.history, []
    for path in directories:
        run = RunDirectory.open(path)
        if run.manifest.state != "finished" or run.manifest.oracle_of:
            raise RunDirectoryError(
                f"this run can't be added: {run.manifest.standing.reason}.",
                where=str(path),
            )
        scores, _ = split_drafts(run.scores())
        line = past.line(run, scores, policy)
        history = history.with_run(line, _codes(scores))
        added.append(line)
    return history.trimmed(), added


def _codes(scores: RunScores) -> CompactScores:
    """The scores of each sample in the metrics that have scores, as the history stores
    them."""
    metrics = scores.metrics.items()
    return compact_scores(
        scores, tuple(name for name, measured in metrics if measured.values)
    )
