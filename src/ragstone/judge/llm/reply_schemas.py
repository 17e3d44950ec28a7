"""The fields of the model's replies, and the checks of their values."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ragstone.formatting import clipped
from ragstone.judge.abilities import Preference
from ragstone.judge.judgements import Statement, Statements, Support, Verdict
from ragstone.judge.llm.graded import PROBABILITY
from ragstone.judge.llm.prompts import KINDS, USES, VERDICTS
from ragstone.judge.llm.quotes import QuotableText, is_quote, is_quoted_from
from ragstone.judge.llm.replies import Field, FieldPath, Fields, Values
from ragstone.judge.llm.windows import restated_tokens
from ragstone.judge.untrusted_text import neutralise

Json = dict[str, object]
"""A JSON object."""
Check = Callable[[object], Json]
"""Returns a value in canonical form, or raises an exception if it is not valid."""

_MAX_STATEMENTS = 400
_MAX_TEXT_CHARACTERS = 4_000
_MAX_REASON_CHARACTERS = 200

UNQUOTED = "unquoted"
"""The key that marks a verdict whose quote is in none of the contexts that it names."""

ANSWER: FieldPath = ("answer",)
REFERENCE: FieldPath = ("reference_statements",)
"""Where the statements of a reference are: a list, or by id (r1, r2, …)."""


def as_object(value: object) -> Json:
    """`value`, if it is an object. Raises TypeError."""
    if not isinstance(value, dict):
        raise TypeError("not an object")
    return value


def one_of(value: object, words: Sequence[str]) -> str:
    """`value`, if it is one of `words`. Raises ValueError."""
    if not isinstance(value, str) or value not in words:
        raise ValueError("not one of the allowed words")
    return value


def choice_check(name: str, words: Sequence[str]) -> Check:
    """A check that the value called `name` of an object is one of `words`."""
    return lambda value: {name: one_of(as_object(value)[name], words)}


def answer_field(answer: str) -> Field:
    """The kind and the statements of an answer: none if it abstains, otherwise at least
    one."""

    def check(value: object) -> object:
        item = as_object(value)
        kind = one_of(item["kind"], KINDS)
        # Without duplicates, which would count twice.
        unique: dict[str, str] = {}
        for text in _texts(item["statements"]):
            unique.setdefault(text.casefold(), text)
        statements = list(unique.values())
        _check_count(len(statements), answer)
        abstains = kind == "abstains"
        has_statements = bool(statements)
        if abstains == has_statements:
            raise ValueError("kind and statements disagree")
        return {"kind": kind, "statements": statements}

    return Field(ANSWER, check, max_tokens=restated_tokens(answer))


def support_fields(
    statements: Statements,
    contexts: Mapping[str, str],
    *,
    allow_misquotes: bool = False,
) -> Fields:
    """A verdict for each statement, with its evidence among `contexts` (id to text),
    and a quote from it.

    A verdict other than "unsupported" needs evidence, and "supported" also a quote from
    it. With `allow_misquotes`, a quote that is in none of the evidence is left out, and
    the verdict is marked as unquoted.
    """
    names = tuple(contexts)

    @functools.cache
    def quotable(name: str) -> QuotableText:
        return QuotableText(neutralise(contexts[name]))

    def check(value: object) -> Json:
        item = as_object(value)
        verdict = one_of(item["verdict"], VERDICTS)
        checked: Json = {"evidence": [], "verdict": verdict}
        # A cached verdict has the probability that was computed for it.
        probability: Any = item.get(PROBABILITY)
        if type(probability) in (int, float) and 0.0 <= probability <= 1.0:
            checked[PROBABILITY] = probability
        if verdict == Verdict.UNSUPPORTED:
            return checked
        evidence = _ids(item["evidence"], names)
        if not evidence:
            raise ValueError("a verdict without evidence")
        checked["evidence"] = evidence
        quote = item.get("quote", "")
        has_quote = is_quote(quote)
        if has_quote and is_quoted_from(_text(quote), list(map(quotable, evidence))):
            checked["quote"] = _text(quote)
        if verdict == Verdict.SUPPORTED:
            against = _ids(item.get("against", []), names)
            against = [name for name in against if name not in evidence]
            if against:
                checked["against"] = against
            if "quote" not in checked:
                is_misquote_allowed = allow_misquotes and has_quote
                # A cached verdict may be marked already.
                if not is_misquote_allowed and item.get(UNQUOTED) is not True:
                    raise ValueError("a quote that is not in the evidence")
                checked[UNQUOTED] = True
        return checked

    max_tokens = 112 + 4 * len(contexts)
    return _by_statement("verdicts", statements, check, max_tokens)


def quote_fields(statements: Statements, contexts: Mapping[str, str]) -> Fields:
    """For each statement, a quote from one of `contexts`; empty if it is in none of
    them."""
    texts = [QuotableText(neutralise(text)) for text in contexts.values()]

    def check(value: object) -> Json:
        quote: Any = as_object(value)["quote"]
        is_short_quote = is_quote(quote) and len(quote) <= _MAX_TEXT_CHARACTERS
        if is_short_quote and is_quoted_from(quote, texts):
            return {"quote": _text(quote)}
        return {"quote": ""}

    return _by_statement("quotes", statements, check)


def context_fields(context_ids: Sequence[str]) -> Fields:
    """For each context, whether it is useful."""
    check = choice_check("use", USES)
    return tuple(Field(("contexts", name), check) for name in context_ids)


def attribution_fields(
    reference: str, statements: Statements | None, context_ids: Sequence[str]
) -> Fields:
    """For each statement of `reference`, the contexts in which it is found.

    If its `statements` are not known yet, the model lists them, with their texts.
    """

    def check(value: object) -> Json:
        return {"found_in": _ids(as_object(value)["found_in"], context_ids)}

    return _reference_fields(reference, statements, check)


def match_fields(
    answer_statements: Statements,
    reference: str,
    reference_statements: Statements | None,
) -> Fields:
    """Whether the reference supports each statement of the answer, and the answer each
    statement of the reference.

    If the statements of the reference are not known yet, the model lists them.
    """
    check = choice_check("verdict", VERDICTS)
    answer_fields = _by_statement("answer_verdicts", answer_statements, check)
    return answer_fields + _reference_fields(reference, reference_statements, check)


def sentence_fields(sentence_counts: Mapping[str, int]) -> Fields:
    """For each context that has sentences, the numbers of those that are needed, from
    1."""

    def check(value: object, *, count: int) -> object:
        needed = _list(as_object(value)["needed"])
        return {"needed": sorted({_number(number, 1, count) for number in needed})}

    fields = []
    for name, count in sentence_counts.items():
        if count:
            check_numbers = functools.partial(check, count=count)
            max_tokens = 64 + 4 * count
            fields.append(Field(("contexts", name), check_numbers, max_tokens))
    return tuple(fields)


def level_field(level_count: int) -> Field:
    """The number of a rubric's level, from 1, and the reason for it, truncated to what
    a note may hold."""

    def check(value: object) -> object:
        item = as_object(value)
        level = _number(item["level"], 1, level_count)
        reason = " ".join(_text(item["reason"]).split())
        return {"level": level, "reason": clipped(reason, _MAX_REASON_CHARACTERS)}

    return Field(("grade",), check, max_tokens=96)


def entities_field(text: str) -> Field:
    """The distinct entities of `text`, each of which must occur in it."""
    flat_text = _flat(neutralise(text))

    def check(value: object) -> object:
        names: dict[str, None] = {}
        entities = _texts(as_object(value)["names"])
        for entity in entities:
            names[" ".join(entity.split())] = None
            if _flat(entity) not in flat_text:
                raise ValueError("an entity that is not in the text")
        if len(entities) > _MAX_STATEMENTS:
            raise ValueError("more entities than a text can have")
        return {"names": list(names)}

    return Field(("entities",), check, max_tokens=restated_tokens(text))


def with_reference_by_id(values: Values) -> Values:
    """`values` with a list of the reference's statements turned into one value for each
    id (r1, r2, …), with its text."""
    by_id = {path: value for path, value in values.items() if path != REFERENCE}
    for number, item in enumerate(_list(values.get(REFERENCE, [])), start=1):
        by_id[*REFERENCE, f"r{number}"] = item
    return by_id


def listed_statements(values: Values) -> tuple[Statement, ...]:
    """The reference's statements, from the result of `with_reference_by_id` for a reply
    that lists them."""
    return tuple(
        Statement(path[1], str(as_object(value)["text"]))
        for path, value in values.items()
        if path[:1] == REFERENCE
    )


def support_of(
    statement_id: str,
    verdict: object,
    evidence: Sequence[str] = (),
    quote: str | None = None,
    probability: float | None = None,
    against: Sequence[str] = (),
    unquoted: bool = False,
) -> Support:
    """The Support that a checked verdict stands for.

    A Support names the evidence for a statement, not the evidence against it.
    """
    parsed_verdict = Verdict(str(verdict))
    supported_by: tuple[str, ...] = ()
    if parsed_verdict is Verdict.SUPPORTED:
        supported_by = tuple(evidence)
    return Support(
        statement_id,
        parsed_verdict,
        supported_by=supported_by,
        probability=probability,
        quote=quote,
        contradicted_by=tuple(against),
        unquoted=unquoted,
    )


def _by_statement(
    group: str, statements: Statements, check: Check, max_tokens: int = 64
) -> Fields:
    return tuple(Field((group, item.id), check, max_tokens) for item in statements)


def _reference_fields(
    reference: str, statements: Statements | None, check: Check
) -> Fields:
    """One field for each of `statements`; a single one for the list of them if they are
    None."""
    if statements is not None:
        return _by_statement(REFERENCE[0], statements, check)

    def check_list(value: object) -> object:
        items: dict[str, Json] = {}
        for item in _list(value):
            text = _text(as_object(item)["text"])
            items.setdefault(text.casefold(), {"text": text, **check(item)})
        _check_count(len(items), reference)
        if not items:
            raise ValueError("a reference without statements")
        return list(items.values())

    return (Field(REFERENCE, check_list, max_tokens=restated_tokens(reference)),)


def _flat(text: str) -> str:
    """`text` in lower case, with single spaces."""
    return " ".join(text.split()).casefold()


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError("not a list")
    return value


def _text(value: object) -> str:
    """`value`, if it is a text that is not blank and not too long, as valid Unicode.
    Raises ValueError."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError("not a text")
    if len(value) > _MAX_TEXT_CHARACTERS:
        raise ValueError("a text that is too long")
    return value.strip().encode("utf-8", "replace").decode("utf-8")


