"""Evidence texts in contexts, however they are cut, and what happened to them between two runs."""

from __future__ import annotations

import math

import pytest

from ragstone.golden.sample import Sample
from ragstone.judge.judgements import ContextUse, ContextUsefulness, Judgements, Statement, Support, Verdict
from ragstone.metrics import ranking
from ragstone.metrics.evidence_ranks import EvidencePlace, distinct, locate, words
from ragstone.metrics.retrieval_change import EvidenceChange, evidence_of, retrieval_change
from ragstone.metrics.score import Failed, NotApplicable, Score, Scored
from ragstone.system.response import Context, Response
from tests.metrics.judged import outcome, score

FACT = "The Vell bridge was opened to traffic on 4 May 1931 by the mayor of Arden."
OTHER = "Tolls on the ferry ended in 1968, when the second tunnel was built."
BEFORE = "The town lies on both banks of a slow river."
AFTER = "Its market is is_retrieved on the square behind the old mill."


def found(evidence: str, *contexts: str) -> EvidencePlace:
    (one,) = locate((evidence,), contexts)
    return one


HUNDRED = " ".join(f"word{number}" for number in range(100))
FEE = f"{HUNDRED} The fee is nine euros. {HUNDRED[::-1]}"
LONG = " ".join(f"word{number}" for number in range(5000))
CHINESE = "桥梁于一九三一年五月四日由市长宣布通车"
RIVER = "这座城市位于河的两岸。"
TYPESET = "THE  VELL\nbridge — was **opened** to traf\u00adfic on 4 May 1931 by the ma-\nyor of “Arden”"


@pytest.mark.parametrize(
    ("evidence", "contexts", "is_retrieved"),
    [
        (FACT, (OTHER, f"{BEFORE} {FACT} {AFTER}"), True),
        (FACT, (TYPESET,), True),
        (FEE, (f"{HUNDRED} {HUNDRED[::-1]}",), False),  # 97 % of its words are there, but not a sentence in the middle
        (FEE, (FEE.replace("nine", "ten"),), True),  # one word
        (LONG, (LONG[:20_003], LONG[20_003:]), True),
        ("0 " * 90, ("0 " * 90,), True),  # words that repeat themselves
        # Short evidence must be there word for word.
        ("founded in 1931", ("It was founded in 1931.",), True),
        ("founded in 1931", ("It was founded in 1902.",), False),
        ("Arden", ("the mayor of Arden",), True),
        ("Arden", ("the warden of the park",), False),
        ("…", ("anything … at all",), False),
        # Scripts without spaces are compared by character.
        (CHINESE, (f"{RIVER}{CHINESE}。市场在广场上。",), True),
        (CHINESE, (f"{RIVER}{CHINESE[:9]}", f"{CHINESE[9:]}。市场"), True),
        (CHINESE, ("桥梁于一九六八年五月四日由市长宣布关闭",), False),
    ],
)
def test_which_contexts_have_the_evidence(evidence: str, contexts: tuple[str, ...], is_retrieved: bool) -> None:
    assert found(evidence, *contexts).is_retrieved is is_retrieved


def test_where_the_evidence_is() -> None:
    assert found(FACT, OTHER, f"{BEFORE} {FACT} {AFTER}") == EvidencePlace(
        share=1.0, complete_rank=2, carrier_ranks=(2,)
    )
    assert found(FACT, OTHER, AFTER) == found("…", "…") == EvidencePlace(share=0.0, complete_rank=0, carrier_ranks=())
    assert [one.complete_rank for one in locate((FACT, OTHER), (BEFORE, f"{FACT} {OTHER}"))] == [2, 2]
    half = found(FACT, OTHER, f"{BEFORE} {' '.join(FACT.split()[:9])}")
    assert (half.is_retrieved, half.first_rank, half.carrier_ranks) == (False, 0, (2,))
    assert half.share == pytest.approx(9 / 16)
    assert found("bread butter and cheese with olives", "bread butter and honey or figs").carrier_ranks == (1,), (
        "half of its words"
    )
    assert found("bread butter and cheese with olives here", "bread butter and honey or figs there").carrier_ranks == ()
    assert words("ﬁnal Größe") == ("final", "grösse")
    assert distinct(("A b.", "a  B", "…", "c")) == ("A b.", "c")


def test_evidence_that_is_split_over_two_chunks_is_retrieved_wherever_it_is_cut() -> None:
    for at in range(1, len(FACT)):
        first, second = f"{BEFORE} {FACT[:at]}", f"{FACT[at:]} {AFTER}"
        assert found(FACT, second, OTHER, first).is_retrieved, at
        assert found(FACT, first, OTHER, second).is_retrieved, at
        if len(FACT) // 4 < at < 3 * len(FACT) // 4:
            assert not found(FACT, first, OTHER).is_retrieved, at
            assert not found(FACT, second, OTHER).is_retrieved, at


