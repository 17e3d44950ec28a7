"""Hops: does each of several retrievals find the evidence that it is needed for?

The retrievals of an answer are numbered from 1, in their order; `Sample.hops` says from which of them each reference
context is needed. Texts are compared as in metrics/evidence.py.
"""

from __future__ import annotations

from collections.abc import Sequence
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

    @property
    def recall(self) -> float:
        """Evidence that is found ÷ evidence that is needed, in [0, 1]."""
        return sum(self.retrieved) / len(self.retrieved)

    @property
    def precision(self) -> float:
        """Contexts that carry evidence ÷ all contexts, in [0, 1]; 0 if there are none."""
        return self.relevant / max(1, self.contexts)


def retrievals(response: Response) -> list[Retrieval]:
    """The retrievals among the steps of an answer, in their order."""
    return [step for step in response.steps if isinstance(step, Retrieval)]


def hops_of(sample: Sample, response: Response) -> tuple[Hop, ...]:
    """The hops that the evidence of `sample` is labelled with, by number; empty if none is, or no steps are known."""
    if response.without_steps:
        return ()
    steps = retrievals(response)
    hops = []
    for number in sorted(set(sample.hops) - {0}):
        labelled = zip(sample.reference_contexts, sample.hops, strict=False)
        evidence = distinct(tuple(text for text, hop in labelled if hop == number))
        contexts: tuple[str, ...] = ()
        if number <= len(steps):
            contexts = distinct(tuple(context.text for context in steps[number - 1].contexts))
        if evidence:
            retrieved = tuple(place.retrieved for place in locate(evidence, contexts))
            relevant = locate_texts(locate(distinct(sample.reference_contexts), contexts)).relevant
            hops.append(Hop(number, evidence, retrieved, len(relevant), len(contexts)))
    return tuple(hops)


def lost_hop(sample: Sample, response: Response) -> int | None:
    """The first hop whose evidence is not all found; None if there is none."""
    for hop in hops_of(sample, response):
        if not all(hop.retrieved):
            return hop.number
    return None


class _HopMetric(BaseMetric):
    texts_needed = True

    @property
    def labels(self) -> frozenset[Label]:
        return frozenset({"reference_contexts"})

    def excuse(self, sample: Sample) -> NotApplicable | None:
        if any(sample.hops):
            return None
        return NotApplicable("no evidence of the sample has a hop")

    def rate(self, sample: Sample, response: Response, judgements: Judgements) -> Score:
        hops = hops_of(sample, response)
        if response.without_steps or not hops:
            return NotApplicable(NO_STEPS if response.without_steps else "the evidence has no words")
        shares = [self._share(hop) for hop in hops]
        return Scored(sum(shares) / len(shares), note=self._note(hops, response))

    def _share(self, hop: Hop) -> float:
        raise NotImplementedError

    def _note(self, hops: Sequence[Hop], response: Response) -> str | None:
        raise NotImplementedError


class HopRecall(_HopMetric):
    """Mean over the hops of the share of their evidence that their retrieval finds."""

    info = MetricInfo(
        name="hop_recall",
        version="1",
        blames="retrieval",
        source="trec_eval (NIST): set_recall of each retrieval, by the evidence of its hop; their mean",
        answerless=True,
    )

    def _share(self, hop: Hop) -> float:
        return hop.recall

    def _note(self, hops: Sequence[Hop], response: Response) -> str | None:
        for hop in hops:
            missing = hop.retrieved.count(False)
            if not missing:
                continue
            note = f"hop {hop.number} doesn't find {missing} of {len(hop.evidence)}"
            made = len(retrievals(response))
            if made < hop.number:
                note += f": the answer has {counted(made, 'retrieval')}"
            return note
        return None


class HopPrecision(_HopMetric):
    """Mean over the hops of the share of their contexts that carry evidence of any hop."""

    info = MetricInfo(
        name="hop_precision",
        version="1",
        blames="retrieval",
        source="trec_eval (NIST): set_P of each retrieval, by the evidence of all hops; their mean",
        answerless=True,
    )

    def _share(self, hop: Hop) -> float:
        return hop.precision

    def _note(self, hops: Sequence[Hop], response: Response) -> str | None:
        worst = min(hops, key=lambda hop: hop.precision)
        return f"hop {worst.number}: {worst.relevant} of {counted(worst.contexts, 'context')}"
