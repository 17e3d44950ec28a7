"""Detects a change of the judge: by its reported model, the request mode, and repeated judgements."""

from __future__ import annotations

from collections.abc import Iterator

from ragstone.evaluation.manifest import Canaries, Observed
from ragstone.evaluation.scores import RunScores
from ragstone.formatting import percent
from ragstone.gate.evidence import Evidence
from ragstone.gate.observed_judge import new_names, quoted
from ragstone.gate.verdict import Attribution, Side
from ragstone.judge.names import other_models
from ragstone.stats.intervals import p_proportion_at_most, proportion_interval

STEADY = 0.02
"""Maximum share of verdicts that an unchanged judge changes between two requests."""

ALPHA = 0.05


def moved(canaries: Canaries | None) -> bool:
    """Whether more of the repeated verdicts differ than for an unchanged judge."""
    if canaries is None or not canaries.asked:
        return False
    return p_proportion_at_most(canaries.differing, canaries.asked, STEADY) < ALPHA


def canary_warnings(evidence: Evidence) -> Iterator[str]:
    """The warning that a change of quality may come from the judge."""
    current = evidence.current
    found = _canaries(current)
    if found is None:
        return
    if moved(found):
        yield (
            f"The judge's behaviour changed: {_differing(found)}. A rise or drop in this run may come from the judge, "
            "not the code."
        )
    observed = current.manifest.observed if current.manifest is not None else None
    if observed is not None and observed.models and (new := new_names(found.models, observed.models)):
        yield (
            f"The judge's name now refers to another model: it replies as {quoted(new)}, but this run was scored by "
            f"{quoted(observed.models)}."
        )


def model_warnings(evidence: Evidence) -> Iterator[str]:
    """The warning that another model judged than the one that was asked for.

    A server of the user's own (`openai-compatible`) may call its models as it likes: there, only what is new since the
    baseline counts.
    """
    manifest, baseline = evidence.current.manifest, evidence.baseline
    if manifest is None or manifest.observed is None:
        return
    judge, others = manifest.judge, other_models(manifest.judge, manifest.observed.models)
    if judge.provider == "openai-compatible" and baseline is not None and baseline.manifest is not None:
        others = new_names(others, (baseline.manifest.observed or Observed()).models)
    if others:
        yield (
            f"The judge is set to '{judge.model}', but {quoted(others)} replied: the scores are that model's. Check "
            "judge.name, and what answers at judge.base_url."
        )


def canary_notes(evidence: Evidence) -> Iterator[str]:
    """The result of repeated judgements if it is no reason for a warning."""
    found = _canaries(evidence.current)
    if found is None or moved(found):
        return
    if found.asked:
        yield f"Repeated judgements show no change in the judge's behaviour: {_differing(found)}."
    if found.unanswered:
        yield f"{found.unanswered} of the repeated judgements failed."


def blame(current: RunScores, attribution: Attribution | None) -> Attribution | None:
    """`attribution`, unless the judge changed: then neither half of the system is blamed."""
    if attribution is None or not moved(_canaries(current)):
        return attribution
    why = f"the judge's behaviour changed, so the drop can't be attributed ({attribution.reason})"
    return Attribution(Side.UNCLEAR, why)


def fingerprint_notes(evidence: Evidence) -> Iterator[str]:
    """A note that the provider's backend changed, which happens often and mostly without changing verdicts."""
    runs = (evidence.current, evidence.baseline)
    manifests = (None if run is None else run.manifest for run in runs)
    mine, theirs = (None if manifest is None else manifest.observed for manifest in manifests)
    if not isinstance(mine, Observed) or not isinstance(theirs, Observed) or not theirs.fingerprints:
        return
    if new := new_names(mine.fingerprints, theirs.fingerprints):
        yield f"The judge's provider reports a different backend from the baseline's (fingerprint {quoted(new)})."


def _differing(found: Canaries) -> str:
    interval = proportion_interval(found.differing, found.asked)
    return (
        f"{found.differing} of {found.asked} verdicts {'differs' if found.differing == 1 else 'differ'} from the "
        f"baseline's on the same text (95 % interval {percent(interval.low)} to {percent(interval.high)}; "
        f"supported: {found.supported_then} then, {found.supported_now} now)"
    )


def _canaries(current: RunScores) -> Canaries | None:
    return current.manifest.canaries if current.manifest is not None else None
