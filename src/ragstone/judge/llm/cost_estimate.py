"""Estimates what judging a golden set will cost, before any call is made."""

from __future__ import annotations

import math
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

_ANSWER_CHARACTERS = 400
_CONTEXTS = 5
_CONTEXT_CHARACTERS = 800
_STATEMENT_CHARACTERS = 80
_GRADE_TOKENS = 60
"""Tokens of a reply with a grade and a reason, or with a question."""
_ASSUMED_SIZES = (
    "answers as long as the references, contexts as the reference contexts "
    f"(else {_ANSWER_CHARACTERS} characters, and {_CONTEXTS} of {_CONTEXT_CHARACTERS}); "
)
_PROMPTS = {
    JudgementKind.PREVIOUS_MATCH: "reference_match",
    JudgementKind.PREFERENCE: "direct_preference",
    JudgementKind.CITATIONS: "support",
}
"""The prompts of the judgements that are not called like theirs."""
_CITED_CONTEXTS = 2
"""How many contexts a statement is assumed to cite."""


class CostlyMetric(Protocol):
    """The part of a metric that its cost depends on."""

    def needs(self, sample: Sample) -> frozenset[JudgementKind]:
        """The judgements of an answer to `sample` that the metric reads."""


Sizes = Mapping[str, int]
"""The characters of each text that a sample's judgements read, by its name, and the
number of statements in it, by ``…_statements``."""


def estimate_cost(
    judge_settings: JudgeSettings,
    golden_set: GoldenSet,
    metrics: Sequence[CostlyMetric],
    *,
    repeats: int = 1,
    answers_per_sample: int = 1,
    lengths: Mapping[str, tuple[int, int]] | None = None,
) -> CostEstimate:
    """The cost of judging `answers_per_sample` answers to each question of
    `golden_set`, each `repeats` times, for `metrics`.

    `lengths` are the characters of answer and contexts by sample id, if they are known.
    Otherwise an answer is assumed to be as long as the reference (400 characters if
    there is none), and contexts as long as the sample's reference contexts (5 of 800
    characters if there are none). Raises ConfigError for an unknown judge.
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
            _sizes(sample, lengths),
        )
    assumptions = "no cached judgements"
    if lengths is None:
        assumptions = f"{_ASSUMED_SIZES}{assumptions}"
    return tally.estimate(assumptions, times=repeats * answers_per_sample)


def _sizes(sample: Sample, lengths: Mapping[str, tuple[int, int]] | None) -> Sizes:
    reference = len(sample.reference or "")
    answer = reference or _ANSWER_CHARACTERS
    contexts = sum(map(len, sample.reference_contexts))
    contexts = contexts or _CONTEXTS * _CONTEXT_CHARACTERS
    if lengths is not None:
        answer, contexts = lengths.get(sample.id, (answer, contexts))
    return {
        # For what a prompt needs whatever the texts.
        "base": 1,
        "question": len(sample.question),
        "answer": answer,
        "reference": reference,
        "contexts": contexts,
        "answer_statements": max(1, answer // _STATEMENT_CHARACTERS),
        "reference_statements": max(1, reference // _STATEMENT_CHARACTERS),
    }


def _count_sample(
    tally: CallTally, sample: Sample, metrics: Sequence[CostlyMetric], sizes: Sizes
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
            characters += sum(sizes[part] for part in rubric.sees)
            tally.add(RUBRIC, characters, _GRADE_TOKENS)
    if JudgementKind.ANSWER_SIMILARITY in needs and sample.references:
        references = sum(map(len, sample.references))
        tally.add_embeddings(sizes["answer"] + references)
    if JudgementKind.REVERSE_QUESTIONS in needs:
        tally.add_embeddings((1 + REVERSE_QUESTIONS) * sizes["question"])
    if sample.history and needs:
        characters = sum(len(turn.text) for turn in sample.history)
        tally.add(STANDALONE, characters + sizes["question"], _GRADE_TOKENS)
    if needs & NEEDING_STATEMENTS:
        needs.add(JudgementKind.STATEMENTS)
    # Rubrics are counted above, and similarity makes no chat call.
    needs -= {JudgementKind.CUSTOM, JudgementKind.ANSWER_SIMILARITY}
    if not sample.reference:
        needs.discard(JudgementKind.REFERENCE_MATCH)
    for kind in sorted(needs):
        _count_judgement(tally, kind, sample, sizes)


def _count_judgement(
    tally: CallTally, kind: JudgementKind, sample: Sample, sizes: Sizes
) -> None:
    """Count the calls of one judgement of an answer to `sample`."""
    from ragstone.judge.llm.prompts import size_factors

    prompt = _PROMPTS.get(kind, str(kind))
    statements = sizes["answer_statements"]
    calls = 1
    reply_parts = 1
    match kind:
        case JudgementKind.PREFERENCE:
            # Asked in both orders.
            calls = 2
        case JudgementKind.REFERENCE_MATCH:
            calls = min(MAX_MATCHED, len(sample.references))
        case JudgementKind.PREVIOUS_MATCH:
            # The previous answer stands for the reference.
            sizes = {
                **sizes,
                "reference": sizes["answer"],
                "reference_statements": statements,
            }
        case JudgementKind.SUPPORT:
            calls = math.ceil(statements / tally.layout.statements_per_call)
            reply_parts = calls
        case JudgementKind.CITATIONS:
            # Each statement is judged by all contexts that it cites, by each alone, and
            # by all others without each.
            calls_per_statement = 1 + 2 * _CITED_CONTEXTS
            calls = statements * calls_per_statement
            sizes = {
                **sizes,
                "contexts": sizes["contexts"] * _CITED_CONTEXTS // _CONTEXTS,
                "answer": sizes["answer"] // statements,
                "answer_statements": 1,
            }
        case JudgementKind.CONTEXT_USE if not sizes["reference"]:
            prompt = "context_use_no_reference"
    factors = size_factors(prompt)
    received = _size_by(factors.received_tokens, sizes) / reply_parts
    tally.add(
        prompt,
        _size_by(factors.sent_characters, sizes),
        round(received),
        calls=calls,
        cached_calls=1,
    )


def _size_by(factors: Mapping[str, float], sizes: Sizes) -> float:
    return sum(factor * sizes[name] for name, factor in factors.items())
