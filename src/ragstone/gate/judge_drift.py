"""Detects a change of the judge: by its reported model, the request mode, and repeated judgements."""

from __future__ import annotations

from collections.abc import Iterator

from ragstone.evaluation.manifest import Canaries, Manifest, Observed
from ragstone.evaluation.scores import RunScores
from ragstone.formatting import percent
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


def canary_warnings(current: RunScores) -> Iterator[str]:
    """The warning that a change of quality may come from the judge."""
    found = _canaries(current)
    if found is None:
        return
    if moved(found):
        yield (
            f"The judge's behaviour changed: {_differing(found)}. A rise or drop in this run may come from the judge, "
            "not the code."
        )
    observed = current.manifest.observed if current.manifest is not None else None
    if observed is not None and observed.models and (new := _new(found.models, observed.models)):
        yield (
            f"The judge's name now refers to another model: it replies as {_list(new)}, but this run was scored by "
            f"{_list(observed.models)}."
        )


def model_warnings(current: RunScores, baseline: RunScores | None) -> Iterator[str]:
    """The warning that another model judged than the one that was asked for.

    A server of the user's own (`openai-compatible`) may call its models as it likes: there, only what is new since the
    baseline counts.
    """
    manifest = current.manifest
    if manifest is None or manifest.observed is None:
        return
    judge, others = manifest.judge, other_models(manifest.judge, manifest.observed.models)
    if judge.provider == "openai-compatible" and baseline is not None and baseline.manifest is not None:
        others = _new(others, (baseline.manifest.observed or Observed()).models)
    if others:
        yield (
            f"The judge is set to '{judge.model}', but {_list(others)} replied: the scores are that model's. Check "
            "judge.name, and what answers at judge.base_url."
        )


def canary_notes(current: RunScores) -> Iterator[str]:
    """The result of repeated judgements if it is no reason for a warning."""
    found = _canaries(current)
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


def observed_difference(now: Manifest, then: Manifest) -> str | None:
    """How judges of the same name differed in two runs, as a clause; None if they did not, or it is unknown."""
    mine, theirs = now.observed, then.observed
    if mine is None or theirs is None:
        return None
    if theirs.models and (new := _new(mine.models, theirs.models)):
        return f"the judge '{now.judge.model}' replied as {_list(new)} now and as {_list(theirs.models)} before"
    if theirs.ways and (new := _new(mine.ways, theirs.ways)):
        return f"the judge's request mode is {_list(new)} now and was {_list(theirs.ways)} before"
    return None


def fingerprint_note(now: Manifest | None, then: Manifest | None) -> Iterator[str]:
    """A note that the provider's backend changed, which happens often and mostly without changing verdicts."""
    mine, theirs = (manifest.observed if manifest else None for manifest in (now, then))
    if not isinstance(mine, Observed) or not isinstance(theirs, Observed) or not theirs.fingerprints:
        return
    if new := _new(mine.fingerprints, theirs.fingerprints):
        yield f"The judge's provider reports a different backend from the baseline's (fingerprint {_list(new)})."


def _differing(found: Canaries) -> str:
    interval = proportion_interval(found.differing, found.asked)
    return (
        f"{found.differing} of {found.asked} verdicts {'differs' if found.differing == 1 else 'differ'} from the "
        f"baseline's on the same text (95 % interval {percent(interval.low)} to {percent(interval.high)}; "
        f"supported: {found.supported_then} then, {found.supported_now} now)"
    )


def _canaries(current: RunScores) -> Canaries | None:
    return current.manifest.canaries if current.manifest is not None else None


def _new(mine: tuple[str, ...], theirs: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(set(mine) - set(theirs)))


def _list(names: tuple[str, ...]) -> str:
    return " and ".join(f"'{name}'" for name in names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