def check_text(value: object) -> object:
    """`value`, if it is an object with a text. Raises ValueError, TypeError or
    KeyError."""
    return {"text": _text(as_object(value)["text"])}


def _number(value: object, first: int, last: int) -> int:
    # Not isinstance, because bool is a subclass of int.
    if type(value) is not int or not first <= value <= last:
        raise ValueError(f"not an integer from {first} to {last}")
    return value


def _texts(value: object) -> list[str]:
    return list(map(_text, _list(value)))


def _statement_texts(value: object) -> list[str]:
    texts = _texts(value)
    if not 0 < len(texts) <= _MAX_STATEMENTS:
        raise ValueError("not the statements of a reference")
    return texts


STATEMENT_TEXTS = Field(("statements",), _statement_texts)
"""The statements of a reference, as they are cached."""

GRADE = Field(
    ("grade",), lambda value: {"value": _number(as_object(value)["value"], 0, 10)}
)
"""A grade from 0 to 10."""

BETTER = Field(("better",), choice_check("which", tuple(Preference)))
"""Which of two answers is better."""


def _check_count(count: int, source: str) -> None:
    """Raise ValueError if `count` statements are more than the text `source` can make:
    the model repeats itself."""
    # A word has at least one character and a space after it.
    max_words = len(source) // 2
    if count > min(_MAX_STATEMENTS, max(8, max_words)):
        raise ValueError("more statements than the text can have")


def _ids(value: object, allowed: Sequence[str]) -> list[str]:
    """The ids in a list, in the order of `allowed`. Raises an exception for others."""
    names = {one_of(item, allowed) for item in _list(value)}
    return sorted(names, key=allowed.index)
