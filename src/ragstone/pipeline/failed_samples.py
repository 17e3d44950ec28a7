"""Which samples of a run did not pass, to evaluate them alone."""

from __future__ import annotations

from ragstone.errors import ConfigError
from ragstone.evaluation.directory import RunDirectory
from ragstone.gate.verdict import CheckKind, Status
from ragstone.pipeline.verdict_file import read_verdict


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
            limit, scored = check.threshold, scores.scores_of(check.metric or "").values
            if check.status is Status.PASS or limit is None:
                continue
            if check.kind is CheckKind.FLOOR:
                failed |= {name for name, value in scored.items() if value < limit}
            if check.kind is CheckKind.CEILING:
                failed |= {name for name, value in scored.items() if value > limit}
    ids = tuple(sample_id for sample_id in scores.samples if sample_id in failed)
    if not ids:
        raise ConfigError(
            "no sample of this run failed.",
            where=str(run.path),
            hint="Leave out --failed.",
        )
    return ids
