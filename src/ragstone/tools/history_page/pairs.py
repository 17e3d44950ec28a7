"""The paired differences that the page has an interval for: of the pairs of versions that people ask about most.

Intervals come from the gate's statistics, and so can't be computed in the page.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ragstone.history.codes import decode, group_codes, sample_codes
from ragstone.history.file import History
from ragstone.history.level import incomparable
from ragstone.history.lines import RunLine, SamplesLine
from ragstone.stats.intervals import mean_interval

MAX_INTERVALS = 1_000
"""Intervals in a page, one for each pair of runs and metric; those of the newest runs come first."""

SCALE = 100_000
"""Means, limits and differences are whole numbers of 1/100,000, as exact as a line of the history."""

Difference = tuple[int, int, int, int, int | None]
"""The mean of the later run minus that of the earlier one, its 95 % limits, the number of pairs, and that of groups."""


def differences(history: History, metrics: Sequence[str]) -> list[tuple[int, int, dict[int, Difference]]]:
    """For each of the `pairs` (the places of the earlier and the later run) the differences by the place of the metric.

    A metric whose scores can't be compared is left out.
    """
    found: list[tuple[int, int, dict[int, Difference]]] = []
    left = MAX_INTERVALS
    for before, after in pairs(history.runs):
        compared = _compared(history.runs[before], history.runs[after], history.samples, metrics)
        if compared:
            found.append((before, after, compared))
        left -= len(compared)
        if left <= 0:
            break
    return found


def pairs(runs: Sequence[RunLine]) -> Iterator[tuple[int, int]]:
    """The pairs with an interval, the newest later run first, as the places of the earlier and the later run.

    Each run with scores of samples is paired with the one before it and with the newest one; with the newest release
    or, without one, with the oldest run; and, as the newest of its commit, release and system version, with the newest
    of the one before.
    """
    scored = [at for at, run in enumerate(runs) if run.samples is not None and run.scores]
    if not scored:
        return
    released = [at for at in scored if runs[at].release is not None]
    ends = (scored[-1], released[-1] if released else scored[0])
    named = [[getattr(run, name) for run in runs] for name in ("commit", "release", "system")]
    chains = [scored, *(_newest_of_each(scored, names) for names in named)]
    before = [dict(zip(chain[1:], chain, strict=False)) for chain in chains]
    seen: set[tuple[int, int]] = set()
    for at in reversed(scored):
        for other in (*(links[at] for links in before if at in links), *ends):
            pair = min(at, other), max(at, other)
            if at != other and pair not in seen:
                seen.add(pair)
                yield pair


def _newest_of_each(places: Sequence[int], names: Sequence[str | None]) -> list[int]:
    newest = {names[at]: at for at in places if names[at] is not None}
    return sorted(newest.values())


def _compared(
    before: RunLine, after: RunLine, samples: Mapping[str, SamplesLine], metrics: Sequence[str]
) -> dict[int, Difference]:
    if before.samples is None or after.samples is None:
        return {}
    line = samples[after.samples]
    then = {code: at for at, code in enumerate(sample_codes(samples[before.samples]))}
    both = [(then[code], at) for at, code in enumerate(sample_codes(line)) if code in then]
    theirs, ours = [there for there, _ in both], [here for _, here in both]
    groups = group_codes(line)
    found = {}
    for place, metric in enumerate(metrics):
        if metric not in after.scores or incomparable(before, after, metric) is not None:
            continue
        changes = decode(after.scores[metric])[ours] - decode(before.scores[metric])[theirs]
        scored = ~np.isnan(changes)
        if scored.any():
            labels = None if groups is None else np.unique(np.array(groups)[ours][scored], return_inverse=True)[1]
            interval = mean_interval(changes[scored], bounds=(-1.0, 1.0), groups=labels)
            low, high = math.floor(interval.low * SCALE), math.ceil(interval.high * SCALE)
            found[place] = (round(interval.estimate * SCALE), low, high, interval.n, interval.n_groups)
    return found
