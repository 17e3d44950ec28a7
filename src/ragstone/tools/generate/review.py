"""`ragstone review`: write the drafts of a golden set as a table for a person to decide
on, and apply the decisions."""

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
from ragstone.tools.judging.label_table import (
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
"""The columns in which a change is an edit of the sample."""

_EXPECTED = "Expected the table that `ragstone review` wrote, with accept or reject in the column decision."
_DECISIONS = ("accept", "reject")
_MAX_SHOWN_CHARACTERS = 40
_VERSION_DIGITS = 16


def drafts_of(golden: GoldenSet) -> tuple[Sample, ...]:
    """The samples of `golden` that are drafts. Raises ConfigError if there are none."""
    drafts = tuple(sample for sample in golden if sample.is_draft)
    if not drafts:
        raise ConfigError("no sample is a draft, so there is nothing to review.")
    return drafts


def drafts_text(drafts: Sequence[Sample]) -> str:
    """The drafts as a list for a terminal."""
    return render_text_template("review.txt.j2", __package__, drafts=drafts)


def write_review(path: Path, drafts: Sequence[Sample]) -> None:
    """Write the table of `drafts`. Raises ConfigError rather than overwrite a table,
    which may have decisions."""
    refuse_existing(path, "Name it with --decisions, or remove it.")
    write_table(path, COLUMNS, map(_row, drafts))


def _row(sample: Sample) -> dict[str, str]:
    """The cells of a draft in the table, by column, without a decision."""
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
    """A hash by which a change of the sample is noticed."""
    return sample.content_hash()[:_VERSION_DIGITS]


class ReviewedSet(Struct):
    """A golden set after a review."""

    samples: list[Sample]
    """All samples that were not rejected."""
    accepted: int = 0
    """How many drafts were accepted, with or without an edit."""
    edited: int = 0
    """How many of the accepted drafts were edited."""
    undecided: int = 0
    """How many drafts are left."""
    rejected: tuple[str, ...] = ()
    """The ids of the rejected samples."""


def apply_decisions(
    golden: GoldenSet, path: Path, *, reviewer: str, day: str
) -> ReviewedSet:
    """Apply the decisions in the table `path` to `golden`. Accepted samples become
    reviewed ones, by `reviewer` on `day`.

    Raises ConfigError for a table that can't be read, an unknown decision, an edit that
    makes no valid sample, and if a sample has changed since the table was written.
    """
    sample_by_id = {sample.id: sample for sample in golden}
    accepted: dict[str, Sample] = {}
    rejected: dict[str, None] = {}
    edit_count = 0
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
                f"the decision '{decision[:_MAX_SHOWN_CHARACTERS]}' is neither accept nor reject.",
                where=where,
            )
        sample = _find_sample(row, sample_by_id, where)
        if sample.id in accepted or sample.id in rejected:
            raise ConfigError(
                f"there are two decisions on sample '{sample.id}'.",
                where=where,
                hint="Remove one of them.",
            )
        if decision == "reject":
            rejected[sample.id] = None
            continue
        edited = _apply_edits(sample, row, where)
        if edited != sample:
            edit_count += 1
        review = Review("reviewed", reviewer or None, day)
        accepted[sample.id] = replace(edited, review=review)
    samples = [
        accepted.get(sample.id, sample)
        for sample in golden
        if sample.id not in rejected
    ]
    return ReviewedSet(
        samples,
        accepted=len(accepted),
        edited=edit_count,
        undecided=sum(sample.is_draft for sample in samples),
        rejected=tuple(rejected),
    )


def _find_sample(
    row: Mapping[str, object], sample_by_id: Mapping[str, Sample], where: str
) -> Sample:
    """The sample for which a row of the table was written. Raises ConfigError if it is
    gone or has changed."""
    sample_id = unescape_formula(str(row["id"]))
    problem = "is not in the golden set"
    if sample_id in sample_by_id:
        sample = sample_by_id[sample_id]
        if row.get("version") == _version(sample):
            return sample
        problem = "has changed since the table was written"
    raise ConfigError(
        f"sample '{sample_id}' {problem}.",
        where=where,
        hint="Write a new table.",
    )


def _apply_edits(sample: Sample, row: Mapping[str, object], where: str) -> Sample:
    """`sample` with the cells of `row` that a person has changed, which are read as
    those of a golden set. Raises ConfigError if they make no valid sample."""
    written = _row(sample)
    cells = {
        name: unescape_formula(str(row.get(name) or ""))
        for name in _EDITABLE
        if name in row
    }
    edits = {name: cell for name, cell in cells.items() if cell != written[name]}
    if not edits:
        return sample
    record = json.loads(next(native_lines([sample])))
    try:
        (edited,) = golden_set_from_data([record | edits])
    except GoldenSetError as error:
        raise ConfigError(
            f"the edit of sample '{sample.id}' can't be read: {error.message}",
            where=where,
        ) from None
    return replace(edited, origin=sample.origin)
