"""Compare a run with the history of its branch, and add it to that history."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ragstone.errors import RunDirectoryError, parse_errors
from ragstone.evaluation.directory import HISTORY, RunDirectory
from ragstone.evaluation.manifest import AcceptedDrop, Manifest
from ragstone.evaluation.scores import RunScores, without_drafts
from ragstone.formatting import counted
from ragstone.gate.accepted import AcceptedEntry
from ragstone.gate.policy import Policy
from ragstone.gate.verdict import Check
from ragstone.history.codes import compact
from ragstone.history.drift import Drift, measure_drift
from ragstone.history.entry import run_line
from ragstone.history.file import History, read_history, write_history
from ragstone.history.level import (
    MetricPast,
    at_level,
    looks_before,
    past_of,
    was_run,
)
from ragstone.history.lines import RunLine
from ragstone.metrics.registry import is_relative

_SHOWN = 3
"""Maximum number of damaged lines that are named individually."""


@dataclass(frozen=True, slots=True)
class RunHistory:
    """The history that a run is compared with, and how to add the run.

    `file` is where the history is stored; None: in the run directory. `main`: the run
    is added to it; the run of a pull request only reads it. `pull_request`,
    `github_run` and `event` belong to this run.
    """

    history: History
    file: Path | None = None
    main: bool = True
    pull_request: int | None = None
    github_run: int | None = None
    event: str | None = None


def read_run_history(path: Path) -> RunHistory:
    """The history in a file, to which runs are added. Raises RunDirectoryError if it
    can't be read."""
    return RunHistory(read_history(path), path)


def measure_run_drift(
    past: RunHistory,
    run: RunDirectory,
    scores: RunScores,
    policy: Policy,
    accepted: Sequence[AcceptedEntry] = (),
) -> Drift:
    """The drift of `run` according to the history, with the drops `accepted` in force;
    warns if it is damaged."""
    line = _undecided_line(past, run, scores, policy, accepted)
    drift = measure_drift(
        past.history,
        line,
        compact(scores, _metrics(scores)),
        scores,
        policy,
        main=past.main,
    )
    return replace(drift, warnings=(*damage(past.history), *drift.warnings))


def level_of(
    past: RunHistory,
    run: RunDirectory,
    scores: RunScores,
    baseline: RunScores,
    policy: Policy,
) -> tuple[RunScores, tuple[str, ...]]:
    """`baseline` with the scores of the level of its branch, as far as the history can
    be compared; and a note of it."""
    comparable = {
        name: metric_past.level(main=past.main)
        for name, metric_past in _pasts(past, run, scores, policy).items()
    }
    counts = sorted({len(runs) for runs in comparable.values() if runs})
    if not counts:
        return baseline, ()
    few, most = counts[0], counts[-1]
    runs = (
        counted(most, "comparable run")
        if few == most
        else f"{few} to {most} comparable runs"
    )
    note = f"Scores are compared with the level of the branch: the mean of its newest {runs}."
    return at_level(baseline, scores, comparable), (note,) if most > 1 else ()


def _pasts(
    past: RunHistory, run: RunDirectory, scores: RunScores, policy: Policy
) -> dict[str, MetricPast]:
    """What the history has of each metric of `scores`."""
    line = _undecided_line(past, run, scores, policy, ())
    looks = [
        look
        for look in looks_before(past.history, line)
        if not past.main or not was_run((look,), line)
    ]
    return {
        name: past_of(looks, line, name)
        for name in scores.metrics
        if not is_relative(name)
    }


def _undecided_line(
    past: RunHistory,
    run: RunDirectory,
    scores: RunScores,
    policy: Policy,
    accepted: Sequence[AcceptedEntry],
) -> RunLine:
    """The line of `run` before its verdict, with the drops `accepted` in force."""
    accepted_drops = (
        AcceptedDrop(
            id=entry.id, metric=entry.metric, slice=entry.slice, drop=entry.drop
        )
        for entry in accepted
    )
    standing = run.manifest.standing.model_copy(
        update={"accepted": tuple(accepted_drops)}
    )
    manifest = run.manifest.model_copy(
        update={"verdict": "inconclusive", "baseline": standing}
    )
    return line_of(run, manifest, scores, policy, past=past)


def add_run(
    past: RunHistory,
    run: RunDirectory,
    manifest: Manifest,
    scores: RunScores,
    policy: Policy,
    checks: Sequence[Check] = (),
) -> History:
    """The history with `run` added, whose `manifest` contains its verdict, trimmed to
    the size limit.

    `checks` are those of its verdict: a drop that failed or is not settled is a loss of
    the branch from then on.
    """
    line, codes = (
        line_of(run, manifest, scores, policy, past=past),
        compact(scores, _metrics(scores)),
    )
    if past.main:
        below = measure_drift(
            past.history, line, codes, scores, policy, decided=checks
        ).below
        line = line.model_copy(update={"below": below})
    return past.history.with_run(line, codes).within()


def store_history(past: RunHistory, run: RunDirectory, history: History) -> None:
    """Write `history` to the file of `past`, if its run is part of it."""
    if past.main:
        write_history(past.file or run.path / HISTORY, history)


def damage(history: History) -> Iterable[str]:
    """Sentences about lines of the history that could not be read."""
    if not history.damaged:
        return ()
    named = " ".join(history.damaged[:_SHOWN])
    more = len(history.damaged) - _SHOWN
    return (
        f"The history is damaged: {named}" + (f" And {more} more." if more > 0 else ""),
    )


def add_runs(
    history: History,
    directories: Sequence[Path],
    policy: Policy,
    *,
    release: str | None = None,
) -> tuple[History, list[RunLine]]:
    """`history` with the finished runs in `directories` added, and their lines. Raises
    RunDirectoryError."""
    added = []
    for path in directories:
        run = RunDirectory.open(path)
        manifest = run.manifest
        if manifest.state != "finished" or manifest.oracle_of:
            raise RunDirectoryError(
                f"can't be added: {manifest.standing.reason}.", where=str(path)
            )
        scores, _ = without_drafts(run.scores())
        line = line_of(run, manifest, scores, policy, release=release)
        history = history.with_run(line, compact(scores, _metrics(scores)))
        added.append(line)
    return history.within(), added


def line_of(
    run: RunDirectory,
    manifest: Manifest,
    scores: RunScores,
    policy: Policy,
    *,
    past: RunHistory | None = None,
    release: str | None = None,
) -> RunLine:
    """The line of `run`, with what `past` knows of it. Raises RunDirectoryError for a
    manifest that makes none."""
    # A manifest from elsewhere may hold anything.
    with parse_errors(run.path, "its manifest is not valid", kind=RunDirectoryError):
        return run_line(
            scores,
            manifest,
            policy,
            fingerprint=run.fingerprint,
            pull_request=None if past is None else past.pull_request,
            github_run=None if past is None else past.github_run,
            event=None if past is None else past.event,
            release=release,
        )


def _metrics(scores: RunScores) -> tuple[str, ...]:
    return tuple(
        name for name, metric_scores in scores.metrics.items() if metric_scores.values
    )
