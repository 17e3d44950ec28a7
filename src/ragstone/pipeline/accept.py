"""Accept a drop, a rise of a guard, or an edit of the golden set, on purpose: a new entry in accepted.toml."""

from __future__ import annotations

import datetime
import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ValidationError

from ragstone.errors import ConfigError, disk_errors, parse_errors, suggestion
from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.files import replace_text
from ragstone.evaluation.manifest import GOLDEN_SET
from ragstone.files import read_regular
from ragstone.gate.accepted import (
    ACCEPTED_FILE,
    AcceptedEntry,
    change_word,
    entry_id,
    entry_text,
    offer_for,
    parse_accepted,
    title_of,
)
from ragstone.gate.policy import Policy
from ragstone.gate.policy_table import GUARDS
from ragstone.gate.source import MAX_RULES_BYTES
from ragstone.gate.verdict import CHANGES, LEVELS, Action, Check, CheckKind, Status
from ragstone.metrics.registry import METRICS, find_metric
from ragstone.pipeline.gate import REPORT_FILES
from ragstone.settings.load import read_text

MAX_REPORT_BYTES = 256 * 1024 * 1024
_HEAD = "# Drops accepted on purpose, appended by `ragstone accept`. Reports say when to remove an entry."


@dataclass(frozen=True, slots=True)
class Shown:
    """The drop of a run: its size, the run, its baseline, the edit of the golden set (all three as fingerprints)."""

    drop: float
    run: str
    baseline: str
    edit: str | None = None
    commit: str | None = None
    left: str | None = None
    """What fails the run anyway, if anything does: a sentence."""


class _Report(BaseModel):
    """What is needed of a run's JSON report."""

    schema_version: Literal[1]
    checks: tuple[Check, ...]


@dataclass(frozen=True, slots=True)
class Accepted:
    entry: AcceptedEntry
    file: Path
    left: str | None = None


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
    """Append an entry for the drop of `metric` to the accepted.toml next to the policy, or in `root`. Nothing else
    is changed.

    `shown` is the drop, or the directory of the run with it; `custom` are the project's own metrics. Raises ConfigError
    if there is no such drop, or the entry can't be written.
    """
    if metric in (GOLDEN_SET, *GUARDS) and slice_ is not None:
        what = f"an edit of the {GOLDEN_SET}" if metric == GOLDEN_SET else metric
        raise ConfigError(f"{what} has no slice.", where="--slice", hint="Remove --slice.")
    known = {*METRICS, *GUARDS, GOLDEN_SET, *custom, *(name for _, name, _ in policy.table.rules())}
    if metric not in known and find_metric(metric) is None and isinstance(shown, Path):
        known |= {check.metric for check in _checks(shown) if check.metric is not None}
    if metric not in known and find_metric(metric) is None:
        raise ConfigError(f"unknown metric '{metric}'.", where="--metric", hint=suggestion(metric, known))
    if expires is not None and expires < today:
        raise ConfigError(f"{expires} is in the past.", where="--expires", hint="Use a future date.")
    found = shown if isinstance(shown, Shown) else drop_shown_by(shown, policy, metric, slice_)
    if (metric == GOLDEN_SET) != (found.edit is not None):
        needed = f"is needed for the metric '{GOLDEN_SET}', and for no other."
        raise ConfigError(needed, where="--of-edit", hint="Use the command in the report as it is.")
    try:
        entry = AcceptedEntry(
            id=entry_id(metric, slice_, found.run, found.baseline),
            metric=metric,
            slice=slice_,
            drop=found.drop,
            reason=reason,
            run=found.run,
            baseline=found.baseline,
            edit=found.edit,
            commit=found.commit,
            date=today,
            expires=expires,
        )
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise ConfigError(f"'{first['loc'][0]}': {first['msg']}, found {first['input']!r}.") from None
    folder = root if policy.file is None else Path(policy.file).parent
    file = folder / ACCEPTED_FILE
    if any(entry.id == other.id for other in policy.accepted):
        raise ConfigError(f"this {entry.what} is already accepted ({entry.id}).", where=str(file))
    before = read_text(file, limit=MAX_RULES_BYTES) if os.path.lexists(file) else _HEAD
    text = f"{before.rstrip()}\n\n{entry_text(entry)}"
    parse_accepted(text, str(file))  # check that the result is valid
    replace_text(file, text)
    return Accepted(entry, file, found.left)


def drop_shown_by(path: Path, policy: Policy, metric: str, slice_: str | None) -> Shown:
    """The drop of `metric` (or the edit) in the run in `path`, from its report. Raises ConfigError if there is none."""
    run = RunDirectory.open(path)
    used = run.manifest.baseline.used if run.manifest.baseline is not None else None
    if used is None:
        raise ConfigError(
            "this run was not compared with a baseline, so it shows no drop.",
            where=str(path),
            hint="Use the directory of a run that `ragstone gate` compared with a baseline.",
        )
    checks = _checks(path)
    target = (metric, slice_)
    of = [
        one
        for one in checks
        if (one.metric, one.slice) == target
        or (metric, one.kind) == (GOLDEN_SET, CheckKind.GOLDEN_SET)
        or (metric, one.kind) == (one.name, CheckKind.SHARE)
    ]
    floors = [one for one in checks if (one.status, one.action) == (Status.FAIL, Action.BLOCK) and one.kind in LEVELS]
    floor = next((one for one in floors if one in of), floors[0] if floors else None)
    left = None
    offer = next((found for one in of if (found := offer_for(one, policy.gate.decision)) is not None), None)
    if floor is not None:
        bound, what = ("max", "above its ceiling") if floor.kind == "ceiling" else ("min", "below its floor")
        title = title_of(floor.metric, floor.slice)
        said = f"{title} is {what}, and `ragstone accept` does not apply to {floor.kind}s."
        hint = f"Change its `{bound}` in the policy; the report of the pull request will mention it."
        if offer is None and floor in of:
            key = ("metrics", metric, bound) if slice_ is None else ("slices", slice_, "metrics", metric, bound)
            raise ConfigError(said, where=policy.where(*key), hint=hint)
        left = f"{said} So the run fails still. {hint}"
    if offer is None:
        change = next((one for one in of if one.kind in {*CHANGES, CheckKind.GOLDEN_SET, CheckKind.SHARE}), None)
        if metric == GOLDEN_SET:
            said = "no more questions of the baseline were edited than may be." if change is None else change.reason
        elif metric in GUARDS:
            said = f"{metric} is no check of this run." if change is None else change.reason
        elif change is None:
            said = f"{title_of(*target)} has no {change_word(metric)} check in this run"
        else:
            said = f"{title_of(*target)} did not fail its {change.kind} check: {change.reason}"
        raise ConfigError(f"there is nothing to accept: {said}", where=str(path))
    return Shown(offer.drop, run.fingerprint, used.fingerprint, offer.edit, run.manifest.system.commit, left)


def _checks(path: Path) -> tuple[Check, ...]:
    file = path / REPORT_FILES["json"]
    hint = "`ragstone gate` writes it. Or give --drop, --of-run and --of-baseline, as shown in the report."
    with disk_errors(file, hint=hint), parse_errors(file, "not a report of this version", hint=hint):
        return _Report.model_validate_json(read_regular(file, limit=MAX_REPORT_BYTES)).checks
