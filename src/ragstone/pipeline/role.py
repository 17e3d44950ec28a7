"""The role of a run for later ones: whether it can be their baseline, and what it hands
on if it can't."""

from __future__ import annotations

from msgspec import Struct

from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.lineage import lineage, used
from ragstone.evaluation.manifest import BaselineFact
from ragstone.gate.eligibility import eligibility
from ragstone.gate.verdict import GateVerdict
from ragstone.pipeline.decide import Terms

MAX_SPENT = 200
"""Maximum number of spent accepted drops that are remembered, newest first."""


class Role(Struct, frozen=True):
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

    def fact(self, baseline: RunDirectory | None, reason: str) -> BaselineFact:
        """What a run that can't be a baseline, for this `reason`, says of the one it
        was compared with."""
        if baseline is None:
            return BaselineFact(eligible=False, reason=reason)
        return BaselineFact(
            eligible=False,
            reason=reason,
            used=used(baseline, run_id=self.run_id, artifact=self.artifact),
            lineage=lineage(baseline),
        )


def baseline_fact(verdict: GateVerdict, role: Role, terms: Terms) -> BaselineFact:
    """Whether the run with this verdict can be a baseline, and what it was compared
    with."""
    eligible, reason = eligibility(verdict)
    if eligible and role.refusal is not None:
        eligible, reason = False, role.refusal
    accepted = terms.accepted.drops
    spent = [drop.id for drop in accepted]
    baseline = terms.baseline_run
    if baseline is not None and baseline.manifest.baseline is not None:
        spent += baseline.manifest.baseline.spent
    return role.fact(baseline, reason).model_copy(
        update={
            "eligible": eligible,
            "accepted": accepted,
            "spent": tuple(dict.fromkeys(spent))[:MAX_SPENT],
        }
    )
