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
    """Two runs, and the samples (ids, sorted) and metrics on which they are compared.

    `edited` are the labels that are not the same in both, by sample: metrics that read one are not compared there.
    """

    current: RunScores = field(repr=False)
    baseline: RunScores = field(repr=False)
    comparability: Comparability
    samples: tuple[str, ...] = ()
    edited: Mapping[str, frozenset[Label]] = field(default_factory=dict, repr=False)
    _pairs: dict[str, tuple[str, ...]] = field(default_factory=dict, repr=False, compare=False)

    @property
    def metrics(self) -> tuple[str, ...]:
        return self.comparability.metrics

    def pairs(self, metric: str) -> tuple[str, ...]:
        """The sorted ids of the paired samples with a score of `metric` in both runs."""
        if metric not in self.metrics:
            return ()
        if metric not in self._pairs:
            now = self.current.metrics[metric].values
            then = self.baseline.metrics[metric].values
            edited = self.edited_for(metric)
            pairs = tuple(name for name in self.samples if name in now and name in then and name not in edited)
            self._pairs[metric] = pairs if len(pairs) < len(self.samples) else self.samples
        return self._pairs[metric]

    def edited_for(self, metric: str) -> frozenset[str]:
        """The samples of both runs with other labels of those that `metric` reads."""
        reads = labels_of(metric) if self.edited else frozenset[Label]()
        return frozenset(name for name, labels in self.edited.items() if labels & reads)

    def changes(self, metric: str) -> list[float]:
        """The score now minus the baseline's, of each of the `pairs`."""
        now = self.current.metrics[metric].values
        then = self.baseline.metrics[metric].values
        return [now[sample_id] - then[sample_id] for sample_id in self.pairs(metric)]


def pair_runs(current: RunScores, baseline: RunScores, *, unmatched: str = "pair") -> Pairing:
    """Find the samples and metrics on which `current` and `baseline` can be compared.

    Samples are the same if their ids are, and their questions if both are known. A metric is compared if its version
    agrees and, if it uses a judge, the judge and its prompts agree; otherwise it is skipped. It is compared on the
    samples with the same labels, of those that it reads: see `Pairing.edited`. `unmatched` comes from the policy.
    Runs of different halves of a system are not compared.
    """
    if (halves := other_half(current, baseline)) is not None:
        return Pairing(current, baseline, Comparability(False, (halves,), total=len(current.samples)))
    same = [name for name in current.samples if name in baseline.samples and same_question(current, baseline, name)]
    edited = {name: labels for name in same if (labels := _other_labels(current, baseline, name))}
    notes = _golden_set_notes(current, baseline, len(same), len(edited), unmatched)
    is_refused = bool(notes) and unmatched == "refuse"
    samples = () if is_refused else tuple(sorted(same))
    skipped = _skipped_metrics(current, baseline, samples) if samples else {}
    compared = (name for name in sorted(current.metrics) if name not in skipped and not is_relative(name))
    metrics = tuple(name for name in compared if current.metrics[name].values) if samples else ()
    if samples and (current.manifest is None) != (baseline.manifest is None):
        bare = baseline if baseline.manifest is None else current
        notes.append(f"{bare.label} does not name its judge; it is assumed to be the same.")
    if metrics and current.manifest is not None and baseline.manifest is not None:
        if len({current.manifest.policy_hash, baseline.manifest.policy_hash} - {None}) == 2:
            notes.append("the policy has changed since the baseline.")
        if baseline.manifest.state != "finished":
            notes.append("the baseline run did not finish; only its finished samples are compared.")
    paired = len(samples)
    total = len(current.samples)
    comparability = Comparability(bool(metrics), tuple(notes), paired, total, metrics, skipped)
    return Pairing(current, baseline, comparability, samples, edited)


def with_lost_contexts(current: RunScores, baseline: RunScores) -> RunScores:
    """`current` with a failed score of each metric and sample that can't be measured for want of contexts or their
    texts, where `baseline` has a score: the system failed to return what it is judged by."""
    if other_half(current, baseline) is not None:
        return current
    metrics = dict(current.metrics)
    for metric, scores in current.metrics.items():
        scored = baseline.scores_of(metric).values
        excuses = scores.not_applicable.items()
        lost = {name for name, why in excuses if name in scored and why.startswith((NO_TEXTS, NO_CONTEXTS))}
        if lost:
            failed = {name: Failed("system", scores.not_applicable[name]) for name in lost}
            excused = {name: why for name, why in excuses if name not in lost}
            metrics[metric] = replace(scores, not_applicable=excused, failed={**scores.failed, **failed})
    return replace(current, metrics=metrics)


