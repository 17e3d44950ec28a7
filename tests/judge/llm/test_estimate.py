"""What a judgement is estimated to send and to receive, from the lengths of its texts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ragstone.golden.sample import GoldenSet, Sample
from ragstone.judge.judgements import JudgementKind
from ragstone.judge.llm.estimate import CostEstimate, estimate_cost
from ragstone.settings.settings import JudgeSettings

SAMPLE = Sample("q1", "q" * 400, "r" * 400)


class Metric:
    """A metric that needs one judgement."""

    def __init__(self, kind: JudgementKind) -> None:
        self._kind = kind

    def needs(self, _: Sample) -> frozenset[JudgementKind]:
        return frozenset({self._kind})


def estimate(kind: JudgementKind, sample: Sample = SAMPLE, answer: int = 0, contexts: int = 1600) -> CostEstimate:
    settings = JudgeSettings(name="openai:gpt-5.4-mini")
    return estimate_cost(settings, GoldenSet((sample,)), [Metric(kind)], lengths={"q1": (answer, contexts)})


MORE: dict[JudgementKind, tuple[int, int, int, int]] = {
    JudgementKind.STATEMENTS: (100, 100, 0, 0),
    JudgementKind.SUPPORT: (100, 300, 0, 100),
    JudgementKind.CONTEXT_USE: (100, 0, 100, 100),
    JudgementKind.REFERENCE_MATCH: (200, 400, 100, 0),
    JudgementKind.PREVIOUS_MATCH: (200, 500, 0, 0),
    JudgementKind.ENTITIES: (0, 0, 100, 0),
    JudgementKind.PREFERENCE: (200, 400, 0, 400),
    JudgementKind.CONTEXT_RELEVANCE: (100, 0, 0, 125),
}
"""Tokens sent in addition if the question, the answer, the reference or the contexts have 400 characters more.

Support and matches also need the statements of the answer; a preference is asked in both orders.
"""


@pytest.mark.parametrize("kind", MORE)
def test_every_text_that_a_judgement_reads_is_counted(kind: JudgementKind) -> None:
    sent = estimate(kind).input_tokens
    longer = (
        estimate(kind, replace(SAMPLE, question="q" * 800)),
        estimate(kind, answer=400),
        estimate(kind, replace(SAMPLE, reference="r" * 800)),
        estimate(kind, contexts=2000),
    )
    assert tuple(one.input_tokens - sent for one in longer) == MORE[kind]


@pytest.mark.parametrize(
    ("kind", "received"),
    [
        (JudgementKind.STATEMENTS, 133),
        (JudgementKind.SUPPORT, 133 + 180),
        (JudgementKind.REFERENCE_MATCH, 133 + 133 + 184),
        (JudgementKind.CONTEXT_USE, 133 + 100),
        (JudgementKind.PREVIOUS_MATCH, 133 + 133 + 160),
        (JudgementKind.ENTITIES, 50),
        (JudgementKind.CITATIONS, (5 - 1) * 5 * 45),
    ],
)
def test_what_is_written_grows_with_the_texts_that_it_is_about(kind: JudgementKind, received: int) -> None:
    longer = estimate(kind, replace(SAMPLE, reference="r" * 800), answer=400)
    assert longer.output_tokens - estimate(kind).output_tokens == pytest.approx(received, abs=1)


@pytest.mark.parametrize(
    ("kind", "received"),
    [
        (JudgementKind.STATEMENTS, 30),
        (JudgementKind.CONTEXT_USE, 133 + 100 + 60),
        (JudgementKind.REVERSE_QUESTIONS, 90),
        (JudgementKind.ENTITIES, 65),
        (JudgementKind.PREFERENCE, 2 * 15),
        (JudgementKind.CONTEXT_RELEVANCE, 75),
    ],
)
def test_something_is_written_about_any_text(kind: JudgementKind, received: int) -> None:
    assert estimate(kind).output_tokens == received


def test_citations_are_estimated_as_if_each_statement_cited_two_of_five_contexts() -> None:
    assert [estimate(JudgementKind.CITATIONS, answer=length).calls for length in (0, 80, 400)] == [5, 5, 25]
    more = estimate(JudgementKind.CITATIONS, contexts=3600).input_tokens
    assert more - estimate(JudgementKind.CITATIONS).input_tokens == 5 * (2000 * 2 // 5) // 4
