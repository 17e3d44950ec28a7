"""What a cell means: lists that were written into one, and the values of each kind of field."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from ragstone.golden import asserted, cells
from ragstone.golden.cells import MAX_TEXT, MAX_TURNS, CellError, contexts, passages
from ragstone.golden.expected_calls import MAX_CALLS, expected_calls
from ragstone.golden.profile import MISSING, follow, kind_of
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
    assert passages(cell) == expected


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
    assert contexts(cell) == expected


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
        passages(cell)


@pytest.mark.parametrize(
    "cell",
    ["array([" + "],dtype=" * 1_000_000, "[" + "Node" * 1_000_000, "['a'" + " " * 5_000_000, "['" + "\\'" * 2_000_000],
    ids=["dtypes", "nodes", "spaces", "escapes"],
)
def test_a_cell_of_megabytes_takes_linear_time(cell: str) -> None:
    """With backtracking it would take hours."""
    with pytest.raises(CellError):
        contexts(cell)


CHAT = (Message("user", "q"), Message("assistant", "a"))
NO_VALUE = CellError
"""Stands for a value that is refused."""


@pytest.mark.parametrize(
    ("read", "cell", "value"),
    [
        (cells.text, [" ", None, "one", "two"], "one"),
        (cells.text, float("nan"), None),
        (cells.text, 0, "0"),
        (cells.text, "a\0b", NO_VALUE),
        (cells.text, "\ud800", NO_VALUE),
        (cells.text, "x" * MAX_TEXT, "x" * MAX_TEXT),
        (cells.text, "x" * (MAX_TEXT + 1), NO_VALUE),
        (cells.question, [], None),
        (cells.question, ["A?"], "A?"),
        (cells.question, ["A?", "B?"], NO_VALUE),
        (cells.question, [{"role": "assistant", "content": "A?"}], "A?"),
        (cells.question, [{"role": "user", "content": "A?"}, {"role": "user"}], "A?"),
        (cells.question, 3.0, NO_VALUE),
        (cells.question, [3], NO_VALUE),
        (cells.question, [["A?"]], NO_VALUE),
        (cells.is_clarification, "clarification", True),
        (cells.is_clarification, "answer", NO_VALUE),
        (partial(cells.listed, split_bars=False), "a|b", ["a|b"]),
        (cells.is_answerless, {"text": [], "answer_start": []}, True),
        (cells.is_answerless, {"text": []}, False),
        (cells.is_answerless, {"answer_start": []}, False),
        (cells.truth, 0.0, False),
        (cells.truth, " Yes ", True),
        (cells.truth, 1.0, True),
        (cells.truth, 2, NO_VALUE),
        (cells.truth, 0.5, NO_VALUE),
        (cells.status, "Draft ", "draft"),
        (cells.status, "drafts", NO_VALUE),
        (cells.status, "active", None),
        (cells.identifier, 7.0, "7"),
        (cells.identifier, " 7 ", "7"),
        (cells.identifier, 7.5, NO_VALUE),
        (cells.identifier, "a\nb", NO_VALUE),
        (cells.identifier, True, NO_VALUE),
        (cells.identifier, " ", NO_VALUE),
        (cells.identifier, "x" * 512, "x" * 512),
        (cells.identifier, "x" * 513, NO_VALUE),
        (cells.positive, "12", 12),
        (cells.positive, 1, 1),
        (cells.positive, 0, NO_VALUE),
        (cells.positive, 1.5, NO_VALUE),
        (cells.positive, True, NO_VALUE),
        (cells.positive, 10_000_000, 10_000_000),
        (cells.positive, 10_000_001, NO_VALUE),
        (cells.bounds, {"mrr": 1, "recall": 0, "faithfulness": None}, {"mrr": 1.0, "recall": 0.0}),
        (cells.bounds, {"mrr": -0.1}, NO_VALUE),
        (cells.bounds, {"mrr": 1.1}, NO_VALUE),
        (cells.turns, '[["q", "a"]]', CHAT),
        (cells.turns, [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}], CHAT),
        (cells.turns, [{"type": "human", "content": "q"}, {"type": "ai", "text": "a"}], CHAT),
        (cells.turns, [{"role": "tool", "content": "{}"}, {"role": "user", "content": " "}, ["q", "a"]], CHAT),
        (cells.turns, [["a", "b", "c"]], NO_VALUE),
        (cells.turns, "He asked before", NO_VALUE),
        (cells.turns, [7], NO_VALUE),
        (cells.turns, [["x", "y"]] * (MAX_TURNS // 2 + 1), NO_VALUE),
        (cells.earlier_turns, [["q", "a"], {"role": "user", "content": "?"}], CHAT),
        (cells.earlier_turns, [{"role": "user", "content": "?"}, {"role": "user"}], ()),
        (lambda value: len(cells.turns(value)), [["x", "y"]] * (MAX_TURNS // 2), MAX_TURNS),
        (lambda value: len(expected_calls(value)), ["x"] * MAX_CALLS, MAX_CALLS),
        (expected_calls, [None, "", "a"], (ExpectedCall(("a",)),)),
        (expected_calls, "a, b", (ExpectedCall(("a",)), ExpectedCall(("b",)))),
        (expected_calls, '["a"]', (ExpectedCall(("a",)),)),
        (expected_calls, {"any_of": ["a", "b"]}, (ExpectedCall(("a", "b")),)),
        (expected_calls, {"name": "a", "arguments": '{"b": 1}'}, (ExpectedCall(("a",), {"b": 1}),)),
        (expected_calls, {"tool": "a", "match": "exact"}, (ExpectedCall(("a",), match="exact"),)),
        (expected_calls, [], ()),
        (expected_calls, {"name": "a", "tolerance": 0}, (ExpectedCall(("a",)),)),
        (expected_calls, {"name": "a", "tolerance": 1e999}, NO_VALUE),
        (expected_calls, {"any_of": "a"}, NO_VALUE),
        (expected_calls, {"any_of": []}, NO_VALUE),
        (expected_calls, [5], NO_VALUE),
        (expected_calls, " ", ()),
        (expected_calls, [" "], ()),
        (expected_calls, "x" * 200, (ExpectedCall(("x" * 200,)),)),
        (expected_calls, "x" * 201, NO_VALUE),
        (cells.hops, ["a hop", "b"], ()),
        (cells.hops, '[{"text": "a", "hop": 2}]', (2,)),
        (cells.hops, [{"text": "", "hop": 1}, {"text": "a"}], ()),
        (cells.hops, [{"text": "a"}, {"text": "b", "hop": 1}], (0, 1)),
        (cells.hops, [[], {"text": "a", "hop": 1}], (1,)),
        (cells.texts, ["", "one", None], ("one",)),
        (cells.texts, '["one", "two"]', ("one", "two")),
        (cells.texts, "[1, 2]", ("[1, 2]",)),
        (cells.texts, "[]", ("[]",)),
        (partial(cells.texts, plural=False), '["one", "two"]', ('["one", "two"]',)),
        (partial(cells.texts, plural=False), '[{"text": "one"}]', ("one",)),
        (cells.texts, {"text": None, "value": "one"}, ("one",)),
        (cells.contexts, [" ", [], "One."], ("One.",)),
        (cells.contexts, [{"text": None, "page_content": "One."}], ("One.",)),
        (cells.patterns, ["a|b", None, ""], ("a|b",)),
        (cells.patterns, "x" * 1000, ("x" * 1000,)),
        (cells.patterns, "x" * 1001, NO_VALUE),
        *((cells.patterns, pattern, NO_VALUE) for pattern in ("(", "(?=look)", "((a{1000}){1000}){1000}")),
        *((cells.phrases, phrase, (phrase,)) for phrase in ('"24"', '{"status": "ok"}')),
        (cells.phrases, "30 days | refund", ("30 days", "refund")),
        (contexts, '"Carpe diem"', ('"Carpe diem"',)),
        (cells.grades, "d1|d2", {"d1": 1.0, "d2": 1.0}),
        (cells.grades, "d1, d2; d3", {"d1": 1.0, "d2": 1.0, "d3": 1.0}),
        (cells.grades, '{"d1": 2, "d2": 0}', {"d1": 2.0, "d2": 0.0}),
        (cells.grades, {"id": "d1", "grade": 2}, {"d1": 2.0}),
        (cells.grades, {"d1": 2, "d2": None}, {"d1": 2.0}),
        (cells.grades, [" ", "d1"], {"d1": 1.0}),
        (cells.grades, {"d1": -1}, NO_VALUE),
        (cells.grades, {"d1": "x"}, NO_VALUE),
        (cells.grades, {"d1": 1e999}, NO_VALUE),
        (cells.grades, "{d1", NO_VALUE),
        (cells.grades, True, NO_VALUE),
        (cells.grades, [{"grade": 1}], NO_VALUE),
        (cells.tags, "a|b; c,a", ("a", "b", "c")),
        (cells.tags, ["a,b"], ("a,b",)),
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
    assert cells.text(nested) == "one"
    with pytest.raises(CellError, match="nested too deeply"):
        cells.texts([[nested]])


@pytest.mark.parametrize(
    ("assertion", "said"),
    [
        ({"type": "javascript", "value": "output"}, "type 'javascript', which is not checked here: use a function"),
        ({"type": "not-llm-rubric", "value": "rude"}, "use a rubric: [metrics.NAME]"),
        ({"type": "context-recall", "value": "x", "threshold": 0.8}, "as reference, and min = {context_recall"),
        ({"type": "contain", "value": "x"}, "type 'contain', which is not checked here: Did you mean 'contains'?"),
        ({"type": "contains", "value": "x", "weight": 2}, "with 'weight', which is not supported"),
        ({"type": "contains", "value": ["x", "y"]}, "expected a text"),
        ({"type": "contains", "value": [["x"]]}, "contains ['x'] as the value of 'contains', expected text"),
        ({"type": "contains-any"}, "as the value of 'contains-any'"),
        ({"type": "contains-any", "value": "a\nb, c"}, "new-line character"),
        ({"type": "is-json", "value": {"type": "object"}}, "expected"),
        ({"type": "regex", "value": "(?=x)"}, "not an RE2 pattern"),
        ({"type": 7}, "expected a list of objects such as"),
        ("x", "expected a list of objects such as"),
    ],
)
def test_an_assertion_that_can_not_be_checked_is_refused_by_name(assertion: object, said: str) -> None:
    with pytest.raises(CellError) as caught:
        asserted.assertions([assertion])
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
    (assertion,) = asserted.assertions([{"type": kind, "value": value, "metric": "label", "weight": 1}])
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
        ("unit", (1, 0.0, "1")),
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
    assert follow(value, path) == found
