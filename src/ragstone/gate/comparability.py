"""What two runs have in common, and plain sentences about the differences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping

from msgspec.structs import replace

from ragstone.evaluation.scores import RunScores, SampleFacts, rekey_samples
from ragstone.gate.observed_judge import observed_difference
from ragstone.gate.verdict import Comparability
from ragstone.golden.sample import LABELS, Label, Sample
from ragstone.metrics.custom import is_function
from ragstone.metrics.registry import find_metric, is_relative, labels_of
from ragstone.metrics.score import Failed
from ragstone.system.response import GENERATION, NO_CONTEXTS, NO_TEXTS

_PROBE = Sample(id="probe", question="?", reference="!")
"""A sample with a question and a reference, to find out which metrics need a judge."""


class Pairing(Comparability, frozen=True, kw_only=True):
    """Two runs, and the samples and metrics on which they are compared."""

    current: RunScores
    baseline: RunScores
    samples: tuple[str, ...] = ()
    """The ids of the samples that are compared, sorted."""
    edited: Mapping[str, frozenset[Label]] = {}
    """The labels that differ between the runs, for each of `samples`. A metric that
    reads one of them is not compared on that sample."""

    @property
    def comparability(self) -> Comparability:
        """This pairing without the runs, as a verdict has it."""
        names = Comparability.__struct_fields__
        return Comparability(**{name: getattr(self, name) for name in names})

    def changes(self, metric: str) -> dict[str, float]:
        """The score of `metric` minus the baseline's, for the paired samples with a
        score in both runs, by sorted id."""
        if metric not in self.metrics:
            return {}
        values = self.current.metrics[metric].values
        # A run without a baseline is compared with one that has no metrics.
        baseline_values = self.baseline.scores_of(metric).values
        compared = values.keys() & baseline_values.keys()
        compared -= self.samples_edited_for(metric)
        return {
            sample_id: values[sample_id] - baseline_values[sample_id]
            for sample_id in self.samples
            if sample_id in compared
        }

    def samples_edited_for(self, metric: str) -> frozenset[str]:
        """The paired samples with other labels, of those that `metric` reads."""
        read_labels = labels_of(metric)
        return frozenset(
            sample_id
            for sample_id, labels in self.edited.items()
            if labels & read_labels
        )


def pair_runs(current: RunScores, baseline: RunScores) -> Pairing:
    """Find the samples and metrics on which `current` and `baseline` can be compared.

    Samples are the same if they have the same id and, as far as is known, the same
    question. A metric is compared if its version is the same in both runs and, if it
    uses a judge, the judge and its prompts are; otherwise it is skipped. Samples where
    a label that it reads was edited don't count. Runs of different halves of a system
    are not compared.
    """
    samples: list[str] = []
    if difference_of_halves(current, baseline) is None:
        in_both = current.samples.keys() & baseline.samples.keys()
        samples = [
            sample_id
            for sample_id in sorted(in_both)
            if same_question(current, baseline, sample_id)
        ]
    edited = {
        sample_id: _other_labels(current, baseline, sample_id) for sample_id in samples
    }
    skipped: dict[str, str] = {}
    metrics: list[str] = []
    if samples:
        skipped = _skipped_metrics(current, baseline, samples)
        metrics = [
            metric
            for metric, scores in sorted(current.metrics.items())
            if scores.values and metric not in skipped and not is_relative(metric)
        ]
    return Pairing(
        current=current,
        baseline=baseline,
        comparable=bool(metrics),
        notes=tuple(_notes(current, baseline, len(samples))),
        paired=len(samples),
        total=len(current.samples),
        metrics=tuple(metrics),
        skipped=skipped,
        samples=tuple(samples),
        edited=edited,
    )


def _notes(current: RunScores, baseline: RunScores, paired: int) -> Iterator[str]:
    """Sentences on the golden sets and the manifests of two runs, where they differ."""
    other_half = difference_of_halves(current, baseline)
    if other_half is not None:
        yield other_half
        return
    if not paired:
        yield "the baseline has a different golden set: no sample is the same."
        return
    without_judge = [run.label for run in (baseline, current) if run.manifest is None]
    if len(without_judge) == 1:
        label = without_judge[0]
        yield f"{label} does not name its judge; it is assumed to be the same."
    manifest = baseline.manifest
    if manifest is not None and manifest.state != "finished":
        yield "the baseline run did not finish; only its finished samples are compared."


def with_lost_contexts(current: RunScores, baseline: RunScores) -> RunScores:
    """`current` with a failed score wherever a metric can't be measured for want of
    contexts or their texts and `baseline` has a score: the system no longer returns
    what it is judged by."""
    if difference_of_halves(current, baseline) is not None:
        return current
    metrics = {}
    for metric, scores in current.metrics.items():
        scored = baseline.scores_of(metric).values
        excused = dict(scores.not_applicable)
        failed = dict(scores.failed)
        for sample_id, reason in scores.not_applicable.items():
            if sample_id in scored and reason.startswith((NO_TEXTS, NO_CONTEXTS)):
                del excused[sample_id]
                failed[sample_id] = Failed("system", reason)
        metrics[metric] = replace(scores, not_applicable=excused, failed=failed)
    return replace(current, metrics=metrics)


def difference_of_halves(current: RunScores, baseline: RunScores) -> str | None:
    """A sentence on two runs of different halves of a system; None if they are of the
    same half, or it is not known."""
    is_known = current.manifest is not None and baseline.manifest is not None
    if not is_known or current.part == baseline.part:
        return None
    part = _part_of(current)
    baseline_part = _part_of(baseline)
    return f"this run is of {part}, and the baseline of {baseline_part}: they are not compared."


def _part_of(run: RunScores) -> str:
    """The half of the system that was asked, in words."""
    return f"{run.part} alone" if run.part else "the whole system"


def differences(comparability: Comparability) -> list[str]:
    """Sentences on why the two runs can't be compared, or not in full, each once."""
    reasons = comparability.skipped.values()
    sentences = (*comparability.notes, *reasons)
    return list(dict.fromkeys(sentences))


