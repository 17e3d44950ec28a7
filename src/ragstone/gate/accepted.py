"""Drops and edits of the golden set that the team accepted: accepted.toml, and which
entries are in force in a run."""

from __future__ import annotations

import base64
import datetime
import hashlib
import math
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

from msgspec import Struct
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)

from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.lineage import lineage
from ragstone.evaluation.manifest import GOLDEN_SET, AcceptedDrop
from ragstone.formatting import percent
from ragstone.gate.policy_table import COMPARED_GUARD, GUARDS, POLICY_FILE, GateRules
from ragstone.gate.verdict import CHANGE_KINDS, LEVEL_KINDS, Check, CheckKind, Status
from ragstone.metrics.registry import lower_is_better
from ragstone.printable import shell_command
from ragstone.settings.load import parse_toml, read_text
from ragstone.settings.source import MAX_RULES_BYTES, Source
from ragstone.settings.toml_lines import key_lines

ACCEPTED_FILE = "accepted.toml"
"""Next to the policy file, and separate from it: a command writes it, and must not
change what people wrote."""

TABLE = "accepted"
"""The name of the table of each entry."""
Target = tuple[str, str | None]
"""What an entry accepts a loss of: a metric and the tag of a slice, or None for all
samples; or GOLDEN_SET and the fingerprint of its edit."""

_Text = Annotated[
    str, StringConstraints(min_length=1, max_length=500, strip_whitespace=True)
]
_Fingerprint = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{16}$")]


class AcceptedEntry(BaseModel):
    """[[accepted]]: one accepted drop of one metric, bound to the run with the drop and
    to the baseline of that run.

    With `GOLDEN_SET` as the metric, it is one edit of the golden set. With the name of
    a guard, it is a rise of the share of samples that the guard counts.
    """

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")

    id: Annotated[str, StringConstraints(pattern=r"^[a-z2-7]{8}$")]
    metric: _Text
    slice: _Text | None = None
    drop: Annotated[float, Field(gt=0.0, le=1.0, allow_inf_nan=False, strict=True)]
    """The size of the drop or rise; for an edit, the share of the baseline's samples
    that are removed, changed or turned into drafts."""
    reason: _Text
    run: _Fingerprint
    baseline: _Fingerprint
    date: Annotated[datetime.date, Field(strict=True)]
    expires: Annotated[datetime.date, Field(strict=True)] | None = None
    edit: _Fingerprint | None = None
    """The fingerprint of what the edited samples were and are now."""

    @model_validator(mode="after")
    def _check_edit(self) -> AcceptedEntry:
        """Raise ValueError if an edit has no fingerprint, or anything else has one."""
        has_edit = self.edit is not None
        if self.is_edit != has_edit:
            raise ValueError(
                f"`edit` is needed for the metric '{GOLDEN_SET}', and allowed for no other; `ragstone accept` writes it"
            )
        return self

    @property
    def is_edit(self) -> bool:
        """Whether an edit of the golden set is accepted."""
        return self.metric == GOLDEN_SET

    @property
    def target(self) -> Target:
        """What the entry accepts a loss of."""
        return self.metric, self.edit if self.is_edit else self.slice

    @property
    def title(self) -> str:
        """What is accepted, without its size: ``drop of faithfulness``."""
        if self.is_edit:
            return f"edit of the {GOLDEN_SET}"
        is_rise = self.metric in GUARDS or lower_is_better(self.metric)
        change = "rise" if is_rise else "drop"
        title = title_of(self.metric, self.slice)
        return f"{change} of {title}"

    @property
    def description(self) -> str:
        """What is accepted, with its size: ``a drop of faithfulness of up to 0.05``."""
        share = f"{percent(self.drop)} of the samples"
        if self.is_edit:
            return f"an {self.title} ({share})"
        size = share if self.metric in GUARDS else f"{self.drop:.4g}"
        return f"a {self.title} of up to {size}"

    def __str__(self) -> str:
        """``accepts a drop of faithfulness of up to 0.05 until 2027-01-31 (…): why``."""
        until = ""
        if self.expires is not None:
            until = f" until {self.expires}"
        return f"accepts {self.description}{until} ({self.id}): {self.reason}"


class _AcceptedFile(BaseModel):
    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")

    accepted: list[AcceptedEntry] = Field(default_factory=list)


