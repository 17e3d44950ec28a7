"""Early stopping: look every few samples, and stop when every blocking check is decided.

Samples are drawn in an order that only ids, seed and history decide: those that the history says move, or have much to
lose, come sooner, each with a known probability. They count in that order, whatever order they finish in: otherwise
fast samples would come first, and they may be the easy ones.

A check is decided on the mean over all samples, asked or not, with limits that hold at every look
(stats/sequential.py) and whatever the history says. It passes if what the whole set would nearly always show is ruled
out, each check at the policy's error rate: the run passes only if all do (an intersection-union test). It fails if it
is shown to be violated by more than noise, at a part of the error rate that all blocking checks share.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ragstone.gate.bounds import BoundCheck, changes_of
from ragstone.gate.comparability import same_content, with_ids_of
from ragstone.gate.confirm import EARLY, FLOORS, ONCE
from ragstone.gate.evidence import Evidence
from ragstone.gate.judge_change import to_rejudge
from ragstone.gate.policy import Policy
from ragstone.gate.resolution import Spread, visible_loss
from ragstone.gate.verdict import Action, CheckKind
from ragstone.metrics.score import Score, Scored
from ragstone.run.manifest import DrawnManifest, Manifest
from ragstone.run.scores import MetricScores, RunScores, SampleFacts
from ragstone.stats.family import Decision
from ragstone.stats.losses import p_values
from ragstone.stats.power import detectable_drop
from ragstone.stats.sequential import Draws

Floats = NDArray[np.float64]

LOOK_EVERY = 5
"""Samples between two looks. Looking less often saves time, and can only reduce false alarms."""

UNKNOWN_NOISE = 0.1
"""Expected squared change of a score of which nothing is known."""

RISK = 0.2
"""Weight of what a sample can lose, its level, against the root of its noise (`bench/stop_early.py`)."""

_SMALLEST_WEIGHT = 0.25
"""A history that is wrong about a sample costs time in proportion to the ratio of weights."""
_COLLAPSE = 0.5
_DIGITS = 4


def draw_samples(
    facts: Mapping[str, SampleFacts],
    seed: int,
    *,
    levels: Floats | None = None,
    noise: Floats | None = None,
    names: Mapping[str, str] | None = None,
    basis: str = "",
) -> DrawnManifest:
    """The order in which a run that may stop early evaluates samples, which only the arguments decide.

    `levels` and `noise` (samples, metrics) are the expected scores and their expected squared changes by the history,
    NaN if not known; without them all weights are equal. `names` are the ids by which the order is drawn, those of the
    baseline, and `basis` is its fingerprint, so that new ids in a pull request change nothing.
    """
    ids = sorted(facts)
    expected, weights = np.full(len(ids), UNKNOWN_NOISE), np.ones(len(ids))
    if levels is not None and noise is not None and levels.size:
        moves = np.where(np.isfinite(noise), noise, UNKNOWN_NOISE)
        expected = moves.max(axis=1)
        weights = np.maximum(np.sqrt(expected), RISK * np.where(np.isfinite(levels), levels, 1.0).max(axis=1))
        weights = np.maximum(weights / weights.max(), _SMALLEST_WEIGHT).round(_DIGITS)
    turns = np.array([_turn(f"{seed}\0{basis}\0{(names or {}).get(name, name)}") for name in ids])
    order = np.lexsort((np.arange(len(ids)), turns / weights))  # the exponential race: Efraimidis and Spirakis 2006
    drawn = [ids[place] for place in order]
    tags: dict[str, list[int]] = {}
    for place, name in enumerate(drawn):
        for tag in facts[name].tags:
            tags.setdefault(tag, []).append(place)
    return DrawnManifest(
        ids=tuple(drawn),
        weights=tuple(weights[order].tolist()),
        noise=tuple(expected[order].round(_DIGITS).tolist()),
        contents=tuple(facts[name].content_hash for name in drawn),
        tags={tag: tuple(places) for tag, places in tags.items()},
    )


def _turn(text: str) -> float:
    """An exponential random number that is a function of `text`."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return -math.log((int.from_bytes(digest[:7], "big") + 1) / 2**56)


