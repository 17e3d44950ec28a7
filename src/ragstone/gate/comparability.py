"""What two runs have in common, and plain sentences about the differences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from ragstone.evaluation.scores import RunScores, SampleFacts, rekeyed
from ragstone.formatting import counted
from ragstone.gate.observed_judge import observed_difference
from ragstone.gate.verdict import Comparability
from ragstone.golden.sample import LABELS, Label, Sample
from ragstone.metrics.custom import is_function
from ragstone.metrics.registry import find_metric, is_relative, labels_of
from ragstone.metrics.score import Failed
from ragstone.system.response import GENERATION, NO_CONTEXTS, NO_TEXTS

_PROBE = Sample(id="probe", question="?", reference="!")


@dataclass(frozen=True, slots=True)
class Pairing:
    """Two runs, and the samples and metrics on which they are compared."""

    current: RunScores = field(repr=False)
    baseline: RunScores = field(repr=False)
    comparability: Comparability
    samples: tuple[str, ...] = ()
    """The ids of the samples that are compared, sorted."""
    edited: Mapping[str, frozenset[Label]] = field(default_factory=dict, repr=False)
    """The labels that are not the same in both, by sample: metrics that read one are
    not compared there."""

    @property
    def metrics(self) -> tuple[str, ...]:
        return self.comparability.metrics

    def pairs(self, metric: str) -> tuple[str, ...]:
        """The sorted ids of the paired samples with a score of `metric` in both
        runs."""
        if metric not in self.metrics:
            return ()
        values = self.current.metrics[metric].values
        baseline_values = self.baseline.metrics[metric].values
        edited = self.edited_for(metric)
        return tuple(
            sample_id
            for sample_id in self.samples
            if sample_id in values
            and sample_id in baseline_values
            and sample_id not in edited
        )

    def edited_for(self, metric: str) -> frozenset[str]:
        """The samples of both runs with other labels of those that `metric` reads."""
        if not self.edited:
            return frozenset()
        read_labels = labels_of(metric)
        return frozenset(
            sample_id
            for sample_id, labels in self.edited.items()
            if labels & read_labels
        )

    def changes(self, metric: str) -> list[float]:
        """The score now minus the baseline's, of each of the `pairs`."""
        values = self.current.metrics[metric].values
        baseline_values = self.baseline.metrics[metric].values
        return [
            values[sample_id] - baseline_values[sample_id]
            for sample_id in self.pairs(metric)
        ]


def pair_runs(current: RunScores, baseline: RunScores) -> Pairing:
    """Find the samples and metrics on which `current` and `baseline` can be compared.

    Samples are the same if their ids are, and their questions if both are known. A
    metric is compared if its version agrees and, if it uses a judge, the judge and its
    prompts agree; otherwise it is skipped. It is compared on the samples with the same
    labels, of those that it reads: see `Pairing.edited`. Runs of different
    halves of a system are not compared.
    """
    halves = other_half(current, baseline)
    if halves is not None:
        return Pairing(
            current,
            baseline,
            Comparability(False, (halves,), total=len(current.samples)),
        )
    same = [
        sample_id
        for sample_id in current.samples
        if sample_id in baseline.samples and same_question(current, baseline, sample_id)
    ]
    edited: dict[str, frozenset[Label]] = {}
    for sample_id in same:
        labels = _other_labels(current, baseline, sample_id)
        if labels:
            edited[sample_id] = labels
    notes = _golden_set_notes(current, baseline, len(same), len(edited))
    samples = tuple(sorted(same))
    skipped: dict[str, str] = {}
    metrics: tuple[str, ...] = ()
    if samples:
        skipped = _skipped_metrics(current, baseline, samples)
        metrics = _compared_metrics(current, skipped)
        notes += _manifest_notes(current, baseline, any_metric=bool(metrics))
    comparability = Comparability(
        comparable=bool(metrics),
        notes=tuple(notes),
        paired=len(samples),
        total=len(current.samples),
        metrics=metrics,
        skipped=skipped,
    )
    return Pairing(current, baseline, comparability, samples, edited)


