"""Verifies a run directory from an untrusted source.

Its scores must follow from its judgements, or the run is refused. Content hashes are
computed again. Metrics that this version can't recompute stay unverified.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from ragstone.errors import RunDirectoryError
from ragstone.evaluation.directory import SAMPLES, RunDirectory
from ragstone.evaluation.manifest import Manifest
from ragstone.evaluation.record import SampleRecord
from ragstone.evaluation.scores import RunScores
from ragstone.evaluation.scoring import score_record
from ragstone.evaluation.writer import update_manifest
from ragstone.golden.sample import GoldenSet, hash_of_samples
from ragstone.metrics.metric import Metric
from ragstone.metrics.registry import find_metric
from ragstone.metrics.score import Score, Scored

_TOLERANCE = 1e-9
_MISMATCH_ERRORS = (ArithmeticError, LookupError, TypeError, ValueError)
"""What scoring may raise if an answer and its judgements are valid, but don't belong
together."""


def first_contradiction(metrics: Sequence[Metric], record: SampleRecord) -> str | None:
    """The first metric whose scores in `record` don't follow from its judgements; None
    if all do."""
    replayed = score_record(metrics, record)
    answers = zip(record.answers, replayed.answers, strict=True)
    pairs = [(answer.scores, again.scores) for answer, again in answers]
    pairs.append((record.scores, replayed.scores))
    for recorded_scores, replayed_scores in pairs:
        for name, score in replayed_scores.items():
            if not same_score(recorded_scores.get(name), score):
                return name
    return None


def same_score(recorded: Score | None, replayed: Score) -> bool:
    """Whether two scores are the same, apart from the last digits of a number and the
    wording of a reason."""
    if isinstance(recorded, Scored) and isinstance(replayed, Scored):
        return abs(recorded.value - replayed.value) <= _TOLERANCE
    return type(recorded) is type(replayed)


def recomputable_metrics(
    manifest: Manifest, custom: Sequence[Metric] = ()
) -> tuple[list[Metric], dict[str, str]]:
    """The metrics of a run that this version can recompute, and the names of the
    others, each with the reason as a clause. `custom` are the project's own metrics."""
    custom_by_name = {metric.info.name: metric for metric in custom}
    metrics: list[Metric] = []
    unverified: dict[str, str] = {}
    for name, version in manifest.metrics.items():
        metric = custom_by_name.get(name) or find_metric(name)
        if metric is not None and metric.info.version == version:
            metrics.append(metric)
        else:
            here = "not known" if metric is None else f"version {metric.info.version}"
            unverified[name] = f"it is version {version} in the run, and {here} here"
    return metrics, unverified


def confirmed_scores(run: RunDirectory, custom: Sequence[Metric] = ()) -> RunScores:
    """The scores of `run`. Raises RunDirectoryError if one does not follow from its
    judgements with this version's metrics.

    `custom` are the project's own metrics. Metrics that can't be recomputed are not
    checked.
    """
    metrics, _ = recomputable_metrics(run.manifest, custom)

    def replay(record: SampleRecord) -> None:
        try:
            name = first_contradiction(metrics, record)
            if name is None:
                return
            problem = f"{name} does not follow from the recorded judgements"
        except _MISMATCH_ERRORS as error:
            problem = f"answer and judgements don't belong together ({error})"
        raise RunDirectoryError(
            f"sample '{record.sample.id}': {problem}.",
            where=str(run.path / SAMPLES),
            hint="The file was changed after the run; run the evaluation again.",
        )

    return run.scores(replay)


def confirm(run: RunDirectory, custom: Sequence[Metric] = ()) -> RunDirectory:
    """Check `confirmed_scores`, and return `run` with the hash of its golden set
    computed from its samples, whatever its manifest says.

    Raises RunDirectoryError.
    """
    samples = confirmed_scores(run, custom).samples
    hashes = [(name, facts.content_hash or "") for name, facts in samples.items()]
    golden = run.manifest.golden
    content_hash = hash_of_samples(hashes)
    if len(hashes) != golden.samples or golden.content_hash == content_hash:
        return run
    return update_manifest(
        run, golden=golden.model_copy(update={"content_hash": content_hash})
    )


class VerifiedRun(Struct, frozen=True):
    """The verified part of an untrusted run.

    - `scores`: without the metrics that could not be recomputed.
    - `doubts`: sentences on what could not be verified. If there is one, the run can't
      pass.
    """

    scores: RunScores
    doubts: tuple[str, ...]


def vouch(
    run: RunDirectory, golden: GoldenSet, custom: Sequence[Metric] = ()
) -> VerifiedRun:
    """Compare an untrusted `run`, which passed `confirm`, with the golden set and the
    metrics of a trusted checkout."""
    scores = run.scores()
    _, unverified = recomputable_metrics(run.manifest, custom)
    doubts = [
        f"{name} is unverified and left out: {reason}."
        for name, reason in unverified.items()
    ]
    invocation = run.manifest.invocation
    if invocation is None or invocation.changed != 0:
        doubts.append(
            "This run does not show that the files it evaluated were those of its commit."
        )
    contents = {sample.id: sample.content_hash() for sample in golden}
    # The bounds of a sample are policy, and taken from the trusted checkout.
    bounds = {sample.id: sample.bounds for sample in golden}
    samples = {
        name: replace(facts, bounds=bounds.get(name, ()))
        for name, facts in scores.samples.items()
    }
    if contents != {name: facts.content_hash for name, facts in samples.items()}:
        doubts.append(
            "The samples of this run are not those of the default branch's golden set, so its results are for "
            "different questions."
        )
    verified = {
        name: metric
        for name, metric in scores.metrics.items()
        if name not in unverified
    }
    return VerifiedRun(
        replace(scores, metrics=verified, samples=samples), tuple(doubts)
    )
