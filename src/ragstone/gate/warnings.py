"""Warnings about what a verdict does not guard, and notes."""

from __future__ import annotations

from collections.abc import Iterator, Set

from ragstone.formatting import counted, join_first, most_common
from ragstone.gate.checks.applicability import (
    NO_CONTEXTS_RETURNED,
    RETURN_THEM,
    returns_no_contexts,
)
from ragstone.gate.evidence import Evidence
from ragstone.judge.preference import SAME
from ragstone.metrics.custom import is_rubric
from ragstone.metrics.pairwise import (
    DEPENDS_ON_ORDER,
    NEITHER_IS_BETTER,
    PairwisePreference,
)
from ragstone.system.response import NO_TEXTS

FLOORS_WARN = "with the offline judge their floors only warn"
"""What reports say of the default rules if the offline judge scores the run."""
_MAX_LOST_SHARE = 0.05
"""There is a note if a metric no longer applies to a larger share of the samples."""


def missing_policy(evidence: Evidence) -> Iterator[str]:
    """A warning that the default rules apply because there is no policy."""
    policy = evidence.policy
    if policy.file is None and not policy.metrics:
        floors = ""
        if evidence.is_offline:
            floors = f", and {FLOORS_WARN}"
        yield f"There is no policy file: the default rules apply{floors}. ragstone init writes one."


def ignored_history(evidence: Evidence) -> Iterator[str]:
    """A warning about conversations of which the system got the last question only."""
    manifest = evidence.current.manifest
    if manifest is None:
        return
    system = manifest.system
    if system.conversations and system.takes_history is False:
        yield (
            f"Samples with earlier turns: {system.conversations}. The entrypoint doesn't take these: it was asked the "
            "last question alone. Give it a parameter `history`."
        )


def unscored_rubrics(evidence: Evidence) -> Iterator[str]:
    """A warning that names the rubrics of a run whose judge can't grade by them."""
    if not evidence.is_offline:
        return
    names = [
        name
        for name, scores in sorted(evidence.current.metrics.items())
        if is_rubric(scores.version) and not scores.applies_to
    ]
    if names:
        yield f"Not scored: {join_first(names)}. A rubric needs a language model, and the offline judge uses none."


def unchecked_preference(evidence: Evidence) -> Iterator[str]:
    """A warning that a rule for pairwise preference was not checked."""
    name = PairwisePreference.info.name
    scores = evidence.current.scores_of(name)
    has_rule = any(rule.metric == name for rule in evidence.rules)
    # Answers that are the same or as good as each other are no fault of the setup.
    reasons = [
        reason
        for reason in scores.not_applicable.values()
        if reason not in (SAME, NEITHER_IS_BETTER, DEPENDS_ON_ORDER)
    ]
    if reasons and has_rule and not scores.applies_to:
        reason = most_common(reasons)
        yield f"{name} was not checked: {reason}."


def without_contexts(evidence: Evidence) -> Iterator[str]:
    """Warnings that contexts, or their texts, are missing, so that scores say nothing of
    the retriever."""
    run = evidence.current
    is_in_check = any(
        check.reason.startswith(NO_CONTEXTS_RETURNED) for check in evidence.checks
    )
    if returns_no_contexts(run) and not is_in_check:
        yield f"{NO_CONTEXTS_RETURNED}: {RETURN_THEM}."
    without_texts: set[str] = set()
    for scores in run.metrics.values():
        failed = {
            sample_id: failure.reason for sample_id, failure in scores.failed.items()
        }
        reasons = scores.not_applicable | failed
        without_texts |= {
            sample_id
            for sample_id, reason in reasons.items()
            if reason.startswith(NO_TEXTS)
        }
    if without_texts:
        answers = counted(len(without_texts), "answer")
        yield (
            f"Of {answers}, {NO_TEXTS}: only metrics with relevant_ids are measured. "
            "Return the texts, or name their field in context_text_field under [system]."
        )


def unmatched_ids(evidence: Evidence) -> Iterator[str]:
    """A warning that no relevant id was ever returned, although contexts have ids: the
    same documents may be named differently."""
    rankings = evidence.current.system.ranked.values()
    if any(ranked.has_relevant for ranked in rankings):
        return
    for ranked in rankings:
        if ranked.unmatched is not None:
            relevant_id, returned = ranked.unmatched
            yield (
                f"No relevant id of the golden set was ever returned: it names '{relevant_id}', the contexts '{returned}'. "
                "Ids are compared as they are written."
            )
            return


def uncalled_tools(evidence: Evidence) -> Iterator[str]:
    """A warning that names expected tools that no answer called."""
    steps = evidence.current.system.steps.values()
    expected_tools = [facts.expected_tools for facts in steps]
    called_tools = [facts.called_tools for facts in steps]
    expected = set().union(*expected_tools)
    called = set().union(*called_tools)
    yield from unknown_tools(expected, called)


def unknown_tools(expected: Set[str], called: Set[str]) -> Iterator[str]:
    """A sentence that names the `expected` tools (``a or b``) that were never called,
    and the tools that were."""
    uncalled = {tools for tools in expected if called.isdisjoint(tools.split(" or "))}
    if uncalled:
        calls = "no tool was"
        if called:
            called_tools = join_first(sorted(called))
            calls = f"called were {called_tools}"
        uncalled_names = join_first(sorted(uncalled))
        yield (
            f"The golden set expects tools that were never called: {uncalled_names}; {calls}. Names are "
            "compared as written."
        )


def contexts_of_steps(evidence: Evidence) -> Iterator[str]:
    """A note that the contexts include what retrieval steps and tools found."""
    steps = evidence.current.system.steps.values()
    retrievals = sum(facts.retrieval_count for facts in steps)
    results = sum(facts.tool_result_count for facts in steps)
    if retrievals or results:
        retrieval_words = counted(retrievals, "retrieval")
        result_words = counted(results, "tool result")
        yield f"Contexts include what the steps of answers found: {retrieval_words} and {result_words}."


def no_longer_applicable(evidence: Evidence) -> Iterator[str]:
    """Notes on metrics that apply to fewer samples than in the baseline: an answer that
    makes no claims can't be unfaithful."""
    pairing = evidence.pairing
    samples = len(pairing.samples)
    for metric in pairing.metrics:
        scores = pairing.current.metrics[metric]
        baseline_scores = pairing.baseline.metrics[metric]
        excused = scores.not_applicable.keys()
        scored = baseline_scores.values.keys()
        lost = len(excused & scored & set(pairing.samples))
        if lost > _MAX_LOST_SHARE * samples:
            total = counted(samples, "sample")
            yield f"{metric} no longer applies to {lost} of {total} with a score in the baseline."
