"""The native format: samples as JSON Lines, one object per line, with only the fields
that are set."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace

from ragstone.golden.cells import CLARIFICATION
from ragstone.golden.conversations import by_conversation
from ragstone.golden.names import are_names
from ragstone.golden.sample import Assertion, ConversationTurn, ExpectedCall, Sample


def native_lines(samples: Iterable[Sample]) -> Iterator[str]:
    """One line of native JSONL per sample or conversation, without the line break.
    Reading it gives the same samples.

    Of a conversation that has not all its turns, each is written with the messages
    before it.
    """
    for turns in by_conversation(samples):
        place = turns[0].turn
        if place is not None and len(turns) == place.turns:
            rows = [_native_conversation(turns, place)]
        else:
            rows = [_native(sample) for sample in turns]
        for row in rows:
            yield json.dumps(row, ensure_ascii=False, allow_nan=False)


def _native_conversation(
    turns: Sequence[Sample], place: ConversationTurn
) -> dict[str, object]:
    group, messages = turns[0].group, _messages(turns[0])
    answers = "own" if place.own_history else "reference"
    row: dict[str, object] = {"id": place.id}
    if group != place.id:
        row["group"] = group
    row["history"] = {"answers": answers, "messages": messages} if messages else answers
    row["turns"] = [_native(_without_place(turn, group)) for turn in turns]
    return row


def _without_place(turn: Sample, group: str | None) -> Sample:
    """`turn` without what its conversation says."""
    return replace(
        turn, id="", history=(), group=None if turn.group == group else turn.group
    )


def _messages(sample: Sample) -> list[dict[str, str]]:
    return [
        {"role": message.role, "content": message.text} for message in sample.history
    ]


def _native(sample: Sample) -> dict[str, object]:
    review, asserted = sample.review, sample.assertions
    row = {
        "id": sample.id or None,
        "question": sample.question,
        "reference": sample.reference,
        "other_references": sample.other_references,
        "history": _messages(sample),
        "reference_contexts": _passages(sample),
        "relevant_ids": dict(sample.relevant_ids),
        "answerable": None if sample.answerable else False,
        "tags": sample.tags,
        "group": sample.group,
        **(asdict(asserted) if asserted is not None else {}),
        "typed": (),
        "assert": [_typed(assertion) for assertion in asserted.typed]
        if asserted is not None
        else [],
        "expects": CLARIFICATION if sample.expects_clarification else None,
        "min": dict(sample.min),
        "max": dict(sample.max),
        "status": review and review.status,
        "reviewer": review and review.reviewer,
        "reviewed_on": review and review.date,
        "provenance": sample.provenance,
        "tools": [_call(call) for call in sample.tools],
        "tool_order": sample.tools_in_order or None,
    }
    written = {
        name: value for name, value in row.items() if value not in (None, (), [], {})
    }
    if are_names(sample.reference_contexts):
        written["relevant_ids"] = row[
            "relevant_ids"
        ]  # though empty: then passages are not taken for ids
    return written


def _passages(sample: Sample) -> list[object]:
    if not sample.hops:
        return list(sample.reference_contexts)
    return [
        {"text": text, "hop": hop} if hop else text
        for text, hop in zip(sample.reference_contexts, sample.hops, strict=True)
    ]


def _call(call: ExpectedCall) -> object:
    named = {"name": call.names[0]} if len(call.names) == 1 else {"any_of": call.names}
    details = {
        "arguments": None if call.arguments is None else dict(call.arguments),
        "match": "exact" if call.match == "exact" else None,
        "tolerance": call.tolerance or None,
    }
    return {
        **named,
        **{name: value for name, value in details.items() if value is not None},
    }


def _typed(assertion: Assertion) -> dict[str, object]:
    if not assertion.values:
        return {"type": assertion.type}
    return {
        "type": assertion.type,
        "value": assertion.values
        if assertion.type.endswith(("any", "all"))
        else assertion.values[0],
    }
