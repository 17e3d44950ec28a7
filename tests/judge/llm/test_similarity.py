"""Similarities: embeddings that are checked, and words in their place."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from ragstone.judge.abilities import DirectJudge, Preference
from ragstone.judge.protocol import Call, JudgementFailed, Ledger
from ragstone.judge.similarity import LexicalSimilarity


def lexical(question: str, *others: str) -> tuple[float, ...]:
    words = LexicalSimilarity(["When was the bridge opened?", "When was the mill opened?", "Who built the mill?"])
    return asyncio.run(words.cosines(question, others, call=Call("q1")))


@given(st.text(), st.text())
def test_similarities_of_words_are_in_range_and_symmetric(one: str, other: str) -> None:
    (forth,), (back,) = lexical(one, other), lexical(other, one)
    assert 0.0 <= forth <= 1.0
    assert forth == pytest.approx(back)


def ask(world: Any, judge: Any = None, call: Call | None = None) -> Any:
    judge = judge or world.judge()
    return world.run(judge.reverse_questions("When?", "In 1931.", n=3, call=call or Call("q1")))


def bad(data: object) -> Any:
    return lambda seen: web.json_response({"data": data, "usage": {}}) if seen.path.endswith("/embeddings") else None


def vectors(*rows: object) -> list[dict[str, object]]:
    return [{"index": at, "embedding": row} for at, row in enumerate(rows)]


@pytest.mark.parametrize(
    "data",
    [
        [],
        vectors([1.0], [1.0], [1.0]),
        vectors([0.0, 0.0], [1.0, 0.0], [1.0, 0.0], [1.0, 0.0]),
        vectors([1.0], [1.0, 2.0], [1.0], [1.0]),
        vectors("not base64!", [1.0], [1.0], [1.0]),
        vectors(None, [1.0], [1.0], [1.0]),
        vectors([], [], [], []),
        [{"index": 9, "embedding": [1.0]}] * 4,
    ],
)
def test_embeddings_that_are_none_fail_the_judgement_and_give_no_number(world: Any, data: object) -> None:
    world.fake.always = bad(data)
    with pytest.raises(JudgementFailed):
        ask(world, world.judge())


def test_both_encodings_are_read_and_the_index_counts(world: Any) -> None:
    """The fake's vectors depend on the length of a text and come in reverse order."""
    plain = ask(world, world.judge("openai-compatible:llama", embeddings="bge"))
    packed = ask(world, world.judge("openai:gpt-4o-mini"))
    assert plain.questions == packed.questions
    assert plain.similarities == pytest.approx(packed.similarities, abs=1e-6)
    assert all(0.9 < value <= 1.0 for value in plain.similarities)


def test_a_request_for_embeddings_is_booked_as_a_call(world: Any) -> None:
    call = Call("q1", ledger=Ledger())
    ask(world, call=call)
    assert (call.ledger.calls, len(world.fake.embeddings)) == (2, 1)
    assert call.ledger.input_tokens == 1000 + 7 * 4


def test_the_direct_baselines_give_a_grade_and_a_choice(world: Any) -> None:
    world.fake.fill = lambda schema, _data: (
        {"grade": {"value": 7}} if "grade" in schema["properties"] else {"better": {"which": "second"}}
    )
    judge = world.judge()
    assert isinstance(judge, DirectJudge)
    contexts = ["It opened in 1931."]
    score = world.run(judge.direct_score("faithfulness", "When?", "In 1931.", contexts, call=Call("q1")))
    pair = (("Maybe.", contexts), ("In 1931.", contexts))
    best = world.run(judge.direct_preference("answer_relevancy", "When?", *pair, call=Call("q1")))
    assert (score, best) == (0.7, Preference.SECOND)
    world.fake.fill = lambda _schema, _data: {"grade": {"value": 11}, "better": {"which": "both"}}
    with pytest.raises(JudgementFailed):
        world.run(judge.direct_score("faithfulness", "Why?", "In 1931.", contexts, call=Call("q1")))
    with pytest.raises(JudgementFailed):
        world.run(judge.direct_preference("faithfulness", "Why?", *pair, call=Call("q1")))


def test_an_answer_is_compared_with_all_references_in_one_request(world: Any, tmp_path: Path) -> None:
    judge = world.judge("openai:gpt-4o-mini", cache=tmp_path / "cache.sqlite")
    call = Call("q1", 0, Ledger())
    references = ["In 1931.", "Nineteen thirty-one, in spring."]
    similarity = world.run(judge.answer_similarity("In 1931.", references, call=call))
    assert similarity.cosines[0] == pytest.approx(1.0)
    assert similarity.cosines[1] < 1.0
    assert (len(world.fake.embeddings), len(world.fake.chats)) == (1, 0)
    again = world.run(judge.answer_similarity("In 1931.", ["In 1931.", "Nineteen thirty-one, in spring."], call=call))
    assert again == similarity
    assert (len(world.fake.embeddings), call.ledger.cached_calls) == (1, 1)


def test_a_provider_without_embeddings_gives_no_similarity(world: Any) -> None:
    judge = world.judge("anthropic:claude-haiku-4-5")
    with pytest.raises(JudgementFailed, match="the judge has no embeddings") as caught:
        world.run(judge.answer_similarity("In 1931.", ["In 1931."], call=Call("q1")))
    assert caught.value.not_applicable
