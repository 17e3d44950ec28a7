"""Citation validity, and citation recall and precision with ALCE's formulas as the oracle."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Sequence
from typing import cast

import pytest

from ragstone.golden.sample import Sample
from ragstone.judge.citations import judge_citations
from ragstone.judge.judgements import (
    CitationTable,
    CitedStatement,
    JudgementFailure,
    Judgements,
    Statement,
    Support,
    SupportTable,
    Verdict,
)
from ragstone.judge.protocol import Call, Judge
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
        ("Built in 1871 [1][4].", Scored(0.5, "cites [4], of 3 contexts")),
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


def test_recall_and_precision_are_shares_of_statements_and_of_citations() -> None:
    assert score("citation_recall", judgements=WORKED) == Scored(3 / 5, "cites [9], of 3 contexts")
    assert score("citation_precision", judgements=WORKED) == Scored(4 / 8, "cites [9], of 3 contexts")


def test_the_note_names_the_first_mistake() -> None:
    right = CitedStatement(ITEM, ("c1",), supported=True)
    irrelevant = CitedStatement(ITEM, ("c1", "c2"), supported=True, irrelevant=("c2",))
    wrong = CitedStatement(ITEM, ("c1", "c3"))
    for statements, note in (
        ((right,), None),
        ((right, irrelevant, wrong), "c2 is irrelevant to 'A claim.'"),
        ((right, wrong, irrelevant), "'A claim.' is not supported by c1, c3"),
    ):
        found = score("citation_precision", judgements=table(*statements))
        assert isinstance(found, Scored)
        assert found.note == note


def test_an_answer_that_cites_nothing_has_no_recall_and_no_precision_to_speak_of() -> None:
    nothing = table(CitedStatement(ITEM))
    assert score("citation_recall", judgements=nothing) == Scored(0.0, "'A claim.' is not supported by any citation")
    assert isinstance(score("citation_precision", judgements=nothing), NotApplicable)


@pytest.mark.parametrize("name", ["citation_recall", "citation_precision"])
def test_without_statements_there_is_no_score(name: str) -> None:
    assert isinstance(score(name, judgements=table()), NotApplicable)
    assert score(name, judgements=Judgements(citations=JudgementFailure("cut off"))) == Failed("judge", "cut off")
    assert isinstance(score(name), Failed)


Entailed = set[tuple[str, frozenset[int]]]


class Random:
    """A judge that says at random, but always the same, which sets of contexts entail a statement."""

    def __init__(self, entailed: Entailed) -> None:
        self._entailed = entailed

    async def support(
        self, contexts: Sequence[Context], statements: Sequence[Statement], *, call: Call
    ) -> SupportTable:
        ranks = frozenset(CONTEXTS.index(context) for context in contexts)
        (item,) = statements
        yes = (item.text, ranks) in self._entailed
        return SupportTable((Support(item.id, Verdict.SUPPORTED if yes else Verdict.UNSUPPORTED),))


def alce(cited: dict[str, list[int]], entailed: Entailed) -> tuple[float, float]:
    """Citation recall and precision as section 3.3 of the paper defines them, statement by statement."""
    recalls: list[int] = []
    precisions: list[int] = []
    for text, ranks in cited.items():
        recall = int(bool(ranks) and (text, frozenset(ranks)) in entailed)
        recalls.append(recall)
        for rank in ranks:
            alone = (text, frozenset([rank])) in entailed
            rest = (text, frozenset(ranks) - {rank}) in entailed
            precisions.append(int(recall and not (not alone and rest)))
    return sum(recalls) / len(recalls), sum(precisions) / len(precisions) if precisions else -1.0


@pytest.mark.heavy
def test_random_entailments_give_alces_numbers() -> None:
    dice = random.Random(52)
    names = ["Cats sleep all day", "Dogs bark at night", "Cows eat green grass", "Owls hunt small mice"]
    subsets = [frozenset(ranks) for size in (1, 2, 3) for ranks in itertools.combinations(range(3), size)]
    for _ in range(1000):
        cited = {f"{name}.": sorted(dice.sample(range(3), dice.randint(0, 3))) for name in names}
        entailed = {(text, ranks) for text in cited for ranks in subsets if dice.random() < 0.6}
        marked = [text[:-1] + "".join(f"[{rank + 1}]" for rank in ranks) + "." for text, ranks in cited.items()]
        response = Response("a", " ".join(marked), CONTEXTS)
        found = asyncio.run(judge_citations(cast(Judge, Random(entailed)), response, Call("a")))
        recall, precision = alce(cited, entailed)
        judgements = Judgements(citations=found)
        for name, expected in (("citation_recall", recall), ("citation_precision", precision)):
            measured = score(name, judgements=judgements)
            assert (measured.value if isinstance(measured, Scored) else -1.0) == expected
