from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace

from ragstone.judge.collect import best_covered, best_match
from ragstone.judge.judgements import JudgementFailure, ReferenceMatch, Statement, Support, Verdict


def match(given: int, of: int = 2) -> ReferenceMatch:
    statements = tuple(Statement(f"r{n}", "It is so.") for n in range(of))
    supports = tuple(
        Support(one.id, Verdict.SUPPORTED if n < given else Verdict.UNSUPPORTED) for n, one in enumerate(statements)
    )
    return ReferenceMatch(statements, (Support("s1", Verdict.SUPPORTED),), supports)


@dataclass
class Matching:
    """Answers with what is given for a reference, and remembers which were asked."""

    results: dict[str, object]
    asked: list[str] = field(default_factory=list)

    async def __call__(self, reference: str) -> object:
        self.asked.append(reference)
        return self.results[reference]


def test_the_nearest_reference_is_judged_first_and_a_full_match_ends_it() -> None:
    matching = Matching({"green grass": match(2), "blue sky": match(2)})
    assert asyncio.run(best_match(["green grass", "blue sky"], "The sky is blue.", matching)) == match(2)
    assert matching.asked == ["blue sky"]


def test_the_best_of_at_most_three_counts() -> None:
    matching = Matching({"a": match(0), "b": match(1), "c": match(0), "d": match(2)})
    assert asyncio.run(best_match(["a", "b", "c", "d"], "Nothing alike.", matching)) == match(1)
    assert matching.asked == ["a", "b", "c"]


def test_the_finer_shares_of_a_judge_decide_which_match_is_best() -> None:
    graded = replace(match(0), answer_share=0.9, reference_share=0.9)
    assert asyncio.run(best_match(["a", "b"], "x", Matching({"a": match(1), "b": graded}))) == graded


def test_a_reference_that_could_not_be_judged_may_have_been_the_best() -> None:
    failure = JudgementFailure("the judge refused")
    assert asyncio.run(best_match(["a", "b"], "x", Matching({"a": match(1), "b": failure}))) == failure
    assert asyncio.run(best_match(["a", "b"], "x", Matching({"a": failure, "b": match(2)}))) == match(2)


def test_a_reference_with_too_little_text_is_passed_over() -> None:
    nothing = JudgementFailure("too little text", not_applicable=True)
    assert asyncio.run(best_match(["a", "b"], "x", Matching({"a": nothing, "b": match(1)}))) == match(1)
    assert asyncio.run(best_match(["a"], "x", Matching({"a": nothing}))) == nothing


def test_contexts_are_judged_against_the_reference_that_they_hold_most_of() -> None:
    assert best_covered(["The fee is ten euros.", "It costs 10 €."], ["It costs 10 € a month."]) == "It costs 10 €."
    assert best_covered(["one", "two"], ["three"]) == "one"
    assert best_covered([], ["three"]) is None
