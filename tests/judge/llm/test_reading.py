"""What is read from a reply, and what is not: nothing is guessed."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.judge.cache import JudgementCache
from ragstone.judge.judgements import Statement
from ragstone.judge.llm import merging
from ragstone.judge.llm.provider import Stop
from ragstone.judge.llm.replies import Field, document_of, read_document, read_reply
from ragstone.judge.llm.reply_schemas import (
    answer_field,
    attribution_fields,
    check_text,
    context_fields,
    quote_fields,
    sentence_fields,
    support_fields,
)
from ragstone.judge.protocol import Call
from ragstone.system.response import Context

CONTEXTS = {
    "c1": "The filter is resistant up to 40 °C. It was opened in 1931. Infor-\nmation on drinking water, e-mail and "
    "R&amp;D costs 10 000 €. See the [pricing page](https://x.example/p) for rates. | Crew | €9 |\n| Solo | 5 |",
    "c2": "Tolls ended in 1968. It froze at -40 °C, at 1.5 bar.\n- 30 seats",
}
STATEMENTS = [Statement("s1", "It is."), Statement("s2", "It was.")]
SUPPORT = support_fields(STATEMENTS, CONTEXTS)
REFERENCE = attribution_fields(
    "It opened.", [Statement("r1", "It opened."), Statement("r2", "It is long.")], tuple(CONTEXTS)
)
USE = context_fields(tuple(CONTEXTS))
NEEDED = sentence_fields({"c1": 5, "c2": 5})
QUESTIONS = tuple(Field(("questions", f"q{number}"), check_text) for number in (1, 2))
LISTING = attribution_fields("It opened and it is long.", None, tuple(CONTEXTS))


def each(fields: Sequence[Field], group: str, *replies: object) -> list[tuple[Sequence[Field], str, object]]:
    return [(fields, group, items) for items in replies]


def read(fields: Sequence[Field], group: str, items: object) -> dict[Any, Any]:
    return read_reply(json.dumps({group: items}), Stop.COMPLETE, fields)


MISQUOTING = support_fields(STATEMENTS, CONTEXTS, allow_misquotes=True)


def verdict(evidence: object, quote: object = "resistant up to 40 °C", said: object = "supported") -> Any:
    item = {"id": "s1", "evidence": evidence, "against": [], "quote": quote, "verdict": said}
    return read(MISQUOTING, "verdicts", [item]).get(("verdicts", "s1"))


def test_each_form_is_read_by_id() -> None:
    values = read(REFERENCE, "reference_statements", [{"id": "r1", "text": "", "found_in": ["c2", "c1"]}])
    assert values == {("reference_statements", "r1"): {"found_in": ["c1", "c2"]}}
    needed = read(NEEDED, "contexts", [{"id": "c1", "needed": [3, 1]}, {"id": "c2", "needed": []}])
    assert needed == {("contexts", "c1"): {"needed": [1, 3]}, ("contexts", "c2"): {"needed": []}}
    used = read(USE, "contexts", [{"id": "C1 ", "use": "useful"}, {"id": "c2", "use": "not_useful"}])
    assert used == {("contexts", "c1"): {"use": "useful"}, ("contexts", "c2"): {"use": "not_useful"}}
    listed = read(LISTING, "reference_statements", [{"id": "r1", "text": "It opened.", "found_in": ["c1"]}])
    assert listed == {("reference_statements",): [{"text": "It opened.", "found_in": ["c1"]}]}


@pytest.mark.parametrize("against", [[], ["c2"], ["c1", "c2"]])
def test_a_context_that_contradicts_what_another_supports_is_recorded(against: list[str]) -> None:
    value = read(SUPPORT, "verdicts", [{**WHOLE, "against": against}])[("verdicts", "s1")]
    assert (value["verdict"], value["evidence"]) == ("supported", ["c1"])
    assert value.get("against", []) == [name for name in against if name != "c1"]
    assert read(SUPPORT, "verdicts", [{**WHOLE, "against": ["c9"]}]) == {}


QUOTE = "resistant up to 40 °C"
WHOLE: dict[str, Any] = {"id": "s1", "evidence": ["c1"], "quote": QUOTE, "verdict": "supported"}
ITEM: dict[str, Any] = {**WHOLE, "against": []}


@pytest.mark.parametrize(
    "item",
    [
        *({**WHOLE, "verdict": word} for word in ("SUPPORTED", "yes", None, ["supported"])),
        *({**WHOLE, "evidence": named} for named in (["c9"], [], "c1, c2", [1])),
        *({**WHOLE, "quote": quote} for quote in ("", "…", "Tolls ended in 1968", None, 7, [QUOTE], "x" * 5_000)),
        *({name: value for name, value in WHOLE.items() if name != left_out} for left_out in WHOLE),
        *("supported", None, True, []),
    ],
)
def test_a_verdict_that_the_form_does_not_allow_is_missing(item: object) -> None:
    assert read(SUPPORT, "verdicts", [item]) == {}
    assert read(SUPPORT, "verdicts", [WHOLE]).keys() == {("verdicts", "s1")}


@pytest.mark.parametrize("quote", ["up to 60 °C", "Tolls ended in 1968"])
def test_a_supported_statement_with_words_that_are_not_in_its_context_is_unquoted(quote: str) -> None:
    assert verdict(["c1"], quote) == {"evidence": ["c1"], "verdict": "supported", "unquoted": True}


@pytest.mark.parametrize(("quote", "kept"), [(QUOTE, QUOTE), ("", None), ("…", None), ("Tolls", None), (None, None)])
def test_a_contradiction_needs_no_quote_and_keeps_one_that_stands_there(quote: object, kept: str | None) -> None:
    value = verdict(["c1"], quote, "contradicted")
    assert (value["verdict"], value.get("quote")) == ("contradicted", kept)


@pytest.mark.parametrize(
    ("shown", "quote"),
    [
        ("It’s open on weekdays – and on Sundays.", "It's open on weekdays - and on Sundays"),
        ("Der „Filter“ ist bis 40 °C beständig", 'Der "Filter" ist bis 40 °C'),
        ("Use `arn --log=2` to **turn on** the log", "Use arn --log=2 to turn on the log"),
        ("Das Maß beträgt ½ l", "das mass beträgt 1⁄2 L"),
        ("东京是日本的首都。", "日本的首都"),
        ("The Filter is resistant\nup to 40 °C <<<only>>>.", "< < <only> > >"),
    ],
)
def test_a_quote_is_found_whatever_the_typography(shown: str, quote: str) -> None:
    fields = support_fields(STATEMENTS[:1], {"c1": shown})
    assert read(fields, "verdicts", [{**WHOLE, "quote": quote}])[("verdicts", "s1")]["quote"] == quote


@pytest.mark.parametrize(
    ("fields", "group", "items"),
    [
        *each(
            USE, "contexts", ["c1 useful"], [{"id": "c1", "use": "maybe"}], [{"use": "useful"}], {"c1": "useful"}, [7]
        ),
        *each(USE, "contexts", [{"id": "c1", "use": "useful"}, {"id": "C1", "use": "useful"}], [{"id": 1}], None),
        *each(USE, "contexts", [{"id": "c1 c2", "use": "useful"}], [{"id": ["c1"], "use": "useful"}]),
        *each(LISTING, "reference_statements", [], ["r1 It opened. | c1"], [{"id": "r1", "text": "", "found_in": []}]),
        *each(LISTING, "reference_statements", [{"text": "It opened."}], [{"text": "It.", "found_in": ["c9"]}], [None]),
        *each(NEEDED, "contexts", *([{"id": "c1", "needed": odd}] for odd in ([9], [-1], [1.5], ["1"], "1", [True]))),
        *each(REFERENCE, "reference_statements", *([{"id": "r1", "found_in": odd}] for odd in (["c9"], "c1", [None]))),
        *each(QUESTIONS, "questions", [{"id": "q1", "text": "x" * 4_001}]),
        *each(QUESTIONS, "questions", ["When?"], [{"id": "q1", "text": ""}], [{}, None], {"q1": {"text": "When?"}}),
    ],
)
def test_what_would_have_to_be_guessed_is_not_read(fields: Sequence[Field], group: str, items: object) -> None:
    assert read(fields, group, items) == {}


@pytest.mark.parametrize(
    ("fields", "group", "items"),
    [
        (SUPPORT, "verdicts", [{**ITEM, "quote": "up to 40 °C"}]),
        (MISQUOTING, "verdicts", [{**ITEM, "quote": "up to 60 °C", "against": ["c2"]}]),
        (SUPPORT, "verdicts", [{**ITEM, "evidence": [], "quote": "", "verdict": "unsupported"}]),
        (REFERENCE, "reference_statements", [{"id": "r1", "text": "", "found_in": ["c1", "c2"]}]),
        (LISTING, "reference_statements", [{"id": "r1", "text": "It opened.", "found_in": ["c1"]}]),
        (NEEDED, "contexts", [{"id": "c1", "needed": [1, 3]}]),
        (USE, "contexts", [{"id": "c1", "use": "not_useful"}]),
        (QUESTIONS, "questions", [{"id": "q1", "text": "When?"}, {"id": "q2", "text": "Who?"}]),
        (QUESTIONS, "questions", [{"id": "q1", "text": "x" * 4_000}]),
    ],
)
def test_what_was_read_is_read_again_from_the_cache(fields: Sequence[Field], group: str, items: object) -> None:
    values = read(fields, group, items)
    assert values
    assert read_document(json.loads(json.dumps(document_of(values))), fields) == values


LONG_QUOTE = "word " * 1_000


@pytest.mark.parametrize(
    ("quote", "kept"),
    [
        ("resistant up to 40 °C", "resistant up to 40 °C"),
        ("Tolls ended in 1968", ""),  # not in this context
        ("in", ""),
        ("", ""),
        (7, ""),
        (LONG_QUOTE, ""),
    ],
)
def test_a_quote_that_is_asked_for_again_is_one_or_empty(quote: object, kept: str) -> None:
    fields = quote_fields(STATEMENTS[:1], {"c1": f"{CONTEXTS['c1']} {LONG_QUOTE}"})
    assert read(fields, "quotes", [{"id": "s1", "quote": quote}]) == {("quotes", "s1"): {"quote": kept}}


def test_an_item_that_says_a_thing_twice_says_nothing() -> None:
    twice = '{"contexts": [{"id": "c1", "use": "useful", "use": "not_useful"}, {"id": "c2", "use": "useful"}]}'
    assert list(read_reply(twice, Stop.COMPLETE, USE)) == [("contexts", "c2")]


FOUND = (
    ("The filter … 40 °C", "filter [...] 40 °C", "the filter (...) 40 °C", "resistant up to 40 °C. It was ope"),
    ("“resistant up to”", "「resistant up to」", "″resistant up to″", "~~resistant~~ up to"),
    ("Information on drinking water", "drinking water, email and", "R&D costs"),
    ("See the pricing page for rates", "See the [pricing page](https://x.example/p) for", "(https://x.example/p)"),
    ("Crew €9", "| Crew | €9 |", "10\u202f000 €", "10000 €", "40 °C!", "40 °C。", "c1: resistant up to 40 °C", "40"),
    ('"resistant up to" and "opened in 1931"', "resistant up to 40 °C; opened in 1931"),
)
MISSING = (
    ("in", "is", "rink", "terisres", "filter is resistant … 6", "filter … a", "-40 °C", "- 40 °C", "−40", "+40 °C"),
    ("4", "up to 4", "193", "filter is resistant up to 4", "9 5", "95", "140 °C", "000 €", "1931 1"),
    ("Tolls ended in 1968", "beständig bis 40 °C", "; ;;", "&nbsp;&nbsp;", "c1: c1: and", "~40 °C", "supported"),
    ("filter; resistant; 60 °C", '"resistant" and "not"', "the filter is not resistant", "&#99999999;40"),
)


@pytest.mark.parametrize("quote", list(itertools.chain(*FOUND)))
def test_a_quote_is_found_whatever_its_markup(quote: str) -> None:
    assert verdict(["c1"], quote)["quote"] == quote


@pytest.mark.parametrize("quote", list(itertools.chain(*MISSING)))
def test_what_is_not_in_the_context_is_no_quote(quote: str) -> None:
    value = verdict(["c1"], quote)
    assert value is None or value["unquoted"] is True


@pytest.mark.parametrize(
    ("quote", "found"),
    [
        ("froze at -40 °C", True),
        ("40 °C", False),
        ("1.5 bar", True),
        ("5 bar", False),
        ("at 1", False),
        ("15 bar", False),
        ("30 seats", True),
        ("-30 seats", False),
        ("1968. It froze", True),
    ],
)
def test_a_number_is_quoted_whole_with_its_sign(quote: str, found: bool) -> None:
    assert ("quote" in verdict(["c2"], quote)) is found
    assert ("quote" in verdict(["c1", "c2"], quote)) is (found or quote == "40 °C")


@pytest.mark.parametrize(
    ("text", "most"), [("x" * 10, 8), ("x" * 16, 8), ("x" * 40, 20), ("x" * 5_000, 400)], ids=["10", "16", "40", "5000"]
)
def test_a_text_of_n_words_makes_at_most_n_claims(text: str, most: int) -> None:
    fields = [answer_field(text)]
    for count, is_read in ((most, True), (most + 1, False)):
        listed = {"kind": "answers", "statements": [f"Claim {at}." for at in range(count)]}
        assert bool(read_reply(json.dumps({"answer": listed}), Stop.COMPLETE, fields)) is is_read


def test_a_reply_of_two_million_characters_is_read_and_a_longer_one_is_not() -> None:
    text = '{"contexts": [{"id": "c1", "use": "useful"}]}'
    padded = text + " " * (2_000_000 - len(text))
    assert read_reply(padded, Stop.COMPLETE, USE) == {("contexts", "c1"): {"use": "useful"}}
    assert read_reply(padded + " ", Stop.COMPLETE, USE) == {}


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("supported", "supported", ("supported", ["c1", "c2"])),
        ("supported", "contradicted", ("supported", ["c1"])),
        ("unsupported", "contradicted", ("contradicted", ["c2"])),
    ],
)
def test_the_strongest_verdict_keeps_the_evidence_of_the_parts_that_gave_it(
    one: str, other: str, expected: tuple[str, list[str]]
) -> None:
    parts: list[dict[Any, Any]] = [
        {("verdicts", "s1"): {"verdict": said, "evidence": [context]}} for said, context in ((one, "c1"), (other, "c2"))
    ]
    merged_verdict: Any = merging.merge_support(parts)[("verdicts", "s1")]
    assert (merged_verdict["verdict"], sorted(merged_verdict["evidence"])) == expected
    assert merged_verdict.get("against") == (["c2"] if (one, other) == ("supported", "contradicted") else None)


VERDICTS = st.sampled_from(["supported", "unsupported", "contradicted"])
PARTS = st.lists(
    st.fixed_dictionaries({"verdict": VERDICTS}, optional={"probability": st.sampled_from([0.0, 0.1, 0.4, 0.9, 1.0])}),
    min_size=1,
    max_size=4,
)


@given(PARTS, st.randoms())
def test_parts_are_merged_alike_in_every_order(parts: list[dict[str, Any]], order: Any) -> None:
    def merged(several: Sequence[dict[str, Any]]) -> Any:
        return merging.merge_support([{("verdicts", "s1"): {"evidence": [], **one}} for one in several])

    merged_verdict = merged(parts)[("verdicts", "s1")]
    assert merged(order.sample(parts, len(parts))) == {("verdicts", "s1"): merged_verdict}
    sure = [one.get("probability", float(one["verdict"] == "supported")) for one in parts]
    assert merged_verdict.get("probability", float(merged_verdict["verdict"] == "supported")) == max(sure)


HOSTILE = [
    '{"value": {"evidence": ["c99"], "verdict": "supported", "quote": "One."}}',
    *("", "{", "null", "7", '"x"', "[" * 900 + "]" * 900, "9" * 5_000, '{"value": NaN}', '{"a": 1' + "0" * 400 + "}"),
    '{"value": {"evidence": ["c1"], "verdict": "supported", "quote": "Three.", "probability": 1' + "0" * 400 + "}}",
    '{"value": {"evidence": {"c1": 1}, "verdict": ["supported"], "quote": 7}, "similarities": "no"}',
    '{"questions": {"q1": "When?"}, "similarities": [1' + "0" * 400 + ", NaN, Infinity]}",
    *(
        '{"questions": {"q1": {"text": "A?"}, "q2": {"text": "B?"}, "q3": {"text": 7}}, "similarities": [' + odd + "]}"
        for odd in ("1e999, 9, 9", "1" + "0" * 400 + ", 0, 0", "true, 0, 0", "0, 0", "-2, 0, 0")
    ),
    '{"statements": ["\\ud800", 7], "contexts": {"c1": {"line": ' + "[" * 900 + "]" * 900 + "}}}",
    '{"answer": {"kind": "answers", "statements": "all"}}',
]


def everything(world: Any, judge: Any) -> list[object]:
    contexts, call = [Context("One."), Context("Two.")], Call("q1")
    return [
        world.run(judge.statements("When?", "One. Two.", call=call)),
        world.run(judge.support(contexts, STATEMENTS, call=call)),
        world.run(judge.context_use("When?", "One.", "It.", contexts, call=call)),
        world.run(judge.context_use("When?", None, "It.", contexts, call=call)),
        world.run(judge.reverse_questions("When?", "One.", n=3, call=call)),
        world.run(judge.answer_similarity("One.", ["Two."], call=call)),
        world.run(judge.reference_match("When?", "One.", STATEMENTS, "It.", call=call)),
        world.run(judge.context_relevance("When?", contexts, call=call)),
        world.run(judge.entities("A sentence for names.", call=call)),
    ]


@pytest.mark.parametrize("value", [*HOSTILE, b"\xff\xfe", b'{"value": 1}', None])
def test_an_entry_of_a_cache_that_is_not_ours_is_a_miss_and_is_replaced(
    world: Any, tmp_path: Path, value: object
) -> None:
    path = tmp_path / "judgements.sqlite"
    first = world.judge("openai:gpt-4o-mini", cache=path)
    expected = everything(world, first)
    world.run(first.close())
    requests = len(world.fake.seen)
    cache = JudgementCache(path)
    how = "CAST(? AS TEXT)" if isinstance(value, bytes) and value.startswith(b"\xff") else "?"
    cache._db.execute(f"UPDATE judgements SET value = coalesce({how}, zeroblob(8))", (value,))  # type: ignore[union-attr]
    cache.close()
    for _ in range(2):
        again = world.judge("openai:gpt-4o-mini", cache=path)
        assert everything(world, again) == expected
        world.run(again.close())
        assert len(world.fake.seen) == 2 * requests
