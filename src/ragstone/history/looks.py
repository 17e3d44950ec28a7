"""Looks at the golden set: who has seen its scores, and how much of it is still as they saw it.

A look is a run that scored it: the line of a run, of another look, or of several. A team chooses by what it sees, so
looks wear the golden set out. Changing one question doesn't undo that, and changing all of them does: a look counts as
the share of today's samples that it saw, by their ids and contents. If its samples are no longer known, it
counts in full while the hash of the whole set is the same, and else not at all. A sample with a new id is a new one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ragstone.history.codes import sample_codes
from ragstone.history.lines import By, LookLine, RunLine, SamplesLine

REFRESHED = 0.5
"""A golden set was last refreshed when it got to this share of today's samples."""


def every_look(runs: Iterable[RunLine], looks: Iterable[LookLine]) -> tuple[LookLine, ...]:
    """All looks by time, the oldest first, also those of `runs`, and each once: a sum has all up to its time."""
    given = (*looks, *(_of_run(line) for line in runs if line.verdict != "none"))
    sums = sorted((one for one in given if one.since is not None), key=lambda one: one.time)[-1:]
    single = {one.run or (*one.by, one.time, one.answers): one for one in given if one.since is None}
    rest = (one for one in single.values() if not sums or one.time > sums[0].time)
    return tuple(sorted((*sums, *rest), key=lambda one: (one.time, *one.by, one.answers or "")))


def _of_run(line: RunLine) -> LookLine:
    commit = line.commit if line.github_run is not None else None  # elsewhere it may be of uncommitted changes
    return LookLine(
        run=line.run,
        time=line.time,
        by={"main": 1.0},
        golden=line.golden,
        samples=line.samples,
        commit=commit,
        answers=line.answers,
    )


def summed(looks: Sequence[LookLine], samples: Mapping[str, SamplesLine], golden: str, now: str | None) -> LookLine:
    """One line for `looks`, the oldest first, as looks at the golden set with this hash and the samples `now`, a key.

    A commit, or an answer to all questions, is one candidate, however often it was looked at.
    """
    used = {now, *(one.samples for one in looks)}
    codes = {key: frozenset(sample_codes(line)) for key, line in samples.items() if key in used}
    wanted = codes.get(now or "", frozenset())
    shares = {key: len(wanted & found) / max(1, len(wanted)) for key, found in codes.items()}
    by: dict[By, float] = {}
    seen, candidates, since = set[str | None](), 0.0, looks[-1].time
    for one in reversed(looks):
        share = 1.0 if one.golden == golden else shares.get(one.samples or "", 0.0)
        for name, count in one.by.items():
            by[name] = round(by.get(name, 0.0) + share * count, 3)
        if not {one.commit, one.answers} & (seen - {None}):
            candidates += share * one.candidates
        seen |= {one.commit, one.answers}
        since = min(since, one.since or one.time) if share >= REFRESHED else since
    end, candidates = looks[-1].time, round(candidates, 3)
    return LookLine(time=end, since=since, by=by, candidates=candidates, golden=golden, samples=now)
