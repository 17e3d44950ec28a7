"""Merges the replies about the parts of one text, by the rules in windows.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from ragstone.judge.judgements import Verdict
from ragstone.judge.llm.replies import Path
from ragstone.judge.llm.reply_schemas import ANSWER

Values = Mapping[Path, object]
_STRENGTH = {Verdict.UNSUPPORTED: 0, Verdict.CONTRADICTED: 1, Verdict.SUPPORTED: 2}


def answers(replies: Sequence[Values]) -> dict[Path, object]:
    """The distinct statements of all pieces; the answer abstains if all its pieces do."""
    texts: dict[str, str] = {}
    for reply in replies:
        for text in _value(reply, ANSWER)["statements"]:
            texts.setdefault(text.casefold(), text)
    return {ANSWER: {"kind": "answers" if texts else "abstains", "statements": list(texts.values())}}


def support(replies: Sequence[Values]) -> dict[Path, object]:
    """The strongest verdict on each statement, with the evidence of the parts that gave it."""
    merged: dict[Path, dict[str, Any]] = {}
    for reply in replies:
        for path in reply:
            new = _value(reply, path)
            old = merged.get(path)
            if old is None or _STRENGTH[Verdict(new["verdict"])] > _STRENGTH[Verdict(old["verdict"])]:
                merged[path] = new
            elif new["verdict"] == old["verdict"]:
                merged[path] = {**old, "evidence": _union(old["evidence"], new["evidence"])}
    return dict(merged)


def contexts(replies: Sequence[Values]) -> dict[Path, object]:
    """A context is useful if one of its pieces is; a statement is found in every context in which a part found it.

    A statement's text, if a reply has one, comes from the part that listed it.
    """
    merged: dict[Path, dict[str, Any]] = {}
    for reply in replies:
        for path in reply:
            new = _value(reply, path)
            old = merged.get(path)
            if old is None:
                merged[path] = new
            elif "use" in new:
                merged[path] = {"use": "useful" if "useful" in (old["use"], new["use"]) else "not_useful"}
            else:
                merged[path] = {**old, "found_in": _union(old["found_in"], new["found_in"])}
    return dict(merged)


def needed(replies: Sequence[Values]) -> dict[Path, object]:
    """The numbers of the sentences that at least one part needs."""
    merged: dict[Path, object] = {}
    for reply in replies:
        for path in reply:
            numbers = set(_value(reply, path)["needed"])
            if path in merged:
                numbers |= set(_value(merged, path)["needed"])
            merged[path] = {"needed": sorted(numbers)}
    return merged


def _value(values: Values, path: Path) -> dict[str, Any]:
    """A checked value: the form's checks guarantee its shape."""
    return cast(dict[str, Any], values[path])


def _union(one: Sequence[str], other: Sequence[str]) -> list[str]:
    return [*one, *(name for name in other if name not in one)]
