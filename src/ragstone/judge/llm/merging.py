"""Merges the replies about the parts of contexts, by the rules in windows.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ragstone.judge.judgements import Verdict
from ragstone.judge.llm.form_filler import value_of
from ragstone.judge.llm.graded import PROBABILITY
from ragstone.judge.llm.replies import Values
from ragstone.judge.llm.reply_schemas import UNQUOTED

Value = dict[str, Any]
"""The checked value of one field: a verdict on a statement, or the use of a context."""
_STRENGTH = {Verdict.UNSUPPORTED: 0, Verdict.CONTRADICTED: 1, Verdict.SUPPORTED: 2}


def merge_support(replies: Sequence[Values]) -> Values:
    """The strongest verdict on each statement, with the evidence of the parts that gave
    it.

    The probability that a statement is supported is the highest of any part.
    """

    def merge(first: Value, second: Value) -> Value:
        stronger, weaker = sorted((first, second), key=_weakness)
        merged = dict(stronger)
        if weaker["verdict"] == stronger["verdict"]:
            merged["evidence"] = _union(stronger["evidence"], weaker["evidence"])
        if stronger["verdict"] == Verdict.SUPPORTED:
            contradicting = weaker.get("against", ())
            if weaker["verdict"] == Verdict.CONTRADICTED:
                contradicting = weaker["evidence"]
            against = _union(stronger.get("against", ()), contradicting)
            # A context of which one piece supports the statement supports it.
            against = [name for name in against if name not in merged["evidence"]]
            if against:
                merged["against"] = against
        likelier = max(first, second, key=_probability)
        merged[PROBABILITY] = likelier.get(PROBABILITY)
        return {name: value for name, value in merged.items() if value is not None}

    return _merge_all(replies, merge)


def merge_context_use(replies: Sequence[Values]) -> Values:
    """The use of each context, and the contexts in which each statement is found.

    A context is useful if one of its pieces is. A statement is found in a context if it
    is found in one of its pieces.
    """

    def merge(first: Value, second: Value) -> Value:
        if "use" in second:
            return first if first["use"] == "useful" else second
        found_in = _union(first["found_in"], second["found_in"])
        # The first reply may also have the text of the statement.
        return {**first, "found_in": found_in}

    return _merge_all(replies, merge)


def _merge_all(
    replies: Sequence[Values], merge: Callable[[Value, Value], Value]
) -> Values:
    """The values of all `replies`; those of the same field merged by `merge`, in
    order."""
    merged: Values = {}
    for reply in replies:
        for path, value in reply.items():
            if path in merged:
                value = merge(value_of(merged, *path), value_of(reply, *path))
            merged[path] = value
    return merged


def _weakness(value: Value) -> tuple[int, bool]:
    """A sort key by which the strongest verdict comes first; of equal ones, one with a
    quote."""
    return -_STRENGTH[Verdict(value["verdict"])], UNQUOTED in value


def _probability(value: Value) -> tuple[float, bool]:
    """The probability of a verdict, 0 or 1 if the reply has none; of equal ones, one
    that the reply has is greater."""
    is_supported = float(value["verdict"] == Verdict.SUPPORTED)
    return value.get(PROBABILITY, is_supported), PROBABILITY in value


def _union(first: Sequence[str], second: Sequence[str]) -> list[str]:
    return [*first, *(name for name in second if name not in first)]
