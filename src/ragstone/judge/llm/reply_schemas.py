"""The forms that the model fills in: their fields, the checks of these, and their meaning."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from ragstone.formatting import clipped
from ragstone.judge.abilities import Preference
from ragstone.judge.judgements import Statement, Support, Verdict
from ragstone.judge.llm.graded import keeping_probability
from ragstone.judge.llm.prompts import KINDS, USES, VERDICTS
from ragstone.judge.llm.quotes import Shown, is_quote, stands_in
from ragstone.judge.llm.replies import Field, Path
from ragstone.judge.llm.windows import restated_tokens
from ragstone.judge.untrusted_text import neutral

_T = TypeVar("_T")

_BETWEEN = re.compile(r"(?:[\s,;:()\[\]{}*`\"'“”→，、；：。]|\.(?!\d)|->)+")
_FILLERS = frozenset({"", "and", "context", "contexts", "sentence", "sentences"})
_NONE = (["none"], ["n/a"])
_LISTED = re.compile(r"\s*r\d+[:.|]?\s+(.*\S)\s*\|(.*)", re.DOTALL)
_MAX_STATEMENTS = 400
_MAX_TEXT = 4_000
_MAX_REASON = 200

ANSWER: Path = ("answer",)
REFERENCE: Path = ("reference_statements",)


def as_object(value: object) -> dict[str, object]:
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
    return lambda value: {name: one_of("_".join(_words(value, name)).replace(" ", "_"), words)}


def _words(value: object, name: str) -> list[str]:
    """What `value` says of `name`, or else the words of its line, which may say "none", but not nothing."""
    found = as_object(value)
    if name in found:
        given = _list(found[name]) if isinstance(found[name], list) else [found[name]]
        words = [str(word).casefold() if isinstance(word, str | int) else "?" for word in given]
    else:
        parts = _BETWEEN.split(str(found["line"]).rpartition("|")[2].casefold())
        words = [word for word in parts if word not in _FILLERS] or ["?"]
    return [] if words in _NONE else words


def answer_field(answer: str) -> Field:
    """Kind and statements of an answer; "abstains" requires no statements, "answers" at least one."""

    def check(value: object) -> object:
        kind = one_of(as_object(value)["kind"], KINDS)
        statements = _unique([_text(item) for item in _list(as_object(value)["statements"])], key=str.casefold)
        _bounded(len(statements), answer)
        if (kind == "abstains") is bool(statements):
            raise ValueError("kind and statements disagree")
        return {"kind": kind, "statements": statements}

    return Field(ANSWER, check, tokens=restated_tokens(answer))


def support_fields(statements: Sequence[Statement], contexts: Mapping[str, str]) -> tuple[Field, ...]:
    """A verdict for each statement, with its evidence among `contexts` (id to text), and a quote from it.

    A verdict other than "unsupported" needs evidence, and "supported" the words that it rests on.
    """
    names = tuple(contexts)

    @functools.cache
    def shown(name: str) -> Shown:
        return Shown(neutral(contexts[name]))

    def check(value: object) -> dict[str, object]:
        item = as_object(value)
        verdict = one_of(item["verdict"], VERDICTS)
        words = _words({**item, "line": item.get("line") or "none"}, "evidence")
        evidence = _ids([] if words == [verdict] else words, names)
        if verdict != Verdict.UNSUPPORTED and not evidence:
            raise ValueError("a verdict without evidence")
        found: dict[str, object] = {"evidence": evidence, "verdict": verdict}
        quote = item.get("quote", "")
        if verdict == Verdict.UNSUPPORTED or (verdict == Verdict.CONTRADICTED and not is_quote(quote)):
            return found
        quote = _text(quote)
        if not is_quote(quote) or not stands_in(quote, [shown(name) for name in evidence]):
            raise ValueError("a quote that is not there")
        return {**found, "quote": quote}

    tokens = 112 + 4 * len(contexts)
    checked = keeping_probability(check)
    return tuple(Field(("verdicts", statement.id), checked, tokens) for statement in statements)


def context_fields(contexts: Sequence[str]) -> tuple[Field, ...]:
    """Useful or not, for each context."""
    return tuple(Field(("contexts", name), chosen("use", USES)) for name in contexts)


def attribution_fields(
    reference: str, statements: Sequence[Statement] | None, contexts: Sequence[str]
) -> tuple[Field, ...]:
    """Where each statement of the reference is found: a list if the statements are not known yet, else by id."""

    def check(value: object) -> dict[str, object]:
        return {"found_in": _ids(_words(value, "found_in"), contexts)}

    return _reference_fields(reference, statements, check)


def match_fields(
    answer: Sequence[Statement], reference: str, statements: Sequence[Statement] | None
) -> tuple[Field, ...]:
    """The reference's verdict on each statement of the answer, and the answer's on each statement of the reference.

    The latter are a list or by id, as in `attribution_fields`.
    """
    check = chosen("verdict", VERDICTS)
    own = (Field(("answer_verdicts", statement.id), check) for statement in answer)
    return (*own, *_reference_fields(reference, statements, check))


def sentence_fields(counts: Mapping[str, int]) -> tuple[Field, ...]:
    """For each context, the numbers of its needed sentences, from 1 to its count."""

    def check(value: object, *, count: int) -> object:
        numbers = [int(word) for word in _words(value, "needed")]
        return {"needed": sorted({_number(number, 1, count) for number in numbers})}

    return tuple(
        Field(("contexts", name), functools.partial(check, count=count), tokens=64 + 4 * count)
        for name, count in counts.items()
    )


def level_field(levels: int) -> Field:
    """One of `levels` levels of a rubric, from 1, and the reason for it (cut to what a note holds)."""

    def check(value: object) -> object:
        level = _number(as_object(value)["level"], 1, levels)
        return {"level": level, "reason": clipped(" ".join(_text(as_object(value)["reason"]).split()), _MAX_REASON)}

    return Field(("grade",), check, tokens=96)


def entities_field(text: str) -> Field:
    """The distinct entities of `text`, each of which must occur in it."""
    shown = _flat(neutral(text)).casefold()

    def check(value: object) -> object:
        names = [" ".join(_text(name).split()) for name in _list(as_object(value)["names"])]
        if len(names) > _MAX_STATEMENTS or any(_flat(name).casefold() not in shown for name in names):
            raise ValueError("an entity that is not there")
        return {"names": list(dict.fromkeys(names))}

    return Field(("entities",), check, tokens=restated_tokens(text))


def keyed(values: Mapping[Path, object]) -> dict[Path, object]:
    """`values` with a list of the reference's statements turned into one value per id (r1, r2, …), texts included."""
    found = {path: value for path, value in values.items() if path != REFERENCE}
    for at, item in enumerate(_list(values.get(REFERENCE, [])), start=1):
        found[*REFERENCE, f"r{at}"] = item
    return found


