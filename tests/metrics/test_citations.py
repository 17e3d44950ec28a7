"""Citation validity, and citation recall and precision with ALCE's formulas as the oracle."""

from __future__ import annotations

import pytest

from ragstone.golden.sample import Sample
from ragstone.judge.judgements import CitationTable, CitedStatement, JudgementFailure, Judgements, Statement
from ragstone.metrics.registry import METRICS
from ragstone.metrics.score import Failed, NotApplicable, Score, Scored
from ragstone.system.response import Context, Response

SAMPLE = Sample("a", "Who built the lighthouse?")
CONTEXTS = tuple(Context(f"Text {number}.") for number in range(3))


def score(name: str, answer: str = "", judgements: Judgements | None = None) -> Score:
    return METRICS[name].score(SAMPLE, Response("a", answer, CONTEXTS), judgements or Judgements())


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("Built in 1871 [4][4][1][3].", Scored(0.5, "cites [4], of 3 contexts")),
        ("Built in 1871 [1].", Scored(1.0)),
        ("Built in 1871.", NotApplicable("the answer cites nothing")),
    ],
)
def test_validity_names_what_was_never_retrieved(answer: str, expected: Score) -> None:
    assert score("citation_validity", answer) == expected


def table(*statements: CitedStatement) -> Judgements:
    return Judgements(citations=CitationTable(statements))


ITEM = Statement("s1", "A claim.")
# Worked by hand with ALCE's definitions: three of five statements are supported; of the eight citations, those of the
# supported statements count, but for one that is irrelevant: 1 + 2 + 1.
WORKED = table(
    CitedStatement(ITEM, ("c1",), supported=True),
    CitedStatement(ITEM, ("c1", "c2", "c3"), supported=True, irrelevant=("c1",)),
    CitedStatement(ITEM, ("c2",), supported=True),
    CitedStatement(ITEM, ("c2",), ("9", "9"), supported=False),
    CitedStatement(ITEM),
)
RIGHT = CitedStatement(ITEM, ("c1",), supported=True)
IRRELEVANT = CitedStatement(ITEM, ("c1", "c2"), supported=True, irrelevant=("c2",))
WRONG = CitedStatement(ITEM, ("c1", "c3"))
NOTHING_CITED = table(CitedStatement(ITEM))
CUT_OFF = Judgements(citations=JudgementFailure("cut off"))


@pytest.mark.parametrize(
    ("name", "judgements", "expected"),
    [
        ("citation_recall", WORKED, Scored(3 / 5, "cites [9], of 3 contexts")),
        ("citation_precision", WORKED, Scored(4 / 8, "cites [9], of 3 contexts")),
        ("citation_precision", table(RIGHT, IRRELEVANT, WRONG), Scored(2 / 5, "c2 is irrelevant to 'A claim.'")),
        ("citation_precision", table(WRONG, IRRELEVANT), Scored(1 / 4, "'A claim.' is not supported by c1, c3")),
        ("citation_recall", NOTHING_CITED, Scored(0.0, "'A claim.' is not supported by any citation")),
        ("citation_precision", NOTHING_CITED, NotApplicable("the answer cites nothing")),
        ("citation_recall", table(), NotApplicable("the answer claims nothing")),
        ("citation_precision", CUT_OFF, Failed("judge", "cut off")),
        ("citation_recall", Judgements(), Failed("judge", "the judge returned no verdicts on citations")),
    ],
)
def test_recall_and_precision_are_shares_and_name_the_first_mistake(
    name: str, judgements: Judgements, expected: Score
) -> None:
    assert score(name, judgements=judgements) == expected
