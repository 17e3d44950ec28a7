"""Evidence texts in contexts, however they are cut: found, held, carried; and what became of them between two runs."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.golden.sample import Sample
from ragstone.judge.judgements import (
    ContextUse,
    ContextUsefulness,
    Judgements,
    Statement,
    Support,
    Verdict,
)
from ragstone.metrics import ranking
from ragstone.metrics.evidence import Found, distinct, locate, words
from ragstone.metrics.registry import select_metrics
from ragstone.metrics.retrieval_change import EvidenceChange, RetrievalChange, evidence_of, retrieval_change
from ragstone.metrics.score import Failed, NotApplicable, Score, Scored
from ragstone.system.response import Context, Response

FACT = "The Vell bridge was opened to traffic on 4 May 1931 by the mayor of Arden."
OTHER = "Tolls on the ferry ended in 1968, when the second tunnel was built."
BEFORE = "The town lies on both banks of a slow river."
AFTER = "Its market is held on the square behind the old mill."


def found(evidence: str, *contexts: str) -> Found:
    (one,) = locate((evidence,), contexts)
    return one


def test_a_chunk_that_contains_the_evidence_holds_it() -> None:
    assert found(FACT, OTHER, f"{BEFORE} {FACT} {AFTER}") == Found(share=1.0, complete=2, carriers=(2,))
    assert found(FACT, OTHER, AFTER) == Found(share=0.0, complete=None, carriers=())


def test_case_punctuation_white_space_and_invisible_characters_do_not_matter() -> None:
    assert found(
        FACT, "THE  VELL\nbridge — was **opened** to traf\u00adfic on 4 May 1931 by the ma-\nyor of “Arden”"
    ).held
    assert words("ﬁnal Größe") == ("final", "grösse")


@pytest.mark.parametrize("at", range(1, len(FACT)))
def test_evidence_that_is_split_over_two_chunks_is_held_wherever_it_is_cut(at: int) -> None:
    first, second = f"{BEFORE} {FACT[:at]}", f"{FACT[at:]} {AFTER}"
    assert found(FACT, second, OTHER, first).held
    assert found(FACT, first, OTHER, second).held
    if len(FACT) // 4 < at < 3 * len(FACT) // 4:
        assert not found(FACT, first, OTHER).held
        assert not found(FACT, second, OTHER).held


@given(st.lists(st.integers(min_value=30, max_value=80), min_size=1, max_size=6), st.randoms())
def test_no_cut_of_a_text_loses_any_part_of_it(sizes: list[int], draw: random.Random) -> None:
    text = f"{BEFORE} {FACT} {AFTER} {OTHER}"
    chunks, start = [], 0
    for size in sizes:
        chunks.append(text[start : start + size])
        start += size
    chunks.append(text[start:])
    draw.shuffle(chunks)
    assert all(one.held for one in locate((BEFORE, FACT, AFTER, OTHER), tuple(chunks)))


def test_one_chunk_may_hold_two_pieces_of_evidence() -> None:
    assert [one.complete for one in locate((FACT, OTHER), (BEFORE, f"{FACT} {OTHER}"))] == [2, 2]


def test_half_of_the_evidence_is_carried_and_not_held() -> None:
    half = " ".join(FACT.split()[:9])
    one = found(FACT, OTHER, f"{BEFORE} {half}")
    assert (one.held, one.first, one.carriers) == (False, None, (2,))
    assert one.share == pytest.approx(9 / 16)


def test_a_sentence_that_is_missing_in_the_middle_is_missed() -> None:
    long = " ".join(f"word{number}" for number in range(100))
    evidence = f"{long} The fee is nine euros. {long[::-1]}"
    assert not found(evidence, f"{long} {long[::-1]}").held  # 97 % of its words are there
    assert found(evidence, evidence.replace("nine", "ten")).held  # one word


def test_short_evidence_must_be_there_word_for_word() -> None:
    assert found("founded in 1931", "It was founded in 1931.").held
    assert not found("founded in 1931", "It was founded in 1902.").held
    assert found("Arden", "the mayor of Arden").held
    assert not found("Arden", "the warden of the park").held
    assert found("…", "anything … at all") == Found(0.0, None, ())


def test_scripts_without_spaces_are_compared_by_character() -> None:
    text = "桥梁于一九三一年五月四日由市长宣布通车"
    assert found(text, f"这座城市位于河的两岸。{text}。市场在广场上。").held
    assert found(text, f"这座城市位于河的两岸。{text[:9]}", f"{text[9:]}。市场").held
    assert not found(text, "桥梁于一九六八年五月四日由市长宣布关闭").held


def test_texts_that_repeat_themselves_take_no_longer_than_others() -> None:
    row = "0 " * 90
    assert found(row, row).held
    many = "0 " * 50_000
    assert not found(many, *[many[: 2 * n] for n in range(1000, 1200)]).held


def test_long_evidence_is_held_wherever_it_is_cut() -> None:
    long = " ".join(f"word{number}" for number in range(5000))
    assert found(long, long[:20_003], long[20_003:]).held


def test_texts_with_the_same_words_count_once() -> None:
    assert distinct(("A b.", "a  B", "…", "c")) == ("A b.", "c")


# -- retrieval metrics by text ----------------------------------------------------------------------------------------


def score(name: str, evidence: tuple[str, ...], *contexts: str) -> Score:
    (metric,) = select_metrics([name])
    sample = Sample("a", "When?", reference_contexts=evidence)
    return metric.score(sample, Response("a", "", tuple(map(Context, contexts))), Judgements())


def value(name: str, evidence: tuple[str, ...], *contexts: str) -> float:
    one = score(name, evidence, *contexts)
    assert isinstance(one, Scored), one
    return one.value


def test_one_context_for_each_piece_of_evidence_scores_as_ids_do() -> None:
    draw = random.Random(0)
    names = ["recall@2", "recall@5", "precision@3", "hit_rate@1", "mrr", "mrr@2", "average_precision", "ndcg", "ndcg@3"]
    texts = [f"Fact {number} says that thing {number} is {number} metres long." for number in range(8)]
    for _ in range(30):
        ranked = draw.sample(texts, 5)
        relevant = draw.sample(texts, draw.randint(1, 4))
        by_id = Sample("a", "?", relevant_ids=dict.fromkeys(relevant, 1.0))
        by_text = Sample("a", "?", reference_contexts=tuple(relevant))
        response = Response("a", "", tuple(Context(text, text) for text in ranked))
        for metric in select_metrics(names):
            one, other = (metric.score(sample, response, Judgements()) for sample in (by_id, by_text))
            assert isinstance(one, Scored)
            assert isinstance(other, Scored)
            assert one.value == pytest.approx(other.value), metric.info.name


def test_a_split_piece_is_recalled_with_its_last_part_and_ranks_where_it_begins() -> None:
    half = len(FACT) // 2
    chunks = (FACT[:half], OTHER, FACT[half:])
    assert [value(f"recall@{k}", (FACT,), *chunks) for k in (1, 2, 3)] == [0.0, 0.0, 1.0]
    assert value("mrr", (FACT,), *chunks) == 1.0
    assert value("ndcg", (FACT,), *chunks) == 1.0
    assert value("precision@3", (FACT,), *chunks) == pytest.approx(2 / 3)
    assert value("average_precision", (FACT,), *chunks) == 1.0


def test_a_chunk_with_two_pieces_is_worth_both() -> None:
    assert value("recall@1", (FACT, OTHER), f"{FACT} {OTHER}", BEFORE) == 1.0
    assert value("ndcg", (FACT, OTHER), f"{FACT} {OTHER}") == 1.0
    assert value("ndcg", (FACT, OTHER), BEFORE, f"{FACT} {OTHER}") == pytest.approx(
        2 / math.log2(3) / (1 + 1 / math.log2(3))
    )
    assert value("precision@2", (FACT, OTHER), f"{FACT} {OTHER}", BEFORE) == 0.5


def test_the_same_chunk_twice_counts_once() -> None:
    assert value("mrr", (FACT,), OTHER, OTHER, FACT) == 0.5
    assert value("precision@2", (FACT,), FACT, FACT) == 0.5


def test_the_note_says_that_labels_are_texts() -> None:
    assert score("recall@5", (FACT, BEFORE), FACT, OTHER) == Scored(0.5, note="by text: 1 of 2 reference contexts")


def test_relevant_ids_come_first() -> None:
    (metric,) = select_metrics(["recall@5"])
    sample = Sample("a", "?", reference_contexts=(FACT,), relevant_ids={"x": 1.0})
    with_ids = Response("a", "", (Context(FACT, "y"),))
    assert metric.score(sample, with_ids, Judgements()) == Scored(0.0)
    assert isinstance(metric.score(sample, Response("a", "", (Context(FACT),)), Judgements()), Failed)


def test_without_labels_the_metrics_do_not_apply() -> None:
    reason = NotApplicable("the sample names neither relevant ids nor reference contexts")
    assert score("recall@5", (), FACT) == reason
    assert score("recall@5", ("…",), FACT) == reason


def test_no_contexts_score_zero() -> None:
    assert score("recall@5", (FACT,)) == Scored(0.0, note="no contexts were returned")


def test_measures_of_nothing_are_zero() -> None:
    nothing = ranking.Located((), frozenset())
    assert ranking.recall(nothing) == ranking.average_precision(nothing) == ranking.ndcg(nothing) == 0.0


# -- what became of the evidence --------------------------------------------------------------------------------------


def ranked(*texts: str, name: str = "old") -> tuple[Context, ...]:
    return tuple(Context(text, f"{name}-{rank}") for rank, text in enumerate(texts))


def change(before: tuple[Context, ...], now: tuple[Context, ...]) -> EvidenceChange | None:
    one = retrieval_change((FACT,), before, now)
    return None if one is None else one.change


CHUNKS = ranked(BEFORE, FACT, AFTER)


def test_evidence_that_is_where_it_was_is_kept() -> None:
    assert change(CHUNKS, CHUNKS) is EvidenceChange.KEPT
    assert change(CHUNKS, (CHUNKS[1], CHUNKS[0])) is EvidenceChange.KEPT


def test_another_id_or_another_chunk_is_rechunked() -> None:
    assert change(CHUNKS, ranked(BEFORE, FACT, name="new")) is EvidenceChange.RECHUNKED
    assert change(CHUNKS, ranked(f"{BEFORE} {FACT}", AFTER, name="new")) is EvidenceChange.RECHUNKED
    whole = f"{BEFORE} {FACT} {AFTER}"
    thirds = [" ".join(whole.split()[at : at + 6]) for at in range(0, len(whole.split()), 6)]
    assert change(CHUNKS, ranked(*thirds, name="new")) is EvidenceChange.RECHUNKED  # at rank 3, but nothing new above


def test_evidence_under_a_context_that_was_not_above_it_ranks_lower() -> None:
    assert change(CHUNKS, (CHUNKS[0], CHUNKS[2], CHUNKS[1])) is EvidenceChange.LOWER
    assert change(CHUNKS, ranked(BEFORE, OTHER, f"{FACT} {AFTER}", name="new")) is EvidenceChange.LOWER


def test_evidence_that_is_no_longer_returned_is_gone_with_what_is_left_of_it() -> None:
    half = " ".join(FACT.split()[:8])
    assert retrieval_change((FACT,), CHUNKS, ranked(BEFORE, OTHER)) == RetrievalChange(EvidenceChange.GONE, 0.0)
    assert retrieval_change((FACT,), CHUNKS, ranked(BEFORE, half)) == RetrievalChange(EvidenceChange.GONE, 0.5)
    assert retrieval_change((FACT,), CHUNKS, ()) == RetrievalChange(EvidenceChange.GONE, 0.0)


def test_the_worst_of_several_pieces_decides() -> None:
    now = ranked(BEFORE, FACT, name="new")
    assert retrieval_change((FACT, AFTER), CHUNKS, now) == RetrievalChange(EvidenceChange.GONE, 0.0)


def test_evidence_that_the_baseline_did_not_return_says_nothing() -> None:
    assert change(ranked(BEFORE), ranked(AFTER)) is None
    assert retrieval_change((), CHUNKS, CHUNKS) is None


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
    assert evidence_of(Sample("a", "?"), CHUNKS) == ()
