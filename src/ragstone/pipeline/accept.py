"""Accept a drop, a rise of a guard, or an edit of the golden set, on purpose: a new
entry in accepted.toml."""

from __future__ import annotations

import datetime
import os
from collections.abc import Collection, Sequence
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
    """The drop of a run that is to be accepted."""

    drop: float
    run: str
    """The fingerprint of the run."""
    baseline: str
    """The fingerprint of the run's baseline."""
    edit: str | None = None
    """The fingerprint of the edit of the golden set, if that is what is accepted."""
    commit: str | None = None
    still_failing: str | None = None
    """What fails the run anyway, if anything does: a sentence."""


class _Report(BaseModel):
    """What is needed of a run's JSON report."""

    schema_version: Literal[1]
    checks: tuple[Check, ...]


@dataclass(frozen=True, slots=True)
class Accepted:
    """The entry that was written, and to which file."""

    entry: AcceptedEntry
    file: Path
    still_failing: str | None = None


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
    own metrics. Raises ConfigError if there is no such drop, or the entry can't be
    written.
    """
    _require_metric(policy, shown, metric, slice_, custom)
    if expires is not None and expires < today:
        raise ConfigError(
            f"{expires} is in the past.", where="--expires", hint="Use a future date."
        )
    drop = (
        shown
        if isinstance(shown, Shown)
        else drop_shown_by(shown, policy, metric, slice_)
    )
    if (metric == GOLDEN_SET) != (drop.edit is not None):
        raise ConfigError(
            f"is needed for the metric '{GOLDEN_SET}', and for no other.",
            where="--of-edit",
            hint="Use the command in the report as it is.",
        )
    try:
        entry = AcceptedEntry(
            id=entry_id(metric, slice_, drop.run, drop.baseline),
            metric=metric,
            slice=slice_,
            drop=drop.drop,
            reason=reason,
            run=drop.run,
            baseline=drop.baseline,
            edit=drop.edit,
            commit=drop.commit,
            date=today,
            expires=expires,
        )
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise ConfigError(
            f"'{first['loc'][0]}': {first['msg']}, found {first['input']!r}."
        ) from None
    folder = root if policy.file is None else Path(policy.file).parent
    file = folder / ACCEPTED_FILE
    _append(entry, policy, file)
    return Accepted(entry, file, drop.still_failing)


def _require_metric(
    policy: Policy,
    shown: Shown | Path,
    metric: str,
    slice_: str | None,
    custom: Collection[str],
) -> None:
    """Raise ConfigError unless a drop of `metric` can be accepted."""
    if metric in (GOLDEN_SET, *GUARDS) and slice_ is not None:
        subject = f"an edit of the {GOLDEN_SET}" if metric == GOLDEN_SET else metric
        raise ConfigError(
            f"{subject} has no slice.", where="--slice", hint="Remove --slice."
        )
    if find_metric(metric) is not None:
        return
    with_rules = {name for _, name, _ in policy.table.rules()}
    metrics = {*METRICS, *GUARDS, GOLDEN_SET, *custom, *with_rules}
    if metric not in metrics and isinstance(shown, Path):
        metrics |= {
            check.metric for check in _checks(shown) if check.metric is not None
        }
    if metric not in metrics:
        raise ConfigError(
            f"unknown metric '{metric}'.",
            where="--metric",
            hint=suggestion(metric, metrics),
        )


def _append(entry: AcceptedEntry, policy: Policy, file: Path) -> None:
    """Add `entry` to the end of `file`. Raises ConfigError if it is there already."""
    if any(entry.id == accepted.id for accepted in policy.accepted):
        raise ConfigError(
            f"this {entry.what} is already accepted ({entry.id}).", where=str(file)
        )
    before = read_text(file, limit=MAX_RULES_BYTES) if os.path.lexists(file) else _HEAD
    text = f"{before.rstrip()}\n\n{entry_text(entry)}"
    parse_accepted(text, str(file))  # check that the result is valid
    replace_text(file, text)


def drop_shown_by(path: Path, policy: Policy, metric: str, slice_: str | None) -> Shown:
    """The drop of `metric` (or the edit) in the run in `path`, from its report. Raises
    ConfigError if there is none."""
    run = RunDirectory.open(path)
    used = run.manifest.baseline.used if run.manifest.baseline is not None else None
    if used is None:
        raise ConfigError(
            "this run was not compared with a baseline, so it shows no drop.",
            where=str(path),
            hint="Use the directory of a run that `ragstone gate` compared with a baseline.",
        )
    checks = _checks(path)
    of_metric = [check for check in checks if _is_about(check, metric, slice_)]
    offers = [offer_for(check) for check in of_metric]
    offer = next((offer for offer in offers if offer is not None), None)
    still_failing = _failing_floor(
        checks, of_metric, policy, metric, slice_, is_offered=offer is not None
    )
    if offer is None:
        why = _why_nothing(of_metric, metric, slice_)
        raise ConfigError(f"there is nothing to accept: {why}", where=str(path))
    return Shown(
        offer.drop,
        run.fingerprint,
        used.fingerprint,
        offer.edit,
        run.manifest.system.commit,
        still_failing,
    )


def _is_about(check: Check, metric: str, slice_: str | None) -> bool:
    """Whether `check` is one of `metric`, of the golden set's edit, or of the guard of
    this name."""
    if metric == GOLDEN_SET:
        return check.kind is CheckKind.GOLDEN_SET
    if check.kind is CheckKind.SHARE and check.name == metric:
        return True
    return check.place == (metric, slice_)


def _failing_floor(
    checks: Sequence[Check],
    of_metric: Sequence[Check],
    policy: Policy,
    metric: str,
    slice_: str | None,
    *,
    is_offered: bool,
) -> str | None:
    """A sentence on a floor (or ceiling) that fails the run whatever is accepted.

    Raises ConfigError if it is that of `metric`, and nothing of it is offered.
    """
    failed = [
        check
        for check in checks
        if check.status is Status.FAIL and check.action is Action.BLOCK
    ]
    levels = [check for check in failed if check.kind in LEVELS]
    own = [check for check in levels if check in of_metric]
    if not levels:
        return None
    level = own[0] if own else levels[0]
    bound, side = (
        ("max", "above its ceiling")
        if level.kind is CheckKind.CEILING
        else ("min", "below its floor")
    )
    title = title_of(level.metric, level.slice)
    sentence = (
        f"{title} is {side}, and `ragstone accept` does not apply to {level.kind}s."
    )
    hint = f"Change its `{bound}` in the policy; the report of the pull request will mention it."
    if own and not is_offered:
        key = (
            ("metrics", metric, bound)
            if slice_ is None
            else ("slices", slice_, "metrics", metric, bound)
        )
        raise ConfigError(sentence, where=policy.where(*key), hint=hint)
    return f"{sentence} So the run fails still. {hint}"


def _why_nothing(of_metric: Sequence[Check], metric: str, slice_: str | None) -> str:
    """Why no drop, rise or edit can be accepted, as the end of a sentence."""
    kinds = {*CHANGES, CheckKind.GOLDEN_SET, CheckKind.SHARE}
    change = next((check for check in of_metric if check.kind in kinds), None)
    if metric == GOLDEN_SET:
        return (
            "no more questions of the baseline were edited than may be."
            if change is None
            else change.reason
        )
    if metric in GUARDS:
        return f"{metric} is no check of this run." if change is None else change.reason
    title = title_of(metric, slice_)
    if change is None:
        return f"{title} has no {change_word(metric)} check in this run"
    return f"{title} did not fail its {change.kind} check: {change.reason}"


def _checks(path: Path) -> tuple[Check, ...]:
    file = path / REPORT_FILES["json"]
    hint = "`ragstone gate` writes it. Or give --drop, --of-run and --of-baseline, as shown in the report."
    with (
        disk_errors(file, hint=hint),
        parse_errors(file, "not a report of this version", hint=hint),
    ):
        return _Report.model_validate_json(
            read_regular(file, limit=MAX_REPORT_BYTES)
        ).checks
