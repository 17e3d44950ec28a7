"""What became of the questions of the baseline in the golden set of a run: gone,
reworded, relabelled and so on."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from ragstone.evaluation.scores import NO_RUN, RunScores
from ragstone.formatting import tally
from ragstone.gate.comparability import same_content, same_question
from ragstone.gate.findings import GOLDEN_SET_CHANGE, Finding, Level


class GoldenSetChange(Struct, frozen=True):
    """The numbers of questions of the baseline that are not as they were, and of new
    questions."""

    gone: int = 0
    drafts: int = 0
    """Questions that are drafts now, which count in no check."""
    reworded: int = 0
    """Ids that ask another question."""
    relabelled: int = 0
    """Questions with another reference, other relevant ids or other labels."""
    new: int = 0

    @property
    def counts(self) -> tuple[str, ...]:
        """``18 gone``, ``4 reworded``."""
        counts = {
            "gone": self.gone,
            "reworded": self.reworded,
            "relabelled": self.relabelled,
            "drafts now": self.drafts,
            "new": self.new,
        }
        return tuple(tally(counts))

    def __str__(self) -> str:
        """``The golden set changed: 18 gone, 4 reworded.``; empty if nothing did."""
        if not self.counts:
            return ""
        counts = ", ".join(self.counts)
        return f"The golden set changed: {counts}."


def golden_set_change(
    current: RunScores,
    baseline: RunScores,
    drafts: RunScores = NO_RUN,
) -> GoldenSetChange:
    """Compare the golden sets of two runs.

    The samples of `baseline` must have their ids in `current`. `drafts` are the samples
    of the run that count in no check.
    """
    draft_ids = drafts.samples.keys()
    draft_contents = {facts.content_hash for facts in drafts.samples.values()} - {None}
    missing = 0
    drafted = 0
    reworded = 0
    relabelled = 0
    for sample_id, before in baseline.samples.items():
        facts = current.samples.get(sample_id)
        if facts is None:
            is_draft = sample_id in draft_ids or before.content_hash in draft_contents
            drafted += is_draft
            missing += not is_draft
        elif not same_question(current, baseline, sample_id):
            reworded += 1
        elif not same_content(current, baseline, sample_id):
            # A change of nothing but the group doesn't count: no score depends on it.
            has_other_labels = facts.parts != before.parts
            relabelled += has_other_labels or facts.group == before.group
    unevaluated = count_unevaluated(current, missing, len(baseline.samples))
    new = current.samples.keys() - baseline.samples.keys()
    return GoldenSetChange(
        gone=missing - unevaluated,
        drafts=drafted,
        reworded=reworded,
        relabelled=relabelled,
        new=len(new),
    )


def golden_set_finding(change: GoldenSetChange) -> tuple[Finding, ...]:
    """One finding on the change, or none if nothing changed. It is an alert if a
    question of the baseline is not as it was."""
    if not change.counts:
        return ()
    of_baseline = replace(change, new=0)
    level = Level.ALERT if of_baseline.counts else Level.FACT
    finding = Finding(GOLDEN_SET_CHANGE, level, str(change), data=change)
    return (finding,)


def count_unevaluated(current: RunScores, missing: int, total: int) -> int:
    """The number of samples that are `missing`, of `total` in the baseline, only because
    the gate did not evaluate them.

    A limit excuses no more samples than it must. Otherwise, new samples that are put
    before the others could push those out of the comparison.
    """
    manifest = current.manifest
    if manifest is None:
        return 0
    golden = manifest.golden
    evaluated = manifest.counts.total
    unasked = 0
    if evaluated:
        unevaluated = max(0, golden.samples - evaluated)
        unasked = min(missing, unevaluated)
    limited = 0
    if golden.limited:
        limited = max(0, total - golden.samples)
    return unasked + min(missing - unasked, limited)
