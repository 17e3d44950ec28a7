"""Verifies a run directory from an untrusted source.

Scores must follow from judgements, and content hashes from samples. Anything else is
refused or recomputed; metrics that this version can't recompute are unverified.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ragstone.errors import RunDirectoryError
from ragstone.evaluation.directory import SAMPLES, RunDirectory
from ragstone.evaluation.manifest import Manifest
from ragstone.evaluation.record import SampleRecord
from ragstone.evaluation.scores import RunScores
from ragstone.evaluation.scoring import sample_scores, scored_answer
from ragstone.evaluation.writer import update_manifest
from ragstone.golden.sample import GoldenSet, hash_of_contents
from ragstone.metrics.metric import Metric
from ragstone.metrics.registry import find_metric
from ragstone.metrics.score import Score, Scored

_TOLERANCE = 1e-9


def contradicted(metrics: Sequence[Metric], record: SampleRecord) -> str | None:
    """A metric, if any, whose scores in `record` do not follow from its judgements."""
    replayed = [
        scored_answer(metrics, record.sample, answer.response, answer.judgements)
        for answer in record.answers
    ]
    for answer, again in zip(record.answers, replayed, strict=True):
        for name, rounds in again.repeat_scores.items():
            if not _alike(answer.repeat_scores.get(name, ()), rounds):
                return name
        different = _different(answer.scores, again.scores)
        if different is not None:
            return different
    scores = sample_scores(metrics, record.sample, replayed)
    return _different(record.scores, scores)


def _different(
    recorded: Mapping[str, Score], replayed: Mapping[str, Score]
) -> str | None:
    """The first metric whose recorded score is not the replayed one."""
    for name, score in replayed.items():
        if name not in recorded or not same_score(recorded[name], score):
            return name
    return None


def recomputable(manifest: Manifest, custom: Sequence[Metric] = ()) -> list[Metric]:
    """The metrics of a run that this version can recompute; `custom` are those that the
    project defines."""
    metrics: list[Metric] = []
    for name in manifest.metrics:
        metric = _find(name, custom)
        if metric is not None and _why(manifest, name, custom) is None:
            metrics.append(metric)
    return metrics


def confirm(run: RunDirectory, custom: Sequence[Metric] = ()) -> RunDirectory:
    """Read `run`, after checking that each recorded score follows from its judgements
    with this version's metrics.

    `custom` are the metrics that the project defines. A wrong hash of the golden set is
    corrected: two sets are the same if their samples are, whatever a file says. Metrics
    that can't be recomputed (`unverified`) are not checked.

    Raises RunDirectoryError.
    """
    metrics = recomputable(run.manifest, custom)

    def replay(record: SampleRecord) -> None:
        if (name := contradicted(metrics, record)) is not None:
            raise _does_not_follow(run, record.sample.id, name)

    samples = run.scores(replay).samples
    hashes = [(name, facts.content_hash or "") for name, facts in samples.items()]
    golden = run.manifest.golden
    content_hash = hash_of_contents(hashes)
    if len(hashes) != golden.samples or golden.content_hash == content_hash:
        return run
    return update_manifest(
        run, golden=golden.model_copy(update={"content_hash": content_hash})
    )


def _does_not_follow(
    run: RunDirectory, sample_id: str, metric: str
) -> RunDirectoryError:
    return RunDirectoryError(
        f"sample '{sample_id}': {metric} does not follow from the recorded judgements.",
        where=str(run.path / SAMPLES),
        hint="The file was changed after the run; run the evaluation again.",
    )


def _alike(recorded: Sequence[float], replayed: Sequence[float]) -> bool:
    if len(recorded) != len(replayed):
        return False
    pairs = zip(recorded, replayed, strict=True)
    return all(abs(before - after) <= _TOLERANCE for before, after in pairs)


def unverified(run: RunDirectory, custom: Sequence[Metric] = ()) -> dict[str, str]:
    """The metrics of `run` that can't be recomputed here, each with the reason as a
    clause."""
    return {
        name: why
        for name in run.manifest.metrics
        if (why := _why(run.manifest, name, custom))
    }


def _find(name: str, custom: Sequence[Metric]) -> Metric | None:
    for metric in custom:
        if metric.info.name == name:
            return metric
    return find_metric(name)


def _why(manifest: Manifest, name: str, custom: Sequence[Metric]) -> str | None:
    metric, version = _find(name, custom), manifest.metrics[name]
    if metric is None:
        return "this version of Ragstone does not know it"
    if version != metric.info.version:
        return f"it is version {version}, but version {metric.info.version} here"
    return None


def same_score(recorded: Score, replayed: Score) -> bool:
    """Whether two scores are the same, but for the last digits of a number and for the
    words of a reason."""
    if isinstance(recorded, Scored) and isinstance(replayed, Scored):
        return abs(recorded.value - replayed.value) <= _TOLERANCE
    return type(recorded) is type(replayed)


@dataclass(frozen=True, slots=True)
class Vouched:
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
    left_out = unverified(run, custom)
    doubts = [
        f"{name} is unverified and left out: {why}." for name, why in left_out.items()
    ]
    invocation = run.manifest.invocation
    if invocation is None or invocation.changed != 0:
        doubts.append(
            "This run does not show that the files it evaluated were those of its commit."
        )
    own_hashes = {sample.id: sample.content_hash() for sample in golden}
    run_hashes = {name: facts.content_hash for name, facts in scores.samples.items()}
    counts = {
        "changed": sum(
            own_hashes[name] != run_hashes[name]
            for name in own_hashes.keys() & run_hashes.keys()
        ),
        "new": len(run_hashes.keys() - own_hashes.keys()),
        "missing": len(own_hashes.keys() - run_hashes.keys()),
    }
    if any(counts.values()):
        listed = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
        doubts.append(
            f"The samples of this run are not those of the default branch's golden set ({listed} of "
            f"{len(own_hashes)}), so its results are for different questions."
        )
    bounds = {
        sample.id: sample.bounds for sample in golden
    }  # what a sample must reach is policy: ours, not theirs
    samples = {
        name: replace(facts, bounds=bounds.get(name, ()))
        for name, facts in scores.samples.items()
    }
    verified = {
        name: metric for name, metric in scores.metrics.items() if name not in left_out
    }
    return Vouched(replace(scores, metrics=verified, samples=samples), tuple(doubts))
