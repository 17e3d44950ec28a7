"""Finds the samples of a run that did not pass, to evaluate only them."""

from __future__ import annotations

from ragstone.errors import ConfigError
from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.scores import RunScores
from ragstone.gate.verdict import Check, CheckKind, Status
from ragstone.pipeline.stored_report import read_report


def failed_samples(run: RunDirectory) -> tuple[str, ...]:
    """The ids of the samples of `run` that did not pass, in the order of the run.

    These are samples without an answer or a score, samples that got worse than in the
    baseline, must-pass samples that failed, and those beyond a floor or a ceiling that
    the run missed. Raises ConfigError if there are none, and RunDirectoryError.
    """
    scores, document = run.scores(), read_report(run)
    failed = set(scores.system.failures)
    for metric in scores.metrics.values():
        failed |= metric.failed.keys()
    if document is not None:
        failed |= {sample.id for sample in document.samples.worst}
        for check in document.checks:
            if check.status is not Status.PASS:
                failed |= _samples_of(check, scores)
    ids = tuple(sample_id for sample_id in scores.samples if sample_id in failed)
    if not ids:
        raise ConfigError(
            "no sample of this run failed.",
            where=str(run.path),
            hint="Leave out --failed.",
        )
    return ids


def _samples_of(check: Check, scores: RunScores) -> set[str]:
    """The samples for which a check did not pass: the one that it is about, or those
    beyond its limit."""
    limit = check.threshold
    values = scores.scores_of(check.metric or "").values.items()
    if check.sample is not None:
        return {check.sample}
    if limit is None:
        return set()
    match check.kind:
        case CheckKind.FLOOR:
            return {sample_id for sample_id, value in values if value < limit}
        case CheckKind.CEILING:
            return {sample_id for sample_id, value in values if value > limit}
        case _:
            return set()
