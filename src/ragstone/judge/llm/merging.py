"""Merges the replies about the parts of one text, by the rules in windows.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ragstone.judge.judgements import Verdict
from ragstone.judge.llm.core import value_of
from ragstone.judge.llm.graded import PROBABILITY
from ragstone.judge.llm.replies import Values
from ragstone.judge.llm.reply_schemas import UNQUOTED

Value = dict[str, Any]
_STRENGTH = {Verdict.UNSUPPORTED: 0, Verdict.CONTRADICTED: 1, Verdict.SUPPORTED: 2}


def support(replies: Sequence[Values]) -> Values:
    """The strongest verdict on each statement, with the evidence of the parts that gave
    it.

    A statement is as likely to be supported as by the part in which it is likeliest.
    """

    def stronger(old: Value, new: Value) -> Value:
        best, weaker = sorted((old, new), key=_weakness)
        merged = dict(best)
        if weaker["verdict"] == best["verdict"]:
            merged["evidence"] = _union(best["evidence"], weaker["evidence"])
        if best["verdict"] == Verdict.SUPPORTED:
            opposed = weaker.get("against", ())
            if weaker["verdict"] == Verdict.CONTRADICTED:
                opposed = weaker["evidence"]
            against = _union(best.get("against", ()), opposed)
            against = [name for name in against if name not in merged["evidence"]]
            if against:
                merged["against"] = against
        merged[PROBABILITY] = max(old, new, key=_chance).get(PROBABILITY)
        return {name: value for name, value in merged.items() if value is not None}

    return _merged(replies, stronger)


def contexts(replies: Sequence[Values]) -> Values:
    """A context is useful if one of its pieces is; a statement is found in every
    context in which a part found it.

    A statement's text, if a reply has one, comes from the part that listed it.
    """

    def either(old: Value, new: Value) -> Value:
        if "use" in new:
            return old if old["use"] == "useful" else new
        return {**old, "found_in": _union(old["found_in"], new["found_in"])}

    return _merged(replies, either)


def _merged(
    replies: Sequence[Values], merge: Callable[[Value, Value], Value]
) -> Values:
    merged: Values = {}
    for reply in replies:
        for path, new in reply.items():
            merged[path] = (
                merge(value_of(merged, *path), value_of(reply, *path))
                if path in merged
                else new
            )
    return merged


def _weakness(value: Value) -> tuple[int, bool]:
    return -_STRENGTH[Verdict(value["verdict"])], UNQUOTED in value


def _chance(value: Value) -> tuple[float, bool]:
    is_supported = float(value["verdict"] == Verdict.SUPPORTED)
    return value.get(PROBABILITY, is_supported), PROBABILITY in value


def _union(first: Sequence[str], second: Sequence[str]) -> list[str]:
    return [*first, *(name for name in second if name not in first)]