BOTH = f"{FACT} {OTHER}"
HALVES = (FACT[: len(FACT) // 2], OTHER, FACT[len(FACT) // 2 :])


@pytest.mark.parametrize(
    ("name", "evidence", "contexts", "expected"),
    [
        # A split piece is recalled with its last part, and ranks where it begins.
        *((f"recall@{k}", (FACT,), HALVES, float(k == 3)) for k in (1, 2, 3)),
        *((name, (FACT,), HALVES, 1.0) for name in ("mrr", "ndcg", "average_precision")),
        ("precision@3", (FACT,), HALVES, 2 / 3),
        ("recall@1", (FACT, OTHER), (BOTH, BEFORE), 1.0),  # a chunk with two pieces is worth both
        ("ndcg", (FACT, OTHER), (BOTH,), 1.0),
        ("ndcg", (FACT, OTHER), (BEFORE, BOTH), 2 / math.log2(3) / (1 + 1 / math.log2(3))),
        ("precision@2", (FACT, OTHER), (BOTH, BEFORE), 0.5),
        ("mrr", (FACT,), (OTHER, OTHER, FACT), 0.5),  # the same chunk twice counts once
        ("precision@2", (FACT,), (FACT, FACT), 0.5),
        ("recall@5", (FACT, BEFORE), (FACT, OTHER), 0.5),
        ("recall@5", (FACT,), (), 0.0),
        ("recall@5", (), (FACT,), NotApplicable),
        ("recall@5", ("…",), (FACT,), NotApplicable),
    ],
)
def test_measures_by_text(
    name: str, evidence: tuple[str, ...], contexts: tuple[str, ...], expected: float | type[Score]
) -> None:
    sample = Sample("a", "When?", reference_contexts=evidence)
    found = score(name, sample, Response("a", "", tuple(map(Context, contexts))))
    assert outcome(found) == (pytest.approx(expected) if isinstance(expected, float) else expected)
    assert not isinstance(found, Scored) or not contexts or " of " in (found.note or "")


def test_relevant_ids_come_first_and_nothing_relevant_scores_0() -> None:
    sample = Sample("a", "?", reference_contexts=(FACT,), relevant_ids={"x": 1.0})
    assert score("recall@5", sample, Response("a", "", (Context(FACT, "y"),))) == Scored(0.0)
    assert isinstance(score("recall@5", sample, Response("a", "", (Context(FACT),))), Failed)
    nothing = ranking.Located((), frozenset(), ())
    assert ranking.recall(nothing) == ranking.average_precision(nothing) == ranking.ndcg(nothing) == 0.0


def ranked(*texts: str, name: str = "old") -> tuple[Context, ...]:
    return tuple(Context(text, f"{name}-{rank}") for rank, text in enumerate(texts))


CHUNKS = ranked(BEFORE, FACT, AFTER)
WHOLE = f"{BEFORE} {FACT} {AFTER}".split()
PIECES = [" ".join(WHOLE[at : at + 6]) for at in range(0, len(WHOLE), 6)]
KEPT, LOWER, RECHUNKED, GONE = map(EvidenceChange, ("kept", "lower", "rechunked", "gone"))


@pytest.mark.parametrize(
    ("evidence", "before", "now", "expected"),
    [
        ((FACT,), CHUNKS, CHUNKS, KEPT),
        ((FACT,), CHUNKS, ranked(BEFORE, FACT, name="new"), RECHUNKED),
        ((FACT,), CHUNKS, ranked(BEFORE, FACT.upper(), AFTER), KEPT),
        ((FACT,), CHUNKS, ranked(*PIECES), RECHUNKED),  # at rank 3, but nothing new above
        ((FACT,), CHUNKS, ranked(BEFORE, OTHER, f"{FACT} {AFTER}"), LOWER),
        ((FACT,), CHUNKS, ranked(HUNDRED, FACT), LOWER),  # at the same rank, after more text
        ((FACT,), CHUNKS, ranked(OTHER, FACT), KEPT),  # after no more than before
        ((FACT,), CHUNKS, ranked(BEFORE, "No.", FACT), RECHUNKED),  # what is new above is too short to count
        ((FACT,), CHUNKS, ranked(BEFORE, OTHER), GONE),
        ((FACT,), CHUNKS, ranked(BEFORE, " ".join(FACT.split()[:8])), GONE),
        ((FACT, AFTER), CHUNKS, ranked(BEFORE, FACT, name="new"), GONE),  # the worst of several pieces decides
        ((FACT,), ranked(BEFORE), ranked(AFTER), None),  # the baseline did not return it
        ((), CHUNKS, CHUNKS, None),
    ],
)
def test_what_became_of_the_evidence(
    evidence: tuple[str, ...], before: tuple[Context, ...], now: tuple[Context, ...], expected: EvidenceChange | None
) -> None:
    assert retrieval_change(evidence, before, now) == expected


def test_evidence_is_what_the_golden_set_says_or_else_the_baseline() -> None:
    judged = Judgements(
        context_use=ContextUse(
            contexts=tuple(ContextUsefulness(f"c{rank}", useful=True) for rank in (1, 2, 3)),
            against_reference=True,
            reference_statements=(Statement("r1", "It opened in 1931."), Statement("r2", "…")),
            attributions=(Support("r1", Verdict.SUPPORTED, ("c2",)), Support("r2", Verdict.UNSUPPORTED, ("c3",))),
        )
    )
    both = Sample("a", "?", reference_contexts=(OTHER,), relevant_ids={"old-0": 1.0, "old-1": 0.0})
    by_id = Sample("a", "?", relevant_ids={"old-0": 1.0, "old-1": 0.0})
    assert evidence_of(both, CHUNKS, judged) == (OTHER,)
    assert evidence_of(by_id, CHUNKS, judged) == (BEFORE,)
    assert evidence_of(Sample("a", "?"), CHUNKS, judged) == (FACT,)
    assert evidence_of(Sample("a", "?"), CHUNKS, Judgements()) == ()
