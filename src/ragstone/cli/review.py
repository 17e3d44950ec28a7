"""`ragstone review`: a person's review of the drafts of a golden set."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Literal

import click
from pydantic import BaseModel, ConfigDict, Field

from ragstone.cli.context import redactor
from ragstone.cli.convert import write_samples
from ragstone.cli.options import CONFIG, JSON_LINES, PATH, DefaultGroup, option, settings_from
from ragstone.cli.output import linked, say, write_text
from ragstone.errors import ConfigError
from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.record import SampleRecord
from ragstone.formatting import counted, some
from ragstone.golden import cells
from ragstone.golden.sample import GoldenSet, Review, Sample
from ragstone.pipeline.run_plan import read_golden_set
from ragstone.printable import shown_name
from ragstone.tools.judging.labelling.page import (
    LabellingPage,
    PageItem,
    SavedFile,
    SavedRow,
    read_saved,
    render_labelling,
)

_HASH_DIGITS = 16


class _Edits(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    question: str | None = None
    reference: str | None = None
    tags: str | None = None
    answerable: bool | None = None


class _Row(SavedRow):
    decision: Literal["accept", "reject"] | None = None
    edits: _Edits = Field(default_factory=_Edits)
    at: datetime | None = None


class _Saved(SavedFile):
    ragstone: Literal["review"]
    annotator: str = Field(min_length=1, max_length=200)
    rows: tuple[_Row, ...]


def review_page(
    golden: GoldenSet,
    *,
    reviewer: str = "",
    run: RunDirectory | None = None,
    everything: bool = False,
    redact: Callable[[str], str] = str,
) -> tuple[str, int]:
    """The page for the drafts in `golden` (or `everything`), and their number.

    With `run`, it shows the answers of the system, and its contexts with the evidence marked. Raises ConfigError if
    there is nothing to review.
    """
    samples = [sample for sample in golden if everything or sample.draft]
    if not samples:
        raise ConfigError("no sample is a draft.", hint="Add --all to review the other samples.")
    records = run.find(sample.id for sample in samples) if run is not None else {}
    items = tuple(_item(sample, records.get(sample.id), redact) for sample in samples)
    key = hashlib.sha256("\n".join(item.key for item in items).encode("utf-8", "surrogatepass")).hexdigest()[:16]
    page = LabellingPage(
        kind="review",
        title="Review of golden samples",
        key=key,
        items=items,
        annotator=reviewer,
        contexts="Context" if run is not None else "Evidence",
        file=f"review-{_file_name(reviewer)}" if reviewer else "",
        footer="Save the file. Then: ragstone review merge GOLDEN_SET FILE -o REVIEWED",
    )
    return render_labelling(page), len(items)


def _file_name(reviewer: str) -> str:
    return "".join(sign if sign.isalnum() or sign in "-_." else "-" for sign in reviewer).strip(".") or "me"


def _item(sample: Sample, record: SampleRecord | None, redact: Callable[[str], str]) -> PageItem:
    answer = ""
    contexts: tuple[tuple[str | None, str], ...] = tuple((None, text) for text in sample.reference_contexts)
    if record is not None:
        answer = redact(record.response.answer)
        contexts = tuple((redact(one.id) if one.id else None, redact(one.text)) for one in record.response.contexts)
    return PageItem(
        key=_key(sample),
        name=sample.id,
        question=sample.question,
        answer=answer,
        contexts=contexts,
        evidence=sample.reference_contexts if record is not None else (),
        tags=sample.tags,
        fields={
            "question": sample.question,
            "reference": sample.reference or "",
            "tags": ", ".join(sample.tags),
            "answerable": sample.answerable,
        },
    )


def _key(sample: Sample) -> str:
    """What was reviewed: the id, and a digest of the content that the page showed."""
    return f"{sample.content_hash()[:_HASH_DIGITS]} {sample.id}"


@dataclass(frozen=True, slots=True)
class MergedReview:
    """A golden set after a review; `left` are drafts without a decision."""

    samples: tuple[Sample, ...]
    accepted: int
    edited: int
    rejected: tuple[str, ...]
    left: int
    comments: tuple[tuple[str, str], ...]


def merge_review(golden: GoldenSet, files: Sequence[Path], *, today: date) -> MergedReview:
    """Put the decisions in `files` into `golden`: accepted samples are reviewed, rejected ones are gone.

    Raises ConfigError if a file can't be read, if two reviewers decided differently, or if a sample has changed since
    its page was made.
    """
    by_id = {sample.id: sample for sample in golden}
    decided: dict[str, tuple[_Row, str, Path]] = {}
    comments: list[tuple[str, str]] = []
    for path in files:
        saved = read_saved(_Saved, path, what="a file that a page of `ragstone review` saved")
        for row in saved.rows:
            name = row.key.partition(" ")[2]
            if row.comment.strip():
                comments.append((name, row.comment.strip()))
            if row.decision is None:
                continue
            sample = by_id.get(name)
            if sample is None or _key(sample) != row.key:
                what = "is not in the golden set" if sample is None else "has changed since the page was made"
                raise ConfigError(
                    f"sample '{name}' {what}.", where=str(path), hint="Make a new page and review it again."
                )
            before = decided.get(name)
            if before is not None and (before[0].decision, before[0].edits) != (row.decision, row.edits):
                raise ConfigError(
                    f"sample '{name}' was decided differently by {before[1]} and {saved.annotator}.",
                    where=f"{before[2]} and {path}",
                    hint="Agree on one decision, and save one of the files again.",
                )
            decided[name] = (row, saved.annotator, path)
    samples: list[Sample] = []
    rejected: list[str] = []
    counts: Counter[str] = Counter()
    for sample in golden:
        if sample.id not in decided:
            samples.append(sample)
            counts["left"] += sample.draft
            continue
        row, reviewer, path = decided[sample.id]
        if row.decision == "reject":
            rejected.append(sample.id)
            continue
        counts["accepted"] += 1
        counts["edited"] += row.edits != _Edits()
        day = row.at.date() if row.at is not None else today
        samples.append(replace(_edited(sample, row.edits, path), review=Review("reviewed", reviewer, day.isoformat())))
    return MergedReview(
        tuple(samples), counts["accepted"], counts["edited"], tuple(rejected), counts["left"], tuple(comments)
    )


def _edited(sample: Sample, edits: _Edits, path: Path) -> Sample:
    read: Mapping[str, Callable[[Any], object]] = {
        "question": cells.text,
        "reference": cells.text,
        "tags": cells.tags,
        "answerable": bool,
    }
    given = edits.model_dump(exclude_none=True)
    try:
        changed: dict[str, Any] = {name: read[name](value) for name, value in given.items()}
    except cells.CellError as error:
        raise ConfigError(f"the edit of sample '{sample.id}' {error}.", where=str(path)) from None
    if not changed.get("question", True):
        raise ConfigError(f"the edit of sample '{sample.id}' leaves no question.", where=str(path))
    return replace(sample, **changed)


@click.group(name="review", cls=DefaultGroup, default="page")
def command() -> None:
    """Review the drafts of a golden set, which count in no check before.

    `ragstone review FILE` makes a page that works without a network; the file that it saves is merged into the set.
    """


@command.command(short_help="Make a page for the drafts.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@option("--reviewer", value="NAME", default="", show_default=False, help="Who reviews  [default: asked when saving]")
@option("--run", value="RUN", help="A run, to show what the system answered.")
@option("--all", "everything", is_flag=True, help="Review all samples, not only drafts.")
@option("-o", "--output", value="FILE", default=Path("review.html"), help="The page.")
@CONFIG
def page(
    files: tuple[str, ...], reviewer: str, run: Path | None, everything: bool, output: Path, config: Path | None
) -> int:
    """Make a page for the drafts in FILE: accept, edit or reject each.

    \b
    Example:
      ragstone review drafts.jsonl --reviewer anna
    """
    settings = settings_from({"config": config})
    html, count = review_page(
        read_golden_set(settings, files),
        reviewer=reviewer,
        run=None if run is None else RunDirectory.open(run),
        everything=everything,
        redact=redactor(settings),
    )
    write_text(output, html)
    click.echo(f"{linked(output)}  {counted(count, 'sample')}")
    say(
        f"Open it in a browser, and save the file. Then: ragstone review merge {' '.join(files)} FILE -o reviewed.jsonl"
    )
    return 0


@command.command(short_help="Put decisions into the golden set.")
@click.argument("golden", metavar="GOLDEN_SET")
@click.argument("files", nargs=-1, required=True, type=PATH, metavar="FILE...")
@JSON_LINES
@option("--force", is_flag=True, help="Overwrite the output file, which may be GOLDEN_SET itself.")
@CONFIG
def merge(golden: str, files: tuple[Path, ...], output: Path, force: bool, config: Path | None) -> int:
    """Put the decisions in FILE, saved by a page, into GOLDEN_SET, and write it as native JSONL.

    Accepted samples get the status "reviewed", with reviewer and date; rejected ones are left out; others stay as they
    are.

    \b
    Example:
      ragstone review merge golden.jsonl review-anna.json -o golden.jsonl --force
    """
    read = read_golden_set(settings_from({"config": config}), [golden])
    merged = merge_review(read, files, today=datetime.now(UTC).date())
    write_samples(merged.samples, output, force=force)
    say(
        f"{merged.accepted:,} accepted ({merged.edited:,} of them edited), {len(merged.rejected):,} rejected, "
        f"{counted(merged.left, 'draft')} without a decision"
    )
    if merged.rejected:
        say(f"rejected: {some(list(merged.rejected), 20)}")
    for name, comment in merged.comments:
        say(f"comment on {shown_name(name)}: {' '.join(comment.split())}")
    say(f"wrote {counted(len(merged.samples), 'sample')} to {shown_name(str(output))}")
    return 0
