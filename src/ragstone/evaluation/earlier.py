"""Answers that earlier runs of the same system gave to the same questions, added to
those of a run.

An answer was judged when it was given, so it is not judged again. In a record the
answers of the run itself come first, then those of the earlier runs, the newest of them
first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ragstone.errors import RunDirectoryError
from ragstone.evaluation.directory import SAMPLES, RunDirectory
from ragstone.evaluation.files import replace_text
from ragstone.evaluation.lineage import lasting_fingerprint
from ragstone.evaluation.record import record_to_line
from ragstone.evaluation.scoring import sample_scores
from ragstone.evaluation.writer import update_manifest
from ragstone.metrics.metric import Metric

MAX_EARLIER = 4
"""Of more earlier runs, the newest count."""

_JUDGING = ("judge", "metrics", "repeats")


def is_usable(earlier: RunDirectory) -> bool:
    """Whether `earlier` has answers of its own to every question, and a score of each.
    Raises RunDirectoryError."""
    manifest, scores = earlier.manifest, earlier.scores()
    is_whole = manifest.state == "finished" and manifest.own_answers > 0
    has_failed = any(metric.failed for metric in scores.metrics.values())
    return is_whole and not has_failed and not scores.system.failures


def counts_for(
    run: RunDirectory,
    earlier: RunDirectory,
    metrics: Sequence[Metric],
    baseline: RunDirectory | None,
) -> bool:
    """Whether the answers of `earlier` are of the system, questions and judge of `run`.
    Raises RunDirectoryError.

    `baseline` is what `run` is compared with: scores of `metrics` that compare answers
    with those of a baseline are of that one only.
    """
    now, then = run.manifest, earlier.manifest
    system = then.system.model_copy(update={"commit": now.system.commit})
    same = (
        _contents(run) == _contents(earlier),
        all(getattr(now, name) == getattr(then, name) for name in _JUDGING),
        now.system == system,
    )
    if not any(metric.info.relative for metric in metrics):
        return all(same)
    used = then.used
    fingerprint = None if baseline is None else lasting_fingerprint(baseline)
    return all(same) and used is not None and used.fingerprint == fingerprint


def _contents(run: RunDirectory) -> dict[str, str | None]:
    """The hash of each question."""
    samples = run.scores().samples
    return {name: facts.content_hash for name, facts in samples.items()}


def with_earlier_run(
    run: RunDirectory,
    source: RunDirectory,
    metrics: Sequence[Metric],
    *,
    own: bool = True,
) -> RunDirectory:
    """`run`, written again with the answers that `source` itself gave (unless it is not
    its `own` that count) and those of earlier runs that it has: of MAX_EARLIER runs."""
    start, counts = source.manifest.own_answers, source.manifest.earlier
    if own:
        start, counts = 0, (start, *counts)[:MAX_EARLIER]
    if not counts:
        return run
    end = start + sum(counts)
    lines = []
    with source.lookup() as record_of:
        for record in run.records():
            earlier_record = record_of(record.sample.id)
            if earlier_record is None:
                raise RunDirectoryError(
                    f"sample '{record.sample.id}' is missing.",
                    where=str(source.path / SAMPLES),
                )
            answers = (*record.answers, *earlier_record.answers[start:end])
            scores = sample_scores(metrics, record.sample, answers)
            pooled = replace(record, answers=answers, scores=scores)
            lines.append(f"{record_to_line(pooled)}\n")
    replace_text(run.path / SAMPLES, "".join(lines))
    update_manifest(run, answers=run.manifest.answers + sum(counts), earlier=counts)
    return RunDirectory.open(run.path)
