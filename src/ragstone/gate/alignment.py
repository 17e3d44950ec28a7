"""Do answers draw on the contexts that the retriever ranks first? Counts and a finding,
from recorded verdicts."""

from __future__ import annotations

from collections.abc import Iterator

from ragstone.formatting import counted, interval_words, percent
from ragstone.gate.evidence import Evidence
from ragstone.gate.findings import Finding, Level
from ragstone.gate.grouping import mean_of
from ragstone.metrics.alignment import TopContextUsed

MAX_IGNORED = 0.30
"""If more than this share of answers is shown to ignore the first context, there is a
warning."""


_LOOK_AT_RANKS = (
    " Look at chunk size, embedding model and reranker: the retriever ranks other contexts first than those that the "
    "answers need."
)
_LOOK_AT_PROMPT = (
    " Most of these rest on nothing that was retrieved: compare faithfulness, and what the prompt says about the "
    "contexts."
)


def alignment_findings(evidence: Evidence) -> Iterator[Finding]:
    """A finding if more than MAX_IGNORED of the answers are shown to ignore the first
    context.

    A floor of the policy on `top_context_used` takes its place. In a run that fails it
    is a note, and where the causes of worse samples are known, they say what to do.
    """
    name = TopContextUsed.info.name
    run = evidence.current
    answers = {
        sample_id: contexts
        for sample_id, contexts in run.system.used_contexts.items()
        if sample_id in run.samples and run.samples[sample_id].answerable
    }
    has_floor = any(
        rule.metric == name and rule.slice is None and rule.min is not None
        for rule in evidence.rules
    )
    if not answers or has_floor:
        return
    ignored = [not contexts.top for contexts in answers.values()]
    share = mean_of(
        run, list(answers), ignored, confidence=evidence.policy.gate.confidence
    )
    if share.low <= MAX_IGNORED:
        return
    none = sum(not contexts.used for contexts in answers.values())
    lower = sum(ignored) - none
    advice = ""
    if evidence.explanation.attribution is None:
        advice = _LOOK_AT_RANKS if none <= lower else _LOOK_AT_PROMPT
    span = interval_words(share.low, share.high, share.confidence, percent)
    text = (
        f"{percent(share.estimate)} of {counted(len(answers), 'answer')} ignore the first context ({span}; more than "
        f"{percent(MAX_IGNORED)} is worth a look): {lower} draw on lower ranks only, {none} on no "
        f"context.{advice}"
    )
    fails = any(check.failed and check.blocks for check in evidence.decided)
    level = Level.NOTE if fails else Level.ASIDE
    yield Finding("alignment", level, text, name)