class Offer(Struct, frozen=True):
    """What to accept for a check to pass: a drop, a rise of the share of a guard, or an
    edit of the golden set."""

    metric: str
    slice: str | None
    drop: float
    edit: str | None = None

    def command(
        self,
        *,
        run: str,
        baseline: str,
        folder: str | None = None,
        thresholds: str | None = None,
    ) -> str:
        """The shell command that accepts it, to run in `folder`; `run` and `baseline`
        are fingerprints, and `thresholds` is the path of the policy."""
        words = ["ragstone", "accept", "--metric", self.metric]
        if self.slice is not None:
            words += ["--slice", self.slice]
        size = f"{self.drop:.4g}"
        parts = (size, run, baseline, self.edit)
        words += ["--of", ":".join(filter(None, parts))]
        if thresholds is not None and thresholds != POLICY_FILE:
            words += ["--thresholds", thresholds]
        accept = shell_command([*words, "--reason", "why it is worth it"])
        if folder is None or folder == ".":
            return accept
        change_folder = shell_command(["cd", folder])
        return f"{change_folder} && {accept}"


class EntriesInForce(Struct, frozen=True):
    """The entries that are in force in a run."""

    entries: tuple[AcceptedEntry, ...] = ()
    removal_notes: tuple[str, ...] = ()
    """A sentence on each entry that will never be in force again."""

    @property
    def drops(self) -> tuple[AcceptedDrop, ...]:
        """The entries as the manifest of a run records them."""
        return tuple(
            AcceptedDrop(
                id=entry.id, metric=entry.metric, slice=entry.slice, drop=entry.drop
            )
            for entry in self.entries
        )

    @property
    def in_force_notes(self) -> Iterator[str]:
        """A sentence on each entry that counts, for the top of a report."""
        for entry in self.largest.values():
            sentence = str(entry).rstrip(".")
            yield f"{ACCEPTED_FILE} {sentence}."

    @property
    def largest(self) -> dict[Target, AcceptedEntry]:
        """The entry that counts for each target: the largest, never the sum."""
        by_size = sorted(self.entries, key=lambda entry: entry.drop)
        return {entry.target: entry for entry in by_size}


def entry_id(metric: str, slice_: str | None, run: str, baseline: str) -> str:
    """The id of an entry; the same drop of the same run always has the same id.

    `run` and `baseline` are fingerprints.
    """
    parts = (metric, slice_ or "", run, baseline)
    body = "\0".join(parts)
    encoded = body.encode("utf-8", "replace")
    digest = hashlib.sha256(encoded).digest()
    # Not hexadecimal: GitHub would link it as a commit.
    identifier = base64.b32encode(digest[:5])
    return identifier.decode().lower()


def find_entries_in_force(
    entries: Iterable[AcceptedEntry],
    *,
    lineage: Sequence[str],
    spent: Collection[str],
    today: datetime.date,
) -> EntriesInForce:
    """Find which of `entries` are in force in a run of `today`. Pure.

    `lineage` has the fingerprints of the run's baseline and of that one's baselines,
    `spent` the ids of the drops that the scores of the baseline already include.
    Without a baseline nothing is in force, and only what has expired can be removed.
    """
    in_force = []
    removal_notes = []
    for entry in entries:
        cause = ""
        if entry.id in spent:
            cause = "is spent, because the baseline includes the change"
        elif entry.expires is not None and today > entry.expires:
            cause = f"expired on {entry.expires}"
        elif entry.baseline in lineage:
            in_force.append(entry)
        elif lineage:
            cause = (
                "is bound to a baseline that this run's baseline does not descend from"
            )
        if cause:
            removal_notes.append(
                f"{ACCEPTED_FILE}: the accepted {entry.title} ({entry.id}) {cause}: remove it."
            )
    return EntriesInForce(tuple(in_force), tuple(removal_notes))


def accepted_for_run(
    entries: Iterable[AcceptedEntry],
    baseline: RunDirectory | None,
    today: datetime.date,
) -> EntriesInForce:
    """Find which of `entries` are in force in a run of `today` that is compared with
    `baseline`."""
    if baseline is None:
        return find_entries_in_force(entries, lineage=(), spent=(), today=today)
    fact = baseline.manifest.baseline
    spent = () if fact is None else fact.spent
    return find_entries_in_force(
        entries, lineage=lineage(baseline), spent=spent, today=today
    )


