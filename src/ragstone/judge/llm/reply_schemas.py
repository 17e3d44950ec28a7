"""The forms that the model fills in: their fields, the checks of these, and their
meaning."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ragstone.formatting import clipped
from ragstone.judge.abilities import Preference
from ragstone.judge.judgements import Statement, Statements, Support, Verdict
from ragstone.judge.llm.graded import PROBABILITY
from ragstone.judge.llm.prompts import KINDS, USES, VERDICTS
from ragstone.judge.llm.quotes import Shown, is_quote, stands_in
from ragstone.judge.llm.replies import Field, Fields, Path, Values
from ragstone.judge.llm.windows import restated_tokens
from ragstone.judge.untrusted_text import neutral

Json = dict[str, object]
Check = Callable[[object], Json]
"""Returns a value in canonical form or raises ValueError."""

_MAX_STATEMENTS = 400
_MAX_TEXT = 4_000
_MAX_REASON = 200

UNQUOTED = "unquoted"
"""Of a verdict whose words are in no context that it names."""

ANSWER: Path = ("answer",)
REFERENCE: Path = ("reference_statements",)


def as_object(value: object) -> Json:
    """`value`, if it is an object. Raises TypeError."""
    if not isinstance(value, dict):
        raise TypeError("not an object")
    return value


def one_of(value: object, allowed: Sequence[str]) -> str:
    """`value`, if it is one of the allowed words. Raises ValueError."""
    if not isinstance(value, str) or value not in allowed:
        raise ValueError("not one of the allowed words")
    return value


def chosen(name: str, words: Sequence[str]) -> Callable[[object], dict[str, object]]:
    """A check that an object's `name` is one of `words`."""
    return lambda value: {name: one_of(as_object(value)[name], words)}


def answer_field(answer: str) -> Field:
    """Kind and statements of an answer; "abstains" requires no statements, "answers" at
    least one."""

    def check(value: object) -> object:
        item = as_object(value)
        kind = one_of(item["kind"], KINDS)
        unique: dict[str, str] = {}
        for text in _texts(item["statements"]):
            unique.setdefault(text.casefold(), text)  # twice would count twice
        statements = list(unique.values())
        _bounded(len(statements), answer)
        abstains = kind == "abstains"
        has_statements = bool(statements)
        if abstains == has_statements:
            raise ValueError("kind and statements disagree")
        return {"kind": kind, "statements": statements}

    return Field(ANSWER, check, tokens=restated_tokens(answer))


def support_fields(
    statements: Statements,
    contexts: Mapping[str, str],
    *,
    misquotes: bool = False,
) -> Fields:
    """A verdict for each statement, with its evidence among `contexts` (id to text),
    and a quote from it.

    A verdict other than "unsupported" needs evidence, and "supported" the words that it
    rests on. With `misquotes`, words that are in no context of the evidence are left
    out: the verdict is then unquoted.
    """
    names = tuple(contexts)

    @functools.cache
    def shown(name: str) -> Shown:
        return Shown(neutral(contexts[name]))

    def check(value: object) -> Json:
        item = as_object(value)
        verdict = one_of(item["verdict"], VERDICTS)
        checked: Json = {"evidence": [], "verdict": verdict}
        chance: Any = item.get(PROBABILITY)  # as those in the cache
        if type(chance) in (int, float) and 0.0 <= chance <= 1.0:
            checked[PROBABILITY] = chance
        if verdict == Verdict.UNSUPPORTED:
            return checked
        evidence = _ids(item["evidence"], names)
        if not evidence:
            raise ValueError("a verdict without evidence")
        checked["evidence"] = evidence
        quote = item.get("quote", "")
        quotes = is_quote(quote)
        if quotes and stands_in(_text(quote), list(map(shown, evidence))):
            checked["quote"] = _text(quote)
        if verdict == Verdict.SUPPORTED:
            against = _ids(item.get("against", []), names)
            against = [name for name in against if name not in evidence]
            if against:
                checked["against"] = against
            if "quote" not in checked:
                may_be_unquoted = misquotes and quotes
                if not may_be_unquoted and item.get(UNQUOTED) is not True:
                    raise ValueError("a quote that is not there")
                checked[UNQUOTED] = True
        return checked

    return _by_statement(
        "verdicts",
        statements,
        check,
        112 + 4 * len(contexts),
    )


def quote_fields(statements: Statements, contexts: Mapping[str, str]) -> Fields:
    """For each statement, words of one of `contexts`; empty if the words given are in
    none of them."""
    shown = [Shown(neutral(text)) for text in contexts.values()]

    def check(value: object) -> Json:
        quote: Any = as_object(value)["quote"]
        is_short = is_quote(quote) and len(quote) <= _MAX_TEXT
        if is_short and stands_in(quote, shown):
            return {"quote": _text(quote)}
        return {"quote": ""}

    return _by_statement("quotes", statements, check)


def context_fields(contexts: Sequence[str]) -> Fields:
    """Useful or not, for each context."""
    return tuple(Field(("contexts", name), chosen("use", USES)) for name in contexts)