def _compared_metrics(
    current: RunScores, skipped: Mapping[str, str]
) -> tuple[str, ...]:
    """The metrics with scores that are not skipped, sorted."""
    scored = sorted(
        metric for metric, scores in current.metrics.items() if scores.values
    )
    return tuple(
        metric for metric in scored if metric not in skipped and not is_relative(metric)
    )


def _manifest_notes(
    current: RunScores, baseline: RunScores, *, any_metric: bool
) -> list[str]:
    """Notes on what the manifests of two runs with common samples say, and on one that
    is missing."""
    if current.manifest is None and baseline.manifest is None:
        return []
    if current.manifest is None or baseline.manifest is None:
        without_manifest = baseline if baseline.manifest is None else current
        return [
            f"{without_manifest.label} does not name its judge; it is assumed to be the same."
        ]
    notes: list[str] = []
    policies = {current.manifest.policy_hash, baseline.manifest.policy_hash} - {None}
    if any_metric and len(policies) == 2:
        notes.append("the policy has changed since the baseline.")
    if any_metric and baseline.manifest.state != "finished":
        notes.append(
            "the baseline run did not finish; only its finished samples are compared."
        )
    return notes


def with_lost_contexts(current: RunScores, baseline: RunScores) -> RunScores:
    """`current` with a failed score of each metric and sample that can't be measured
    for want of contexts or their texts, where `baseline` has a score: the system failed
    to return what it is judged by."""
    if other_half(current, baseline) is not None:
        return current
    metrics = dict(current.metrics)
    for metric, scores in current.metrics.items():
        scored = baseline.scores_of(metric).values
        excused = dict(scores.not_applicable)
        failed = dict(scores.failed)
        for sample_id, reason in scores.not_applicable.items():
            if sample_id in scored and reason.startswith((NO_TEXTS, NO_CONTEXTS)):
                del excused[sample_id]
                failed[sample_id] = Failed("system", reason)
        if len(excused) < len(scores.not_applicable):
            metrics[metric] = replace(scores, not_applicable=excused, failed=failed)
    return replace(current, metrics=metrics)


def other_half(current: RunScores, baseline: RunScores) -> str | None:
    """A sentence if the two runs are not of the same half of a system."""
    is_known = current.manifest is not None and baseline.manifest is not None
    if not is_known or current.part == baseline.part:
        return None
    return f"this run is of {_part(current)}, and the baseline of {_part(baseline)}: they are not compared."


def _part(run: RunScores) -> str:
    if not run.part:
        return "the whole system"
    return f"{run.part} alone"


def differences(comparability: Comparability) -> list[str]:
    """The differences between the two runs, each once."""
    return list(dict.fromkeys((*comparability.notes, *comparability.skipped.values())))


def new_ids(
    current: Mapping[str, str | None], baseline: Mapping[str, str | None]
) -> dict[str, str]:
    """Samples of `baseline` that have another id in `current`: id in `baseline` → id in
    `current`.

    Both map ids to content hashes. A sample keeps its id where both sides have the same
    content under it, as far as is known. Of the others, one whose content each side has
    once is the same sample, also if its id is that of another sample now.
    """
    common = current.keys() & baseline.keys()
    unchanged = {
        sample_id
        for sample_id in common
        if _same_hash(current[sample_id], baseline[sample_id])
    }
    id_of = _ids_by_content(current, unchanged)
    baseline_id_of = _ids_by_content(baseline, unchanged)
    return {
        baseline_id: id_of[content]
        for content, baseline_id in baseline_id_of.items()
        if content in id_of
    }


