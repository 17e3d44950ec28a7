"""Statements that a judge missed, and those that it may only have missed because they are worded otherwise."""

from __future__ import annotations

from typing import Any

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
    """Verdicts on the statements s1, s2 …; the last one with a probability if the judge compares words."""
    places = range(1, len(verdicts) + 1)
    return SupportTable(
        tuple(
            Support(f"s{place}", verdict, (), probability=0.2 if by_words and place == len(verdicts) else None)
            for place, verdict in zip(places, verdicts, strict=True)
        )
    )


def judged(
    said: str,
    support: SupportTable | None = None,
    *,
    contexts: tuple[str, ...] = (PASSAGE,),
    match: ReferenceMatch | None = None,
    use: ContextUse | None = None,
) -> Answer:
    statements = StatementList((Statement("s1", said), Statement("s2", said)), abstains=False)
    more = {"support": support, "reference_match": match, "context_use": use}
    given: dict[str, Any] = {name: value for name, value in more.items() if value is not None}
    response = Response("q", said, tuple(map(Context, contexts)))
    return Answer(response, (Judgements(statements=statements, **given),))


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
    ids=["not judged", "supported", "by meaning", "the same words", "other words", "no contexts", "no statements"],
)
def test_statements_that_the_contexts_do_not_support(answer: Answer, ids: list[str]) -> None:
    assert [support.statement_id for support in unsupported_statements(answer, SAMPLE)] == ids


def match(*verdicts: Verdict) -> ReferenceMatch:
    statements = tuple(Statement(f"s{place}", PASSAGE) for place in range(1, len(verdicts) + 1))
    return ReferenceMatch(statements, (), table(*verdicts).supports)


@pytest.mark.parametrize(
    ("answer", "ids"),
    [
        (judged(OTHER, table(SUPPORTED, by_words=True)), set()),
        (judged(OTHER, table(SUPPORTED, by_words=True), match=match(SUPPORTED)), set()),
        (judged(PASSAGE, table(SUPPORTED), match=match(SUPPORTED, UNSUPPORTED)), {"s2"}),
        (judged(PASSAGE, match=match(UNSUPPORTED)), {"s1"}),
        (judged(PASSAGE, table(SUPPORTED, by_words=True), match=match(UNSUPPORTED)), set()),
        (judged(OTHER, table(SUPPORTED, by_words=True), match=match(SUPPORTED, UNSUPPORTED)), {"s2"}),
    ],
    ids=["not judged", "all", "by meaning", "unknown judge", "the same words", "other words"],
)
def test_statements_of_the_reference_that_an_answer_does_not_make(answer: Answer, ids: set[str]) -> None:
    assert missing_statements(answer, SAMPLE) == ids


def use(text: str, verdict: Verdict) -> ContextUse:
    return ContextUse((), True, (Statement("s1", text),), table(verdict).supports)


@pytest.mark.parametrize(
    ("answer", "texts"),
    [
        (judged(OTHER, table(SUPPORTED, by_words=True)), []),
        (judged(OTHER, table(SUPPORTED), use=use(PASSAGE, SUPPORTED)), []),
        (judged(OTHER, table(SUPPORTED), use=use(PASSAGE, UNSUPPORTED)), [PASSAGE]),
        (judged(OTHER, use=use(PASSAGE, UNSUPPORTED)), [PASSAGE]),
        (judged(OTHER, table(SUPPORTED, by_words=True), use=use(PASSAGE, UNSUPPORTED)), []),
        (judged(OTHER, table(SUPPORTED, by_words=True), use=use(OTHER, UNSUPPORTED)), [OTHER]),
    ],
    ids=["not judged", "none", "by meaning", "unknown judge", "the same words", "other words"],
)
def test_statements_of_the_reference_that_the_contexts_lack(answer: Answer, texts: list[str]) -> None:
    assert lacking_statements(answer) == texts


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        (judged(PASSAGE), Rewording()),
        (judged(PASSAGE, SupportTable(())), Rewording()),
        (judged(OTHER, table(UNSUPPORTED), match=match(SUPPORTED)), Rewording()),
        (judged(PASSAGE, table(SUPPORTED)), Rewording(grounded=True)),
        (judged(PASSAGE, table(SUPPORTED), match=match(UNSUPPORTED)), Rewording(grounded=True)),
        (judged(PASSAGE, table(SUPPORTED), match=match(SUPPORTED)), Rewording(grounded=True, states_reference=True)),
    ],
)
def test_what_the_words_of_an_answer_show(answer: Answer, shown: Rewording) -> None:
    assert rewording_of(answer, SAMPLE) == shown
