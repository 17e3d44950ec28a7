"""Early stopping: look after every sample, and stop when every blocking check is decided.

The limits are anytime-valid (stats/sequential.py), so that continuous looking causes no more false alarms than the
policy allows. Samples must be evaluated in random order, and count in that order, whatever order they finish in:
otherwise fast samples would come first, and they may be the easy ones.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ragstone.gate.bounds import BoundCheck
from ragstone.gate.comparability import with_ids_of
from ragstone.gate.evidence import Evidence
from ragstone.gate.judge_change import to_rejudge
from ragstone.gate.policy import Policy
from ragstone.gate.verdict import Action
from ragstone.metrics.score import Score, Scored
from ragstone.run.manifest import Manifest
from ragstone.run.scores import MetricScores, RunScores, SampleFacts
from ragstone.stats.family import Decision
from ragstone.stats.sequential import confidence_sequence, watch

LOOK_EVERY = 5
"""Samples between two looks. Looking less often saves time, and can only reduce false alarms."""


def random_order(ids: Sequence[str], seed: int) -> tuple[str, ...]:
    """The order in which a run that may stop early evaluates the ids: the same for the same ids and seed."""
    order = sorted(ids)
    random.Random(seed).shuffle(order)  # noqa: S311 - it needs to be fair, not secret
    return tuple(order)


def watched_decisions(
    asked: Sequence[BoundCheck], fixed: Sequence[Decision], order: Sequence[str], *, level: float
) -> list[Decision]:
    """`fixed` with interval and decision replaced by those that are valid under continuous looking.

    `level` is the error rate of one question; `order` is the order of evaluation.
    """
    place = {sample_id: index for index, sample_id in enumerate(order)}
    return [_watched(one, decision, place, level) for one, decision in zip(asked, fixed, strict=True)]


def _watched(one: BoundCheck, fixed: Decision, place: Mapping[str, int], level: float) -> Decision:
    values, bounds = _in_order(one, place), one.bounds
    seen = watch(values, one.bound, alpha_below=level, alpha_above=level, bounds=bounds)
    low, high = confidence_sequence(values, confidence=1.0 - 2.0 * level, bounds=bounds)
    interval = replace(
        fixed.interval,
        low=float(low[-1]),
        high=float(high[-1]),
        confidence=1.0 - 2.0 * level,
        method="confidence sequence, valid at every look",
    )
    return replace(fixed, interval=interval, below=seen.decision == "below", above=seen.decision == "above")


def _in_order(one: BoundCheck, place: Mapping[str, int]) -> NDArray[np.float64]:
    by_place = sorted(range(len(one.samples)), key=lambda index: place[one.samples[index]])
    return one.values[np.array(by_place, dtype=np.intp)]


class EarlyStop:
    """Receives scores as samples finish, and detects when every blocking floor and drop is decided."""

    def __init__(
        self,
        order: Sequence[str],
        facts: Mapping[str, SampleFacts],
        policy: Policy,
        manifest: Manifest,
        baseline: RunScores | None,
    ) -> None:
        self.order = tuple(order)
        self._facts = facts
        self._policy = policy
        self._manifest = manifest
        everything = RunScores(label="this run", metrics={}, samples=facts, manifest=manifest)
        self._baseline = None if baseline is None else with_ids_of(everything, baseline)[0]
        self._scores: dict[str, Mapping[str, Score]] = {}
        self._prefix = 0
        self._looked = 0
        self._enough = False

    @property
    def prefix(self) -> tuple[str, ...]:
        """The samples that count: finished, with no unfinished sample before them in the order."""
        return self.order[: self._prefix]

    def add(self, sample_id: str, scores: Mapping[str, Score]) -> None:
        """Take the scores of a finished sample."""
        self._scores[sample_id] = scores
        while self._prefix < len(self.order) and self.order[self._prefix] in self._scores:
            self._prefix += 1

    def enough(self) -> bool:
        """Whether the run may stop. Once True, always True."""
        if not self._enough and self._prefix >= self._looked + LOOK_EVERY:
            self._looked = self._prefix
            self._enough = self._all_decided()
        return self._enough

    def _all_decided(self) -> bool:
        must = self._policy.must_pass
        own = (name for name, facts in self._facts.items() if must.every or facts.bounds)
        if not {*must.samples, *own} <= set(self.prefix):
            return False
        evidence = Evidence.of(self._so_far(), self._baseline, self._policy)
        if self._baseline is not None and to_rejudge(evidence.current, self._baseline, evidence.rules, self._policy):
            return False  # their drops are not known before the baseline is judged again
        if evidence.pairing is not None and evidence.pairing.edited:
            return False
        if evidence.unknown_tags.keys() & {tag for facts in self._facts.values() for tag in facts.tags}:
            return False  # a slice without samples so far
        asked = [one for one in evidence.asked if one.action is Action.BLOCK]
        place = {sample_id: index for index, sample_id in enumerate(self.order)}
        return bool(asked) and all(_is_decided(one, place, evidence.watch_level) for one in asked)

    def _so_far(self) -> RunScores:
        prefix = self.prefix
        names = self._manifest.metrics
        values: dict[str, dict[str, float]] = {name: {} for name in names}
        for sample_id in prefix:
            for name, score in self._scores[sample_id].items():
                if isinstance(score, Scored):
                    values[name][sample_id] = score.value
        return RunScores(
            label="this run",
            metrics={name: MetricScores(values[name], version=version) for name, version in names.items()},
            samples={sample_id: self._facts[sample_id] for sample_id in prefix},
            manifest=self._manifest,
        )


def _is_decided(one: BoundCheck, place: Mapping[str, int], level: float) -> bool:
    values = _in_order(one, place)
    seen = watch(values, one.bound, alpha_below=level, alpha_above=level, bounds=one.bounds)
    return seen.decision is not None
