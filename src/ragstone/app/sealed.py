"""Releases the means over sealed questions, each of which counts in the history: at most as many as the settings allow.

Nothing else of the questions leaves the process: no text, id, tag, answer or score of one of them, and of an error its
class alone. A system that was released before is not asked again, for another look at it would tell more.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np

from ragstone.formatting import counted
from ragstone.gate.checks.sealed import gap_of
from ragstone.gate.grouping import mean_of
from ragstone.gate.policy import Policy
from ragstone.history.entry import judge_key
from ragstone.history.file import History
from ragstone.history.lines import SealedLine
from ragstone.rounds.sealed import ask_sealed
from ragstone.rounds.session import Session
from ragstone.run.directory import RunDirectory
from ragstone.run.manifest import MIN_SEALED, Manifest, SealedFact, SealedMean, SealedMeans
from ragstone.run.scores import MetricScores, RunScores, without_drafts
from ragstone.stats.estimate import Estimate
from ragstone.stats.gap import released

MIN_SCORED = 0.9
"""The smallest share of the questions, among those that a metric applies to, whose scores make its mean."""


async def release_sealed(
    run: RunDirectory, session: Session, history: History, policy: Policy
) -> tuple[RunDirectory, str]:
    """`run` with what is released of the session's sealed set, and a sentence on it."""
    sealed, manifest = session.plan.sealed, run.manifest
    if sealed is None:
        return run, ""
    key, content, judge = sealed.golden.content_hash()[:16], _content(manifest), judge_key(manifest.judge)
    lines = [line for line in history.sealed if line.fact.key == key]
    alike = [
        line.fact
        for line in lines
        if (line.judge_key, line.versions.items() <= manifest.metrics.items()) == (judge, True)
    ]
    count, first = max((line.fact.count for line in lines), default=0), alike[0].means if alike else {}
    for fact in reversed(alike):
        if content is not None and fact.content == content:
            fact = fact.model_copy(update={"first": first, "repeated": True})
            return _with(run, fact), "The sealed questions were asked of this system before."
    if count >= sealed.releases:
        return run, _NOTHING.format(
            f"their means were released {counted(count, 'time')} already. Put other questions in their place"
        )
    session.context.say(f"asking {counted(len(sealed.golden), 'sealed question')}")
    scores = await ask_sealed(sealed.golden, session)
    run = session.with_whole_cost(run)
    if isinstance(scores, str):
        return run, _NOTHING.format(f"asking them ended with {scores}")
    means = dict(_means(without_drafts(run.scores())[0], scores))
    if not means:
        return run, _NOTHING.format(f"no metric has scores for {MIN_SCORED:.0%} of them, and at least {MIN_SEALED}")
    release = max((line.fact.release for line in history.sealed), default=0) + 1
    alarms = []
    for name, mean in means.items():
        since = None if sealed.drawn else first.get(name, mean)
        found = gap_of(mean, release, since, lower_is_better=policy.lower_is_better(name))
        if found.alarms(policy.sealed.max_gap, before=bool(alike) and name in alike[-1].alarms):
            alarms.append(name)
    fact = SealedFact(
        key=key,
        questions=len(sealed.golden),
        release=release,
        count=count + 1,
        drawn=sealed.drawn,
        means=means,
        first=first,
        alarms=tuple(alarms),
        content=content,
    )
    left = counted(sealed.releases - fact.count, "release")
    said = f"Means of {fact.questions:,} sealed questions are released, rounded; {left} left."
    if not fact.drawn and not first:
        said += " It is the first one: the growth of their gap is checked from the next one on."
    return _with(run, fact), said


def _with(run: RunDirectory, fact: SealedFact) -> RunDirectory:
    """`run` with `fact`, which is written together with the line of the history that counts it."""
    return run.with_manifest(run.manifest.model_copy(update={"sealed": fact}))


_NOTHING = "Nothing is released of the sealed questions: {}."


def sealed_line(run: RunDirectory, manifest: Manifest) -> SealedLine | None:
    """The line of what was released with `run`; None if nothing new was."""
    fact = manifest.sealed
    if fact is None or fact.repeated:
        return None
    return SealedLine(
        run=run.fingerprint,
        judge_key=judge_key(manifest.judge),
        versions={name: manifest.metrics[name] for name in fact.means},
        fact=fact.model_copy(update={"first": {}}),
    )


def _content(manifest: Manifest) -> str | None:
    """What identifies the system: its version or commit; None if it may be any, as with uncommitted changes."""
    system, started = manifest.system, manifest.invocation
    if system.version is None and (system.commit is None or (started is not None and started.changed)):
        return None
    named = "\0".join((system.version or f"commit {system.commit}", system.entrypoint, str(manifest.answers)))
    return hashlib.sha256(named.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _means(seen: RunScores, sealed: RunScores) -> Iterator[tuple[str, SealedMeans]]:
    for name, scores in sealed.metrics.items():
        theirs, n = seen.metrics.get(name), len(scores.values)
        if theirs is not None and theirs.values and n >= max(MIN_SEALED, MIN_SCORED * (n + len(scores.failed))):
            yield name, SealedMeans(seen=_part(_mean(seen, theirs)), sealed=_part(released(_mean(sealed, scores))))


def _mean(run: RunScores, scores: MetricScores) -> Estimate:
    ids = sorted(scores.values)
    return mean_of(run, ids, np.array([scores.values[name] for name in ids]), confidence=0.95)


def _part(found: Estimate) -> SealedMean:
    return SealedMean(mean=round(found.estimate, 5), low=round(found.low, 5), high=round(found.high, 5), n=found.n)
