"""The role of a run for later runs: whether it can be their baseline, and if not, which
baseline it carries for them."""

from __future__ import annotations

from msgspec import Struct

from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.lineage import describe_baseline, lineage
from ragstone.evaluation.manifest import BaselineFact
from ragstone.gate.eligibility import eligibility
from ragstone.gate.verdict import GateVerdict
from ragstone.pipeline.decide import Terms

MAX_SPENT = 200
"""How many accepted drops a baseline remembers as spent, the newest first."""


class Role(Struct, frozen=True):
    """The role of a run for later runs. `run_id` is the id of its baseline's run on
    GitHub."""

    refusal: str | None = None
    """Why it can't be a baseline whatever its verdict, as a clause."""
    carries: bool = False
    """Whether it carries the baseline that it was compared with, if it can't be one."""
    run_id: int | None = None
    artifact: tuple[int, str] | None = None
    """Where that baseline was found: the id of a run, and the name of its artifact."""

    def fact(self, baseline: RunDirectory | None, reason: str) -> BaselineFact:
        """What the manifest says of a run that can't be a baseline, for this `reason`,
        and of the one it was compared with."""
        if baseline is None:
            return BaselineFact(eligible=False, reason=reason)
        return BaselineFact(
            eligible=False,
            reason=reason,
            used=describe_baseline(
                baseline, run_id=self.run_id, artifact=self.artifact
            ),
            lineage=lineage(baseline),
        )


def baseline_fact(verdict: GateVerdict, role: Role, terms: Terms) -> BaselineFact:
    """What the manifest says of a run with this verdict: whether it can be a baseline,
    and what it was compared with."""
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
