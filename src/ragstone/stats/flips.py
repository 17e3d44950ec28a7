"""Which questions broke or were mended: their scores before and now don't overlap.

Two sets of scores of one question, `l` before and `k` now, don't overlap if the worst
of one is far better than the best of the other. If all scores come from one source, it
is chance which of them are called the newest ones, and every choice of `l` of the `l +
k` scores is as likely to be those before: the best `l` are so with a probability of 1 /
C(l + k, l). An answer that stays the same over several runs is drawn once, so equal
scores in a row count once. With that, an exact binomial test says whether as many
questions broke by chance (a permutation test within each question: E. Edgington and P.
Onghena, "Randomization Tests", 2007, chapter 3).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from ragstone.stats.arrays import Bools, Floats, Ints
from ragstone.stats.intervals import p_proportion_at_most
from ragstone.stats.losses import Change

Places = tuple[int, ...]
"""Which of a question's scores are called those before."""

GAP = 0.5
"""The worst score of one side and the best of the other differ by at least this, from
one change of half a score on."""

FAILURE_CHANCE = 0.5
"""The probability that a question on which the system fails now and did not before
looks so by chance: that of one score before and one now."""


class Flips(Struct, frozen=True):
    """The questions that broke or were mended."""

    broken: Bools
    """(n,)"""
    mended: Bools
    """(n,)"""
    chance: Floats
    """(n,): the probability that chance alone makes the scores of a question look
    broken; 0 where no order of its scores does."""

    @property
    def p_value(self) -> float:
        """The probability of as many broken questions by chance, if nothing changed.

        Where the chances of questions differ, it is that of as many with their mean,
        which is no smaller (W. Hoeffding, "On the distribution of the number of
        successes in independent trials", 1956, theorem 5).
        """
        broken = int(self.broken.sum())
        possible = max(1, int(np.count_nonzero(self.chance)))
        return p_proportion_at_most(
            broken, possible, float(self.chance.sum()) / possible
        )

    def with_failures(self, failed: Bools) -> Flips:
        """Count the questions on which the system fails, `failed` (n,), as broken."""
        chance = np.where(failed, FAILURE_CHANCE, self.chance)
        return Flips(self.broken | failed, self.mended & ~failed, chance)

    def of_groups(self, labels: Ints) -> Flips:
        """The flips of groups of related questions: one broke if one of its questions
        did and none was mended."""
        names = np.unique(labels)
        broken = np.isin(names, labels[self.broken])
        mended = np.isin(names, labels[self.mended])
        chance = np.array([self.chance[labels == name].max() for name in names])
        return Flips(broken & ~mended, mended & ~broken, chance)


def flips_of(changes: Sequence[Change], same: Bools) -> Flips:
    """The flips of questions in several metrics, whose units are indices of questions;
    `same` (questions,) are those with one answer now, given once or several times.

    A question broke if it did in a metric and was mended in none, and the other way
    round.
    """
    questions = len(same)
    broken = np.zeros(questions, dtype=np.bool_)
    mended = np.zeros(questions, dtype=np.bool_)
    choices_that_look_broken: dict[int, set[Places]] = defaultdict(set)
    choices_that_look_mended: dict[int, set[Places]] = defaultdict(set)
    choices = np.ones(questions)
    for change in changes:
        both = np.concatenate([change.then, change.now], axis=1)
        spread = np.nanmax(both, axis=1) - np.nanmin(both, axis=1)
        for row in np.flatnonzero(spread >= GAP):
            unit = change.units[row]
            earlier = change.then[row][np.isfinite(change.then[row])]
            latest = change.now[row][np.isfinite(change.now[row])]
            if not latest.size or not earlier.size:
                continue
            broken[unit] |= earlier.min() - latest.max() >= GAP
            mended[unit] |= latest.min() - earlier.max() >= GAP
            # Scores of runs that are equal to the one before: perhaps of one answer.
            earlier = earlier[np.diff(earlier, prepend=np.nan) != 0.0]
            if same[unit]:
                latest = latest[:1]
            scores = np.concatenate([earlier, latest])
            choices_that_look_broken[unit] |= _apart(scores, earlier.size)
            choices_that_look_mended[unit] |= _apart(-scores, earlier.size)
            choices[unit] = math.comb(scores.size, earlier.size)
    # In one metric it broke, in none it was mended.
    looks_broken = [
        len(choices_that_look_broken[unit] - choices_that_look_mended[unit])
        for unit in range(questions)
    ]
    return Flips(broken & ~mended, mended & ~broken, np.array(looks_broken) / choices)


def _apart(scores: Floats, highest: int) -> set[Places]:
    """The places of the `highest` scores, if they are apart from the others: the choice
    that looks as if they fell."""
    order = np.argsort(-scores, kind="stable")
    if scores[order[highest - 1]] - scores[order[highest]] < GAP:
        return set()
    return {tuple(sorted(order[:highest].tolist()))}


def least_broken(
    questions: int, *, more_than: float, chance: float, p: float, at_least: int
) -> int | None:
    """The fewest broken questions of `questions`, none mended, that are more than the
    share `more_than`, at least `at_least`, and not explained by `chance` at the
    probability `p`; None if not even all of them are enough.

    `chance` is that of one question, as of `Flips`; 0 for a system that doesn't vary.
    """
    for broken in range(at_least, questions + 1):
        if broken > more_than * questions and chance**broken <= p:
            return broken
    return None