def other_half(current: RunScores, baseline: RunScores) -> str | None:
    """A sentence if the two runs are not of the same half of a system."""
    is_known = current.manifest is not None and baseline.manifest is not None
    if not is_known or current.part == baseline.part:
        return None
    now, before = (f"{run.part} alone" if run.part else "the whole system" for run in (current, baseline))
    return f"this run is of {now}, and the baseline of {before}: they are not compared."


def differences(comparability: Comparability) -> list[str]:
    """The differences between the two runs, each once."""
    return list(dict.fromkeys((*comparability.notes, *comparability.skipped.values())))


def new_ids(current: Mapping[str, str | None], baseline: Mapping[str, str | None]) -> dict[str, str]:
    """Samples of `baseline` that have another id in `current`: id there → id here. Both map ids to content hashes.

    A sample keeps its id where both sides have the same content under it, as far as is known. Of the others, one whose
    content each side has once is the same sample, also if its id is that of another sample now.
    """
    common = current.keys() & baseline.keys()
    kept = {name for name in common if _same_hash(current[name], baseline[name])}
    here = {name: content for name, content in current.items() if name not in kept and content is not None}
    there = {name: content for name, content in baseline.items() if name not in kept and content is not None}
    counts_here = Counter(here.values())
    counts_there = Counter(there.values())
    owner = {content: name for name, content in here.items() if counts_here[content] == 1}
    return {name: owner[content] for name, content in there.items() if content in owner and counts_there[content] == 1}


def with_ids_of(current: RunScores, baseline: RunScores) -> tuple[RunScores, dict[str, str]]:
    """`baseline` with the ids that its samples have in `current`, and its own ids of those that were renamed.

    A sample whose id is another one's now, and that `current` does not have, gets an id that became free.
    """
    common = current.samples.keys() & baseline.samples.keys()
    kept = {name for name in common if _keeps_question(current, baseline, name)}
    names: dict[str, str] = {}
    for identity in (_content, _question):
        now = _identities(current, kept | set(names.values()), identity)
        names |= new_ids(now, _identities(baseline, kept | names.keys(), identity))
    if not names:
        return baseline, {}
    names |= _displaced(names, baseline)
    return rekeyed(baseline, lambda name: names.get(name, name)), {new: old for old, new in names.items()}


def _same_hash(now: str | None, then: str | None) -> bool:
    return now is None or then is None or now == then


def _keeps_question(current: RunScores, baseline: RunScores, name: str) -> bool:
    """Whether both runs ask the same question under the id `name`, as far as is known."""
    question = _question(current.samples[name])
    is_same = question is not None and question == _question(baseline.samples[name])
    return is_same or same_content(current, baseline, name)


def _content(facts: SampleFacts) -> str | None:
    return facts.content_hash


def _question(facts: SampleFacts) -> str | None:
    return next(iter(facts.parts), None)


def _identities(
    run: RunScores, kept: Collection[str], identity: Callable[[SampleFacts], str | None]
) -> dict[str, str | None]:
    """What identifies all samples but those with the ids `kept`."""
    return {name: identity(facts) for name, facts in run.samples.items() if name not in kept}


def _displaced(names: Mapping[str, str], baseline: RunScores) -> dict[str, str]:
    """The new ids of samples whose id another one takes by `names`: the ids that those samples leave in turn."""
    origins = {new: old for old, new in names.items()}
    displaced = {}
    for name in names.values():
        if name in baseline.samples and name not in names:
            free = name
            while free in origins:
                free = origins[free]
            displaced[name] = free
    return displaced


def renamed_note(count: int) -> str:
    """A sentence on samples that are paired although their ids differ."""
    return f"{counted(count, 'sample')} with a new id: compared with the baseline by content."


