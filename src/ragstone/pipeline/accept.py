"""Accept a drop, a rise of a guard, or an edit of the golden set, on purpose: a new
entry in accepted.toml."""

from __future__ import annotations

import datetime
import json
import os
import shlex
from collections.abc import Collection
from pathlib import Path

from msgspec import Struct

from ragstone.errors import ConfigError, parse_errors, suggestion
from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.files import replace_text
from ragstone.evaluation.manifest import GOLDEN_SET
from ragstone.formatting import some
from ragstone.gate.accepted import (
    ACCEPTED_FILE,
    AcceptedEntry,
    entry_id,
    parse_accepted,
    title_of,
)
from ragstone.gate.findings import ACCEPT
from ragstone.gate.policy import Policy
from ragstone.gate.policy_table import GUARDS
from ragstone.metrics.registry import METRICS, find_metric
from ragstone.pipeline.stored_report import require_report
from ragstone.settings.load import read_text
from ragstone.settings.source import MAX_RULES_BYTES

_HEAD = "# Drops accepted on purpose, appended by `ragstone accept`. Reports say when to remove an entry."


class Shown(Struct, frozen=True):
    """The drop of a run that is to be accepted."""

    drop: float
    run: str
    """The fingerprint of the run."""
    baseline: str
    """The fingerprint of the run's baseline."""
    edit: str | None = None
    """The fingerprint of the edit of the golden set, if that is what is accepted."""

    @classmethod
    def parse(cls, text: str) -> Shown:
        """The drop as a report's command names it: size, run, baseline, and edit, if
        any. Raises ConfigError."""
        parts = text.split(":")
        try:
            drop = float(parts[0])
        except ValueError:
            parts = []
        if len(parts) not in (3, 4):
            raise ConfigError(
                f"'{text[:80]}' names no drop.",
                where="--of",
                hint="Use the command in the report as it is.",
            )
        return cls(drop, *parts[1:])


class Accepted(Struct, frozen=True):
    """The entry that was written, and to which file."""

    entry: AcceptedEntry
    file: Path


def accept(
    policy: Policy,
    root: Path,
    shown: Shown | Path,
    *,
    metric: str,
    reason: str,
    today: datetime.date,
    slice_: str | None = None,
    expires: datetime.date | None = None,
    custom: Collection[str] = (),
) -> Accepted:
    """Append an entry for the drop of `metric` to the accepted.toml next to the policy,
    or in `root`. Nothing else is changed.

    `shown` is the drop, or the directory of the run with it; `custom` are the project's
    own metrics. Raises ConfigError if there is no such drop or metric, or the entry
    can't be written.
    """
    if metric in (GOLDEN_SET, *GUARDS) and slice_ is not None:
        raise ConfigError(
            f"{metric} has no slice.", where="--slice", hint="Remove --slice."
        )
    if expires is not None and expires < today:
        raise ConfigError(
            f"{expires} is in the past.", where="--expires", hint="Use a future date."
        )
    if isinstance(shown, Path):
        shown = drop_shown_by(shown, metric, slice_)
    else:
        with_rules = {name for _, name, _ in policy.rules()}
        names = {*METRICS, *GUARDS, GOLDEN_SET, *custom, *with_rules}
        if metric not in names and find_metric(metric) is None:
            raise ConfigError(
                f"unknown metric '{metric}'.",
                where="--metric",
                hint=suggestion(metric, names),
            )
    file = policy_folder(policy, root) / ACCEPTED_FILE
    with parse_errors(None, "it can't be accepted"):
        entry = AcceptedEntry(
            id=entry_id(metric, slice_, shown.run, shown.baseline),
            metric=metric,
            slice=slice_,
            drop=shown.drop,
            reason=reason,
            run=shown.run,
            baseline=shown.baseline,
            edit=shown.edit,
            date=today,
            expires=expires,
        )
    if entry.id in {accepted.id for accepted in policy.accepted}:
        raise ConfigError(
            f"this {entry.what} is already accepted ({entry.id}).", where=str(file)
        )
    before = read_text(file, limit=MAX_RULES_BYTES) if os.path.lexists(file) else _HEAD
    text = f"{before.rstrip()}\n\n{entry_text(entry)}"
    parse_accepted(text, str(file))  # check that the result is valid
    replace_text(file, text)
    return Accepted(entry, file)


def policy_folder(policy: Policy, root: Path) -> Path:
    """The folder of the policy's file; `root` for the default policy, which has
    none."""
    return root if policy.file is None else Path(policy.file).parent


def drop_shown_by(path: Path, metric: str, slice_: str | None) -> Shown:
    """The drop of `metric` (or the edit) in the run in `path`, as the command in its
    report names it. Raises ConfigError if there is none."""
    document = require_report(RunDirectory.open(path))
    offers: dict[str, str] = {}
    for finding in document.findings:
        if finding.kind == ACCEPT and finding.where is not None:
            offers[finding.where] = finding.text
    title = title_of(metric, slice_)
    if title not in offers:
        raise ConfigError(
            f"there is nothing to accept for {title} in this run.",
            where=str(path),
            hint=f"What can be accepted: {some(list(offers))}." if offers else None,
        )
    words = shlex.split(offers[title])
    return Shown.parse(words[words.index("--of") + 1])


def entry_text(entry: AcceptedEntry) -> str:
    """`entry` as appended to the file."""
    text = "[[accepted]]\n"
    for name, value in entry.model_dump(exclude_none=True).items():
        match value:
            case str():
                quoted = json.dumps(value, ensure_ascii=False)
                written = quoted.replace("\x7f", "\\u007f")
            case float():
                written = f"{value:.4f}".rstrip("0")
            case _:
                written = str(value)
        text += f"{name} = {written}\n"
    return text
