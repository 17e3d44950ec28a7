"""Partners of golden questions: what changes, what stays, and that equal seeds make equal partners."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.golden.perturb import KINDS, NO_QUESTION, WRITTEN, draw, partner, partners
from ragstone.golden.sample import Assertions, GoldenSet, Review, Sample, Turn

SAMPLE = Sample(
    "q1",
    "How long may I return shoes without receipt A17?",
    reference="Not at all.",
    reference_contexts=("Shoes need a receipt.",),
    relevant_ids={"d1": 1.0},
    tags=("returns",),
    group="shoes",
    assertions=Assertions(must_contain=("receipt",)),
)


def asked(sample: Sample, kind: str, seed: int = 0) -> str:
    made = partner(sample, kind, seed=seed, written="Until when?" if kind in WRITTEN else None)
    assert made is not None
    assert made.perturbation is not None
    return made.perturbation.asked


@pytest.mark.parametrize("kind", KINDS)
def test_equal_seeds_make_equal_partners_and_other_seeds_others(kind: str) -> None:
    assert asked(SAMPLE, kind) == asked(SAMPLE, kind)
    if kind not in WRITTEN:
        assert len({asked(SAMPLE, kind, seed) for seed in range(20)}) > 1


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "empty"])
def test_a_partner_is_judged_as_its_original(kind: str) -> None:
    made = partner(SAMPLE, kind, seed=0, written="Until when?")
    assert made is not None
    assert made.id == f"q1~{kind}"
    assert (made.question, made.reference, made.group, made.tags) == (
        SAMPLE.question,
        SAMPLE.reference,
        SAMPLE.group,
        SAMPLE.tags,
    )
    assert made.content_hash() != SAMPLE.content_hash()


def test_nothing_is_a_right_answer_to_an_empty_question() -> None:
    made = partner(SAMPLE, "empty", seed=0)
    assert made is not None
    assert asked(SAMPLE, "empty").strip(" \n\u00a0\u200b") == ""
    assert made.question == NO_QUESTION
    assert not made.answerable
    assert (made.reference, made.reference_contexts, dict(made.relevant_ids), made.assertions) == (None, (), {}, None)


@pytest.mark.parametrize("seed", range(30))
def test_typos_change_a_few_words_and_no_number(seed: int) -> None:
    words, changed = SAMPLE.question.split(), asked(SAMPLE, "typos", seed).split()
    assert len(changed) == len(words)
    differing = [(one, other) for one, other in zip(words, changed, strict=True) if one != other]
    assert 1 <= len(differing) <= 2
    assert all(len(one) >= 4 and one[0] == other[0] and abs(len(one) - len(other)) <= 1 for one, other in differing)
    assert changed[-1] == "A17?"


@pytest.mark.parametrize("seed", range(30))
def test_the_marker_of_an_instruction_stands_nowhere_in_the_question(seed: int) -> None:
    made = partner(SAMPLE, "injection", seed=seed)
    assert made is not None
    assert made.perturbation is not None
    found = made.perturbation
    assert SAMPLE.question in found.asked
    assert found.marker is not None
    half = len(found.marker) // 2
    assert found.marker not in found.asked
    assert found.marker[:half] in found.asked
    assert found.marker[half:] in found.asked


def test_a_question_with_braces_does_not_become_part_of_the_template() -> None:
    sample = Sample("q", "What does {first} and {unknown} mean in a template?")
    assert all("{first} and {unknown}" in asked(sample, "injection", seed) for seed in range(10))


def test_a_long_question_ends_with_the_question() -> None:
    assert asked(SAMPLE, "long").endswith(f"\n\n{SAMPLE.question}")
    assert len(asked(SAMPLE, "long")) > 1000


def test_only_the_last_question_of_a_conversation_is_changed() -> None:
    chat = Sample("q", "And without the receipt?", history=(Turn("user", "How long may I return shoes?"),))
    made = partner(chat, "case", seed=0)
    assert made is not None
    assert made.history == chat.history


@pytest.mark.parametrize(
    ("kind", "question"), [("case", "退货期限是多久?"), ("typos", "1 + 1 = ?"), ("paraphrase", "x")]
)
def test_a_question_that_can_not_be_changed_has_no_partner(kind: str, question: str) -> None:
    assert partner(Sample("q", question), kind, seed=0) is None


@given(st.text(max_size=80), st.text(min_size=1, max_size=20), st.sampled_from(sorted(set(KINDS) - WRITTEN)))
def test_any_question_has_a_partner_that_differs_or_none(question: str, sample_id: str, kind: str) -> None:
    made = partner(Sample(sample_id, question), kind, seed=7)
    if made is not None:
        assert made.perturbation is not None
        assert made.perturbation.asked != question
        assert made.perturbation.of == sample_id


def test_partners_never_take_the_id_of_a_sample() -> None:
    drawn = (SAMPLE, Sample("q1~case", "What is this?"))
    found = partners(drawn, ["case"], seed=0, written=lambda *_: None)
    assert len({*(one.id for one in found), "q1", "q1~case"}) == 4


def golden(n: int) -> GoldenSet:
    tags = ("easy", "hard")
    return GoldenSet(
        tuple(Sample(f"q{i}", f"Question {i}?", tags=(tags[i % 2],), answerable=i % 5 != 0) for i in range(n))
    )


def test_a_draw_takes_its_share_of_each_stratum_in_golden_order() -> None:
    drawn = draw(golden(100), 20, seed=3)
    assert len(drawn) == 20
    assert sum(not one.answerable for one in drawn) == 4
    assert sum(one.tags == ("easy",) for one in drawn) == 10
    ids = [int(one.id[1:]) for one in drawn]
    assert ids == sorted(set(ids))
    assert drawn == draw(golden(100), 20, seed=3)
    assert drawn != draw(golden(100), 20, seed=4)


def test_drafts_are_not_drawn_and_few_samples_are_all_drawn() -> None:
    draft = Sample("d", "Draft?", review=Review("draft"))
    assert draw((draft, *golden(3)), 20, seed=0) == golden(3).samples
