"""What a run is decided on: gathered once, and the same for every check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ragstone.evaluation.scores import RunScores
from ragstone.gate.bounds import BoundCheck, questions
from ragstone.gate.comparability import Pairing, pair_runs, with_lost_contexts
from ragstone.gate.grouping import with_groups_of
from ragstone.gate.policy import Policy
from ragstone.gate.rules import Rule, resolve_rules
from ragstone.gate.verdict import Action, Check, Explanation, Status


@dataclass(frozen=True, slots=True)
class Evidence:
    """The scores of a run, those of its baseline, and what the policy asks of them.

    `pairing` is None without a baseline. `asked` are the floors and drops that have a score. `unknown_tags` maps a tag
    of the policy that no sample has to a hint. `baseline_required`: a run without a comparable baseline is an error.
    `drift` are the checks against the history.
    `decided` are the checks so far, in the order of the registry; `explanation` follows from all of them.
    """

    current: RunScores
    policy: Policy
    pairing: Pairing | None
    rules: tuple[Rule, ...]
    asked: tuple[BoundCheck, ...]
    unknown_tags: Mapping[str, str] = field(default_factory=dict)
    baseline_required: bool = False
    seed: int = 0
    drift: Sequence[Check] = ()
    decided: tuple[Check, ...] = ()
    explanation: Explanation = field(default_factory=Explanation)

    @classmethod
    def of(
        cls,
        current: RunScores,
        baseline: RunScores | None,
        policy: Policy,
        *,
        baseline_required: bool = False,
        seed: int = 0,
        drift: Sequence[Check] = (),
    ) -> Evidence:
        """Pair the runs, and find the rules that apply."""
        if baseline is not None:
            current = with_lost_contexts(with_groups_of(current, baseline), baseline)
        resolved = resolve_rules(policy, current)
        pairing = None
        if baseline is not None:
            pairing = pair_runs(current, baseline, unmatched=policy.gate.unmatched)
        return cls(
            current,
            policy,
            pairing,
            resolved.rules,
            tuple(questions(current, pairing, resolved.rules)),
            resolved.unknown_tags,
            baseline_required,
            seed,
            drift,
        )

    def with_scores(self, current: RunScores, baseline: RunScores | None) -> Evidence:
        """This evidence with other scores of the two runs, under the same rules."""
        pairing = self.pairing
        if pairing is not None and baseline is not None:
            pairing = replace(pairing, current=current, baseline=baseline, _pairs={})
        asked = tuple(questions(current, pairing, self.rules))
        return replace(self, current=current, pairing=pairing, asked=asked)

    @property
    def baseline(self) -> RunScores | None:
        if self.pairing is None:
            return None
        return self.pairing.baseline

    @property
    def compared(self) -> Pairing | None:
        """The pairing, if the runs can be compared."""
        if self.pairing is not None and self.pairing.comparability.comparable:
            return self.pairing
        return None

    @property
    def fails(self) -> bool:
        """Whether a blocking check failed."""
        return any(check.status is Status.FAIL and check.action is Action.BLOCK for check in self.decided)

    @property
    def finished(self) -> bool:
        """Whether it is known that the run was finished."""
        return self.current.manifest is not None and self.current.manifest.state == "finished"

    @property
    def confirmed(self) -> bool:
        """Whether the system was asked again before the run is decided."""
        return self.current.manifest is not None and self.current.manifest.confirmed

    @property
    def offline(self) -> bool:
        """Whether the offline judge scored the run."""
        return self.current.offline
