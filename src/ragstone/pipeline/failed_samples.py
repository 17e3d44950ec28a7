"""Which samples of a run did not pass, to evaluate them alone."""

from __future__ import annotations

from collections.abc import Mapping

from ragstone.errors import ConfigError
from ragstone.evaluation.directory import RunDirectory
from ragstone.gate.verdict import CheckKind, Status
from ragstone.pipeline.verdict_file import read_verdict
from ragstone.report.parts import CheckPart


def failed_samples(run: RunDirectory) -> tuple[str, ...]:
    """The ids of the samples of `run` without an answer or a score, those that got
    worse than in the baseline, that had to pass and did not, or are below a floor that
    did not hold; in the order of the run.

    Raises ConfigError if there are none, and RunDirectoryError.
    """
    scores, document = run.scores(), read_verdict(run)
    failed = set(scores.system.failures)
    for metric in scores.metrics.values():
        failed |= metric.failed.keys()
    if document is not None:
        failed |= {sample.id for sample in document.samples.worst}
        for check in document.checks:
            if check.sample is not None and check.status is not Status.PASS:
                failed.add(check.sample)
            failed |= _below(check, scores.scores_of(check.metric or "").values)
    ids = tuple(sample_id for sample_id in scores.samples if sample_id in failed)
    if not ids:
        raise ConfigError(
            "no sample of this run failed.",
            where=str(run.path),
            hint="Leave out --failed.",
        )
    return ids


def _below(check: CheckPart, values: Mapping[str, float]) -> set[str]:
    """The samples whose score is on the wrong side of a floor or a ceiling that did not
    hold."""
    limit = check.threshold
    if check.status is Status.PASS or limit is None:
        return set()
    if check.kind is CheckKind.FLOOR:
        return {sample_id for sample_id, value in values.items() if value < limit}
    if check.kind is CheckKind.CEILING:
        return {sample_id for sample_id, value in values.items() if value > limit}
    return set()
