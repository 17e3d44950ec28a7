"""The role of a run for later ones: whether it can be their baseline, and what it hands
on if it can't."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ragstone.evaluation.directory import RunDirectory, read_manifest
from ragstone.evaluation.lineage import carry, lineage, used
from ragstone.evaluation.manifest import AcceptedDrop, BaselineFact
from ragstone.evaluation.writer import write_manifest
from ragstone.gate.eligibility import eligibility
from ragstone.gate.verdict import GateVerdict
from ragstone.pipeline.decide import Terms
from ragstone.pipeline.history import RunHistory, store_history

MAX_SPENT = 200
"""Maximum number of spent accepted drops that are remembered, newest first."""


@dataclass(frozen=True, slots=True)
class Role:
    """The role of a run for later ones.

    `refusal` says why it can't be a baseline whatever its verdict, without a full stop.
    `carries`: if it can't, it carries the baseline that it used. `run_id` is the id of
    that baseline, on GitHub, and `artifact` is where it was: a run's id, and the
    artifact's name.
    """

    refusal: str | None = None
    carries: bool = False
    run_id: int | None = None
    artifact: tuple[int, str] | None = None


def baseline_fact(
    verdict: GateVerdict, role: Role, baseline: RunDirectory | None, terms: Terms
) -> BaselineFact:
    """Whether the run with this verdict can be a baseline, and what it was compared
    with."""
    eligible, reason = eligibility(verdict)
    if eligible and role.refusal is not None:
        eligible, reason = False, role.refusal
    entries = terms.accepted.entries
    before = baseline.manifest.baseline if baseline is not None else None
    spent = dict.fromkeys(
        (
            *(entry.id for entry in entries),
            *(before.spent if before is not None else ()),
        )
    )
    return BaselineFact(
        eligible=eligible,
        reason=reason,
        used=None
        if baseline is None
        else used(baseline, run_id=role.run_id, artifact=role.artifact),
        lineage=() if baseline is None else lineage(baseline),
        accepted=tuple(
            AcceptedDrop(
                id=entry.id, metric=entry.metric, slice=entry.slice, drop=entry.drop
            )
            for entry in entries
        ),
        spent=tuple(spent)[:MAX_SPENT],
    )


def hand_on(
    out: Path,
    role: Role,
    baseline: RunDirectory | None,
    past: RunHistory | None,
    *,
    undecided: bool,
) -> None:
    """Put baseline and history into a run that was stopped: its artifact may be the
    newest one.

    `undecided`: the run itself had finished.
    """
    manifest = read_manifest(out)
    if manifest.state != "stopped" and not undecided:
        return
    fact = BaselineFact(
        eligible=False,
        reason="the gate was stopped before its verdict"
        if undecided
        else "the run was stopped, not finished",
        used=None
        if baseline is None
        else used(baseline, run_id=role.run_id, artifact=role.artifact),
        lineage=() if baseline is None else lineage(baseline),
    )
    if role.carries and baseline is not None:
        carry(baseline, out)
    write_manifest(out, manifest.model_copy(update={"baseline": fact}))
    if past is not None and past.file is None:
        store_history(past, RunDirectory(out, manifest), past.history)