def listed_statements(values: Mapping[Path, object]) -> tuple[Statement, ...]:
    """The reference's statements in keyed values that still include their texts."""
    return tuple(
        Statement(path[1], str(as_object(value)["text"])) for path, value in values.items() if path[:1] == REFERENCE
    )


def support_of(
    statement_id: str,
    verdict: object,
    evidence: Sequence[str] = (),
    quote: str | None = None,
    probability: float | None = None,
) -> Support:
    """A Support; evidence is kept for supported statements only, as its field's name promises."""
    found = Verdict(str(verdict))
    return Support(statement_id, found, tuple(evidence) if found is Verdict.SUPPORTED else (), probability, quote)


def _reference_fields(
    reference: str, statements: Sequence[Statement] | None, check: Callable[[object], dict[str, object]]
) -> tuple[Field, ...]:
    if statements is not None:
        return tuple(Field((*REFERENCE, statement.id), check) for statement in statements)

    def listed(item: object) -> dict[str, object]:
        if isinstance(item, dict):  # from the cache
            return {"text": _text(item["text"]), **check(item)}
        line = _LISTED.fullmatch(_text(item))
        # What is no such line is None, and reading from that a TypeError.
        return {"text": _text(line[1]), **check({"line": line[2]})}  # type: ignore[index]

    def check_list(value: object) -> object:
        items = [listed(item) for item in _list(value)]
        unique = _unique(items, key=lambda item: str(item["text"]).casefold())
        _bounded(len(unique), reference)
        if not unique:
            raise ValueError("a reference without statements")
        return unique

    return (Field(REFERENCE, check_list, tokens=restated_tokens(reference)),)


def _flat(text: str) -> str:
    """`text` for comparing quotes: ignores white space and case."""
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
    """`value`, an object with a text that is not empty, or a line."""
    found = as_object(value)
    return {"text": _text(found["text"] if "text" in found else found["line"])}


def _number(value: object, first: int, last: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not first <= value <= last:
        raise ValueError(f"no number from {first} to {last}")
    return value


GRADE = Field(("grade",), lambda value: {"value": _number(as_object(value)["value"], 0, 10)})
"""A grade from 0 to 10."""

BETTER = Field(("better",), chosen("which", tuple(str(preference) for preference in Preference)))
"""Which of two is better."""


def _unique(items: Sequence[_T], key: Callable[[_T], str]) -> list[_T]:
    """The first of each, in order: a claim listed twice would count twice."""
    first: dict[str, _T] = {}
    for item in items:
        first.setdefault(key(item), item)
    return list(first.values())


def _bounded(count: int, source: str) -> None:
    """A text of n words makes at most n claims; more means a runaway model."""
    if count > min(_MAX_STATEMENTS, max(8, len(source) // 2)):
        raise ValueError("more statements than the text can hold")


def _ids(value: object, allowed: Sequence[str]) -> list[str]:
    found = {one_of(item, allowed) for item in _list(value)}
    return [name for name in allowed if name in found]