def new_ids(
    current: Mapping[str, str | None], baseline: Mapping[str, str | None]
) -> dict[str, str]:
    """The new ids of the samples of `baseline` that have another id in `current`, by
    the id in `baseline`.

    Both arguments map ids to content hashes. A sample keeps its id if both have the
    same content under it, as far as is known. Among the others, equal contents that
    each side has once are the same sample, even if its old id is that of another sample
    now.
    """
    unchanged = {
        sample_id
        for sample_id in current.keys() & baseline.keys()
        if _is_same(current[sample_id], baseline[sample_id])
    }
    current_ids = _ids_by_content(current, unchanged)
    return {
        baseline_id: current_ids[content]
        for content, baseline_id in _ids_by_content(baseline, unchanged).items()
        if content in current_ids
    }


def _ids_by_content(
    hashes: Mapping[str, str | None], unchanged: Collection[str]
) -> dict[str, str]:
    """The id of each content that only one sample has, of those that are not
    `unchanged`."""
    changed = {
        sample_id: content
        for sample_id, content in hashes.items()
        if content is not None and sample_id not in unchanged
    }
    counts = Counter(changed.values())
    return {
        content: sample_id
        for sample_id, content in changed.items()
        if counts[content] == 1
    }


def with_ids_of(
    current: RunScores, baseline: RunScores
) -> tuple[RunScores, dict[str, str]]:
    """`baseline` with the ids that its samples have in `current`, and the baseline's
    ids of the renamed samples, by their id in `current`.

    Samples are the same if their content is, or else their question. A sample that
    `current` does not have, and whose id is that of another sample there, gets an id
    that became free.
    """
    unchanged = {
        sample_id
        for sample_id in current.samples.keys() & baseline.samples.keys()
        if same_question(current, baseline, sample_id)
    }
    renamed: dict[str, str] = {}
    for identity in (_content, _question):
        matched = {*unchanged, *renamed.values()}
        baseline_matched = {*unchanged, *renamed}
        renamed |= new_ids(
            current=_identities(current, identity, matched),
            baseline=_identities(baseline, identity, baseline_matched),
        )
    baseline_ids = {new_id: baseline_id for baseline_id, new_id in renamed.items()}
    for new_id in tuple(baseline_ids):
        if new_id in baseline.samples and new_id not in renamed:
            # Another sample took this id, and may have left its own to a third: follow
            # them to the id that nobody took.
            free_id = new_id
            while free_id in baseline_ids:
                free_id = baseline_ids[free_id]
            renamed[new_id] = free_id
            baseline_ids[free_id] = new_id
    rekeyed_baseline = rekey_samples(
        baseline, lambda sample_id: renamed.get(sample_id, sample_id)
    )
    return rekeyed_baseline, baseline_ids


def _identities(
    run: RunScores,
    identity: Callable[[SampleFacts], str | None],
    matched: Collection[str],
) -> dict[str, str | None]:
    """What identifies each sample that is not `matched`, by id."""
    return {
        sample_id: identity(facts)
        for sample_id, facts in run.samples.items()
        if sample_id not in matched
    }


