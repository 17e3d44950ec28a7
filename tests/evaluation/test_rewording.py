"""Statements that a judge missed, and those that it may only have missed because they are worded otherwise."""

from __future__ import annotations

import pytest

from ragstone.evaluation.record import Answer
from ragstone.evaluation.rewording import (
    Rewording,
    lacking_statements,
    missing_statements,
    rewording_of,
    unsupported_statements,
)
from ragstone.golden.sample import Sample
from ragstone.judge.judgements import (
    ContextUse,
    Judgements,
    ReferenceMatch,
    Statement,
    StatementList,
    Support,
    SupportTable,
    Verdict,
)
from ragstone.system.response import Context, Response

SAMPLE = Sample("q", "How long may shoes be returned?", reference="For 30 days.")
PASSAGE = "Shoes can be returned for 30 days after delivery."
OTHER = "Penguins eat fish in the cold seas of the south."
SUPPORTED, UNSUPPORTED = Verdict.SUPPORTED, Verdict.UNSUPPORTED


def table(*verdicts: Verdict, by_words: bool = False) -> SupportTable:
    """Verdicts on the statements s1, s2 …, with probabilities if the judge compares words."""
    chance = 0.2 if by_words else None
    return SupportTable(
        tuple(Support(f"s{place}", verdict, (), probability=chance) for place, verdict in enumerate(verdicts, 1))
    )


BY_WORDS = table(SUPPORTED, by_words=True)


def judged(
    said: str,
    support: SupportTable | None = None,
    *,
    contexts: tuple[str, ...] = (PASSAGE,),
    match: ReferenceMatch | None = None,
    use: ContextUse | None = None,
) -> Answer:
    statements = StatementList((Statement("s1", said), Statement("s2", said)), abstains=False)
    judgements = Judgements(statements=statements, support=support, reference_match=match, context_use=use)
    return Answer(Response("q", said, tuple(map(Context, contexts))), (judgements,))


@pytest.mark.parametrize(
    ("answer", "ids"),
    [
        (judged(OTHER), []),
        (judged(OTHER, table(SUPPORTED, SUPPORTED)), []),
        (judged(PASSAGE, table(SUPPORTED, UNSUPPORTED)), ["s2"]),
        (judged(PASSAGE, table(UNSUPPORTED, UNSUPPORTED, by_words=True)), []),
        (judged(OTHER, table(SUPPORTED, UNSUPPORTED, by_words=True)), ["s2"]),
        (judged(PASSAGE, table(UNSUPPORTED, by_words=True), contexts=()), ["s1"]),
        (Answer(Response("q", "?"), (Judgements(support=table(UNSUPPORTED)),)), []),
    ],
)
def test_statements_that_the_contexts_do_not_support(answer: Answer, ids: list[str]) -> None:
    assert [support.statement_id for support in unsupported_statements(answer, SAMPLE)] == ids


def match(*verdicts: Verdict) -> ReferenceMatch:
    statements = tuple(Statement(f"s{place}", PASSAGE) for place in range(1, len(verdicts) + 1))
    return ReferenceMatch(statements, (), table(*verdicts).supports)


@pytest.mark.parametrize(
    ("answer", "ids"),
    [
        (judged(OTHER, BY_WORDS), set()),
        (judged(OTHER, BY_WORDS, match=match(SUPPORTED)), set()),
        (judged(PASSAGE, table(SUPPORTED), match=match(SUPPORTED, UNSUPPORTED)), {"s2"}),
        (judged(PASSAGE, match=match(UNSUPPORTED)), {"s1"}),
        (judged(PASSAGE, BY_WORDS, match=match(UNSUPPORTED)), set()),
        (judged(OTHER, BY_WORDS, match=match(SUPPORTED, UNSUPPORTED)), {"s2"}),
    ],
)
def test_statements_of_the_reference_that_an_answer_does_not_make(answer: Answer, ids: set[str]) -> None:
    assert missing_statements(answer, SAMPLE) == ids


def use(text: str, verdict: Verdict) -> ContextUse:
    return ContextUse((), True, (Statement("s1", text),), table(verdict).supports)


@pytest.mark.parametrize(
    ("answer", "texts"),
    [
        (judged(OTHER, BY_WORDS), []),
        (judged(OTHER, table(SUPPORTED), use=use(PASSAGE, SUPPORTED)), []),
        (judged(OTHER, table(SUPPORTED), use=use(PASSAGE, UNSUPPORTED)), [PASSAGE]),
        (judged(OTHER, use=use(PASSAGE, UNSUPPORTED)), [PASSAGE]),
        (judged(OTHER, BY_WORDS, use=use(PASSAGE, UNSUPPORTED)), []),
        (judged(OTHER, BY_WORDS, use=use(OTHER, UNSUPPORTED)), [OTHER]),
    ],
)
def test_statements_of_the_reference_that_the_contexts_lack(answer: Answer, texts: list[str]) -> None:
    assert lacking_statements(answer) == texts


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        (judged(PASSAGE), Rewording()),
        (judged(OTHER, table(UNSUPPORTED), match=match(SUPPORTED)), Rewording()),
        (judged(PASSAGE, table(SUPPORTED)), Rewording(grounded=True)),
        (judged(PASSAGE, table(SUPPORTED), match=match(UNSUPPORTED)), Rewording(grounded=True)),
        (judged(PASSAGE, table(SUPPORTED), match=match(SUPPORTED)), Rewording(grounded=True, states_reference=True)),
    ],
)
def test_what_the_words_of_an_answer_show(answer: Answer, shown: Rewording) -> None:
    assert rewording_of(answer, SAMPLE) == shown
