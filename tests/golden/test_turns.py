"""Golden rows with the turns of a conversation, or with those before a question."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragstone.errors import GoldenSetError
from ragstone.golden.conversations import MAX_CONVERSATION_TURNS
from ragstone.golden.load import load_golden_set
from ragstone.golden.mtrag import read_mtrag
from ragstone.golden.native_format import native_lines
from ragstone.golden.sample import ConversationTurn, Message
from tests.golden.loading import load_rows

ORDER: dict[str, Any] = {
    "id": "order-17",
    "tags": ["orders"],
    "turns": [
        "Where is order 17?",
        {
            "question": "Which day will that be?",
            "reference": "Friday.",
            "other_references": ["On Friday."],
            "reference_contexts": ["Order 17 arrives on Friday."],
            "relevant_ids": {"orders.md#17": 2},
            "tags": ["dates"],
            "must_contain": ["Friday"],
            "min": {"faithfulness": 0.5},
        },
        {"question": "And the other one?", "expects": "clarification"},
        {"question": "Who drives it?", "answerable": False, "group": "drivers"},
    ],
}


def test_each_turn_is_a_sample(tmp_path: Path) -> None:
    first, second, third, fourth = load_rows(tmp_path, ORDER)
    assert [sample.id for sample in (first, second, third, fourth)] == [f"order-17/turn-{n}" for n in (1, 2, 3, 4)]
    assert [one.turn for one in (first, fourth)] == [ConversationTurn("order-17", n, 4) for n in (1, 4)]
    assert (second.question, second.references) == ("Which day will that be?", ("Friday.", "On Friday."))
    assert (second.reference_contexts, second.relevant_ids) == (("Order 17 arrives on Friday.",), {"orders.md#17": 2.0})
    assert second.assertions is not None
    assert (second.assertions.must_contain, second.min) == (("Friday",), {"faithfulness": 0.5})
    assert [sample.tags for sample in (first, second)] == [("orders",), ("orders", "dates")]
    assert [sample.expects_clarification for sample in (second, third)] == [False, True]
    assert [sample.answerable for sample in (third, fourth)] == [True, False]
    assert [sample.group for sample in (third, fourth)] == ["order-17", "drivers"]
    assert fourth.history == tuple(Message("user", sample.question) for sample in (first, second, third))
    assert fourth.origin is not None
    assert fourth.origin.line == 1


def test_the_references_of_earlier_turns_are_its_history_where_that_is_wanted(tmp_path: Path) -> None:
    turns = [{"question": "a?", "reference": "A."}, {"question": "b?", "reference": "B."}, "c?"]
    messages = (Message("user", "a?"), Message("assistant", "A."), Message("user", "b?"), Message("assistant", "B."))
    said, by_setting = (
        load_rows(tmp_path, {"id": "x", "history": "reference", "turns": turns}).samples[2],
        load_rows(tmp_path, {"id": "x", "turns": turns}, history="reference").samples[2],
    )
    assert said == by_setting
    assert said.turn == ConversationTurn("x", 3, 3, own_history=False)
    assert said.history == messages
    own = load_rows(tmp_path, {"id": "x", "history": "own", "turns": turns}, history="reference").samples[2]
    assert own.turn == ConversationTurn("x", 3, 3)


def test_messages_as_turns_have_the_answers_of_the_assistant_as_references(tmp_path: Path) -> None:
    chat = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "a?", "reference_contexts": ["A is a letter."]},
        {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "tool", "content": "{}"},
        {"role": "assistant", "content": "A."},
        {"role": "tool", "content": "{}"},
        {"role": "user", "content": "b?"},
    ]
    first, second = load_rows(tmp_path, {"turns": chat})
    assert (first.question, first.reference, first.reference_contexts) == ("a?", "A.", ("A is a letter.",))
    assert (second.question, second.reference) == ("b?", None)
    assert second.history == (Message("user", "a?"),)


def test_an_id_is_derived_from_the_content_or_taken_from_the_name_of_a_conversation(tmp_path: Path) -> None:
    turns = ["a?", {"question": "b?", "reference": "B."}]
    ids = [
        load_rows(tmp_path, {"turns": given}).samples[0].id
        for given in (turns, ["a?", {"question": "b?", "reference": "C."}], turns)
    ]
    assert ids[0] == ids[2] != ids[1]
    assert ids[0].startswith("c-")
    assert load_rows(tmp_path, {"conversation_id": "k-3", "turns": turns}).samples[1].id == "k-3/turn-2"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("golden.json", json.dumps({"conversations": [ORDER]})),
        ("golden.json", json.dumps(ORDER)),
        ("golden.csv", 'id,tags,turns\norder-17,orders,"{}"\n'.format(json.dumps(ORDER["turns"]).replace('"', '""'))),
    ],
)
def test_formats_of_a_conversation(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    samples = load_golden_set([str(tmp_path / name)]).samples
    expected = load_rows(tmp_path, ORDER).samples
    assert [(one.id, one.content_hash(), one.tags) for one in samples] == [
        (one.id, one.content_hash(), one.tags) for one in expected
    ]
    assert all(one.origin is not None and one.origin.line for one in samples)


def test_conversations_and_questions_may_stand_in_one_file(tmp_path: Path) -> None:
    golden = load_rows(tmp_path, {"id": "a", "question": "a?"}, ORDER, {"id": "b", "question": "b?"})
    assert [sample.turn is None for sample in golden] == [True, False, False, False, False, True]
    own_name = load_rows(tmp_path, {"frage": "a?"}, {"id": "x", "turns": ["b?"]}, columns={"question": "frage"})
    assert [sample.question for sample in own_name] == ["a?", "b?"]


def test_a_limit_reads_conversations_to_their_end(tmp_path: Path) -> None:
    rows = [{"id": "a", "question": "a?"}, ORDER, {"id": "x", "turns": ["b?", "c?"]}]
    sizes = [len(load_rows(tmp_path, *rows, limit=limit)) for limit in (1, 2, 5, 6, 7)]
    assert sizes == [1, 5, 5, 7, 7]
    assert load_rows(tmp_path, *rows, limit=5).is_limited
    assert not load_rows(tmp_path, *rows, limit=6).is_limited


@pytest.mark.parametrize(
    "row",
    [
        ORDER,
        {"id": "x", "history": "reference", "turns": [{"question": "a?", "reference": "A."}, "b?"]},
        {"id": "x", "group": "g", "turns": ["a?", "b?"]},
    ],
)
def test_a_converted_conversation_is_read_as_the_same_samples(tmp_path: Path, row: dict[str, Any]) -> None:
    golden = load_rows(tmp_path, row)
    (line,) = native_lines(golden)
    again = load_rows(tmp_path, json.loads(line), history="reference" if "reference" not in str(row) else "own")
    assert again.samples == golden.samples


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"id": "c7", "turns": ["a?", "b?", {"reference": "C."}]}, "no question: turn 3 of conversation 'c7'"),
        ({"turns": ["a?", {"question": " "}]}, "no question: turn 2 of the conversation"),
        ({"id": "c7", "turns": ["a?", 7]}, "turn 2 of conversation 'c7' is 7, expected a text or an object"),
        ({"id": "c7", "turns": "a?"}, "column 'turns' contains 'a\\?', expected a list of turns"),
        ({"turns": ["a?"] * (MAX_CONVERSATION_TURNS + 1)}, "has 101 turns; 1 to 100 are allowed"),
        ({"turns": [{"role": "assistant", "content": "Hello."}]}, "has 0 turns; 1 to 100"),
        ({"turns": ["a?"], "question": "b?"}, "'question' stands beside 'turns'"),
        ({"turns": ["a?", "b?"], "ground_truth": "B."}, "'ground_truth' stands beside 'turns'"),
        ({"turns": ["a?", "b?"], "history": "reference"}, "turn 1 of the conversation has no reference"),
        ({"turns": ["a?"], "history": "none"}, "contains 'none', expected own or reference"),
        ({"turns": [{"question": "a?", "expects": "an answer"}]}, "contains 'an answer', expected clarification"),
        ({"turns": ["a?", {"question": "b?", "history": ["x"]}]}, "turn 2 of the .* has 'history' of its own"),
        ({"tags": [{"a": 1}], "turns": [{"question": "a?", "tags": "t"}]}, "'tags' of turn 1 of the conversation"),
    ],
)
def test_what_is_no_conversation_is_refused_with_its_place(tmp_path: Path, row: dict[str, Any], says: str) -> None:
    assert len(load_rows(tmp_path, {"turns": ["a?"] * MAX_CONVERSATION_TURNS})) == 100
    with pytest.raises(GoldenSetError, match=says) as error:
        load_rows(tmp_path, {"id": "c1", "turns": ["Is it?"]}, row)
    assert str(error.value.where).endswith("golden.jsonl:2")


@pytest.mark.parametrize("turns", [3, "", "two", {"first": "b?"}, None])
def test_beside_a_question_only_a_list_is_one_of_turns(tmp_path: Path, turns: object) -> None:
    (sample,) = load_rows(tmp_path, {"question": "a?", "turns": turns})
    assert sample.turn is None


@pytest.mark.parametrize("turn", [{"question": "a?", "content": "x"}, {"question": "a?", "role": "user"}])
def test_a_turn_that_is_no_message_is_read_by_its_columns(tmp_path: Path, turn: object) -> None:
    (sample,) = load_rows(tmp_path, {"turns": [turn], "question": "", "reference": None})
    assert (sample.question, sample.turn is not None) == ("a?", True)


SPOKEN = {"speaker": "user", "text": "a?"}


@pytest.mark.parametrize(
    "values",
    [
        {"messages": "a?"},
        {"messages": []},
        {"input": [SPOKEN], "targets": []},
        {"messages": [SPOKEN, {"speaker": "user"}]},
        {"messages": [SPOKEN, "b?"]},
        {"input": [SPOKEN]},
        {"input": "a?", "targets": [SPOKEN]},
    ],
)
def test_rows_that_are_none_of_mtrag_stay_as_they_are(values: dict[str, object]) -> None:
    assert read_mtrag(values) is values


@pytest.mark.parametrize(
    ("context", "is_relevant"),
    [
        ({"text": "A."}, True),
        ({"text": "A.", "feedback": {"relevant": {}}}, True),
        ({"text": "A.", "feedback": {"relevant": "no"}}, True),
        ({"text": "A.", "feedback": {"relevant": {"ann": "no"}}}, False),
        ({"text": "A.", "feedback": {"relevant": {"ann": {"value": "yes"}, "bob": {"value": "no"}}}}, False),
        ("A.", False),
    ],
)
def test_a_passage_of_mtrag_is_relevant_if_the_last_annotator_found_it_so(context: object, is_relevant: bool) -> None:
    row = read_mtrag({"input": [SPOKEN], "targets": [SPOKEN], "contexts": [context]})
    assert ("reference_contexts" in row) is is_relevant


def spoken(speaker: str, text: str, **more: Any) -> dict[str, Any]:
    return {"speaker": speaker, "text": text, "timestamp": 1, **more}


def passage(name: str, **verdicts: str) -> dict[str, Any]:
    relevant = {who: {"value": verdict} for who, verdict in verdicts.items()}
    return {"document_id": name, "text": f"Passage {name}.", "feedback": {"relevant": relevant}}


def test_a_conversation_of_mtrag(tmp_path: Path) -> None:
    row = {
        "author": "ann",
        "editor": "bob",
        "messages": [
            spoken("user", "a?", enrichments={"Question Type": ["Factoid"], "Answerability": ["ANSWERABLE"]}),
            spoken("agent", "A.", contexts=[passage("p1", ann="no", bob="yes"), passage("p2", ann="yes", bob="no")]),
            spoken("user", "b?", enrichments={"Answerability": ["UNANSWERABLE"], "Multi-Turn": ["Follow-up"]}),
            spoken("agent", "I don't know.", contexts=[]),
        ],
    }
    (tmp_path / "conversations.json").write_text(json.dumps([row]), encoding="utf-8")
    first, second = load_golden_set([str(tmp_path / "conversations.json")])
    assert (first.question, first.reference, first.tags, first.answerable) == ("a?", "A.", ("Factoid",), True)
    assert (first.reference_contexts, first.relevant_ids) == (("Passage p1.",), {"p1": 1.0})
    assert (second.question, second.answerable, second.turn is not None) == ("b?", False, True)
    assert second.history == (Message("user", "a?"),)


def test_a_task_of_mtrag_is_a_question_with_its_history(tmp_path: Path) -> None:
    task = {
        "task_id": "c<::>2",
        "conversation_id": "c",
        "turn": "2",
        "contexts": [{"document_id": "p1", "text": "Passage p1.", "score": 1.5}],
        "input": [spoken("user", "a?"), spoken("agent", "A."), spoken("user", "b?")],
        "targets": [spoken("agent", "B.")],
        "answerability": ["UNDERSPECIFIED"],
        "Question Type": ["Opinion"],
    }
    (sample,) = load_rows(tmp_path, task)
    assert (sample.id, sample.group, sample.question, sample.reference) == ("c<::>2", "c", "b?", "B.")
    assert sample.history == (Message("user", "a?"), Message("assistant", "A."))
    assert (sample.relevant_ids, sample.tags, sample.expects_clarification) == ({"p1": 1.0}, ("Opinion",), True)


def test_a_history_is_part_of_what_is_asked(tmp_path: Path) -> None:
    plain, one, other = (
        load_rows(tmp_path, {"question": "And then?", **row}).samples[0]
        for row in ({}, {"history": [["a", "b"]]}, {"history": [["a", "c"]]})
    )
    assert len({plain.content_hash(), one.content_hash(), other.content_hash()}) == 3
    assert len({plain.id, one.id, other.id}) == 3
    assert plain.id == load_rows(tmp_path, {"question": "And then?", "history": []}).samples[0].id