def _content(facts: SampleFacts) -> str | None:
    return facts.content_hash


def _question(facts: SampleFacts) -> str | None:
    """The hash of the question, which is the first of the hashes of its parts."""
    return next(iter(facts.parts), None)


def _is_same(current: str | None, baseline: str | None) -> bool:
    """Whether two hashes or versions are the same, as far as is known."""
    return current is None or baseline is None or current == baseline


def same_content(current: RunScores, baseline: RunScores, sample_id: str) -> bool:
    """Whether a sample has the same content in both runs, as far as is known."""
    return _is_same(
        current.samples[sample_id].content_hash,
        baseline.samples[sample_id].content_hash,
    )


def same_question(current: RunScores, baseline: RunScores, sample_id: str) -> bool:
    """Whether the system was asked the same in both runs, as far as is known; other
    labels of the sample don't matter."""
    question = _question(current.samples[sample_id])
    baseline_question = _question(baseline.samples[sample_id])
    if question is None or baseline_question is None:
        return same_content(current, baseline, sample_id)
    if question != baseline_question or current.part != GENERATION:
        return question == baseline_question
    # To a generator alone, the reference contexts are a part of what it is asked.
    return "reference_contexts" not in _other_labels(current, baseline, sample_id)


def _other_labels(
    current: RunScores, baseline: RunScores, sample_id: str
) -> frozenset[Label]:
    """The labels of a sample that are not the same in both runs, as far as is known."""
    parts = current.samples[sample_id].parts
    baseline_parts = baseline.samples[sample_id].parts
    # The first part is the question.
    contents = parts[1:]
    baseline_contents = baseline_parts[1:]
    labels = zip(LABELS, contents, baseline_contents, strict=False)
    return frozenset(
        label
        for label, content, baseline_content in labels
        if content != baseline_content
    )


def _skipped_metrics(
    current: RunScores, baseline: RunScores, samples: Collection[str]
) -> dict[str, str]:
    """The metrics that can't be compared on `samples`, each with a sentence on why."""
    judge_change = judge_difference(current, baseline)
    skipped: dict[str, str] = {}
    for metric, reason in scoring_differences(current, baseline).items():
        skipped[metric] = f"{reason}: not compared."
        if reason == judge_change:
            skipped[metric] = f"{reason}: metrics that use the judge are not compared."
    for metric, scores in current.metrics.items():
        baseline_values = baseline.scores_of(metric).values
        baseline_scored = baseline_values.keys() & samples
        is_shared = not scores.values.keys().isdisjoint(baseline_scored)
        if scores.values and not is_shared and not is_relative(metric):
            skipped.setdefault(
                metric,
                f"{metric} has no sample with a score in both runs: not compared.",
            )
    return skipped


def scoring_differences(current: RunScores, baseline: RunScores) -> dict[str, str]:
    """The metrics of `current` that `baseline` did not score in the same way, each with
    a clause on why: not at all, in another version, or by another judge."""
    judge_change = judge_difference(current, baseline)
    reasons: dict[str, str] = {}
    for metric, scores in sorted(current.metrics.items()):
        if is_relative(metric):
            continue  # each run was compared with a baseline of its own
        version = scores.version
        baseline_version = baseline.scores_of(metric).version
        if metric not in baseline.metrics:
            reasons[metric] = f"the baseline has no {metric}"
        elif not _is_same(version, baseline_version):
            reasons[metric] = (
                f"{metric} was version {baseline_version} in the baseline and is {version} now"
            )
        elif judge_change is not None and is_judged(metric, version):
            reasons[metric] = judge_change
    return reasons


def judge_difference(current: RunScores, baseline: RunScores) -> str | None:
    """A clause on how the judges of two runs differ; None if they don't, or if one is
    not known."""
    if current.manifest is None or baseline.manifest is None:
        return None
    judge = current.manifest.judge
    baseline_judge = baseline.manifest.judge
    if judge == baseline_judge:
        return observed_difference(current, baseline)
    label = judge.label()
    baseline_label = baseline_judge.label()
    if label != baseline_label:
        return f"the judge changed from {baseline_label} to {label}"
    if judge.version != baseline_judge.version:
        version = judge.version[:12]
        baseline_version = baseline_judge.version[:12]
        return f"the prompts of the judge changed ({baseline_version} to {version})"
    return "the judge's embedding model, endpoint or parameters changed"


def is_judged(name: str, version: str | None = None) -> bool:
    """Whether a metric uses a judge. One that is not registered does, unless its
    `version` is that of a function."""
    metric = find_metric(name)
    if metric is None:
        return not is_function(version)
    return bool(metric.needs(_PROBE))
