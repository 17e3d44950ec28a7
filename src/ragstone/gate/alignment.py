"""Do answers draw on the contexts that the retriever ranks first? Counts and a finding, from recorded verdicts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ragstone.evaluation.scores import RunScores
from ragstone.formatting import counted, interval_words, percent
from ragstone.gate.evidence import Evidence
from ragstone.gate.findings import Finding, Level
from ragstone.gate.grouping import mean_of
from ragstone.metrics.alignment import TopContextUsed, UsedContexts

MAX_IGNORED = 0.30
"""If more than this share of answers is shown to ignore the first context, there is a warning."""

_MAX_RANKS = 20
"""Lower ranks are counted together."""


@dataclass(frozen=True, slots=True)
class RankUse:
    """Of the `answers` with a context at `rank` (from 1), how many `used` it. `and_lower`: at it or a lower rank."""

    rank: int
    and_lower: bool
    answers: int
    used: int


@dataclass(frozen=True, slots=True)
class ContextsUsed:
    """How many `answers` there are to answerable samples, with statements and contexts; how many of them draw on the
    first context (`top`), only on others (`lower`), and on none (`none`)."""

    answers: int
    top: int
    lower: int
    none: int
    ranks: tuple[RankUse, ...]


def contexts_used(run: RunScores) -> ContextsUsed | None:
    """The use of contexts by rank, of the first answer to each answerable sample; None if no verdict was recorded."""
    answers = list(_answers(run).values())
    if not answers:
        return None
    top = sum(used.top for used in answers)
    none = sum(not used.used for used in answers)
    deepest = max(used.ranks[-1] for used in answers)
    ranks = []
    for rank in range(min(deepest, _MAX_RANKS) + 1):
        is_last = rank == _MAX_RANKS  # lower ranks are counted with the last one
        returned = [used for used in answers if rank in used.ranks or (is_last and used.ranks[-1] > rank)]
        count = sum(rank in used.used or (is_last and max(used.used, default=0) > rank) for used in returned)
        ranks.append(RankUse(rank + 1, is_last and deepest > rank, len(returned), count))
    return ContextsUsed(len(answers), top, len(answers) - top - none, none, tuple(ranks))


def alignment_findings(evidence: Evidence) -> Iterator[Finding]:
    """A finding if more than MAX_IGNORED of the answers are shown to ignore the first context.

    A floor of the policy on `top_context_used` takes its place. In a run that fails it is a note, and where the causes
    of worse samples are known, they say what to do.
    """
    name = TopContextUsed.info.name
    run = evidence.current
    counts = contexts_used(run)
    answers = _answers(run)
    has_floor = any(rule.metric == name and rule.slice is None and rule.min is not None for rule in evidence.rules)
    if counts is None or has_floor:
        return
    ignored = [not used.top for used in answers.values()]
    share = mean_of(run, list(answers), ignored, confidence=evidence.policy.gate.confidence)
    if share.low <= MAX_IGNORED:
        return
    look = _LOOK_AT_RANKS if counts.none <= counts.lower else _LOOK_AT_PROMPT
    span = interval_words(share.low, share.high, share.confidence, percent)
    text = (
        f"{percent(share.estimate)} of {counted(counts.answers, 'answer')} ignore the first context ({span}; more than "
        f"{percent(MAX_IGNORED)} is worth a look): {counts.lower} draw on lower ranks only, {counts.none} on no "
        f"context.{look if evidence.explanation.attribution is None else ''}"
    )
    yield Finding("alignment", Level.NOTE if evidence.fails else Level.ASIDE, text, name)


_LOOK_AT_RANKS = (
    " Look at chunk size, embedding model and reranker: the retriever ranks other contexts first than those that the "
    "answers need."
)
_LOOK_AT_PROMPT = (
    " Most of these rest on nothing that was retrieved: compare faithfulness, and what the prompt says about the "
    "contexts."
)


def _answers(run: RunScores) -> dict[str, UsedContexts]:
    """The contexts that the first answers to answerable samples used."""
    return {
        name: used
        for name, used in run.system.used_contexts.items()
        if name in run.samples and run.samples[name].answerable
    }
