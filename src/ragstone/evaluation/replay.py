"""Verifies a run directory from an untrusted source.

Scores must follow from judgements, and content hashes from samples. Anything else is
refused or recomputed; metrics that this version can't recompute are unverified.
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
_UNFIT = (ArithmeticError, LookupError, TypeError, ValueError)
"""What scoring ends in where answer and judgements are valid each, and fit together in
no run that was ever made."""


def contradicted(metrics: Sequence[Metric], record: SampleRecord) -> str | None:
    """A metric, if any, whose scores in `record` do not follow from its judgements."""
    replayed = score_record(metrics, record)
    answers = zip(record.answers, replayed.answers, strict=True)
    scores = [(answer.scores, again.scores) for answer, again in answers]
    for stored, scored in (*scores, (record.scores, replayed.scores)):
        for name, score in scored.items():
            if not same_score(stored.get(name), score):
                return name
    return None


def same_score(recorded: Score | None, replayed: Score) -> bool:
    """Whether two scores are the same, but for the last digits of a number and for the
    words of a reason."""
    if isinstance(recorded, Scored) and isinstance(replayed, Scored):
        return abs(recorded.value - replayed.value) <= _TOLERANCE
    return type(recorded) is type(replayed)


def recomputable(
    manifest: Manifest, custom: Sequence[Metric] = ()
) -> tuple[list[Metric], dict[str, str]]:
    """The metrics of a run that this version can recompute, and the names of the
    others, each with the reason as a clause. `custom` are those that the project
    defines."""
    own = {metric.info.name: metric for metric in custom}
    metrics: list[Metric] = []
    unverified: dict[str, str] = {}
    for name, version in manifest.metrics.items():
        metric = own.get(name) or find_metric(name)
        if metric is not None and metric.info.version == version:
            metrics.append(metric)
        else:
            here = "none" if metric is None else f"version {metric.info.version}"
            unverified[name] = f"it is version {version}, and here is {here}"
    return metrics, unverified


def confirmed_scores(run: RunDirectory, custom: Sequence[Metric] = ()) -> RunScores:
    """The scores of `run`, after checking that each follows from its judgements with
    this version's metrics.

    `custom` are the metrics that the project defines. Metrics that can't be recomputed
    are not checked. Raises RunDirectoryError.
    """
    metrics, _ = recomputable(run.manifest, custom)

    def replay(record: SampleRecord) -> None:
        try:
            name = contradicted(metrics, record)
        except _UNFIT as error:
            problem = f"answer and judgements don't fit together ({error})"
        else:
            problem = f"{name} does not follow from the recorded judgements"
            if name is None:
                return
        raise RunDirectoryError(
            f"sample '{record.sample.id}': {problem}.",
            where=str(run.path / SAMPLES),
            hint="The file was changed after the run; run the evaluation again.",
        )

    return run.scores(replay)


def confirm(run: RunDirectory, custom: Sequence[Metric] = ()) -> RunDirectory:
    """`run`, with `confirmed_scores`, and the hash of its golden set corrected: two
    sets are the same if their samples are, whatever a file says.

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


class Vouched(Struct, frozen=True):
    """The verified part of an untrusted run: its `scores` without the metrics that
    could not be recomputed.

    `doubts` are plain sentences on the rest; if there is one, the run can't pass.
    """

    scores: RunScores
    doubts: tuple[str, ...]


def vouch(
    run: RunDirectory, golden: GoldenSet, custom: Sequence[Metric] = ()
) -> Vouched:
    """Compare an untrusted `run`, already confirmed, with the `golden` set and metrics
    of a trusted checkout."""
    scores = run.scores()
    _, unverified = recomputable(run.manifest, custom)
    doubts = [
        f"{name} is unverified and left out: {why}." for name, why in unverified.items()
    ]
    invocation = run.manifest.invocation
    if invocation is None or invocation.changed != 0:
        doubts.append(
            "This run does not show that the files it evaluated were those of its commit."
        )
    contents = {sample.id: sample.content_hash() for sample in golden}
    # What a sample must reach is policy: that of the trusted checkout.
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
    return Vouched(replace(scores, metrics=verified, samples=samples), tuple(doubts))
