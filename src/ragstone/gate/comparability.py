"""What two runs have in common, and plain sentences about the differences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from ragstone.evaluation.manifest import Manifest
from ragstone.evaluation.scores import RunScores, rekeyed
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
            now, then = self.current.metrics[metric].values, self.baseline.metrics[metric].values
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
        now, then = self.current.metrics[metric].values, self.baseline.metrics[metric].values
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
    notes: list[str] = []
    skipped: dict[str, str] = {}
    common = [name for name in current.samples if name in baseline.samples and same_question(current, baseline, name)]
    edited = {name: labels for name in common if (labels := _other_labels(current, baseline, name))}
    samples = _same_samples(current, baseline, tuple(sorted(common)), len(edited), unmatched, notes)
    metrics = _same_metrics(current, baseline, samples, notes, skipped) if samples else ()
    comparable = bool(samples and metrics)
    if comparable and current.manifest and baseline.manifest:
        notes += _harmless_differences(current.manifest, baseline.manifest)
    comparability = Comparability(
        comparable,
        tuple(notes),
        paired=len(samples),
        total=len(current.samples),
        metrics=metrics,
        skipped=skipped,
    )
    return Pairing(current, baseline, comparability, samples, edited)


def with_lost_contexts(current: RunScores, baseline: RunScores) -> RunScores:
    """`current` with a failed score of each metric and sample that can't be measured for want of contexts or their
    texts, where `baseline` has a score: the system failed to return what it is judged by."""
    if other_half(current, baseline) is not None:
        return current
    metrics = dict(current.metrics)
    for name, scores in current.metrics.items():
        known = baseline.metrics[name].values if name in baseline.metrics else {}
        excused = scores.not_applicable
        lost = {one: why for one, why in excused.items() if one in known and why.startswith((NO_TEXTS, NO_CONTEXTS))}
        if lost:
            failed = {one: Failed("system", why) for one, why in lost.items()}
            left = {one: why for one, why in excused.items() if one not in lost}
            metrics[name] = replace(scores, not_applicable=left, failed={**scores.failed, **failed})
    return replace(current, metrics=metrics)


def other_half(current: RunScores, baseline: RunScores) -> str | None:
    """A sentence if the two runs are not of the same half of a system."""
    if current.manifest is None or baseline.manifest is None:
        return None
    now, then = current.manifest.system.part, baseline.manifest.system.part
    if now == then:
        return None
    return f"this run is of {_half(now)}, and the baseline of {_half(then)}: they are not compared."


def _half(part: str | None) -> str:
    return "the whole system" if part is None else f"{part} alone"


def differences(found: Comparability) -> list[str]:
    """The differences between the two runs, each once."""
    return list(dict.fromkeys((*found.notes, *found.skipped.values())))


def new_ids(current: Mapping[str, str | None], baseline: Mapping[str, str | None]) -> dict[str, str]:
    """Samples of `baseline` that have another id in `current`: id there → id here. Both map ids to content hashes.

    A sample keeps its id where both sides have the same content under it, as far as is known. Of the others, one whose
    content each side has once is the same sample, also if its id is that of another sample now.
    """
    kept = {name for name in current.keys() & baseline.keys() if _same_hash(current[name], baseline[name])}
    here = {name: content for name, content in current.items() if name not in kept and content is not None}
    there = {name: content for name, content in baseline.items() if name not in kept and content is not None}
    once = Counter(here.values())
    owner = {content: name for name, content in here.items() if once[content] == 1}
    twice = Counter(there.values())
    return {name: owner[content] for name, content in there.items() if content in owner and twice[content] == 1}


def with_ids_of(current: RunScores, baseline: RunScores) -> tuple[RunScores, dict[str, str]]:
    """`baseline` with the ids that its samples have in `current`, and its own ids of those that were renamed.

    A sample whose id is another one's now, and that `current` does not have, gets an id that became free.
    """
    common = current.samples.keys() & baseline.samples.keys()
    kept = {name for name in common if _keeps_question(current, baseline, name)}
    names = new_ids(_contents(current, kept), _contents(baseline, kept))
    names |= new_ids(_questions(current, kept | set(names.values())), _questions(baseline, kept | names.keys()))
    if not names:
        return baseline, {}
    names |= _displaced(names, baseline)
    return rekeyed(baseline, lambda name: names.get(name, name)), {new: old for old, new in names.items()}


def _same_hash(now: str | None, then: str | None) -> bool:
    return now is None or then is None or now == then


def _keeps_question(current: RunScores, baseline: RunScores, name: str) -> bool:
    """Whether both runs ask the same question under the id `name`, as far as is known."""
    now, then = current.samples[name], baseline.samples[name]
    if now.parts and then.parts and now.parts[0] == then.parts[0]:
        return True
    return _same_hash(now.content_hash, then.content_hash)


def _contents(run: RunScores, kept: Collection[str]) -> dict[str, str | None]:
    """The contents of all samples but those with the ids `kept`."""
    return {name: facts.content_hash for name, facts in run.samples.items() if name not in kept}


def _questions(run: RunScores, kept: Collection[str]) -> dict[str, str | None]:
    return {name: next(iter(facts.parts), None) for name, facts in run.samples.items() if name not in kept}


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
    verb = "has a new id and is" if count == 1 else "have new ids and are"
    return f"{counted(count, 'sample')} {verb} compared with the baseline by content."


def _same_samples(
    current: RunScores,
    baseline: RunScores,
    same: tuple[str, ...],
    edited: int,
    unmatched: str,
    notes: list[str],
) -> tuple[str, ...]:
    common = sum(name in baseline.samples for name in current.samples)
    changed = common - len(same)
    new = len(current.samples) - common
    gone = len(baseline.samples) - common
    if not same:
        notes.append(
            "the baseline has a different golden set: "
            + ("no sample has the same content." if common else "no sample has the same id.")
        )
        return ()
    if not changed and not edited and not new and not gone:
        return same
    found = ((changed, "changed"), (edited, "with other labels"), (new, "new"), (gone, "gone"))
    counts = [f"{count} {word}" for count, word in found if count]
    differs = f"the golden set changed ({', '.join(counts)})"
    if unmatched == "refuse":
        notes.append(f'{differs}, and the policy says unmatched = "refuse".')
        return ()
    notes.append(f"{differs}: compared on {len(same)} of {len(current.samples)} samples.")
    return same


def same_content(current: RunScores, baseline: RunScores, sample_id: str) -> bool:
    """Whether a sample that both runs have is the same in both, as far as is known."""
    return _same_hash(current.samples[sample_id].content_hash, baseline.samples[sample_id].content_hash)


def same_question(current: RunScores, baseline: RunScores, sample_id: str) -> bool:
    """Whether the system was asked the same in both runs, as far as is known, whatever the labels say."""
    now, then = current.samples[sample_id].parts, baseline.samples[sample_id].parts
    if not now or not then:
        return same_content(current, baseline, sample_id)
    given = current.manifest is not None and current.manifest.system.part == GENERATION
    return now[0] == then[0] and not (given and "reference_contexts" in _other_labels(current, baseline, sample_id))


def _other_labels(current: RunScores, baseline: RunScores, sample_id: str) -> frozenset[Label]:
    now, then = current.samples[sample_id].parts, baseline.samples[sample_id].parts
    if now == then or not now or not then:
        return frozenset()
    pairs = zip(LABELS, now[1:], then[1:], strict=True)
    return frozenset(label for label, mine, theirs in pairs if mine != theirs)


def _same_metrics(
    current: RunScores,
    baseline: RunScores,
    samples: tuple[str, ...],
    notes: list[str],
    skipped: dict[str, str],
) -> tuple[str, ...]:
    if (current.manifest is None) != (baseline.manifest is None):
        bare = baseline if baseline.manifest is None else current
        notes.append(f"{bare.label} does not name its judge; it is assumed to be the same.")
    other_judge = judge_difference(current, baseline)
    changed = outdated(current, baseline)
    compared: list[str] = []
    for name in sorted(current.metrics):
        now = current.metrics[name]
        if is_relative(name):
            continue
        if name in changed:
            end = "metrics that use the judge are not compared." if changed[name] == other_judge else "not compared."
            skipped[name] = f"{changed[name]}: {end}"
        elif any(sample_id in now.values and sample_id in baseline.metrics[name].values for sample_id in samples):
            compared.append(name)
        elif now.values:
            skipped[name] = f"{name} has no sample with a score in both runs: not compared."
    return tuple(compared)


def outdated(current: RunScores, baseline: RunScores) -> dict[str, str]:
    """The metrics of `current` that `baseline` did not score in the same way, each with the reason as a clause.

    It has no scores of them, in another version, or by another judge.
    """
    other_judge = judge_difference(current, baseline)
    found: dict[str, str] = {}
    for name, now in sorted(current.metrics.items()):
        then = baseline.metrics.get(name)
        if is_relative(name):
            continue  # each run was compared with a baseline of its own
        if then is None:
            found[name] = f"the baseline has no {name}"
        elif now.version is not None and then.version is not None and now.version != then.version:
            found[name] = f"{name} was version {then.version} in the baseline and is {now.version} now"
        elif other_judge is not None and is_judged(name, now.version):
            found[name] = other_judge
    return found


def judge_difference(current: RunScores, baseline: RunScores) -> str | None:
    """How the judges of two runs differ, as a clause; None if they do not, or are not known."""
    if current.manifest is None or baseline.manifest is None:
        return None
    now, then = current.manifest.judge, baseline.manifest.judge
    if now == then:
        return observed_difference(current.manifest, baseline.manifest)
    if now.label() != then.label():
        return f"the judge changed from {then.label()} to {now.label()}"
    if now.version != then.version:
        return f"the prompts of the judge changed ({then.version[:12]} to {now.version[:12]})"
    if now.embeddings != then.embeddings:
        return f"the embedding model changed from {then.embeddings or 'none'} to {now.embeddings or 'none'}"
    if now.endpoint != then.endpoint:
        return f"the judge's endpoint changed from {then.endpoint} to {now.endpoint}"
    return "the judge's parameters changed"


def is_judged(metric: str, version: str | None = None) -> bool:
    """Whether `metric` uses a judge; True for an unknown metric, unless its `version` is that of a function."""
    known = find_metric(metric)
    return not is_function(version) if known is None else bool(known.needs(_PROBE))


def _harmless_differences(now: Manifest, then: Manifest) -> list[str]:
    notes: list[str] = []
    if now.policy_hash is not None and then.policy_hash is not None and now.policy_hash != then.policy_hash:
        notes.append("the policy has changed since the baseline.")
    if now.repeats != then.repeats:
        notes.append(f"answers were judged {_times(then.repeats)} for the baseline and {_times(now.repeats)} now.")
    if now.answers != then.answers:
        notes.append(f"each question was asked {_times(then.answers)} for the baseline and {_times(now.answers)} now.")
    if then.state != "finished":
        notes.append("the baseline run did not finish; only its finished samples are compared.")
    return notes


def _times(repeats: int) -> str:
    return "once" if repeats == 1 else f"{repeats} times"
