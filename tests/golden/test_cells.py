"""What a cell means: lists that were written into one, and the values of each kind of field."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from ragstone.golden import cells, promptfoo_assertions
from ragstone.golden.cells import MAX_HISTORY_MESSAGES, MAX_TEXT_CHARACTERS, CellError, to_contexts, to_passages
from ragstone.golden.expected_calls import MAX_CALLS, to_expected_calls
from ragstone.golden.profile import MISSING, kind_of, value_at
from ragstone.golden.rows import MAX_DEPTH
from ragstone.golden.sample import Assertion, ExpectedCall, Message


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ('{"a.md": "One.", "b.md": "Two."}', [{"id": "a.md", "text": "One."}, {"id": "b.md", "text": "Two."}]),
        ('{"1": {"id": 30, "text": "One."}}', [{"id": 30, "text": "One."}]),
        ('{"text": "One."}', [{"text": "One."}]),
        ('{"a": 1}', [{"a": 1}]),
        ({}, [{}]),
    ],
)
def test_documents_by_their_ids_keep_them(cell: object, expected: list[object]) -> None:
    assert to_passages(cell) == expected


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ('["One.", "Two."]', ("One.", "Two.")),
        ("['It\\'s one.', \"Two's\"]", ("It's one.", "Two's")),
        ("['One.\\nTwo lines.' 'Two.'\n 'Three.']", ("One.\nTwo lines.", "Two.", "Three.")),
        ("[{'text': 'One.', 'id': 7}]", ("One.",)),
        ("[1] is a citation.", ("[1] is a citation.",)),
        ("Use np.array([1, 2]) here.", ("Use np.array([1, 2]) here.",)),
        ("['Use np.array([1]) here.', 'Two.']", ("Use np.array([1]) here.", "Two.")),
        ("[see note] One.", ("[see note] One.",)),
        ("One. | Two.|Three.", ("One.", "Two.", "Three.")),
        ("| a | b |\n| 1 | 2 |", ("| a | b |\n| 1 | 2 |",)),
        ("x || y", ("x || y",)),
        ("a\n|\nb", ("a", "b")),
        ("One. |\nTwo.", ("One.", "Two.")),
        ("See:\n| a | b |\nend", ("See:\n| a | b |\nend",)),
        ("x |a\n|b", ("x", "a", "b")),
        ("[{'a': 'One.'}, {'text': 'Two.', **x}]", ("[{'a': 'One.'}, {'text': 'Two.', **x}]",)),
        ("[]", ()),
    ],
)
def test_every_notation_of_a_list_is_read(cell: str, expected: tuple[str, ...]) -> None:
    assert to_contexts(cell) == expected


@pytest.mark.parametrize(
    "cell",
    [
        "['One",
        "['One', 'Two",
        "['One' ... 'Nine']",
        '["One" "Two]',
        "array([",
        "[Document(page_content=...",
        "['a | b",
        "['One', x]",
        "array(['One'], dtype=object)",
    ],
)
def test_what_begins_like_a_list_and_is_none_is_refused(cell: str) -> None:
    with pytest.raises(CellError, match="begins like a list"):
        to_passages(cell)


@pytest.mark.parametrize(
    "cell",
    ["array([" + "],dtype=" * 1_000_000, "[" + "Node" * 1_000_000, "['a'" + " " * 5_000_000, "['" + "\\'" * 2_000_000],
    ids=["dtypes", "nodes", "spaces", "escapes"],
)
def test_a_cell_of_megabytes_takes_linear_time(cell: str) -> None:
    """With backtracking it would take hours."""
    with pytest.raises(CellError):
        to_contexts(cell)


CHAT = (Message("user", "q"), Message("assistant", "a"))
NO_VALUE = CellError
"""Stands for a value that is refused."""


@pytest.mark.parametrize(
    ("read", "cell", "value"),
    [
        (cells.to_text, [" ", None, "one", "two"], "one"),
        (cells.to_text, float("nan"), None),
        (cells.to_text, 0, "0"),
        (cells.to_text, "a\0b", NO_VALUE),
        (cells.to_text, "\ud800", NO_VALUE),
        (cells.to_text, "x" * MAX_TEXT_CHARACTERS, "x" * MAX_TEXT_CHARACTERS),
        (cells.to_text, "x" * (MAX_TEXT_CHARACTERS + 1), NO_VALUE),
        (cells.to_question, [], None),
        (cells.to_question, ["A?"], "A?"),
        (cells.to_question, ["A?", "B?"], NO_VALUE),
        (cells.to_question, [{"role": "assistant", "content": "A?"}], "A?"),
        (cells.to_question, [{"role": "user", "content": "A?"}, {"role": "user"}], "A?"),
        (cells.to_question, 3.0, NO_VALUE),
        (cells.to_question, [3], NO_VALUE),
        (cells.to_question, [["A?"]], NO_VALUE),
        (cells.to_expects_clarification, "clarification", True),
        (cells.to_expects_clarification, "answer", NO_VALUE),
        (partial(cells.to_items, split_bars=False), "a|b", ["a|b"]),
        (cells.is_empty_squad_answer, {"text": [], "answer_start": []}, True),
        (cells.is_empty_squad_answer, {"text": []}, False),
        (cells.is_empty_squad_answer, {"answer_start": []}, False),
        (cells.to_boolean, 0.0, False),
        (cells.to_boolean, " Yes ", True),
        (cells.to_boolean, 1.0, True),
        (cells.to_boolean, 2, NO_VALUE),
        (cells.to_boolean, 0.5, NO_VALUE),
        (cells.to_review_status, "Draft ", "draft"),
        (cells.to_review_status, "drafts", NO_VALUE),
        (cells.to_review_status, "active", None),
        (cells.to_id, 7.0, "7"),
        (cells.to_id, " 7 ", "7"),
        (cells.to_id, 7.5, NO_VALUE),
        (cells.to_id, "a\nb", NO_VALUE),
        (cells.to_id, True, NO_VALUE),
        (cells.to_id, " ", NO_VALUE),
        (cells.to_id, "x" * 512, "x" * 512),
        (cells.to_id, "x" * 513, NO_VALUE),
        (cells.to_positive_integer, "12", 12),
        (cells.to_positive_integer, 1, 1),
        (cells.to_positive_integer, 0, NO_VALUE),
        (cells.to_positive_integer, 1.5, NO_VALUE),
        (cells.to_positive_integer, True, NO_VALUE),
        (cells.to_positive_integer, 10_000_000, 10_000_000),
        (cells.to_positive_integer, 10_000_001, NO_VALUE),
        (cells.to_bounds, {"mrr": 1, "recall": 0, "faithfulness": None}, {"mrr": 1.0, "recall": 0.0}),
        (cells.to_bounds, {"mrr": -0.1}, NO_VALUE),
        (cells.to_bounds, {"mrr": 1.1}, NO_VALUE),
        (cells.to_messages, '[["q", "a"]]', CHAT),
        (cells.to_messages, [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}], CHAT),
        (cells.to_messages, [{"type": "human", "content": "q"}, {"type": "ai", "text": "a"}], CHAT),
        (cells.to_messages, [{"role": "tool", "content": "{}"}, {"role": "user", "content": " "}, ["q", "a"]], CHAT),
        (cells.to_messages, [["a", "b", "c"]], NO_VALUE),
        (cells.to_messages, "He asked before", NO_VALUE),
        (cells.to_messages, [7], NO_VALUE),
        (cells.to_messages, [["x", "y"]] * (MAX_HISTORY_MESSAGES // 2 + 1), NO_VALUE),
        (cells.to_earlier_messages, [["q", "a"], {"role": "user", "content": "?"}], CHAT),
        (cells.to_earlier_messages, [{"role": "user", "content": "?"}, {"role": "user"}], ()),
        (lambda value: len(cells.to_messages(value)), [["x", "y"]] * (MAX_HISTORY_MESSAGES // 2), MAX_HISTORY_MESSAGES),
        (lambda value: len(to_expected_calls(value)), ["x"] * MAX_CALLS, MAX_CALLS),
        (to_expected_calls, [None, "", "a"], (ExpectedCall(("a",)),)),
        (to_expected_calls, "a, b", (ExpectedCall(("a",)), ExpectedCall(("b",)))),
        (to_expected_calls, '["a"]', (ExpectedCall(("a",)),)),
        (to_expected_calls, {"any_of": ["a", "b"]}, (ExpectedCall(("a", "b")),)),
        (to_expected_calls, {"name": "a", "arguments": '{"b": 1}'}, (ExpectedCall(("a",), {"b": 1}),)),
        (to_expected_calls, {"tool": "a", "match": "exact"}, (ExpectedCall(("a",), match="exact"),)),
        (to_expected_calls, [], ()),
        (to_expected_calls, {"name": "a", "tolerance": 0}, (ExpectedCall(("a",)),)),
        (to_expected_calls, {"name": "a", "tolerance": 1e999}, NO_VALUE),
        (to_expected_calls, {"any_of": "a"}, NO_VALUE),
        (to_expected_calls, {"any_of": []}, NO_VALUE),
        (to_expected_calls, [5], NO_VALUE),
        (to_expected_calls, " ", ()),
        (to_expected_calls, [" "], ()),
        (to_expected_calls, "x" * 200, (ExpectedCall(("x" * 200,)),)),
        (to_expected_calls, "x" * 201, NO_VALUE),
        (cells.to_hops, ["a hop", "b"], ()),
        (cells.to_hops, '[{"text": "a", "hop": 2}]', (2,)),
        (cells.to_hops, [{"text": "", "hop": 1}, {"text": "a"}], ()),
        (cells.to_hops, [{"text": "a"}, {"text": "b", "hop": 1}], (0, 1)),
        (cells.to_hops, [[], {"text": "a", "hop": 1}], (1,)),
        (cells.to_texts, ["", "one", None], ("one",)),
        (cells.to_texts, '["one", "two"]', ("one", "two")),
        (cells.to_texts, "[1, 2]", ("[1, 2]",)),
        (cells.to_texts, "[]", ("[]",)),
        (partial(cells.to_texts, can_split_string=False), '["one", "two"]', ('["one", "two"]',)),
        (partial(cells.to_texts, can_split_string=False), '[{"text": "one"}]', ("one",)),
        (cells.to_texts, {"text": None, "value": "one"}, ("one",)),
        (cells.to_contexts, [" ", [], "One."], ("One.",)),
        (cells.to_contexts, [{"text": None, "page_content": "One."}], ("One.",)),
        (cells.to_patterns, ["a|b", None, ""], ("a|b",)),
        (cells.to_patterns, "x" * 1000, ("x" * 1000,)),
        (cells.to_patterns, "x" * 1001, NO_VALUE),
        *((cells.to_patterns, pattern, NO_VALUE) for pattern in ("(", "(?=look)", "((a{1000}){1000}){1000}")),
        *((cells.to_phrases, phrase, (phrase,)) for phrase in ('"24"', '{"status": "ok"}')),
        (cells.to_phrases, "30 days | refund", ("30 days", "refund")),
        (to_contexts, '"Carpe diem"', ('"Carpe diem"',)),
        (cells.to_grades, "d1|d2", {"d1": 1.0, "d2": 1.0}),
        (cells.to_grades, "d1, d2; d3", {"d1": 1.0, "d2": 1.0, "d3": 1.0}),
        (cells.to_grades, '{"d1": 2, "d2": 0}', {"d1": 2.0, "d2": 0.0}),
        (cells.to_grades, {"id": "d1", "grade": 2}, {"d1": 2.0}),
        (cells.to_grades, {"d1": 2, "d2": None}, {"d1": 2.0}),
        (cells.to_grades, [" ", "d1"], {"d1": 1.0}),
        (cells.to_grades, {"d1": -1}, NO_VALUE),
        (cells.to_grades, {"d1": "x"}, NO_VALUE),
        (cells.to_grades, {"d1": 1e999}, NO_VALUE),
        (cells.to_grades, "{d1", NO_VALUE),
        (cells.to_grades, True, NO_VALUE),
        (cells.to_grades, [{"grade": 1}], NO_VALUE),
        (cells.to_tags, "a|b; c,a", ("a", "b", "c")),
        (cells.to_tags, ["a,b"], ("a,b",)),
    ],
)
def test_a_cell_is_read_as_its_kind_or_refused(read: Callable[[object], object], cell: object, value: object) -> None:
    if value is NO_VALUE:
        with pytest.raises(CellError):
            read(cell)
    else:
        assert read(cell) == value


def test_texts_may_be_as_deep_as_the_limit() -> None:
    nested: object = "one"
    for _ in range(MAX_DEPTH):
        nested = [nested]
    assert cells.to_text(nested) == "one"
    with pytest.raises(CellError, match="nested too deeply"):
        cells.to_texts([[nested]])


@pytest.mark.parametrize(
    ("assertion", "said"),
    [
        ({"type": "javascript", "value": "output"}, "type 'javascript', which is not supported: use a function"),
        ({"type": "not-llm-rubric", "value": "rude"}, "use a rubric: [metrics.NAME]"),
        ({"type": "context-recall", "value": "x", "threshold": 0.8}, "as reference, and min = {context_recall"),
        ({"type": "contain", "value": "x"}, "type 'contain', which is not supported: Did you mean 'contains'?"),
        ({"type": "contains", "value": "x", "weight": 2}, "with 'weight', which is not supported"),
        ({"type": "contains", "value": ["x", "y"]}, "expected one text"),
        ({"type": "contains", "value": [["x"]]}, "contains ['x'] as the value of 'contains', expected one text"),
        ({"type": "contains-any"}, "as the value of 'contains-any'"),
        ({"type": "contains-any", "value": "a\nb, c"}, "new-line character"),
        ({"type": "is-json", "value": {"type": "object"}}, "expected no value (a JSON schema is not checked)"),
        ({"type": "regex", "value": "(?=x)"}, "not an RE2 pattern"),
        ({"type": 7}, "expected a list of objects such as"),
        ("x", "expected a list of objects such as"),
    ],
)
def test_an_assertion_that_can_not_be_checked_is_refused_by_name(assertion: object, said: str) -> None:
    with pytest.raises(CellError) as caught:
        promptfoo_assertions.to_assertions([assertion])
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "value", "values"),
    [
        ("contains", "a, b", ("a, b",)),
        ("contains-any", 'a, "b, c"', ("a", "b, c")),
        ("contains", 24.0, ("24",)),
        ("contains", 1.5, ("1.5",)),
        ("equals", True, ("true",)),
        ("not-contains", ["a"], ("a",)),
        ("is-json", None, ()),
    ],
)
def test_the_values_of_an_assertion_are_texts(kind: str, value: object, values: tuple[str, ...]) -> None:
    (assertion,) = promptfoo_assertions.to_assertions([{"type": kind, "value": value, "metric": "label", "weight": 1}])
    assert assertion == Assertion(kind, values)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (None, ("", " ", None, [])),
        ("text", ("text",)),
        ("list", (["a"],)),
        ("objects", ([{}],)),
        ("object", ({},)),
        ("bool", (True,)),
        ("fraction", (1, 0.0, "1")),
        ("number", (1.1, -1)),
    ],
    ids=str,
)
def test_the_kind_of_a_value(kind: str | None, values: tuple[object, ...]) -> None:
    assert {kind_of(value) for value in values} == {kind}


@pytest.mark.parametrize(
    ("value", "path", "found"),
    [
        ({"a": {"b": 1}}, "a.b", 1),
        ({"a.b": 2, "a": {"b": 1}}, "a.b", 2),
        ({"a": 1}, "b", MISSING),
        ({"a": 1}, "a.b", MISSING),
        ([{"a": 1}, {}, {"a": 2}], "a", [1, 2]),
        ([{}], "a", MISSING),
        ([{"a": 1}], "0.a", 1),
        ([{"a": 1}], "1.a", MISSING),
        ([{"1234567890": 1}], "1234567890", [1]),
        ([{"٣": 1}], "٣", [1]),
    ],
)
def test_a_path_leads_into_objects_and_lists(value: object, path: str, found: object) -> None:
    assert value_at(value, path) == found