def attribution_fields(
    reference: str, statements: Statements | None, contexts: Sequence[str]
) -> Fields:
    """Where each statement of the reference is found: a list if the statements are not
    known yet, else by id."""

    def check(value: object) -> Json:
        return {"found_in": _ids(as_object(value)["found_in"], contexts)}

    return _reference_fields(reference, statements, check)


def match_fields(
    answer: Statements, reference: str, statements: Statements | None
) -> Fields:
    """The reference's verdict on each statement of the answer, and the answer's on each
    statement of the reference.

    The latter are a list or by id, as in `attribution_fields`.
    """
    check = chosen("verdict", VERDICTS)
    own = _by_statement("answer_verdicts", answer, check)
    return own + _reference_fields(reference, statements, check)


def sentence_fields(counts: Mapping[str, int]) -> Fields:
    """For each context that has sentences, the numbers of those needed, from 1 to its
    count."""

    def check(value: object, *, count: int) -> object:
        needed = _list(as_object(value)["needed"])
        return {"needed": sorted({_number(number, 1, count) for number in needed})}

    fields = []
    for name, count in counts.items():
        if count:
            counted = functools.partial(check, count=count)
            fields.append(Field(("contexts", name), counted, tokens=64 + 4 * count))
    return tuple(fields)


def level_field(levels: int) -> Field:
    """One of `levels` levels of a rubric, from 1, and the reason for it (cut to what a
    note holds)."""

    def check(value: object) -> object:
        item = as_object(value)
        level = _number(item["level"], 1, levels)
        reason = " ".join(_text(item["reason"]).split())
        return {"level": level, "reason": clipped(reason, _MAX_REASON)}

    return Field(("grade",), check, tokens=96)


def entities_field(text: str) -> Field:
    """The distinct entities of `text`, each of which must occur in it."""
    shown = _flat(neutral(text))

    def check(value: object) -> object:
        names: dict[str, None] = {}
        entities = _texts(as_object(value)["names"])
        for entity in entities:
            names[" ".join(entity.split())] = None
            if _flat(entity) not in shown:
                raise ValueError("an entity that is not there")
        if len(entities) > _MAX_STATEMENTS:
            raise ValueError("more entities than a text can hold")
        return {"names": list(names)}

    return Field(("entities",), check, tokens=restated_tokens(text))


def keyed(values: Values) -> Values:
    """`values` with a list of the reference's statements turned into one value per id
    (r1, r2, …), texts included."""
    by_id = {path: value for path, value in values.items() if path != REFERENCE}
    for at, item in enumerate(_list(values.get(REFERENCE, [])), start=1):
        by_id[*REFERENCE, f"r{at}"] = item
    return by_id


def listed_statements(values: Values) -> tuple[Statement, ...]:
    """The reference's statements in keyed values that still include their texts."""
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
    """A Support; evidence is kept for supported statements only, as its field's name
    promises."""
    checked = Verdict(str(verdict))
    supported_by = tuple(evidence) if checked is Verdict.SUPPORTED else ()
    return Support(
        statement_id,
        checked,
        supported_by,
        probability,
        quote,
        contradicted_by=tuple(against),
        unquoted=unquoted,
    )


def _by_statement(
    group: str, statements: Statements, check: Check, tokens: int = 64
) -> Fields:
    return tuple(Field((group, item.id), check, tokens) for item in statements)


def _reference_fields(
    reference: str, statements: Statements | None, check: Check
) -> Fields:
    if statements is not None:
        return _by_statement(REFERENCE[0], statements, check)

    def check_list(value: object) -> object:
        items: dict[str, Json] = {}
        for item in _list(value):
            text = _text(as_object(item)["text"])
            items.setdefault(text.casefold(), {"text": text, **check(item)})
        _bounded(len(items), reference)
        if not items:
            raise ValueError("a reference without statements")
        return list(items.values())

    return (Field(REFERENCE, check_list, tokens=restated_tokens(reference)),)


def _flat(text: str) -> str:
    """`text` without regard to white space and case."""
    return " ".join(text.split()).casefold()


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError("not a list")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > _MAX_TEXT:
        raise ValueError("not a short text")
    return value.strip().encode("utf-8", "replace").decode("utf-8")


def with_text(value: object) -> object:
    """`value`, an object with a text that is not empty."""
    return {"text": _text(as_object(value)["text"])}


def _number(value: object, first: int, last: int) -> int:
    if type(value) is not int or not first <= value <= last:
        raise ValueError(f"no number from {first} to {last}")
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

BETTER = Field(("better",), chosen("which", tuple(Preference)))
"""Which of two is better."""


def _bounded(count: int, source: str) -> None:
    """A text of n words makes at most n claims; more means a runaway model."""
    if count > min(_MAX_STATEMENTS, max(8, len(source) // 2)):
        raise ValueError("more statements than the text can hold")


def _ids(value: object, allowed: Sequence[str]) -> list[str]:
    names = {one_of(item, allowed) for item in _list(value)}
    return sorted(names, key=allowed.index)
