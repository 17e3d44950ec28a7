"""A person's review of the drafts of a golden set: a table to edit, and what its
decisions make of the set."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from msgspec import Struct

from ragstone.errors import ConfigError, GoldenSetError
from ragstone.golden.cells import is_blank
from ragstone.golden.load import golden_set_from_data, read_rows
from ragstone.golden.native_format import native_lines
from ragstone.golden.sample import GoldenSet, Review, Sample
from ragstone.report.templates import render_text_template
from ragstone.tools.judging.table import (
    MAX_LABELS_BYTES,
    cell_text,
    refuse_existing,
    unescape_formula,
    write_table,
)

COLUMNS = (
    "id",
    "decision",
    "question",
    "reference",
    "answerable",
    "tags",
    "comment",
    "evidence",
    "version",
)
_EDITABLE = ("question", "reference", "answerable", "tags")
_EXPECTED = "Expected the table that `ragstone review` wrote, with accept or reject in the column decision."
_DECISIONS = ("accept", "reject")
_HASH_DIGITS = 16


def drafts_of(golden: GoldenSet) -> tuple[Sample, ...]:
    """The drafts. Raises ConfigError if there are none."""
    drafts = tuple(sample for sample in golden if sample.is_draft)
    if not drafts:
        raise ConfigError("no sample is a draft, so there is nothing to review.")
    return drafts


def drafts_text(drafts: Sequence[Sample]) -> str:
    """The drafts as a list for a terminal."""
    return render_text_template("review.txt.j2", __package__, drafts=drafts)


def write_review(path: Path, drafts: Sequence[Sample]) -> None:
    """Write the table of `drafts`. Raises ConfigError rather than overwrite one, which
    may have decisions."""
    refuse_existing(path, "Name it with --decisions, or remove it.")
    rows = list(map(_row, drafts))
    write_table(path, COLUMNS, rows)


def _row(sample: Sample) -> dict[str, str]:
    evidence = "\n\n".join(sample.reference_contexts)
    return {
        "id": sample.id,
        "question": cell_text(sample.question),
        "reference": cell_text(sample.reference or ""),
        "answerable": "yes" if sample.answerable else "no",
        "tags": ", ".join(sample.tags),
        "evidence": cell_text(evidence),
        "version": _version(sample),
    }


def _version(sample: Sample) -> str:
    return sample.content_hash()[:_HASH_DIGITS]


class Reviewed(Struct):
    """A golden set after a review: numbers of samples, and the ids of rejected ones,
    which are left out."""

    samples: list[Sample]
    accepted: int = 0
    edited: int = 0
    undecided: int = 0
    rejected: tuple[str, ...] = ()


def apply_decisions(
    golden: GoldenSet, path: Path, *, reviewer: str, day: str
) -> Reviewed:
    """Put the decisions in `path` into `golden`: accepted samples are reviewed, by
    `reviewer` on `day`.

    Raises ConfigError for a table that can't be read, an unknown decision or an edit
    that makes no sample, and if a sample has changed since the table was written.
    """
    by_id = {sample.id: sample for sample in golden}
    accepted: dict[str, Sample] = {}
    rejected: dict[str, None] = {}
    edited = 0
    for where, row in read_rows(
        path,
        required=("id", "decision"),
        expected=_EXPECTED,
        max_bytes=MAX_LABELS_BYTES,
    ):
        if is_blank(row["decision"]):
            continue
        decision = str(row["decision"]).strip().lower()
        if decision not in _DECISIONS:
            raise ConfigError(
                f"the decision '{decision[:40]}' is neither accept nor reject.",
                where=where,
            )
        sample = _sample_of(row, by_id, where)
        sample_id = sample.id
        if sample_id in {*accepted, *rejected}:
            raise ConfigError(f"sample '{sample_id}' is decided twice.", where=where)
        if decision == "reject":
            rejected[sample_id] = None
            continue
        changed = _edited(sample, row, where)
        if changed != sample:
            edited += 1
        accepted[sample_id] = replace(
            changed, review=Review("reviewed", reviewer or None, day)
        )
    samples = [
        accepted.get(sample.id, sample)
        for sample in golden
        if sample.id not in rejected
    ]
    undecided = sum(sample.is_draft for sample in samples)
    return Reviewed(samples, len(accepted), edited, undecided, tuple(rejected))


def _sample_of(
    row: Mapping[str, object], by_id: Mapping[str, Sample], where: str
) -> Sample:
    """The sample that a row of the table was written of."""
    sample_id = unescape_formula(str(row["id"]))
    problem = "is not in the golden set"
    if sample_id in by_id:
        sample = by_id[sample_id]
        if row.get("version") == _version(sample):
            return sample
        problem = "has changed since the table was written"
    raise ConfigError(
        f"sample '{sample_id}' {problem}.",
        where=where,
        hint="Write a new table.",
    )


def _edited(sample: Sample, row: Mapping[str, object], where: str) -> Sample:
    """`sample` with the cells of `row` that differ from what was written, read as those
    of a golden set."""
    written = _row(sample)
    cells = {
        name: unescape_formula(str(row.get(name) or ""))
        for name in _EDITABLE
        if name in row
    }
    edits = {name: cell for name, cell in cells.items() if cell != written[name]}
    if not edits:
        return sample
    line = next(native_lines([sample]))
    record = json.loads(line)
    try:
        (edited,) = golden_set_from_data([record | edits])
    except GoldenSetError as error:
        raise ConfigError(
            f"the edit of sample '{sample.id}' can't be read: {error.message}",
            where=where,
        ) from None
    return replace(edited, origin=sample.origin)
