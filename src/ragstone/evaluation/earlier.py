"""Pools the answers of a run with those that earlier runs of the same system gave to
the same questions.

An answer was judged when it was given, and is not judged again. A record has the
answers of the run itself first, then those of the earlier runs, the newest run first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter

from ragstone.errors import RunDirectoryError
from ragstone.evaluation.directory import SAMPLES, RunDirectory
from ragstone.evaluation.lineage import lasting_fingerprint
from ragstone.evaluation.record import record_to_line
from ragstone.evaluation.run_files import replace_text
from ragstone.evaluation.scoring import sample_scores
from ragstone.evaluation.writer import update_manifest
from ragstone.metrics.metric import Metric

MAX_EARLIER_RUNS = 4
"""Maximum number of earlier runs, the newest ones, to pool answers with."""

_JUDGING_FIELDS = ("judge", "metrics", "repeats")


def is_complete(run: RunDirectory) -> bool:
    """Whether `run` is finished, asked the system itself, and neither the system nor a
    score failed. Raises RunDirectoryError."""
    manifest, scores = run.manifest, run.scores()
    is_finished = manifest.state == "finished" and manifest.own_answers > 0
    has_failed_score = any(metric.failed for metric in scores.metrics.values())
    return is_finished and not has_failed_score and not scores.system.failures


def can_be_pooled(
    run: RunDirectory,
    earlier: RunDirectory,
    metrics: Sequence[Metric],
    baseline: RunDirectory | None,
) -> bool:
    """Whether `earlier` has the system, the questions and the judge of `run`, which is
    compared with `baseline`. Raises RunDirectoryError.

    If one of `metrics` compares answers with those of a baseline, `earlier` must have
    been compared with `baseline`, too.
    """
    manifest, earlier_manifest = run.manifest, earlier.manifest
    # Commits may differ: the caller knows that the files are the same.
    earlier_system = earlier_manifest.system.model_copy(
        update={"commit": manifest.system.commit}
    )
    judging_fields = attrgetter(*_JUDGING_FIELDS)
    is_same_evaluation = (
        _content_hashes(run) == _content_hashes(earlier)
        and judging_fields(manifest) == judging_fields(earlier_manifest)
        and manifest.system == earlier_system
    )
    if not any(metric.info.is_relative for metric in metrics):
        return is_same_evaluation
    earlier_baseline = earlier_manifest.used
    fingerprint = None if baseline is None else lasting_fingerprint(baseline)
    return (
        is_same_evaluation
        and earlier_baseline is not None
        and earlier_baseline.fingerprint == fingerprint
    )


def _content_hashes(run: RunDirectory) -> dict[str, str | None]:
    """The content hash of each sample, by its id."""
    samples = run.scores().samples
    return {sample_id: facts.content_hash for sample_id, facts in samples.items()}


def add_answers(
    run: RunDirectory,
    source: RunDirectory,
    metrics: Sequence[Metric],
    *,
    adds_own: bool = True,
) -> RunDirectory:
    """Write `run` again, with answers of `source` added, and return it.

    These are the answers that `source` got itself (if `adds_own`), and those that it
    has of earlier runs: in all, of at most MAX_EARLIER_RUNS runs.
    """
    own_answers, counts = source.manifest.own_answers, source.manifest.earlier
    start = own_answers
    if adds_own:
        start = 0
        counts = (own_answers, *counts)[:MAX_EARLIER_RUNS]
    if not counts:
        return run
    end = start + sum(counts)
    lines: list[str] = []
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
            pooled_record = replace(record, answers=answers, scores=scores)
            lines.append(f"{record_to_line(pooled_record)}\n")
    replace_text(run.path / SAMPLES, "".join(lines))
    update_manifest(run, answers=run.manifest.answers + sum(counts), earlier=counts)
    return RunDirectory.open(run.path)
