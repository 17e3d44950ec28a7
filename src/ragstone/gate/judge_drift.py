"""Detects a change of the judge: by its reported model, the request mode, and repeated
judgements."""

from __future__ import annotations

from collections.abc import Iterator

from ragstone.evaluation.round_facts import Canaries
from ragstone.evaluation.scores import RunScores
from ragstone.gate.evidence import Evidence
from ragstone.gate.observed_judge import new_names, quoted
from ragstone.gate.verdict import Attribution, Side
from ragstone.judge.names import other_models
from ragstone.stats.intervals import p_proportion_at_most

STEADY = 0.02
"""Maximum share of verdicts that an unchanged judge changes between two requests."""

ALPHA = 0.05


def moved(canaries: Canaries | None) -> bool:
    """Whether more of the repeated verdicts differ than for an unchanged judge."""
    if canaries is None:
        return False
    p_value = p_proportion_at_most(canaries.differing, canaries.asked, STEADY)
    return p_value < ALPHA


def canary_warnings(evidence: Evidence) -> Iterator[str]:
    """The warning that a change of quality may come from the judge."""
    facts = evidence.current.rounds.judge
    canaries = facts.canaries
    if canaries is None:
        return
    if moved(canaries):
        differing = f"{canaries.differing} of {canaries.asked} verdicts"
        then = canaries.supported_then
        now = canaries.supported_now
        yield (
            f"The judge's behaviour changed: {differing} differ from the "
            f"baseline's on the same text (supported: {then} then, {now} now). "
            "A rise or drop in this run may come from the judge, not the code."
        )
    observed = facts.observed
    models = observed.models if observed is not None else ()
    new_models = new_names(canaries.models, models)
    if models and new_models:
        replied = quoted(new_models)
        scored_by = quoted(models)
        yield (
            f"The judge's name now refers to another model: it replies as {replied}, but this run was "
            f"scored by {scored_by}."
        )


def model_warnings(evidence: Evidence) -> Iterator[str]:
    """The warning that another model judged than the one that was asked for.

    A server of the user's own (`openai-compatible`) may call its models as it likes:
    there, only what is new since the baseline counts.
    """
    run = evidence.current
    observed = run.rounds.judge.observed
    if run.manifest is None or observed is None:
        return
    judge = run.manifest.judge
    strangers = other_models(judge, observed.models)
    before = evidence.baseline.rounds.judge.observed
    if judge.provider == "openai-compatible" and before is not None:
        strangers = new_names(strangers, before.models)
    if strangers:
        replied = quoted(strangers)
        yield (
            f"The judge is set to '{judge.model}', but {replied} replied: the scores are that model's. Check "
            "judge.name, and what answers at judge.base_url."
        )


def blame(current: RunScores, attribution: Attribution | None) -> Attribution | None:
    """`attribution`, unless the judge changed: then neither half of the system is
    blamed."""
    if attribution is None or not moved(current.rounds.judge.canaries):
        return attribution
    why = f"the judge's behaviour changed, so the drop can't be attributed ({attribution.reason})"
    return Attribution(Side.UNCLEAR, why)
