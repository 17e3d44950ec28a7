"""Do answers draw on the contexts that the retriever ranks first? Counts and a finding,
from recorded verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ragstone.evaluation.scores import RunScores
from ragstone.formatting import counted, interval_words, percent
from ragstone.gate.evidence import Evidence
from ragstone.gate.findings import Finding, Level
from ragstone.gate.grouping import mean_of
from ragstone.metrics.alignment import TopContextUsed, UsedContexts

MAX_IGNORED = 0.30
"""If more than this share of answers is shown to ignore the first context, there is a
warning."""

_MAX_RANKS = 20
"""Lower ranks are counted together."""


@dataclass(frozen=True, slots=True)
class RankUse:
    """How many answers use their context at one rank."""

    rank: int
    """From 1."""
    and_lower: bool
    """Contexts at lower ranks are counted with it."""
    answers: int
    """The answers with a context there."""
    used: int
    """Those of them that use it."""


@dataclass(frozen=True, slots=True)
class ContextsUsed:
    """Which contexts the answers to answerable samples draw on, of those with
    statements and contexts."""

    answers: int
    top: int
    """The answers that draw on the first context."""
    lower: int
    """Those that draw on other contexts only."""
    none: int
    """Those that draw on no context."""
    ranks: tuple[RankUse, ...]


def contexts_used(run: RunScores) -> ContextsUsed | None:
    """The use of contexts by rank, of the first answer to each answerable sample; None
    if no verdict was recorded."""
    answers = list(_used_contexts(run).values())
    if not answers:
        return None
    top = sum(contexts.top for contexts in answers)
    none = sum(not contexts.used for contexts in answers)
    deepest = max(contexts.ranks[-1] for contexts in answers)
    last_rank = min(deepest, _MAX_RANKS)
    ranks = tuple(_use_of_rank(rank, answers, deepest) for rank in range(last_rank + 1))
    return ContextsUsed(len(answers), top, len(answers) - top - none, none, ranks)


def _use_of_rank(rank: int, answers: Sequence[UsedContexts], deepest: int) -> RankUse:
    """How many answers use the context at `rank` (from 0), or at it or a lower rank, if
    it is _MAX_RANKS."""
    with_lower = rank == _MAX_RANKS
    returned = 0
    used = 0
    for contexts in answers:
        if rank in contexts.ranks or (with_lower and contexts.ranks[-1] > rank):
            returned += 1
            lowest_used = max(contexts.used, default=0)
            used += rank in contexts.used or (with_lower and lowest_used > rank)
    return RankUse(rank + 1, with_lower and deepest > rank, returned, used)


def alignment_findings(evidence: Evidence) -> Iterator[Finding]:
    """A finding if more than MAX_IGNORED of the answers are shown to ignore the first
    context.

    A floor of the policy on `top_context_used` takes its place. In a run that fails it
    is a note, and where the causes of worse samples are known, they say what to do.
    """
    name = TopContextUsed.info.name
    run = evidence.current
    counts = contexts_used(run)
    has_floor = any(
        rule.metric == name and rule.slice is None and rule.min is not None
        for rule in evidence.rules
    )
    if counts is None or has_floor:
        return
    answers = _used_contexts(run)
    ignored = [not contexts.top for contexts in answers.values()]
    share = mean_of(
        run, list(answers), ignored, confidence=evidence.policy.gate.confidence
    )
    if share.low <= MAX_IGNORED:
        return
    advice = ""
    if evidence.explanation.attribution is None:
        advice = _LOOK_AT_RANKS if counts.none <= counts.lower else _LOOK_AT_PROMPT
    span = interval_words(share.low, share.high, share.confidence, percent)
    text = (
        f"{percent(share.estimate)} of {counted(counts.answers, 'answer')} ignore the first context ({span}; more than "
        f"{percent(MAX_IGNORED)} is worth a look): {counts.lower} draw on lower ranks only, {counts.none} on no "
        f"context.{advice}"
    )
    level = Level.NOTE if evidence.fails else Level.ASIDE
    yield Finding("alignment", level, text, name)


def _used_contexts(run: RunScores) -> dict[str, UsedContexts]:
    """The contexts that the first answers to answerable samples used."""
    answerable = {
        sample_id for sample_id, facts in run.samples.items() if facts.answerable
    }
    return {
        sample_id: contexts
        for sample_id, contexts in run.system.used_contexts.items()
        if sample_id in answerable
    }


_LOOK_AT_RANKS = (
    " Look at chunk size, embedding model and reranker: the retriever ranks other contexts first than those that the "
    "answers need."
)
_LOOK_AT_PROMPT = (
    " Most of these rest on nothing that was retrieved: compare faithfulness, and what the prompt says about the "
    "contexts."
)
