"""What a run is decided on, gathered once for all checks."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from ragstone.evaluation.scores import NO_RUN, RunScores
from ragstone.gate.bounds import Drop, Floor, drops_of, floors_of
from ragstone.gate.comparability import Pairing, pair_runs, with_lost_contexts
from ragstone.gate.grouping import with_groups_of
from ragstone.gate.policy import Policy
from ragstone.gate.rules import Rule, resolve_rules
from ragstone.gate.verdict import Action, Check, Explanation, Status


class Evidence(Struct, frozen=True):
    """The scores of a run, those of its baseline, and what the policy asks of them."""

    current: RunScores
    policy: Policy
    pairing: Pairing
    """The two runs; without a baseline, its run is empty."""
    has_baseline: bool
    rules: tuple[Rule, ...]
    floors: tuple[Floor, ...]
    """The floors of the rules that have a score."""
    drops: tuple[Drop, ...]
    """The drops of the rules that have a pair."""
    baseline_required: bool = False
    """Whether a run without a comparable baseline is an error."""
    drift: Sequence[Check] = ()
    """The checks against the history."""
    checks: tuple[Check, ...] = ()
    """The checks that are decided so far, in the order of the registry."""
    explanation: Explanation = field(default_factory=Explanation)
    """Why samples got worse; empty until all checks are decided."""

    @classmethod
    def of(
        cls,
        current: RunScores,
        baseline: RunScores | None,
        policy: Policy,
        *,
        baseline_required: bool = False,
        drift: Sequence[Check] = (),
    ) -> Evidence:
        """Pair the runs, and find the rules that apply."""
        has_baseline = baseline is not None
        baseline = baseline or NO_RUN
        # Neither an edit of groups nor contexts that are no longer returned may hide a
        # loss.
        current = with_groups_of(current, baseline)
        current = with_lost_contexts(current, baseline)
        pairing = pair_runs(current, baseline)
        rules = resolve_rules(policy, current)
        return cls(
            current,
            policy,
            pairing,
            has_baseline,
            rules,
            floors=tuple(floors_of(current, rules)),
            drops=tuple(drops_of(pairing, rules)),
            baseline_required=baseline_required,
            drift=drift,
        )

    def with_scores(self, current: RunScores, baseline: RunScores) -> Evidence:
        """This evidence with other scores of the two runs, under the same rules."""
        pairing = replace(self.pairing, current=current, baseline=baseline)
        return replace(
            self,
            current=current,
            pairing=pairing,
            floors=tuple(floors_of(current, self.rules)),
            drops=tuple(drops_of(pairing, self.rules)),
        )

    @property
    def baseline(self) -> RunScores:
        """The baseline; an empty run if there is none."""
        return self.pairing.baseline

    @property
    def is_compared(self) -> bool:
        """Whether there is a baseline that the run can be compared with."""
        return self.pairing.comparable

    @property
    def compared(self) -> Pairing:
        """The two runs; if they can't be compared, the baseline is an empty run."""
        if self.is_compared:
            return self.pairing
        return pair_runs(self.current, NO_RUN)

    def drops_with(self, action: Action) -> list[Drop]:
        """The drops whose checks have this action."""
        return [drop for drop in self.drops if drop.rule.drop_action is action]

    @property
    def has_blocker(self) -> bool:
        """Whether a blocking check fails or is inconclusive."""
        bad = (Status.FAIL, Status.INCONCLUSIVE)
        return any(check.blocks and check.status in bad for check in self.checks)

    @property
    def is_finished(self) -> bool:
        """Whether the run is known to have reached its end."""
        manifest = self.current.manifest
        return manifest is not None and manifest.state == "finished"

    @property
    def was_asked_again(self) -> bool:
        """Whether the system was asked again because of a doubt."""
        return self.current.confirmed

    @property
    def is_offline(self) -> bool:
        """Whether the offline judge scored the run."""
        return self.current.offline
