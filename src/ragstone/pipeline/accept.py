"""Accepts a drop, a rise of a guard, or an edit of the golden set, by a new entry in
accepted.toml."""

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
from ragstone.evaluation.manifest import GOLDEN_SET
from ragstone.evaluation.run_files import replace_text
from ragstone.formatting import join_first
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

_HEADER = "# Drops accepted on purpose, appended by `ragstone accept`. Reports say when to remove an entry."


class MeasuredDrop(Struct, frozen=True):
    """The drop of a run that is to be accepted."""

    size: float
    run: str
    """The fingerprint of the run."""
    baseline: str
    """The fingerprint of the run's baseline."""
    edit: str | None = None
    """The fingerprint of the edit of the golden set, if that is what is accepted."""

    @classmethod
    def parse(cls, text: str) -> MeasuredDrop:
        """The drop in the form ``size:run:baseline`` or ``size:run:baseline:edit``, as
        the command in a report has it. Raises ConfigError."""
        parts = text.split(":")
        try:
            size = float(parts[0])
        except ValueError:
            parts = []
        if len(parts) not in (3, 4):
            raise ConfigError(
                f"'{text[:80]}' is not a drop.",
                where="--of",
                hint="Copy the whole command from the report.",
            )
        return cls(size, *parts[1:])


class Accepted(Struct, frozen=True):
    """An entry, and the file to which it was written."""

    entry: AcceptedEntry
    file: Path


def accept(
    policy: Policy,
    root: Path,
    source: MeasuredDrop | Path,
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

    `source` is the drop, or the directory of the run that has it. `custom` are the
    names of the project's own metrics. Raises ConfigError if there is no such drop or
    metric, or the entry can't be written.
    """
    if metric in (GOLDEN_SET, *GUARDS) and slice_ is not None:
        raise ConfigError(
            f"{metric} has no slices.", where="--slice", hint="Leave out --slice."
        )
    if expires is not None and expires < today:
        raise ConfigError(
            f"{expires} is in the past.",
            where="--expires",
            hint="Use today's date or a later one.",
        )
    if isinstance(source, Path):
        drop = drop_in_run(source, metric, slice_)
    else:
        drop = source
        in_rules = {name for _, name, _ in policy.rules()}
        names = {*METRICS, *GUARDS, GOLDEN_SET, *custom, *in_rules}
        if metric not in names and find_metric(metric) is None:
            raise ConfigError(
                f"unknown metric '{metric}'.",
                where="--metric",
                hint=suggestion(metric, names),
            )
    file = policy_folder(policy, root) / ACCEPTED_FILE
    with parse_errors(None, "it can't be accepted"):
        entry = AcceptedEntry(
            id=entry_id(metric, slice_, drop.run, drop.baseline),
            metric=metric,
            slice=slice_,
            drop=drop.size,
            reason=reason,
            run=drop.run,
            baseline=drop.baseline,
            edit=drop.edit,
            date=today,
            expires=expires,
        )
    if entry.id in {accepted.id for accepted in policy.accepted}:
        raise ConfigError(
            f"this {entry.title} is already accepted ({entry.id}).", where=str(file)
        )
    before = (
        read_text(file, limit=MAX_RULES_BYTES) if os.path.lexists(file) else _HEADER
    )
    text = f"{before.rstrip()}\n\n{entry_text(entry)}"
    parse_accepted(text, str(file))  # raises if the entry would break the file
    replace_text(file, text)
    return Accepted(entry, file)


def policy_folder(policy: Policy, root: Path) -> Path:
    """The folder of the policy's file; `root` for the default policy, which is in no
    file."""
    return root if policy.file is None else Path(policy.file).parent


def drop_in_run(path: Path, metric: str, slice_: str | None) -> MeasuredDrop:
    """The drop of `metric`, or the edit of the golden set, that the report of the run
    in `path` offers to accept. Raises ConfigError if there is none."""
    document = require_report(RunDirectory.open(path))
    commands: dict[str, str] = {}
    for finding in document.findings:
        if finding.kind == ACCEPT and finding.where is not None:
            commands[finding.where] = finding.text
    title = title_of(metric, slice_)
    if title not in commands:
        raise ConfigError(
            f"there is nothing to accept for {title} in this run.",
            where=str(path),
            hint=f"What can be accepted: {join_first(list(commands))}."
            if commands
            else None,
        )
    words = shlex.split(commands[title])
    return MeasuredDrop.parse(words[words.index("--of") + 1])


def entry_text(entry: AcceptedEntry) -> str:
    """The TOML of `entry`, to be appended to the file."""
    text = "[[accepted]]\n"
    for name, value in entry.model_dump(exclude_none=True).items():
        match value:
            case str():
                quoted = json.dumps(value, ensure_ascii=False)
                # The one character that TOML escapes and JSON does not.
                written = quoted.replace("\x7f", "\\u007f")
            case float():
                written = f"{value:.4f}".rstrip("0")
            case _:
                written = str(value)
        text += f"{name} = {written}\n"
    return text
