"""Do answers draw on the contexts that the retriever ranks first? Counts and a finding, from recorded verdicts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ragstone.evaluation.scores import RunScores
from ragstone.formatting import counted, percent
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
    found = [used for _, used in _answers(run)]
    if not found:
        return None
    top = sum(one.top for one in found)
    none = sum(not one.used for one in found)
    deepest = 1 + max(one.ranks[-1] for one in found)
    ranks = []
    for rank in range(min(deepest, _MAX_RANKS + 1)):
        rest = rank == _MAX_RANKS
        held = [one for one in found if (one.ranks[-1] >= rank if rest else rank in one.ranks)]
        used = sum((bool(one.used) and one.used[-1] >= rank) if rest else rank in one.used for one in held)
        ranks.append(RankUse(rank + 1, rest and deepest > _MAX_RANKS + 1, len(held), used))
    return ContextsUsed(len(found), top, len(found) - top - none, none, tuple(ranks))


def alignment_findings(evidence: Evidence) -> Iterator[Finding]:
    """A finding if more than MAX_IGNORED of the answers are shown to ignore the first context.

    A floor of the policy on `top_context_used` takes its place. In a run that fails it is a note, and where the causes
    of worse samples are known, they say what to do.
    """
    name, run = TopContextUsed.info.name, evidence.current
    found = contexts_used(run)
    floors = {rule.metric for rule in evidence.rules if rule.slice is None and rule.min is not None}
    if found is None or name in floors:
        return
    ids = [sample_id for sample_id, _ in _answers(run)]
    share = mean_of(run, ids, [not used.top for _, used in _answers(run)], confidence=evidence.policy.gate.confidence)
    if share.low <= MAX_IGNORED:
        return
    look = (
        "Look at chunk size, embedding model and reranker: the retriever ranks other contexts first than those that "
        "the answers need."
    )
    if found.none > found.lower:
        look = (
            "Most of these rest on nothing that was retrieved: compare faithfulness, and what the prompt says about "
            "the contexts."
        )
    advice = f" {look}" if evidence.explanation.attribution is None else ""
    text = (
        f"{percent(share.estimate)} of {counted(found.answers, 'answer')} ignore the first context "
        f"({percent(share.confidence)} interval {percent(share.low)} to {percent(share.high)}; more than "
        f"{percent(MAX_IGNORED)} is worth a look): {found.lower} draw on lower ranks only, {found.none} on no "
        f"context.{advice}"
    )
    yield Finding("alignment", Level.NOTE if evidence.fails else Level.ASIDE, text, TopContextUsed.info.name)


def _answers(run: RunScores) -> Iterator[tuple[str, UsedContexts]]:
    for sample_id, used in run.system.used_contexts.items():
        if sample_id in run.samples and run.samples[sample_id].answerable:
            yield sample_id, used
