"""Hops: does a system that searches several times find the evidence of each hop?

`Sample.hops` has the number, from 1, of the hop that needs each reference context; 0 if
no hop needs it. Evidence counts as found in whichever retrieval or tool call of the
answer finds it, so that an extra search, or one that finds the evidence of two hops, is
no loss. Texts are compared as in metrics/evidence_ranks.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean

from msgspec import Struct

from ragstone.formatting import counted
from ragstone.golden.sample import Label, Sample
from ragstone.judge.judgements import Judgements
from ragstone.metrics.evidence_ranks import distinct, locate
from ragstone.metrics.metric import BaseMetric, MetricInfo
from ragstone.metrics.retrieval import rank_texts
from ragstone.metrics.score import NotApplicable, Score, Scored
from ragstone.system.response import NO_STEPS, Context, Response, Retrieval, ToolCall


class Hop(Struct, frozen=True):
    """What the steps of an answer found of the evidence of one hop."""

    number: int
    """The number of the hop, from 1."""
    ranks: tuple[int, ...]
    """For each evidence text of the hop, at least one, the rank in `found_contexts`,
    from 1, up to which it is found; 0 if it isn't. Equal texts count once."""


def retrievals(response: Response) -> list[Retrieval]:
    """The retrievals among the steps of an answer, in their order."""
    return [step for step in response.steps if isinstance(step, Retrieval)]


def found_contexts(response: Response) -> list[tuple[str, Context]]:
    """What the steps of an answer found, in order, each with its source: contexts of
    retrievals, and results of tool calls."""
    contexts: list[tuple[str, Context]] = []
    for step in response.steps:
        match step:
            case Retrieval():
                contexts += [(step.source or "", context) for context in step.contexts]
            case ToolCall(result=str(result)):
                contexts.append((step.name, Context(result)))
    return contexts


def hops_of(sample: Sample, response: Response) -> tuple[Hop, ...]:
    """The hops that the evidence of `sample` is labelled with, by number; empty if
    there are none, or the steps of the answer were not recorded."""
    if response.lacks_steps:
        return ()
    contexts = tuple(context.text for _, context in found_contexts(response))
    hops = []
    for number in sorted(set(sample.hops) - {0}):
        labelled = zip(sample.reference_contexts, sample.hops, strict=False)
        evidence = distinct(tuple(text for text, hop in labelled if hop == number))
        if evidence:
            places = locate(evidence, contexts)
            ranks = tuple(place.complete_rank for place in places)
            hops.append(Hop(number, ranks))
    return tuple(hops)


def _recall(sample: Sample, response: Response) -> float:
    """The mean over the hops of the share of their evidence that is found."""
    hops = hops_of(sample, response)
    missing_shares = [hop.ranks.count(0) / len(hop.ranks) for hop in hops]
    return fmean(1 - share for share in missing_shares)


def _precision(sample: Sample, response: Response) -> float:
    """The mean over the retrievals of the share of their contexts that carry evidence;
    0 without retrievals."""
    evidence = distinct(sample.reference_contexts)
    steps = retrievals(response)
    if not steps:
        return 0.0
    shares = []
    for step in steps:
        contexts = distinct(tuple(context.text for context in step.contexts))
        relevant_ranks = rank_texts(locate(evidence, contexts)).relevant_ranks
        shares.append(len(relevant_ranks) / max(1, len(contexts)))
    return fmean(shares)


class HopMetric(BaseMetric):
    """A share of evidence or of contexts. The note names the first hop with missing
    evidence."""

    needs_texts = True

    def __init__(
        self, name: str, source: str, share: Callable[[Sample, Response], float]
    ) -> None:
        self.info = MetricInfo(
            name=name,
            version="1",
            blames="retrieval",
            source=source,
            needs_no_answer=True,
        )
        self._share = share

    @property
    def labels(self) -> frozenset[Label]:
        return frozenset({"reference_contexts"})

    def why_not_applicable(self, sample: Sample) -> NotApplicable | None:
        if any(sample.hops):
            return None
        return NotApplicable("no reference context of the sample has a hop")

    def rate(self, sample: Sample, response: Response, judgements: Judgements) -> Score:
        if response.lacks_steps:
            return NotApplicable(NO_STEPS)
        hops = hops_of(sample, response)
        if not hops:
            return NotApplicable("the reference contexts with a hop have no words")
        return Scored(self._share(sample, response), note=_note(hops, response))


def _note(hops: Sequence[Hop], response: Response) -> str | None:
    for hop in hops:
        missing = hop.ranks.count(0)
        if missing:
            texts = counted(len(hop.ranks), "reference context")
            note = f"hop {hop.number} lacks {missing} of {texts}"
            count = len(retrievals(response))
            if count < hop.number:
                note += f": the answer has {counted(count, 'retrieval')}"
            return note
    return None


HOP_RECALL = HopMetric(
    "hop_recall",
    "trec_eval (NIST): set_recall of the evidence of each hop; their mean",
    _recall,
)

HOP_PRECISION = HopMetric(
    "hop_precision",
    "trec_eval (NIST): set_P of each retrieval, by the evidence of all hops; their mean",
    _precision,
)
