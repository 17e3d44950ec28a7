"""What a verdict says besides its checks: what it does not guard, and footnotes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ragstone.gate.comparability import Pairing
from ragstone.gate.figures import counted, figure, most_common
from ragstone.gate.rules import Rule
from ragstone.gate.verdict import Check, CheckKind, Status
from ragstone.run.scores import MetricScores, RunScores

_OTHER_HALF = {
    "context_precision": "context_precision_no_reference",
    "context_precision_no_reference": "context_precision",
}
_NO_SCORES = MetricScores({})

_LOST_SHARE = 0.05
"""A metric that stops to apply to more samples than this is worth a note."""


def unguarded(pairing: Pairing | None, rules: Sequence[Rule]) -> Iterator[str]:
    """Warnings: rules of the policy that this run was not held to, and why."""
    drops = {rule.metric for rule in rules if rule.max_drop is not None}
    if not drops:
        return
    if pairing is None:
        yield "There is no baseline, so no drop was checked."
    elif not pairing.comparability.comparable:
        yield f"No drop was checked: {' '.join(differences(pairing))}"
    else:
        skipped = pairing.comparability.skipped
        yield from dict.fromkeys(skipped[metric] for metric in sorted(drops & skipped.keys()))


def below_by_chance(checks: Sequence[Check]) -> Iterator[str]:
    """Warnings: floors that pass with an estimate below them, which a reader would take for an error."""
    for check in checks:
        if is_below_by_chance(check):
            yield check.reason


def is_below_by_chance(check: Check) -> bool:
    """Whether a floor passes with an estimate below it: by no more than chance explains."""
    passes = check.kind is CheckKind.FLOOR and check.status is Status.PASS
    return passes and check.estimate is not None and check.threshold is not None and check.estimate < check.threshold


def differences(pairing: Pairing) -> list[str]:
    """What the two runs differ in, each difference once."""
    found = pairing.comparability
    return list(dict.fromkeys((*found.notes, *found.skipped.values())))


def footnotes(
    current: RunScores,
    baseline: RunScores | None,
    pairing: Pairing | None,
    rules: Sequence[Rule],
    checks: Sequence[Check],
) -> Iterator[str]:
    """Notes: what a reader may want to know of metrics that do not apply, and of what so many samples can show."""
    for rule in rules:
        scores = current.metrics.get(rule.metric)
        other = current.metrics.get(_OTHER_HALF.get(rule.metric, ""), _NO_SCORES)
        if other.values:
            continue  # every sample counts to one half of the family: that the other is empty is no news
        if not rule.written and scores is not None and not scores.values and scores.not_applicable:
            why = most_common(scores.not_applicable.values())
            yield f"{rule.metric} applies to no sample, most often because {why}."
    yield from _resolution_notes(checks)
    if baseline is not None and pairing is not None:
        yield from _no_longer_applicable(current, baseline, pairing)


def _no_longer_applicable(current: RunScores, baseline: RunScores, pairing: Pairing) -> Iterator[str]:
    """Say so when a metric lost samples: an answer that claims nothing can't be unfaithful."""
    for metric in pairing.metrics:
        excused, before = current.metrics[metric].not_applicable, baseline.metrics[metric].values
        lost = [excused[i] for i in pairing.samples if i in excused and i in before]
        if len(lost) > _LOST_SHARE * len(pairing.samples):
            yield (
                f"{metric} no longer applies to {len(lost)} of {counted(len(pairing.samples), 'sample')} that the "
                f"baseline has a score for, most often because {most_common(lost)}."
            )


def _resolution_notes(checks: Sequence[Check]) -> Iterator[str]:
    """The drops that so many samples can show, and a warning where the policy allows less than that."""
    drops = [
        check
        for check in checks
        if check.kind is CheckKind.DROP and check.slice is None and check.detectable_drop is not None
    ]
    if not drops:
        return
    shown = ", ".join(f"{check.metric} {figure(check.detectable_drop or 0.0)}" for check in drops)
    note = f"The smallest drops that this many samples show in 4 of 5 runs: {shown}."
    # What is allowed comes on top of what noise hides; noise above that makes the allowance meaningless.
    if any((check.detectable_drop or 0.0) > 2.0 * max(-(check.threshold or 0.0), 0.01) for check in drops):
        note += " The allowed drop is finer than that; `ragstone plan` says how many samples it takes."
    yield note
