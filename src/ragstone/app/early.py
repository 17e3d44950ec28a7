"""Stopping a run as soon as its blocking checks are decided."""

from __future__ import annotations

from ragstone.app.decide import Terms
from ragstone.app.rejudge import facts_of
from ragstone.errors import ConfigError
from ragstone.gate.early import EarlyStop, random_order
from ragstone.golden.sample import GoldenSet
from ragstone.run.manifest import Manifest
from ragstone.run.scores import RunScores


class EarlyStops:
    """Makes the watcher of a run that is decided on `terms`. `order` is then the order of evaluation."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self.order: tuple[str, ...] | None = None

    def __call__(self, golden: GoldenSet, manifest: Manifest) -> EarlyStop:
        """The watcher. Raises ConfigError if samples are grouped."""
        refuse_groups(golden)
        terms = self._terms
        before = terms.baseline.scores if terms.baseline is not None else None
        facts = facts_of(sample for sample in golden if not sample.draft)
        self.order = random_order(tuple(facts), terms.seed)
        return EarlyStop(self.order, facts, terms.in_force, manifest, before)

    def everything(self, golden: GoldenSet) -> RunScores:
        """The samples that were to be evaluated, without scores."""
        return RunScores("this run", {}, facts_of(sample for sample in golden if not sample.draft))


def refuse_groups(golden: GoldenSet) -> None:
    """Raise ConfigError if samples are grouped, for a run that can stop early."""
    if any(sample.group is not None for sample in golden):
        raise ConfigError(
            "--stop-early needs independent samples; this golden set has groups.",
            hint="Remove --stop-early, or the groups if they are not needed.",
        )
