"""Hops: does each of several retrievals find the evidence that it is needed for?

The retrievals of an answer are numbered from 1, in their order; `Sample.hops` says from which of them each reference
context is needed. Texts are compared as in metrics/evidence.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ragstone.formatting import counted
from ragstone.golden.sample import Label, Sample
from ragstone.judge.judgements import Judgements
from ragstone.metrics.evidence import distinct, locate
from ragstone.metrics.metric import BaseMetric, MetricInfo
from ragstone.metrics.retrieval import locate_texts
from ragstone.metrics.score import NotApplicable, Score, Scored
from ragstone.system.response import NO_STEPS, Response, Retrieval


@dataclass(frozen=True, slots=True)
class Hop:
    """What one retrieval found of the evidence that is needed from it."""

    number: int
    """From 1."""
    evidence: tuple[str, ...]
    """The texts that are needed from it, each once: at least one."""
    retrieved: tuple[bool, ...]
    """Whether its contexts have each of these texts; all False if the answer has no such retrieval."""
    relevant: int
    """How many of its contexts carry evidence, of whichever hop."""
    contexts: int
    """How many contexts it has, equal texts counted once."""


def retrievals(response: Response) -> list[Retrieval]:
    """The retrievals among the steps of an answer, in their order."""
    return [step for step in response.steps if isinstance(step, Retrieval)]


def hops_of(sample: Sample, response: Response) -> tuple[Hop, ...]:
    """The hops that the evidence of `sample` is labelled with, by number; empty if none is, or no steps are known."""
    if response.without_steps:
        return ()
    steps = retrievals(response)
    all_evidence = distinct(sample.reference_contexts)
    hops = []
    for number in sorted(set(sample.hops) - {0}):
        labelled = zip(sample.reference_contexts, sample.hops, strict=False)
        evidence = distinct(tuple(text for text, hop in labelled if hop == number))
        contexts: tuple[str, ...] = ()
        if number <= len(steps):
            contexts = distinct(tuple(context.text for context in steps[number - 1].contexts))
        if evidence:
            retrieved = tuple(place.retrieved for place in locate(evidence, contexts))
            relevant = locate_texts(locate(all_evidence, contexts)).relevant
            hops.append(Hop(number, evidence, retrieved, len(relevant), len(contexts)))
    return tuple(hops)


class HopMetric(BaseMetric):
    """The mean over the hops of a share: the recall or the precision of their retrievals.

    The note names the first hop that loses evidence.
    """

    texts_needed = True

    def __init__(self, name: str, source: str, share: Callable[[Hop], float]) -> None:
        self.info = MetricInfo(name=name, version="1", blames="retrieval", source=source, answerless=True)
        self._share = share

    @property
    def labels(self) -> frozenset[Label]:
        return frozenset({"reference_contexts"})

    def excuse(self, sample: Sample) -> NotApplicable | None:
        if any(sample.hops):
            return None
        return NotApplicable("no evidence of the sample has a hop")

    def rate(self, sample: Sample, response: Response, judgements: Judgements) -> Score:
        if response.without_steps:
            return NotApplicable(NO_STEPS)
        hops = hops_of(sample, response)
        if not hops:
            return NotApplicable("the evidence has no words")
        return Scored(sum(map(self._share, hops)) / len(hops), note=_note(hops, response))


def _note(hops: Sequence[Hop], response: Response) -> str | None:
    for hop in hops:
        missing = hop.retrieved.count(False)
        if missing:
            note = f"hop {hop.number} doesn't find {missing} of {len(hop.evidence)}"
            count = len(retrievals(response))
            return note if count >= hop.number else f"{note}: the answer has {counted(count, 'retrieval')}"
    return None


HOP_RECALL = HopMetric(
    "hop_recall",
    "trec_eval (NIST): set_recall of each retrieval, by the evidence of its hop; their mean",
    lambda hop: sum(hop.retrieved) / len(hop.retrieved),
)
"""Evidence that its retrieval finds ÷ evidence that is needed from it."""

HOP_PRECISION = HopMetric(
    "hop_precision",
    "trec_eval (NIST): set_P of each retrieval, by the evidence of all hops; their mean",
    lambda hop: hop.relevant / max(1, hop.contexts),
)
"""Contexts that carry evidence of any hop ÷ all contexts of a retrieval; 0 if there are none."""