def _golden_set_notes(current: RunScores, baseline: RunScores, same: int, edited: int, unmatched: str) -> list[str]:
    """A note if the golden sets of two runs differ."""
    if not same:
        return ["the baseline has a different golden set: no sample is the same."]
    if same == len(current.samples) == len(baseline.samples) and not edited:
        return []
    if unmatched == "refuse":
        return ['the golden set changed, and the policy says unmatched = "refuse".']
    labels = f", {edited} of them with other labels" if edited else ""
    return [f"the golden set changed: compared on {same} of {len(current.samples)} samples{labels}."]


def same_content(current: RunScores, baseline: RunScores, sample_id: str) -> bool:
    """Whether a sample that both runs have is the same in both, as far as is known."""
    return _same_hash(current.samples[sample_id].content_hash, baseline.samples[sample_id].content_hash)


def same_question(current: RunScores, baseline: RunScores, sample_id: str) -> bool:
    """Whether the system was asked the same in both runs, as far as is known, whatever the labels say."""
    now = current.samples[sample_id].parts
    before = baseline.samples[sample_id].parts
    if not now or not before:
        return same_content(current, baseline, sample_id)
    # To a generator alone, the reference contexts are a part of what it is asked.
    contexts = {"reference_contexts"} if current.part == GENERATION else set()
    return now[0] == before[0] and not contexts & _other_labels(current, baseline, sample_id)


def _other_labels(current: RunScores, baseline: RunScores, sample_id: str) -> frozenset[Label]:
    now = current.samples[sample_id].parts
    before = baseline.samples[sample_id].parts
    if now == before or not now or not before:
        return frozenset()
    labels = zip(LABELS, now[1:], before[1:], strict=True)
    return frozenset(label for label, label_now, label_before in labels if label_now != label_before)


def _skipped_metrics(current: RunScores, baseline: RunScores, samples: Collection[str]) -> dict[str, str]:
    """The metrics that can't be compared on `samples`, each with the reason as a sentence."""
    other_judge = judge_difference(current, baseline)
    skipped = dict[str, str]()
    for name, why in outdated(current, baseline).items():
        end = "metrics that use the judge are not compared." if why == other_judge else "not compared."
        skipped[name] = f"{why}: {end}"
    for name, scores in current.metrics.items():
        is_shared = not scores.values.keys().isdisjoint(baseline.scores_of(name).values.keys() & samples)
        if scores.values and not is_shared and not is_relative(name):
            skipped.setdefault(name, f"{name} has no sample with a score in both runs: not compared.")
    return skipped


def outdated(current: RunScores, baseline: RunScores) -> dict[str, str]:
    """The metrics of `current` that `baseline` did not score in the same way, each with the reason as a clause.

    It has no scores of them, in another version, or by another judge.
    """
    other_judge = judge_difference(current, baseline)
    reasons = dict[str, str]()
    for name, scores in sorted(current.metrics.items()):
        if is_relative(name):
            continue  # each run was compared with a baseline of its own
        now = scores.version
        before = baseline.scores_of(name).version
        if name not in baseline.metrics:
            reasons[name] = f"the baseline has no {name}"
        elif now is not None and before is not None and now != before:
            reasons[name] = f"{name} was version {before} in the baseline and is {now} now"
        elif other_judge is not None and is_judged(name, now):
            reasons[name] = other_judge
    return reasons


def judge_difference(current: RunScores, baseline: RunScores) -> str | None:
    """How the judges of two runs differ, as a clause; None if they do not, or are not known."""
    if current.manifest is None or baseline.manifest is None:
        return None
    now = current.manifest.judge
    before = baseline.manifest.judge
    if now == before:
        return observed_difference(current.manifest, baseline.manifest)
    if now.label() != before.label():
        return f"the judge changed from {before.label()} to {now.label()}"
    if now.version != before.version:
        return f"the prompts of the judge changed ({before.version[:12]} to {now.version[:12]})"
    return "the judge's embedding model, endpoint or parameters changed"


def is_judged(metric: str, version: str | None = None) -> bool:
    """Whether `metric` uses a judge; True for an unknown metric, unless its `version` is that of a function."""
    known = find_metric(metric)
    if known is None:
        return not is_function(version)
    return bool(known.needs(_PROBE))