def _ids_by_content(
    hashes: Mapping[str, str | None], unchanged: Collection[str]
) -> dict[str, str]:
    """The id of each content that stands once under the ids that are not
    `unchanged`."""
    contents = {
        sample_id: content
        for sample_id, content in hashes.items()
        if sample_id not in unchanged
    }
    times = Counter(contents.values())
    return {
        content: sample_id
        for sample_id, content in contents.items()
        if content is not None and times[content] == 1
    }


def with_ids_of(
    current: RunScores, baseline: RunScores
) -> tuple[RunScores, dict[str, str]]:
    """`baseline` with the ids that its samples have in `current`, and its own ids of
    those that were renamed.

    A sample whose id is another one's now, and that `current` does not have, gets an id
    that became free.
    """
    common = current.samples.keys() & baseline.samples.keys()
    unchanged = {
        sample_id
        for sample_id in common
        if _keeps_question(current, baseline, sample_id)
    }
    renamed: dict[str, str] = {}
    for identity in (_content, _question):
        unnamed = _identities(current, unchanged | set(renamed.values()), identity)
        baseline_unnamed = _identities(baseline, unchanged | renamed.keys(), identity)
        renamed |= new_ids(unnamed, baseline_unnamed)
    if not renamed:
        return baseline, {}
    renamed |= _displaced(renamed, baseline)
    baseline_ids = {new_id: baseline_id for baseline_id, new_id in renamed.items()}
    return rekeyed(
        baseline, lambda sample_id: renamed.get(sample_id, sample_id)
    ), baseline_ids


def _same_hash(current: str | None, baseline: str | None) -> bool:
    """Whether two contents are the same, as far as is known."""
    return current is None or baseline is None or current == baseline


def _keeps_question(current: RunScores, baseline: RunScores, sample_id: str) -> bool:
    """Whether both runs ask the same question under this id, as far as is known."""
    question = _question(current.samples[sample_id])
    is_same = question is not None and question == _question(
        baseline.samples[sample_id]
    )
    return is_same or same_content(current, baseline, sample_id)


def _content(facts: SampleFacts) -> str | None:
    return facts.content_hash


def _question(facts: SampleFacts) -> str | None:
    return next(iter(facts.parts), None)


def _identities(
    run: RunScores,
    excluded: Collection[str],
    identity: Callable[[SampleFacts], str | None],
) -> dict[str, str | None]:
    """What identifies all samples but the excluded ones."""
    return {
        sample_id: identity(facts)
        for sample_id, facts in run.samples.items()
        if sample_id not in excluded
    }


def _displaced(renamed: Mapping[str, str], baseline: RunScores) -> dict[str, str]:
    """The new ids of samples whose id another one takes: the ids that those samples
    leave in turn."""
    baseline_ids = {new_id: baseline_id for baseline_id, new_id in renamed.items()}
    displaced: dict[str, str] = {}
    for new_id in renamed.values():
        if new_id in baseline.samples and new_id not in renamed:
            free_id = new_id
            while free_id in baseline_ids:
                free_id = baseline_ids[free_id]
            displaced[new_id] = free_id
    return displaced


def renamed_note(count: int) -> str:
    """A sentence on samples that are paired although their ids differ."""
    return f"{counted(count, 'sample')} with a new id: compared with the baseline by content."


def _golden_set_notes(
    current: RunScores, baseline: RunScores, same: int, edited: int
) -> list[str]:
    """A note if the golden sets of two runs differ."""
    total = len(current.samples)
    if not same:
        return ["the baseline has a different golden set: no sample is the same."]
    if same == total and same == len(baseline.samples) and not edited:
        return []
    labels = f", {edited} of them with other labels" if edited else ""
    return [f"the golden set changed: compared on {same} of {total} samples{labels}."]


def same_content(current: RunScores, baseline: RunScores, sample_id: str) -> bool:
    """Whether a sample that both runs have is the same in both, as far as is known."""
    return _same_hash(
        current.samples[sample_id].content_hash,
        baseline.samples[sample_id].content_hash,
    )


