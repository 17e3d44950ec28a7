"""Estimates what judging a golden set will cost, before any call is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from ragstone.golden.sample import GoldenSet, Sample
from ragstone.judge.collect import MAX_MATCHED, NEEDING_STATEMENTS, REVERSE_QUESTIONS
from ragstone.judge.judgements import JudgementKind
from ragstone.judge.llm.prices import CostEstimate
from ragstone.judge.names import provider_of
from ragstone.judge.rubric import Rubric
from ragstone.settings.settings import JudgeSettings

if TYPE_CHECKING:
    from ragstone.judge.llm.call_tally import CallTally

_ANSWER = 400
_CONTEXTS = 5
_CONTEXT = 800
_STATEMENT = 80
_GRADE_TOKENS = 60
_ASSUMED_LENGTHS = (
    "answers as long as the references, contexts as the reference contexts "
    f"(else {_ANSWER} characters, and {_CONTEXTS} of {_CONTEXT}); "
)
_PROMPTS = {
    JudgementKind.PREVIOUS_MATCH: "reference_match",
    JudgementKind.PREFERENCE: "direct_preference",
    JudgementKind.CITATIONS: "support",
}
"""Of judgements that are made with another one's prompt."""
_CITED = 2
"""Contexts that a statement is assumed to cite: judged together, each alone, and each
without the other."""


class Needing(Protocol):
    """The part of a metric that its cost depends on."""

    def needs(self, sample: Sample) -> frozenset[JudgementKind]: ...


Lengths = Mapping[str, int]
"""Characters of the texts that a sample's judgements read, by name, and the numbers of
statements in them."""


def estimate_cost(
    judge_settings: JudgeSettings,
    golden_set: GoldenSet,
    metrics: Sequence[Needing],
    *,
    repeats: int = 1,
    answers: int = 1,
    lengths: Mapping[str, tuple[int, int]] | None = None,
) -> CostEstimate:
    """The cost of judging `answers` answers to each question of `golden_set`, each
    `repeats` times, by `metrics`.

    `lengths` are the characters of answer and contexts by sample id, if they are known.
    Otherwise an answer is assumed to be as long as the reference (400 characters if
    there is none), contexts to be the sample's reference contexts (5 of 800 characters
    if there are none). Raises ConfigError for an unknown judge.
    """
    if provider_of(judge_settings.name).free:
        return CostEstimate(calls=0, input_tokens=0, output_tokens=0, usd=0.0)
    from ragstone.judge.llm.call_tally import CallTally

    tally = CallTally(judge_settings)
    for sample in golden_set:
        _count_sample(
            tally,
            sample,
            metrics,
            _texts(sample, lengths),
        )
    assumed = "" if lengths is not None else _ASSUMED_LENGTHS
    return tally.estimate(f"{assumed}no cached judgements", repeats=repeats * answers)


def _texts(sample: Sample, lengths: Mapping[str, tuple[int, int]] | None) -> Lengths:
    reference = len(sample.reference or "")
    answer = reference or _ANSWER
    contexts = sum(map(len, sample.reference_contexts)) or _CONTEXTS * _CONTEXT
    if lengths is not None:
        answer, contexts = lengths.get(sample.id, (answer, contexts))
    return {
        "base": 1,
        "question": len(sample.question),
        "answer": answer,
        "reference": reference,
        "contexts": contexts,
        "answer_statements": max(1, answer // _STATEMENT),
        "reference_statements": max(1, reference // _STATEMENT),
    }


def _count_sample(
    tally: CallTally, sample: Sample, metrics: Sequence[Needing], texts: Lengths
) -> None:
    """Count all calls for one answer to `sample`."""
    from ragstone.judge.llm.prompts import RUBRIC, STANDALONE

    needs: set[JudgementKind] = set()
    for metric in metrics:
        kinds = metric.needs(sample)
        needs |= kinds
        rubric = getattr(metric, "rubric", None)
        if isinstance(rubric, Rubric) and kinds:
            characters = len(rubric.text) + sum(map(len, rubric.levels))
            characters += sum(texts[part] for part in rubric.sees)
            tally.add(RUBRIC, characters, _GRADE_TOKENS)
    if JudgementKind.ANSWER_SIMILARITY in needs and sample.references:
        references = sum(map(len, sample.references))
        tally.embed(texts["answer"] + references)
    if JudgementKind.REVERSE_QUESTIONS in needs:
        tally.embed((1 + REVERSE_QUESTIONS) * texts["question"])
    if sample.history and needs:
        characters = sum(len(turn.text) for turn in sample.history)
        tally.add(STANDALONE, characters + texts["question"], _GRADE_TOKENS)
    if needs & NEEDING_STATEMENTS:
        needs.add(JudgementKind.STATEMENTS)
    # Rubrics are counted apart, and similarity takes embeddings only.
    needs -= {JudgementKind.CUSTOM, JudgementKind.ANSWER_SIMILARITY}
    if not sample.reference:
        needs.discard(JudgementKind.REFERENCE_MATCH)
    for kind in sorted(needs):
        _count_judgement(tally, kind, sample, texts)


def _count_judgement(
    tally: CallTally, kind: JudgementKind, sample: Sample, texts: Lengths
) -> None:
    """Count the calls of one judgement of `sample`."""
    from ragstone.judge.llm.prompts import growth

    prompt = _PROMPTS.get(kind, str(kind))
    statements = texts["answer_statements"]
    calls = replies = 1
    match kind:
        case JudgementKind.PREFERENCE:
            calls = 2
        case JudgementKind.REFERENCE_MATCH:
            calls = min(MAX_MATCHED, len(sample.references))
        case JudgementKind.PREVIOUS_MATCH:
            previous = {
                "reference": texts["answer"],
                "reference_statements": statements,
            }
            texts = {**texts, **previous}
        case JudgementKind.SUPPORT:
            calls = replies = -(-statements // tally.layout.statements)
        case JudgementKind.CITATIONS:
            calls = statements * (1 + 2 * _CITED)
            cited = {
                "contexts": texts["contexts"] * _CITED // _CONTEXTS,
                "answer": texts["answer"] // statements,
                "answer_statements": 1,
            }
            texts = {**texts, **cited}
        case JudgementKind.CONTEXT_USE if not texts["reference"]:
            prompt = "context_use_no_reference"
    by_sent, by_received = growth(prompt)
    received = round(_grown(by_received, texts) / replies)
    tally.add(
        prompt,
        _grown(by_sent, texts),
        received,
        calls=calls,
        cached=1,
    )


def _grown(factors: Mapping[str, float], texts: Lengths) -> float:
    return sum(factor * texts[name] for name, factor in factors.items())
