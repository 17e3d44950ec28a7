"""The native format: samples as JSON Lines, one object per line, with only the fields
that are set."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from ragstone.golden.cells import CLARIFICATION
from ragstone.golden.conversations import by_conversation
from ragstone.golden.names import are_names
from ragstone.golden.sample import (
    Assertion,
    Assertions,
    ConversationTurn,
    ExpectedCall,
    Review,
    Sample,
)

Values = dict[str, object]

_EMPTY: tuple[object, ...] = (None, "", (), [], {})


def native_lines(samples: Iterable[Sample]) -> Iterator[str]:
    """One line of native JSONL per sample or conversation, without the line break.
    Reading it gives the same samples.

    Of a conversation that has not all its turns, each is written with the messages
    before it.
    """
    for turns in by_conversation(samples):
        place = turns[0].turn
        rows = list(map(_row, turns))
        if place is not None and len(turns) == place.turns:
            rows = [_conversation(turns, place)]
        for row in rows:
            yield json.dumps(row, ensure_ascii=False, allow_nan=False)


def _conversation(turns: Sequence[Sample], place: ConversationTurn) -> Values:
    group = turns[0].group
    row: Values = {"id": place.id}
    if group != place.id:
        row["group"] = group
    row["history"] = "own" if place.own_history else "reference"
    inner = [_row(replace(turn, id="", history=())) for turn in turns]
    for turn in inner:
        if turn.get("group") == group:
            del turn["group"]
    return {**row, "turns": inner}


def _row(sample: Sample) -> Values:
    asserted = sample.assertions or Assertions()
    history = [
        {"role": message.role, "content": message.text} for message in sample.history
    ]
    row: Values = {
        "id": sample.id,
        "question": sample.question,
        "reference": sample.reference,
        "other_references": sample.other_references,
        "history": history,
        "reference_contexts": _passages(sample),
        "relevant_ids": dict(sample.relevant_ids),
        "answerable": None if sample.answerable else False,
        "tags": sample.tags,
        "group": sample.group,
        "must_contain": asserted.must_contain,
        "must_not_contain": asserted.must_not_contain,
        "regex": asserted.regex,
        "max_words": asserted.max_words,
        "assert": list(map(_typed, asserted.typed)),
        "expects": CLARIFICATION if sample.expects_clarification else None,
        "min": dict(sample.min),
        "max": dict(sample.max),
        **_reviewed(sample.review),
        "provenance": sample.provenance,
        "tools": list(map(_call, sample.tools)),
        "tool_order": sample.tools_in_order or None,
    }
    written = {name: value for name, value in row.items() if value not in _EMPTY}
    if are_names(sample.reference_contexts):
        # Though empty: then passages are not taken for ids.
        written["relevant_ids"] = row["relevant_ids"]
    return written


def _reviewed(review: Review | None) -> Values:
    if review is None:
        return {}
    return {
        "status": review.status,
        "reviewer": review.reviewer,
        "reviewed_on": review.date,
    }


def _passages(sample: Sample) -> list[object]:
    passages: list[object] = [*sample.reference_contexts]
    for place, hop in enumerate(sample.hops):
        if hop:
            passages[place] = {"text": passages[place], "hop": hop}
    return passages


def _call(call: ExpectedCall) -> Values:
    written: Values = {"any_of": call.names}
    if len(call.names) == 1:
        written = {"name": call.names[0]}
    if call.arguments is not None:
        written["arguments"] = dict(call.arguments)
    if call.match == "exact":
        written["match"] = "exact"
    if call.tolerance:
        written["tolerance"] = call.tolerance
    return written


def _typed(assertion: Assertion) -> Values:
    if not assertion.values:
        return {"type": assertion.type}
    is_list = assertion.type.endswith(("any", "all"))
    value = assertion.values if is_list else assertion.values[0]
    return {"type": assertion.type, "value": value}