def same_question(current: RunScores, baseline: RunScores, sample_id: str) -> bool:
    """Whether the system was asked the same in both runs, as far as is known, whatever
    the labels say."""
    parts = current.samples[sample_id].parts
    baseline_parts = baseline.samples[sample_id].parts
    if not parts or not baseline_parts:
        return same_content(current, baseline, sample_id)
    if parts[0] != baseline_parts[0]:
        return False
    # To a generator alone, the reference contexts are a part of what it is asked.
    return current.part != GENERATION or "reference_contexts" not in _other_labels(
        current, baseline, sample_id
    )


def _other_labels(
    current: RunScores, baseline: RunScores, sample_id: str
) -> frozenset[Label]:
    parts = current.samples[sample_id].parts
    baseline_parts = baseline.samples[sample_id].parts
    if parts == baseline_parts or not parts or not baseline_parts:
        return frozenset()
    labels = zip(LABELS, parts[1:], baseline_parts[1:], strict=True)
    return frozenset(
        label
        for label, content, baseline_content in labels
        if content != baseline_content
    )


def _skipped_metrics(
    current: RunScores, baseline: RunScores, samples: Collection[str]
) -> dict[str, str]:
    """The metrics that can't be compared on `samples`, each with the reason as a
    sentence."""
    judge_change = judge_difference(current, baseline)
    skipped: dict[str, str] = {}
    for metric, reason in outdated(current, baseline).items():
        end = (
            "metrics that use the judge are not compared."
            if reason == judge_change
            else "not compared."
        )
        skipped[metric] = f"{reason}: {end}"
    for metric, scores in current.metrics.items():
        baseline_scored = baseline.scores_of(metric).values.keys() & samples
        is_shared = not scores.values.keys().isdisjoint(baseline_scored)
        if scores.values and not is_shared and not is_relative(metric):
            skipped.setdefault(
                metric,
                f"{metric} has no sample with a score in both runs: not compared.",
            )
    return skipped


def outdated(current: RunScores, baseline: RunScores) -> dict[str, str]:
    """The metrics of `current` that `baseline` did not score in the same way, each with
    the reason as a clause.

    It has no scores of them, in another version, or by another judge.
    """
    judge_change = judge_difference(current, baseline)
    reasons: dict[str, str] = {}
    for metric, scores in sorted(current.metrics.items()):
        if is_relative(metric):
            continue  # each run was compared with a baseline of its own
        version = scores.version
        baseline_version = baseline.scores_of(metric).version
        has_versions = version is not None and baseline_version is not None
        if metric not in baseline.metrics:
            reasons[metric] = f"the baseline has no {metric}"
        elif has_versions and version != baseline_version:
            reasons[metric] = (
                f"{metric} was version {baseline_version} in the baseline and is {version} now"
            )
        elif judge_change is not None and is_judged(metric, version):
            reasons[metric] = judge_change
    return reasons


def judge_difference(current: RunScores, baseline: RunScores) -> str | None:
    """How the judges of two runs differ, as a clause; None if they do not, or are not
    known."""
    if current.manifest is None or baseline.manifest is None:
        return None
    judge = current.manifest.judge
    baseline_judge = baseline.manifest.judge
    if judge == baseline_judge:
        return observed_difference(current, baseline)
    if judge.label() != baseline_judge.label():
        return f"the judge changed from {baseline_judge.label()} to {judge.label()}"
    if judge.version != baseline_judge.version:
        return f"the prompts of the judge changed ({baseline_judge.version[:12]} to {judge.version[:12]})"
    return "the judge's embedding model, endpoint or parameters changed"


def is_judged(name: str, version: str | None = None) -> bool:
    """Whether a metric uses a judge; True for an unknown one, unless its `version` is
    that of a function."""
    metric = find_metric(name)
    if metric is None:
        return not is_function(version)
    return bool(metric.needs(_PROBE))