def stopped(run: RunScores) -> DrawnManifest | None:
    """The order of a run that stopped early; None if it did not."""
    drawn = None if run.manifest is None else run.manifest.drawn
    return drawn if drawn is not None and not run.samples.keys() >= set(drawn.ids) else None


def with_weights(run: RunScores) -> RunScores:
    """`run` with the weights of its samples in a mean, if it stopped early."""
    drawn = stopped(run)
    if drawn is None:
        return run
    asked = _asked(drawn, run)
    nothing = np.zeros(len(drawn.ids))
    factors = Draws(nothing[:asked], np.array(drawn.weights), nothing, nothing, nothing, nothing).factors
    weights = dict(zip(drawn.ids, factors.tolist(), strict=False))
    return replace(run, metrics={name: replace(one, weights=weights) for name, one in run.metrics.items()})


def _asked(drawn: DrawnManifest, run: RunScores) -> int:
    """How many samples were evaluated with none before them left out."""
    return next((place for place, name in enumerate(drawn.ids) if name not in run.samples), len(drawn.ids))


def watched_decisions(
    asked: Sequence[BoundCheck], fixed: Sequence[Decision], evidence: Evidence
) -> list[tuple[BoundCheck, Decision]]:
    """`asked` and `fixed`, of a run that stopped early with estimates of what all samples would give, and valid limits.

    A run that was not stopped is decided as any other.
    """
    drawn = stopped(evidence.current)
    pairs = zip(asked, fixed, strict=True)
    if drawn is None:
        return list(pairs)
    return [_Watch.of(one, drawn, evidence, decision.p_below).decided(decision) for one, decision in pairs]


