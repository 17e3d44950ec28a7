"""What is read from a reply, and what is not: nothing is guessed."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstone.judge.cache import JudgementCache
from ragstone.judge.judgements import Statement
from ragstone.judge.llm import merging
from ragstone.judge.llm.graded import with_probabilities
from ragstone.judge.llm.provider import ChatReply, Stop, Usage
from ragstone.judge.llm.quotes import Shown, stands_in
from ragstone.judge.llm.replies import Field, document_of, read_document, read_reply
from ragstone.judge.llm.reply_schemas import (
    answer_field,
    attribution_fields,
    context_fields,
    sentence_fields,
    support_fields,
    with_text,
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
QUESTIONS = tuple(Field(("questions", f"q{number}"), with_text) for number in (1, 2))
LISTING = attribution_fields("It opened and it is long.", None, tuple(CONTEXTS))


def each(fields: Sequence[Field], group: str, *replies: object) -> list[tuple[Sequence[Field], str, object]]:
    return [(fields, group, items) for items in replies]


def read(fields: Sequence[Field], group: str, items: object) -> Mapping[Any, Any]:
    return read_reply(json.dumps({group: items}), Stop.COMPLETE, fields)


MISQUOTING = support_fields(STATEMENTS, CONTEXTS, misquotes=True)


def verdict(evidence: object, quote: object = "resistant up to 40 °C", said: object = "supported") -> Any:
    item = {"id": "s1", "evidence": evidence, "against": [], "quote": quote, "verdict": said}
    return read(MISQUOTING, "verdicts", [item]).get(("verdicts", "s1"))


def test_each_form_is_read_by_id() -> None:
    found = read(REFERENCE, "reference_statements", [{"id": "r1", "text": "", "found_in": ["c2", "c1"]}])
    assert found == {("reference_statements", "r1"): {"found_in": ["c1", "c2"]}}
    needed = read(NEEDED, "contexts", [{"id": "c1", "needed": [3, 1]}, {"id": "c2", "needed": []}])
    assert needed == {("contexts", "c1"): {"needed": [1, 3]}, ("contexts", "c2"): {"needed": []}}
    used = read(USE, "contexts", [{"id": "C1 ", "use": "useful"}, {"id": "c2", "use": "not_useful"}])
    assert used == {("contexts", "c1"): {"use": "useful"}, ("contexts", "c2"): {"use": "not_useful"}}
    listed = read(LISTING, "reference_statements", [{"id": "r1", "text": "It opened.", "found_in": ["c1"]}])
    assert listed == {("reference_statements",): [{"text": "It opened.", "found_in": ["c1"]}]}


@pytest.mark.parametrize("evidence", [[], ["c1"], ["c9"], None, "none"])
def test_an_unsupported_statement_needs_no_context(evidence: object) -> None:
    assert verdict(evidence, "", "unsupported") == {"evidence": [], "verdict": "unsupported"}


@pytest.mark.parametrize("against", [[], ["c2"], ["c1", "c2"]])
def test_a_context_that_contradicts_what_another_supports_is_recorded(against: list[str]) -> None:
    found = read(SUPPORT, "verdicts", [{**WHOLE, "against": against}])[("verdicts", "s1")]
    assert (found["verdict"], found["evidence"]) == ("supported", ["c1"])
    assert found.get("against", []) == [name for name in against if name != "c1"]
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
    found = verdict(["c1"], quote, "contradicted")
    assert (found["verdict"], found.get("quote")) == ("contradicted", kept)


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
    ],
)
def test_what_was_read_is_read_again_from_the_cache(fields: Sequence[Field], group: str, items: object) -> None:
    found = read(fields, group, items)
    assert found
    assert read_document(json.loads(json.dumps(document_of(found))), fields) == found


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
    found = verdict(["c1"], quote)
    assert found is None or found["unquoted"] is True


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
        ("Tolls ended; 1968", True),
        ("c1: Tolls", True),
    ],
)
def test_a_number_is_quoted_whole_with_its_sign(quote: str, found: bool) -> None:
    assert ("quote" in verdict(["c2"], quote)) is found
    assert ("quote" in verdict(["c1", "c2"], quote)) is (found or quote == "40 °C")


# -- log-probabilities -------------------------------------------------------------------------------------------------

VALUES: Mapping[Any, Any] = {("verdicts", name): {"evidence": ["c1"], "verdict": "supported"} for name in ("s1", "s2")}


def chances(tokens: Any) -> dict[str, object]:
    found = with_probabilities(VALUES, ChatReply("", Stop.COMPLETE, Usage(), tokens=tokens))
    return {path[1]: value.get("probability") for path, value in found.items()}  # type: ignore[attr-defined]


def token(text: str, logprob: object = 0.0, *others: tuple[str, object]) -> dict[str, Any]:
    listed = [{"token": other, "logprob": value, "bytes": list(other.encode())} for other, value in others]
    return {"token": text, "logprob": logprob, "bytes": list(text.encode()), "top_logprobs": listed}


@pytest.mark.parametrize(
    "value", [-(10**400), 10**400, math.inf, -math.inf, math.nan, True, "0", None, [0.0], 1e308, 5]
)
def test_a_number_that_can_not_be_a_logarithm_of_a_probability_is_none(value: object) -> None:
    start = '{"verdicts":[{"id":"s1","evidence":["c1"],"quote":"a","verdict":"'
    assert chances([token(start), token("supported", value), token('"}]}')])["s1"] is None
    sure = token("supported", math.log(0.9), ("un", value))
    assert chances([token(start), sure, token('"}]}')])["s1"] == 1.0


@pytest.mark.parametrize("order", [("id", "quote", "verdict"), ("verdict", "id", "quote"), ("verdict", "quote", "id")])
def test_a_probability_goes_to_the_statement_of_its_own_item(order: Sequence[str]) -> None:
    tokens = [token('{"verdicts":[')]
    for name, chance in (("s1", 0.9), ("s2", 0.6)):
        members = {
            "id": f'"id":"{name}"',
            "quote": '"quote":"\\"id\\": \\"s9\\", {\\"verdict\\":\\"unsupported\\"}"',
        }
        for at, member in enumerate(order):
            tokens.append(token("{" if at == 0 else ","))
            if member == "verdict":
                tokens += [token('"verdict":"'), token("supported", math.log(chance), ("un", math.log(1 - chance)))]
                tokens.append(token('"'))
            else:
                tokens.append(token(members[member]))
        tokens.append(token("}," if name == "s1" else "}]}"))
    assert chances(tokens) == {"s1": 0.9, "s2": 0.6}


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just(10**400) | st.just(-(10**400)),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
TEXT = st.sampled_from(
    ['{"verdicts":[{"id":"s1","evidence":["c1"],"verdict":"', "supported", "un", '"}', '"', "\\", "{", "", "\udc80"]
)
TOKEN = ODD | st.fixed_dictionaries(
    {},
    optional={
        "token": TEXT | ODD,
        "logprob": st.floats(-20, 0) | ODD,
        "bytes": st.none() | st.lists(st.integers(-1, 300), max_size=9) | ODD,
        "top_logprobs": st.lists(st.fixed_dictionaries({"token": TEXT, "logprob": ODD}) | ODD, max_size=4) | ODD,
    },
)


@settings(deadline=None)
@given(st.lists(TOKEN, max_size=12))
def test_no_odd_log_probability_raises(tokens: list[object]) -> None:
    for chance in chances(tokens).values():
        assert chance is None or (isinstance(chance, float) and 0.0 <= chance <= 1.0)


@pytest.mark.parametrize("text", ['"\\', '"', "\\", '"id":', '"id":"', "{}", '"id":[', '"verdict":"', '"id" '])
def test_no_text_takes_long_to_look_through(text: str) -> None:
    assert chances([token(text * 100_000)]) == {"s1": None, "s2": None}


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
    ("quote", "is_there"),
    [
        ("resistant up to 40 °C", True),
        ("; ;", False),
        ("", False),
        ("resistant up to; opened in 1931", True),
        ("resistant up to; closed in 1931", False),
    ],
)
def test_each_quote_that_is_joined_has_to_stand_in_a_context(quote: str, is_there: bool) -> None:
    assert stands_in(quote, [Shown(CONTEXTS["c1"])]) is is_there
    assert stands_in(quote, []) is False


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
    parts: list[Mapping[Any, Any]] = [
        {("verdicts", "s1"): {"verdict": said, "evidence": [context]}} for said, context in ((one, "c1"), (other, "c2"))
    ]
    found: Any = merging.support(parts)[("verdicts", "s1")]
    assert (found["verdict"], sorted(found["evidence"])) == expected
    assert found.get("against") == (["c2"] if (one, other) == ("supported", "contradicted") else None)


VERDICTS = st.sampled_from(["supported", "unsupported", "contradicted"])
PARTS = st.lists(
    st.fixed_dictionaries({"verdict": VERDICTS}, optional={"probability": st.sampled_from([0.0, 0.1, 0.4, 0.9, 1.0])}),
    min_size=1,
    max_size=4,
)


@given(PARTS, st.randoms())
def test_parts_are_merged_alike_in_every_order(parts: list[dict[str, Any]], order: Any) -> None:
    def merged(several: Sequence[dict[str, Any]]) -> Any:
        return merging.support([{("verdicts", "s1"): {"evidence": [], **one}} for one in several])

    found = merged(parts)[("verdicts", "s1")]
    assert merged(order.sample(parts, len(parts))) == {("verdicts", "s1"): found}
    sure = [one.get("probability", float(one["verdict"] == "supported")) for one in parts]
    assert found.get("probability", float(found["verdict"] == "supported")) == max(sure)


def test_a_probability_in_the_cache_is_one_or_is_left_out() -> None:
    entry = {"evidence": ["c1"], "verdict": "supported", "quote": "opened in 1931"}
    for odd in (10**400, -1, 2.0, math.nan, math.inf, True, "1", [1]):
        assert SUPPORT[0].check({**entry, "probability": odd}) == entry
    assert SUPPORT[0].check({**entry, "probability": 0.1}) == {**entry, "probability": 0.1}


# -- a cache that somebody else wrote ----------------------------------------------------------------------------------

HOSTILE = [
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


def asked_with_entries(world: Any, path: Path, value: object) -> int:
    """Ask with a cache whose entries are all `value`: everything is asked again. Returns how many calls that takes."""
    first = world.judge("openai:gpt-4o-mini", cache=path)
    expected = everything(world, first)
    world.run(first.close())
    asked = len(world.fake.seen)
    cache = JudgementCache(path)
    how = "CAST(? AS TEXT)" if isinstance(value, bytes) and value.startswith(b"\xff") else "?"
    cache._db.execute(f"UPDATE judgements SET value = coalesce({how}, zeroblob(8))", (value,))  # type: ignore[union-attr]
    cache.close()

    second = world.judge("openai:gpt-4o-mini", cache=path)
    assert everything(world, second) == expected
    world.run(second.close())
    assert len(world.fake.seen) == 2 * asked
    return asked


@pytest.mark.parametrize("value", [*HOSTILE, b"\xff\xfe", b'{"value": 1}', None])
def test_an_entry_of_a_cache_that_is_not_ours_is_a_miss(world: Any, tmp_path: Path, value: object) -> None:
    asked_with_entries(world, tmp_path / "judgements.sqlite", value)


def test_a_reply_takes_the_place_of_an_entry_that_was_not_ours(world: Any, tmp_path: Path) -> None:
    asked = asked_with_entries(world, tmp_path / "judgements.sqlite", "7")
    third = world.judge("openai:gpt-4o-mini", cache=tmp_path / "judgements.sqlite")
    everything(world, third)
    assert len(world.fake.seen) == 2 * asked
