"""Is the golden set being learnt? Compares its means with those of sealed questions, which no pull request can see."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ragstone.formatting import counted, figure, percent, score
from ragstone.gate.checks.checker import Checker
from ragstone.gate.evidence import Evidence
from ragstone.gate.policy import Policy
from ragstone.gate.verdict import Check, CheckKind, Interval, Status
from ragstone.run.manifest import Manifest, SealedFact, SealedMean, SealedMeans
from ragstone.stats.estimate import Estimate
from ragstone.stats.gap import ALPHA, Gap, gap


class Sealed(Checker):
    """A check of each metric whose mean over sealed questions is released.

    If both sets were drawn at random from one, their gap was 0 before anybody looked, and the gap itself is checked.
    Else one may be harder than the other, and the growth of their gap since the first release is checked, from the
    second release on.
    """

    kinds = (CheckKind.SEALED,)
    policy_key = ("sealed",)
    heading = "Sealed questions"
    at = "at most"

    def evaluate(self, evidence: Evidence) -> Iterable[Check]:
        manifest = evidence.current.manifest
        return () if manifest is None else sealed_checks(manifest, evidence.policy)


def sealed_checks(manifest: Manifest, policy: Policy) -> Iterator[Check]:
    """The checks of a run with this manifest; none if it releases nothing of sealed questions."""
    fact = manifest.sealed
    for name, means in fact.means.items() if fact is not None else ():
        first = fact.first.get(name) if fact is not None else None
        if fact is not None and name in policy.metrics and (fact.drawn or first is not None):
            yield _check(policy, fact, name, means, None if fact.drawn else first)


def gap_of(means: SealedMeans, release: int, first: SealedMeans | None, *, lower_is_better: bool) -> Gap:
    """The gap of a metric, or its growth since the `first` release."""
    now, then = ((_estimate(one.seen), _estimate(one.sealed)) if one is not None else None for one in (means, first))
    assert now is not None  # noqa: S101 - for the type checker
    return gap(now, release, then, lower_is_better=lower_is_better)


def _check(policy: Policy, fact: SealedFact, metric: str, means: SealedMeans, first: SealedMeans | None) -> Check:
    lower, alarm = policy.lower_is_better(metric), metric in fact.alarms
    found = gap_of(means, fact.release, first, lower_is_better=lower)
    figures = (
        f"{figure(means.seen.mean)} on {counted(means.seen.n, 'question')} of the golden set, "
        f"{figure(means.sealed.mean)} on {means.sealed.n:,} sealed ones; {percent(1.0 - ALPHA)} interval over all "
        f"{fact.release:,} releases: {score(100.0 * found.low, 1)} to {score(100.0 * found.high, 1)} points"
    )

    def reason(subject: str) -> str:
        if not alarm:
            what = "no gap" if first is None else "no growth of the gap"
            return f"{what} of {subject} between the golden set and sealed questions is shown ({figures})."
        worse = f"{score(100.0 * found.estimate, 1)} points {'higher' if lower else 'lower'}"
        since = "" if first is None else ", compared with the first release"
        place = f"on questions that pull requests can't see, {subject} is {worse}{since}"
        return f"{place}: the golden set is being learnt ({figures})."

    return Check(
        name=f"{metric}.sealed",
        kind=CheckKind.SEALED,
        status=Status.FAIL if alarm else Status.PASS,
        action=policy.sealed.action,
        reason=reason(metric),
        short_reason=reason("it"),
        metric=metric,
        estimate=found.estimate,
        interval=Interval(found.low, found.high, 1.0 - ALPHA, "union bound over releases"),
        threshold=policy.sealed.max_gap,
        current=means.seen.mean,
        baseline=means.sealed.mean,
        n=means.sealed.n,
    )


def _estimate(found: SealedMean) -> Estimate:
    return Estimate(found.mean, found.low, found.high, 0.95, "", found.n)
