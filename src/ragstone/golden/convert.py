"""The native format: samples as JSON Lines, one object per line, with only the fields that are set."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict

from ragstone.golden.sample import Sample


def native_lines(samples: Iterable[Sample]) -> Iterator[str]:
    """One line of native JSONL per sample, without the line break. Reading it back gives the same sample."""
    for sample in samples:
        yield json.dumps(_native(sample), ensure_ascii=False, allow_nan=False)


def _native(sample: Sample) -> dict[str, object]:
    row: dict[str, object] = {"id": sample.id, "question": sample.question}
    if sample.reference is not None:
        row["reference"] = sample.reference
    if sample.other_references:
        row["other_references"] = list(sample.other_references)
    if sample.history:
        row["history"] = [{"role": turn.role, "content": turn.text} for turn in sample.history]
    if sample.reference_contexts:
        row["reference_contexts"] = list(sample.reference_contexts)
    if sample.relevant_ids:
        row["relevant_ids"] = dict(sample.relevant_ids)
    if not sample.answerable:
        row["answerable"] = False
    if sample.tags:
        row["tags"] = list(sample.tags)
    if sample.group is not None:
        row["group"] = sample.group
    if sample.assertions is not None:
        row.update({name: value for name, value in asdict(sample.assertions).items() if value})
    if sample.review is not None:
        row["status"] = sample.review.status
        if sample.review.reviewer is not None:
            row["reviewer"] = sample.review.reviewer
        if sample.review.date is not None:
            row["reviewed_on"] = sample.review.date
    if sample.provenance is not None:
        row["provenance"] = sample.provenance
    return row
