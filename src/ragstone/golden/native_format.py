"""Writes the native format: samples as JSON Lines, one object per line, with only the
fields that are set."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from ragstone.golden.cells import CLARIFICATION
from ragstone.golden.conversations import group_by_conversation
from ragstone.golden.document_names import are_document_names
from ragstone.golden.sample import (
    Assertion,
    Assertions,
    ConversationTurn,
    ExpectedCall,
    Review,
    Sample,
)

Values = dict[str, object]

_EMPTY_VALUES: tuple[object, ...] = (None, "", (), [], {})


def native_lines(samples: Iterable[Sample]) -> Iterator[str]:
    """Yield a line, without the line break, for each sample or conversation; reading
    the lines gives the same samples.

    If turns of a conversation are missing, each of the others is written as a sample of
    its own, with the messages before it.
    """
    for turns in group_by_conversation(samples):
        first_turn = turns[0].turn
        rows = list(map(_row, turns))
        if first_turn is not None and len(turns) == first_turn.turns:
            rows = [_conversation_row(turns, first_turn)]
        for row in rows:
            yield json.dumps(row, ensure_ascii=False, allow_nan=False)


def _conversation_row(turns: Sequence[Sample], first_turn: ConversationTurn) -> Values:
    group = turns[0].group
    row: Values = {"id": first_turn.id}
    if group != first_turn.id:
        row["group"] = group
    row["history"] = "own" if first_turn.own_history else "reference"
    turn_rows = [_row(replace(turn, id="", history=())) for turn in turns]
    for turn_row in turn_rows:
        if turn_row.get("group") == group:
            del turn_row["group"]
    return {**row, "turns": turn_rows}


def _row(sample: Sample) -> Values:
    assertions = sample.assertions or Assertions()
    history = [
        {"role": message.role, "content": message.text} for message in sample.history
    ]
    row: Values = {
        "id": sample.id,
        "question": sample.question,
        "reference": sample.reference,
        "other_references": sample.other_references,
        "history": history,
        "reference_contexts": _passage_cells(sample),
        "relevant_ids": dict(sample.relevant_ids),
        "answerable": None if sample.answerable else False,
        "tags": sample.tags,
        "group": sample.group,
        "must_contain": assertions.must_contain,
        "must_not_contain": assertions.must_not_contain,
        "regex": assertions.regex,
        "max_words": assertions.max_words,
        "assert": list(map(_assertion_cell, assertions.typed)),
        "expects": CLARIFICATION if sample.expects_clarification else None,
        "min": dict(sample.min),
        "max": dict(sample.max),
        **_review_cells(sample.review),
        "provenance": sample.provenance,
        "tools": list(map(_tool_call_cell, sample.tools)),
        "tool_order": sample.tools_in_order or None,
    }
    filled = {name: value for name, value in row.items() if value not in _EMPTY_VALUES}
    if are_document_names(sample.reference_contexts):
        # Even an empty column of ids lets passages be read that look like ids.
        filled["relevant_ids"] = row["relevant_ids"]
    return filled


def _review_cells(review: Review | None) -> Values:
    if review is None:
        return {}
    return {
        "status": review.status,
        "reviewer": review.reviewer,
        "reviewed_on": review.date,
    }


def _passage_cells(sample: Sample) -> list[object]:
    passages: list[object] = [*sample.reference_contexts]
    for position, hop in enumerate(sample.hops):
        if hop:
            passages[position] = {"text": passages[position], "hop": hop}
    return passages


def _tool_call_cell(call: ExpectedCall) -> Values:
    cell: Values = {"any_of": call.names}
    if len(call.names) == 1:
        cell = {"name": call.names[0]}
    if call.arguments is not None:
        cell["arguments"] = dict(call.arguments)
    if call.match == "exact":
        cell["match"] = "exact"
    if call.tolerance:
        cell["tolerance"] = call.tolerance
    return cell


def _assertion_cell(assertion: Assertion) -> Values:
    if not assertion.values:
        return {"type": assertion.type}
    takes_list = assertion.type.endswith(("any", "all"))
    value = assertion.values if takes_list else assertion.values[0]
    return {"type": assertion.type, "value": value}