def offers(checks: Iterable[Check], gate: GateRules) -> Iterator[Offer]:
    """What to accept for this run to pass: the drops, the rises of guards and the edit
    of the golden set that stop it.

    Nothing for a metric that its floor (or ceiling) fails anyway, and no loss where too
    many answers are broken.
    """
    stopping = {Status.FAIL}
    if gate.inconclusive == "fail":
        stopping.add(Status.INCONCLUSIVE)
    edits = []
    losses = []
    doubts = []
    for check in checks:
        if check.passed or not check.blocks:
            continue
        # Too little was compared to say what is lost.
        if check.kind == CheckKind.PAIRED:
            return
        if check.kind == CheckKind.GOLDEN_SET:
            if check.status in {*stopping, Status.ERROR}:
                edits.append(check)
        elif check.status in stopping:
            losses.append(check)
        elif check.kind in CHANGE_KINDS:
            doubts.append(check)
    kinds = {check.kind for check in losses}
    # The check of the mean of several metrics names no metric.
    has_mean = any(check.kind in CHANGE_KINDS and not check.metric for check in losses)
    if CheckKind.ANSWERS in kinds or any(map(_is_over_its_limit, losses)):
        losses = []
    elif CheckKind.QUESTIONS in kinds or has_mean:
        # Neither can be accepted by itself, but the drops that it comes from can.
        losses += doubts
    missed = {check.place for check in losses if check.kind in LEVEL_KINDS}
    acceptable = [check for check in losses if check.place not in missed]
    for check in (*edits[:1], *acceptable):
        offer = _offer_for(check)
        if offer is not None:
            yield offer


def _is_over_its_limit(check: Check) -> bool:
    """Whether a guard counts more answers than is allowed, whatever the baseline has:
    then no rise from the baseline can be accepted."""
    is_limited = check.kind == CheckKind.SHARE and check.name != COMPARED_GUARD
    return is_limited and check.is_beyond


def _offer_for(check: Check) -> Offer | None:
    """The drop (or drift, or edit) to accept for `check` to pass, rounded up to four
    digits; None for other checks."""
    metric = check.metric
    bounds = [check.estimate or 0.0]
    # Where a check has an interval, its worse end decides.
    if check.interval is not None:
        bounds += [check.interval.low, check.interval.high]
    loss = 0.0
    match check.kind:
        case CheckKind.GOLDEN_SET:
            metric = GOLDEN_SET
            loss = max(bounds)
        case CheckKind.SHARE:
            metric = check.name
            if check.baseline is not None:
                loss = (check.current or 0.0) - check.baseline
        case CheckKind.RISE:
            loss = max(bounds)
        case CheckKind.DROP | CheckKind.DRIFT:
            loss = -min(bounds)
    # Less than a millionth of a step is an error of binary fractions: 0.0300 stays.
    rounded = math.ceil(loss * 1e4 - 1e-6) / 1e4
    size = min(1.0, rounded)
    if metric is None or size <= 0.0:
        return None
    return Offer(metric, check.slice, size, check.edit)


def read_accepted(
    path: Path, *, within: Path | None = None
) -> tuple[AcceptedEntry, ...]:
    """Read the entries in the file `path`; none if it doesn't exist. Raises ConfigError
    with file and line."""
    if not os.path.lexists(path):
        return ()
    text = read_text(path, within=within, limit=MAX_RULES_BYTES)
    return parse_accepted(text, str(path))


def parse_accepted(text: str, where: str) -> tuple[AcceptedEntry, ...]:
    """The entries in the `text` of the file `where`. Raises ConfigError with file and
    line."""
    document = parse_toml(text, Path(where))
    source = Source(where, key_lines(text))
    try:
        entries = _AcceptedFile.model_validate(document).accepted
    except ValidationError as error:
        raise source.invalid(error, _AcceptedFile) from None
    ids = set()
    for index, entry in enumerate(entries):
        if entry.id in ids:
            path = (TABLE, str(index), "id")
            raise source.error(path, f"the id {entry.id} is duplicated.")
        ids.add(entry.id)
    return tuple(entries)


def title_of(metric: str | None, slice_: str | None) -> str:
    """The name of a metric over all samples, or on a slice: ``mrr on 'de'``."""
    if slice_ is None:
        return str(metric)
    return f"{metric} on '{slice_}'"