@dataclass(frozen=True)
class _Watch:
    """One floor or drop, over all samples that it is about, of which some were evaluated.

    `then` (n,) are the baseline's scores of these samples, if they are known. `p` is how often chance alone would do
    as much to those that were evaluated.
    """

    one: BoundCheck
    draws: Draws
    then: Floats | None
    evidence: Evidence
    p: float

    @classmethod
    def of(cls, one: BoundCheck, drawn: DrawnManifest, evidence: Evidence, p: float = 1.0) -> _Watch:
        rule, before, now = one.rule, evidence.baseline, evidence.current
        asked, drop = _asked(drawn, now), one.kind is CheckKind.DROP
        known = before.metrics[rule.metric].values if before is not None and rule.metric in before.metrics else {}
        paired = set(evidence.pairing.pairs(rule.metric)) if drop and evidence.pairing is not None else set()
        places = list(range(len(drawn.ids)) if rule.slice is None else drawn.tags.get(rule.slice, ()))
        if known and before is not None:  # to others of the baseline's samples the metric did not apply
            places = [at for at in places if (name := drawn.ids[at]) in known or not (drop or name in before.samples)]
        if drop:
            scored = now.metrics[rule.metric].values
            places = [at for at in places if drawn.ids[at] not in scored or drawn.ids[at] in paired]
        ids = [drawn.ids[at] for at in places]
        then = np.array([known.get(name, np.nan) for name in ids], dtype=np.float64)
        then = np.nan_to_num(1.0 - then if rule.lower_is_better else then, nan=one.bound)
        low, controls = (-then, np.zeros(len(ids))) if drop else (np.zeros(len(ids)), then)
        found = dict(zip(one.samples, one.values.tolist(), strict=True))
        # A sample without a score counts as predicted.
        values = [
            found.get(name, control) for at, name, control in zip(places, ids, controls, strict=True) if at < asked
        ]
        n = len(values)
        draws = Draws(
            np.clip(np.array(values, dtype=np.float64), low[:n], low[:n] + 1.0),
            np.array(drawn.weights)[places],
            controls,
            np.array(drawn.noise)[places],
            low,
            low + 1.0,
        )
        return cls(one, draws, then if known else None, evidence, p)

    @property
    def passes(self) -> bool:
        """Whether it is decided that the whole set would not be against it."""
        one, alpha, how = self.one, self.evidence.policy.alpha, self.evidence.policy.gate.decision
        if how == "assured":  # the other half of the error rate is that of all samples
            return self.draws.shown_above(one.bound + self._luck(alpha / 4.0), alpha / 4.0, self._aim)
        target = one.bound
        if how == "evidence" and (self.draws.estimate >= one.bound or self.p > ONCE.ask * alpha):  # it is in no doubt
            target = min(one.bound, self._unharmed - self._tolerance)
        return self.draws.shown_above(target, alpha, self._aim)

    @property
    def fails(self) -> bool:
        """Whether it is decided that the whole set would be against it."""
        one, draws, how = self.one, self.draws, self.evidence.policy.gate.decision
        if draws.estimate >= one.bound:
            return False
        level = self.evidence.watch_level
        if how != "evidence":
            return draws.upper(level, one.bound) < one.bound
        high = draws.upper(level / 3.0, one.bound)
        if one.kind is CheckKind.FLOOR:
            return high < one.bound - self._luck(level / 3.0)
        # Under no change each difference is as likely to be up as down: Hoeffding's bound, given their sizes.
        squares = replace(
            draws,
            values=(draws.values - one.unchanged) ** 2,
            controls=draws.noise,
            low=np.zeros(len(draws.low)),
            high=np.maximum((draws.low - one.unchanged) ** 2, (draws.high - one.unchanged) ** 2),
        )
        size = squares.upper(level / 3.0, float(draws.noise.mean()) + 0.05)
        noise = math.sqrt(2.0 * max(size, 0.0) * math.log(3.0 / level) / len(draws.weights))
        return high < one.bound and high <= one.unchanged - noise

    def decided(self, fixed: Decision) -> tuple[BoundCheck, Decision]:
        """The check with means of all samples, and its decision, in place of that on the evaluated samples alone."""
        one, draws, policy = self.one, self.draws, self.evidence.policy
        estimate, passes = draws.estimate, self.passes
        low, high = draws.lower(policy.alpha, self._aim), draws.upper(policy.alpha, 2.0 * self._unharmed - self._aim)
        interval = replace(
            fixed.interval,
            estimate=estimate,
            low=low,
            high=high,
            confidence=round(1.0 - 2.0 * policy.alpha, 9),
            method="confidence sequence for all samples, valid at every look",
        )
        beyond = not passes and estimate < one.bound
        decision = replace(
            fixed,
            estimate=estimate,
            interval=interval,
            below=self.fails,
            above=passes if policy.gate.decision == "assured" else low >= one.bound,
            p_below=0.0 if beyond else 1.0,
            suspected=beyond,
            p_adjusted=None,
            n_more=len(draws.weights) - len(draws.values) if beyond else 0,
        )
        if one.kind is CheckKind.FLOOR or self.then is None:
            return replace(one, current=estimate), decision
        before = float(self.then.mean())
        return replace(one, current=before + estimate, baseline=before), decision

    @cached_property
    def _tolerance(self) -> float:
        """The loss, or what is missing to a floor, that the whole set would show at the policy's confidence.

        A floor that the baseline has not reached must be shown to hold.
        """
        one, policy, n = self.one, self.evidence.policy, len(self.draws.weights)
        asked, power = self.evidence.asked, policy.gate.confidence
        centred = self.draws.values - (one.unchanged if one.kind is CheckKind.DROP else self.draws.estimate)
        sd = math.sqrt(max(0.0, float(self.draws.factors @ centred**2)))
        alike = [other for other in asked if other.kind is one.kind and other.action is one.action]
        if one.kind is CheckKind.DROP:
            metrics = sum(other.rule.slice is None for other in alike)
            rules = policy.gate.model_copy(update={"confirm": False})
            once = replace(policy, table=policy.table.model_copy(update={"gate": rules}))
            spread = Spread(one.rule.metric, min(sd, 1.0), "", n)
            found = visible_loss(
                spread, n, allowed=one.unchanged - one.bound, policy=once, metrics=max(1, metrics), power=power
            )
            return _COLLAPSE if found is None else min(found, _COLLAPSE)
        if self.then is None or self.then.mean() < one.bound or self.draws.estimate < one.bound:
            return 0.0
        drops = any(other.kind is CheckKind.DROP and other.action is one.action for other in asked)
        found = detectable_drop(sd, n, power, policy.alpha * (FLOORS if drops else 1.0 - EARLY), tests=len(alike))
        return min(found, _COLLAPSE * one.bound)

    @property
    def _unharmed(self) -> float:
        """What is no loss at all; of a floor, the floor."""
        return self.one.unchanged if self.one.kind is CheckKind.DROP else self.one.bound

    @property
    def _aim(self) -> float:
        """Where bets are aimed: at a loss of a size that is known beforehand."""
        n, noise = len(self.draws.weights), float(self.draws.noise.mean())
        if self.one.kind is CheckKind.FLOOR:
            return self.one.bound
        return min(self.one.bound, self._unharmed - 3.0 * math.sqrt((noise + 0.02) / n))

    def _luck(self, level: float) -> float:
        """How far the mean of all samples is from what is expected of the system by chance, but with `level`."""
        return math.sqrt(math.log(1.0 / level) / (2.0 * len(self.draws.weights)))


