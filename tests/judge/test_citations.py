"""What an answer cites, however it is written and numbered, and whether that supports what cites it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import cast

import pytest

from ragstone.judge.citations import MAX_BRACKETS, MAX_CITED, Citable, cites_only_contexts, judge_citations
from ragstone.judge.judgements import (
    CitationTable,
    CitedStatement,
    Judgements,
    Statement,
    Support,
    SupportTable,
    Verdict,
)
from ragstone.judge.offline import OfflineJudge
from ragstone.judge.protocol import Call, Judge, JudgementFailed
from ragstone.judge.scripted import ScriptedJudge
from ragstone.system.response import Context, ConversationSoFar, Response

CONTEXTS = (Context("A single ticket costs 7 euros.", "tickets"), Context("Dogs travel free.", "42"))


@pytest.mark.parametrize(
    ("cited", "expected"),
    [
        ("", None),
        ("[see the list]", None),
        *((label, True) for label in ("[1]", "[2]", "[0]", "[tickets]", "[42]", "[1, 42]")),
        *((label, False) for label in ("[3]", "[34]", "[1][2][3]", f"{'[1]' * 2 * MAX_BRACKETS}[9]")),
        ("items[9]", None),  # a bracket of the contexts
    ],
)
def test_positions_and_ids_are_there(cited: str, expected: bool | None) -> None:
    contexts = (*CONTEXTS, Context("Read the last value with items[9].")) if "items" in cited else CONTEXTS
    assert cites_only_contexts(Response("a", f"An adult pays 7 euros {cited}.", contexts)) is expected


class Searched(str):
    """A text that counts how often something is looked for in it."""

    searches = 0

    def __contains__(self, other: object) -> bool:
        type(self).searches += 1
        return str(other) in str(self)


def test_only_the_first_distinct_brackets_are_looked_up() -> None:
    contexts = (Context(Searched("A single ticket costs 7 euros."), "tickets"),)
    cites_only_contexts(Response("a", "".join(f"[note {number}]" for number in range(1000)), contexts))
    assert Searched.searches == MAX_BRACKETS


GUIDES = (Context("one", "guide.md"), Context("two", "doc-17"), Context("three"))


def cited(answer: str, contexts: tuple[Context, ...] = GUIDES, *earlier: Context) -> list[tuple[str, int | None]]:
    citable = Citable(Response("a", answer, contexts, so_far=ConversationSoFar(contexts=earlier)))
    return [(citation.label, citation.rank) for citation in citable.citations(citable.answer)]


@pytest.mark.parametrize(
    ("answer", "ranks"),
    [
        ("Yes [1], no [2, 3]; see [guide.md] and [9].", [0, 1, 2, 0, None]),
        ("From 1 to 3 [1-3], [doc 2] and 【3】.", [0, 1, 2, 1, 2]),
        ("A [link](http://x.example), an [aside] and [1](http://y.example).", []),
        ("It is so [doc-17], and so [doc-23], says [doc-x].", [1, None]),  # an id like one of theirs
        ("In [2024] it was 5 m² and 10⁵.", []),
        ("It is so [0]. And so [2].", [0, 2]),  # counted from 0
        ("It is so [0]. And so [3].", [None, 2]),  # counted from 1
        ("It is so.¹ It lasts for 24 months².", [0, 1]),
        ("It is so<sup>3</sup> and so [^2].", [2, 1]),
        ("So.[^7]\n\n[^7]: See doc-17, page 3", [1, 1]),  # the note's text names the context
        ("So [2].\n\nSources:\n[2] guide.md", [0, 0]),
        ("So [2].\n\n[2] Handbook, page 3", [1, 1]),
    ],
)
def test_citations_are_read_by_position_by_id_and_by_footnote(answer: str, ranks: list[int | None]) -> None:
    assert [rank for _, rank in cited(answer)] == ranks
    assert cited("So [4] and [doc-23].") == [("4", None), ("doc-23", None)], "what was never retrieved keeps its name"


def test_contexts_of_earlier_turns_are_cited_by_their_ids_alone() -> None:
    assert cited("So [b] and [2].", (Context("one", "a"),), Context("two", "b")) == [("b", 1), ("2", None)]


class Entailment:
    """A judge that supports the statements of a table by the sets of contexts that are there."""

    def __init__(self, table: Mapping[str, Sequence[set[str]]]) -> None:
        self._table = table
        self.calls = 0

    async def support(
        self, contexts: Sequence[Context], statements: Sequence[Statement], *, call: Call
    ) -> SupportTable:
        self.calls += 1
        together = {context.text for context in contexts}
        return SupportTable(
            tuple(
                Support(
                    item.id, Verdict.SUPPORTED if together in self._table[item.text] else Verdict.UNSUPPORTED, ("c1",)
                )
                for item in statements
            )
        )


def judged(judge: object, answer: str, contexts: tuple[Context, ...]) -> CitationTable:
    return asyncio.run(judge_citations(cast(Judge, judge), Response("a", answer, contexts), Call("a")))


A, B, C, D, E = (Context(letter) for letter in "abcde")
CAT, DOG, COW = "Cats sleep all day.", "Dogs bark at night.", "Cows eat grass."


def test_a_citation_is_irrelevant_if_it_neither_supports_alone_nor_is_missed() -> None:
    """The case of ALCE, section 3.3: a statement cites [2], [4] and [5], of which 4 and 5 are needed, and 2 is not."""
    judge = Entailment({CAT: [{"b", "d", "e"}, {"d", "e"}]})
    (item,) = judged(judge, "Cats sleep all day [2][4][5].", (A, B, C, D, E)).statements
    assert (item.supported, item.cited, item.irrelevant) == (True, ("c2", "c4", "c5"), ("c2",))
    assert judge.calls == 1 + 3 + 3


def test_no_more_is_asked_than_decides() -> None:
    judge = Entailment({CAT: [{"a"}], DOG: [], COW: [{"a", "b"}, {"a"}, {"b"}]})
    table = judged(judge, "Cats sleep all day [1]. Dogs bark at night [1][2]. Cows eat grass [1, 2].", (A, B))
    assert [item.supported for item in table.statements] == [True, False, True]
    assert [item.irrelevant for item in table.statements] == [(), (), ()]
    assert judge.calls == 1 + 1 + 3


def test_what_is_not_there_or_not_cited_is_not_judged() -> None:
    judge = Entailment({})
    table = judged(judge, "Cats sleep all day. Dogs bark at night [1][7].", (A,))
    assert [(item.supported, item.missing) for item in table.statements] == [(False, ()), (False, ("7",))]
    assert judge.calls == 0


def test_a_context_that_is_cited_twice_counts_once_and_of_many_the_first_are_judged() -> None:
    judge = Entailment({CAT: [{"a"}]})
    (item,) = judged(judge, "Cats sleep all day [1][1].", (A,)).statements
    assert item.cited == ("c1",)
    many = "".join(f"[{number}]" for number in range(1, 21))
    (item,) = judged(judge, f"Cats sleep all day {many}.", (A,) * 20).statements
    assert len(item.cited) == MAX_CITED


@pytest.mark.parametrize(
    ("answer", "texts"),
    [
        ("Cats sleep all day. [1] Dogs bark at night.¹", [CAT, DOG]),
        ("I hope this helps! Which cat do you mean? Cats sleep all day [1].", [CAT]),
        ("Cats sleep all day [guide.md].\n\n[1] Handbook, page 3", [CAT]),
        ("Cats sleep all day [doc-17]. Dogs bark at night.[guide.md][3]", [CAT, DOG]),
        (
            "- Cats sleep all day [1]\n- Dogs bark at night [aside]",
            ["Cats sleep all day", "Dogs bark at night [aside]"],
        ),
        ("| Cats | They sleep all day. [1] |\n|---|---|\n| Dogs | They bark at night. [2] |", ["They bark at night."]),
        ("I don't know.", []),
        ("", []),
    ],
)
def test_statements_are_the_sentences_that_claim_something(answer: str, texts: list[str]) -> None:
    table = judged(Entailment({text: [] for text in texts}), answer, GUIDES)
    assert [item.statement.text for item in table.statements] == texts


def test_an_answer_of_too_many_statements_is_refused() -> None:
    with pytest.raises(JudgementFailed, match="more than"):
        judged(Entailment({}), "\n".join(f"- Cat {number} sleeps all day." for number in range(500)), (A,))


def test_verdicts_that_are_not_the_statements_support_nothing() -> None:
    class Silent:
        async def support(self, *_: object, **__: object) -> SupportTable:
            return SupportTable(())

    (item,) = judged(Silent(), "Cats sleep all day [1].", (A,)).statements
    assert not item.supported


def test_the_offline_judge_judges_citations() -> None:
    tower = (
        Context("The lighthouse at Grey Point was built in 1871 by Ada Brown."),
        Context("Bread needs flour, water and salt."),
    )
    table = judged(OfflineJudge(), "The lighthouse was built in 1871. [1] Bread needs flour and salt [1][2].", tower)
    assert [(item.supported, item.irrelevant) for item in table.statements] == [(True, ()), (True, ("c1",))]
    swapped = judged(OfflineJudge(), "The lighthouse was built in 1871 [2]. Bread needs flour and salt [1].", tower)
    assert [item.supported for item in swapped.statements] == [False, False]


def test_a_script_says_itself_what_is_cited() -> None:
    table = CitationTable((CitedStatement(Statement("s1", "An adult pays 7 euros."), ("c1",), supported=True),))
    judge = ScriptedJudge({"a": Judgements(citations=table)})
    response = Response("a", "An adult pays 7 euros [2].", CONTEXTS)
    assert asyncio.run(judge_citations(judge, response, Call("a"))) == table
    with pytest.raises(JudgementFailed):
        asyncio.run(judge_citations(ScriptedJudge({"a": Judgements()}), response, Call("a")))
