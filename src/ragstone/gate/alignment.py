"""Do answers draw on the context that the retriever ranks first?"""

from __future__ import annotations

from collections.abc import Iterator

from ragstone.formatting import counted, interval_words, percent
from ragstone.gate.evidence import Evidence
from ragstone.gate.findings import Finding, Level
from ragstone.gate.grouping import mean_of
from ragstone.metrics.alignment import TopContextUsed

MAX_IGNORED_SHARE = 0.30
"""There is a finding if more than this share of answers is shown to ignore the first
context."""

_ADVICE = "Look at the reranker and the chunks, and at what the prompt says about the contexts."


def alignment_findings(evidence: Evidence) -> Iterator[Finding]:
    """A finding if more than MAX_IGNORED_SHARE of the answers are shown to ignore the
    first context.

    If the policy has a floor on `top_context_used`, that decides instead. If the run
    fails, the finding is only a note.
    """
    name = TopContextUsed.info.name
    run = evidence.current
    for rule in evidence.rules:
        if rule.metric == name and rule.slice is None and rule.min is not None:
            return
    answers = {
        sample_id: contexts
        for sample_id, contexts in run.system.used_contexts.items()
        if run.samples[sample_id].answerable
    }
    if not answers:
        return
    ignored = [not contexts.is_top_used for contexts in answers.values()]
    confidence = evidence.policy.gate.confidence
    share = mean_of(run, list(answers), ignored, confidence=confidence)
    if share.low <= MAX_IGNORED_SHARE:
        return
    unused = sum(not contexts.used for contexts in answers.values())
    span = interval_words(share.low, share.high, share.confidence, percent)
    total = counted(len(answers), "answer")
    text = (
        f"{percent(share.estimate)} of {total} ignore the first context ({span}; more than "
        f"{percent(MAX_IGNORED_SHARE)} is worth a look), and {unused} of these ignore all contexts. {_ADVICE}"
    )
    has_failed = any(check.failed and check.blocks for check in evidence.checks)
    level = Level.NOTE if has_failed else Level.ASIDE
    yield Finding("alignment", level, text, name)