class EarlyStop:
    """Receives scores as samples finish, and detects when every blocking floor and drop is decided."""

    def __init__(
        self,
        drawn: DrawnManifest,
        facts: Mapping[str, SampleFacts],
        policy: Policy,
        manifest: Manifest,
        baseline: RunScores | None,
    ) -> None:
        self.drawn = drawn
        self.order = drawn.ids
        self._facts = facts
        self._policy = policy
        self._manifest = manifest.model_copy(update={"drawn": drawn})
        everything = RunScores(label="this run", metrics={}, samples=facts, manifest=manifest)
        self._baseline = None if baseline is None else with_ids_of(everything, baseline)[0]
        self._edited = self._baseline is not None and any(
            name in self._baseline.samples and not same_content(everything, self._baseline, name) for name in facts
        )
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
        if not self._enough and self._prefix >= self._looked + max(LOOK_EVERY, len(self.order) // 200):
            self._looked = self._prefix
            self._enough = self._prefix < len(self.order) and not self._edited and self._all_decided()
        return self._enough

    def _all_decided(self) -> bool:
        must = self._policy.must_pass
        own = (name for name, facts in self._facts.items() if must.every or facts.bounds)
        if not {*must.samples, *own} <= set(self.prefix):
            return False
        evidence = Evidence.of(self._so_far(), self._baseline, self._policy)
        if self._baseline is not None and to_rejudge(evidence.current, self._baseline, evidence.rules, self._policy):
            return False  # their drops are not known before the baseline is judged again
        if evidence.unknown_tags.keys() & {tag for facts in self._facts.values() for tag in facts.tags}:
            return False  # a slice without samples so far
        asked = [one for one in evidence.asked if one.action is Action.BLOCK]
        watches = [_Watch.of(one, self.drawn, evidence) for one in asked]
        if not watches or not all(watch.passes or watch.fails for watch in watches):
            return False
        drops = [watch for watch in watches if watch.one.kind is CheckKind.DROP]
        found = p_values(list(changes_of([watch.one for watch in drops]))) if drops else ()
        again = (replace(watch, p=float(p)) for watch, p in zip(drops, found, strict=True))
        return all(watch.passes or watch.fails for watch in again)

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
