"""Whether the judge itself moved: what it said it is, how it was asked, and what it said when asked again."""

from __future__ import annotations

from collections.abc import Iterator

from ragstone.formatting import percent
from ragstone.gate.verdict import Attribution, Side
from ragstone.run.manifest import Canaries, Manifest, Observed
from ragstone.run.scores import RunScores
from ragstone.stats.proportion import p_proportion_at_most, proportion_interval

STEADY = 0.02
"""The share of verdicts that a judge which has not moved changes between two askings, at most."""

ALPHA = 0.05
_END = "metrics that the judge decides are not compared."


def moved(canaries: Canaries | None) -> bool:
    """Whether more of the verdicts that were asked for again differ than a steady judge's would."""
    if canaries is None or not canaries.asked:
        return False
    return p_proportion_at_most(canaries.differing, canaries.asked, STEADY) < ALPHA


def canary_warnings(current: RunScores) -> Iterator[str]:
    """The warning that what looks like a change of quality may be the judge's."""
    found = _canaries(current)
    if found is None:
        return
    if moved(found):
        yield (
            f"The judge itself moved: {_told(found)}. A rise or a drop in this run may be the judge's, not the code's."
        )
    observed = current.manifest.observed if current.manifest is not None else None
    if observed is not None and observed.models and (new := _new(found.models, observed.models)):
        yield (
            f"The judge's name means another model now: it answers as {_list(new)}, and this run's scores are by "
            f"{_list(observed.models)}."
        )


def canary_notes(current: RunScores) -> Iterator[str]:
    """What asking again came to where it is no cause for a warning."""
    found = _canaries(current)
    if found is None or moved(found):
        return
    if found.asked:
        yield f"Asked again, the judge shows no move: {_told(found)}."
    if found.unanswered:
        yield f"{found.unanswered} of the judgements that were asked for again could not be had."


def blame(current: RunScores, attribution: Attribution | None) -> Attribution | None:
    """`attribution`, unless the judge moved: then neither half of the system is blamed."""
    if attribution is None or not moved(_canaries(current)):
        return attribution
    return Attribution(Side.UNCLEAR, f"the judge itself moved, so its scores blame nobody ({attribution.reason})")


def observed_difference(now: Manifest, then: Manifest) -> str | None:
    """Why two runs of one judge by name were judged by two; None where they were not, or nobody knows."""
    mine, theirs = now.observed, then.observed
    if mine is None or theirs is None:
        return None
    if theirs.models and (new := _new(mine.models, theirs.models)):
        return f"the judge '{now.judge.model}' answered as {_list(new)}, and as {_list(theirs.models)} before: {_END}"
    if theirs.ways and (new := _new(mine.ways, theirs.ways)):
        return f"the judge was asked by {_list(new)}, and by {_list(theirs.ways)} before: {_END}"
    return None


def fingerprint_note(now: Manifest | None, then: Manifest | None) -> Iterator[str]:
    """That the provider's backend changed: it does so often, and mostly without a verdict that changes."""
    mine, theirs = (manifest.observed if manifest else None for manifest in (now, then))
    if not isinstance(mine, Observed) or not isinstance(theirs, Observed) or not theirs.fingerprints:
        return
    if new := _new(mine.fingerprints, theirs.fingerprints):
        yield f"The judge's provider reports another backend than for the baseline (fingerprint {_list(new)})."


def _told(found: Canaries) -> str:
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
