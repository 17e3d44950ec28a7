"""Detects a change of the judge: by its reported model, the request mode, and repeated
judgements."""

from __future__ import annotations

from collections.abc import Iterator

from ragstone.evaluation.round_facts import CanaryCounts
from ragstone.evaluation.scores import RunScores
from ragstone.gate.evidence import Evidence
from ragstone.gate.observed_judge import new_names, quoted
from ragstone.gate.verdict import Attribution, Side
from ragstone.judge.names import other_models
from ragstone.stats.intervals import p_proportion_at_most

MAX_STEADY_SHARE = 0.02
"""The largest share of verdicts that an unchanged judge changes between two
requests."""

MAX_P_STEADY = 0.05
"""The judge has changed if as many different verdicts have at most this probability by
chance."""


def is_judge_changed(canaries: CanaryCounts | None) -> bool:
    """Whether more of the repeated verdicts differ than an unchanged judge explains;
    False if none were repeated."""
    if canaries is None:
        return False
    p_value = p_proportion_at_most(canaries.differing, canaries.asked, MAX_STEADY_SHARE)
    return p_value < MAX_P_STEADY


def canary_warnings(evidence: Evidence) -> Iterator[str]:
    """Warnings that the judge behaves differently than for the baseline, or that its
    name now refers to another model."""
    facts = evidence.current.rounds.judge
    canaries = facts.canaries
    if canaries is None:
        return
    if is_judge_changed(canaries):
        differing = f"{canaries.differing} of {canaries.asked} verdicts"
        yield (
            f"The judge's behaviour changed: {differing} differ from the "
            f"baseline's on the same text (supported: {canaries.supported_then} then, {canaries.supported_now} now). "
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
    """A warning that another model replied than the one that the judge is set to.

    The user's own server (`openai-compatible`) may call its models as it likes: there,
    only names that are new since the baseline count.
    """
    run = evidence.current
    observed = run.rounds.judge.observed
    if run.manifest is None or observed is None:
        return
    judge = run.manifest.judge
    other_names = other_models(judge, observed.models)
    before = evidence.baseline.rounds.judge.observed
    if judge.provider == "openai-compatible" and before is not None:
        other_names = new_names(other_names, before.models)
    if other_names:
        replied = quoted(other_names)
        yield (
            f"The judge is set to '{judge.model}', but {replied} replied: the scores are that model's. Check "
            "judge.name, and what answers at judge.base_url."
        )


def attribution_unless_judge_changed(
    current: RunScores, attribution: Attribution | None
) -> Attribution | None:
    """Return `attribution`, or one that blames neither half of the system if the judge
    changed."""
    if attribution is None or not is_judge_changed(current.rounds.judge.canaries):
        return attribution
    reason = f"the judge's behaviour changed, so the drop can't be attributed ({attribution.reason})"
    return Attribution(Side.UNCLEAR, reason)
