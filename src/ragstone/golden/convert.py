"""The native format: samples as JSON Lines, one object per line, with only the fields that are set."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict

from ragstone.golden.names import are_names
from ragstone.golden.sample import Assertion, Sample


def native_lines(samples: Iterable[Sample]) -> Iterator[str]:
    """One line of native JSONL per sample, without the line break. Reading it back gives the same sample."""
    for sample in samples:
        yield json.dumps(_native(sample), ensure_ascii=False, allow_nan=False)


def _native(sample: Sample) -> dict[str, object]:
    review, asserted = sample.review, sample.assertions
    row = {
        "id": sample.id,
        "question": sample.question,
        "reference": sample.reference,
        "other_references": sample.other_references,
        "history": [{"role": turn.role, "content": turn.text} for turn in sample.history],
        "reference_contexts": sample.reference_contexts,
        "relevant_ids": dict(sample.relevant_ids),
        "answerable": None if sample.answerable else False,
        "tags": sample.tags,
        "group": sample.group,
        **(asdict(asserted) if asserted is not None else {}),
        "typed": (),
        "assert": [_typed(one) for one in asserted.typed] if asserted is not None else [],
        "min": dict(sample.min),
        "max": dict(sample.max),
        "status": review and review.status,
        "reviewer": review and review.reviewer,
        "reviewed_on": review and review.date,
        "provenance": sample.provenance,
    }
    found = {name: value for name, value in row.items() if value not in (None, (), [], {})}
    if are_names(sample.reference_contexts):
        found["relevant_ids"] = row["relevant_ids"]  # though empty: then passages are not taken for ids
    return found


def _typed(one: Assertion) -> dict[str, object]:
    if not one.values:
        return {"type": one.type}
    return {"type": one.type, "value": one.values if one.type.endswith(("any", "all")) else one.values[0]}
