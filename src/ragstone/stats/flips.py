"""Which questions broke or were mended: the scores before the change and those after it
don't overlap.

Two sets of scores of one question, `l` before and `k` after, don't overlap if the worst
of one is far better than the best of the other. If nothing changed, every choice of `l`
of the `l + k` scores is as likely to be those before, so the best `l` are with the
probability 1 / C(l + k, l). An answer that stays the same over several runs is only one
observation, so equal scores in a row count once. With these probabilities, an exact
binomial test says whether as many questions break by chance (a permutation test within
each question: E. Edgington and P. Onghena, "Randomization Tests", 2007, chapter 3).
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

Choice = tuple[int, ...]
"""A choice of the scores of a question that could be those before, by their indices."""

GAP = 0.5
"""Scores don't overlap if the worst of one side and the best of the other differ by at
least this."""

FAILURE_CHANCE = 0.5
"""The probability that a question on which the system began to fail looks so by chance:
that of one score before and one after."""


class Flips(Struct, frozen=True):
    """Which of n questions broke or were mended."""

    broken: Bools
    """(n,): whether a question broke."""
    mended: Bools
    """(n,): whether a question was mended."""
    chance: Floats
    """(n,): the probability that the scores of a question look broken by chance; 0
    where no choice of its scores does."""

    @property
    def p_value(self) -> float:
        """The probability of as many broken questions by chance, if nothing changed.

        Where `chance` differs between questions, its mean is taken, which gives no
        smaller probability (W. Hoeffding, "On the distribution of the number of
        successes in independent trials", 1956, theorem 5).
        """
        broken_count = int(self.broken.sum())
        breakable_count = max(1, int(np.count_nonzero(self.chance)))
        mean_chance = float(self.chance.sum()) / breakable_count
        return p_proportion_at_most(broken_count, breakable_count, mean_chance)

    def with_failures(self, failed: Bools) -> Flips:
        """The flips with the questions that the system `failed` (n,) counted as
        broken."""
        chance = np.where(failed, FAILURE_CHANCE, self.chance)
        return Flips(self.broken | failed, self.mended & ~failed, chance)

    def of_groups(self, labels: Ints) -> Flips:
        """The flips of groups of related questions, which have equal `labels` (n,): a
        group broke if one of its questions did and none was mended."""
        names = np.unique(labels)
        broken = np.isin(names, labels[self.broken])
        mended = np.isin(names, labels[self.mended])
        chance = np.array([self.chance[labels == name].max() for name in names])
        return Flips(broken & ~mended, mended & ~broken, chance)


def flips_of(changes: Sequence[Change], has_one_answer: Bools) -> Flips:
    """The flips of questions over the `changes` of several metrics, whose units are
    indices of questions.

    `has_one_answer` (questions,) says which questions have a single answer after the
    change, whether given once or several times. A question broke if it did in a metric
    and was mended in none, and the other way round.
    """
    question_count = len(has_one_answer)
    broken = np.zeros(question_count, dtype=np.bool_)
    mended = np.zeros(question_count, dtype=np.bool_)
    broken_choices: dict[int, set[Choice]] = defaultdict(set)
    mended_choices: dict[int, set[Choice]] = defaultdict(set)
    choice_counts = np.ones(question_count)
    for change in changes:
        scores = np.concatenate([change.before, change.after], axis=1)
        spread = np.nanmax(scores, axis=1) - np.nanmin(scores, axis=1)
        for row in np.flatnonzero(spread >= GAP):
            unit = change.units[row]
            before = change.before[row][np.isfinite(change.before[row])]
            after = change.after[row][np.isfinite(change.after[row])]
            if not after.size or not before.size:
                continue
            broken[unit] |= before.min() - after.max() >= GAP
            mended[unit] |= after.min() - before.max() >= GAP
            # A score that is equal to that of the run before may be of the same answer.
            before = before[np.diff(before, prepend=np.nan) != 0.0]
            if has_one_answer[unit]:
                after = after[:1]
            observed = np.concatenate([before, after])
            broken_choices[unit] |= _best_choice(observed, before.size)
            mended_choices[unit] |= _best_choice(-observed, before.size)
            choice_counts[unit] = math.comb(observed.size, before.size)
    # Choices that look broken in a metric and mended in none.
    broken_counts = [
        len(broken_choices[unit] - mended_choices[unit])
        for unit in range(question_count)
    ]
    chance = np.array(broken_counts) / choice_counts
    return Flips(broken & ~mended, mended & ~broken, chance)


def _best_choice(scores: Floats, size: int) -> set[Choice]:
    """The choice of the best `size` scores as those before, which looks broken; none if
    they overlap with the others."""
    order = np.argsort(-scores, kind="stable")
    if scores[order[size - 1]] - scores[order[size]] < GAP:
        return set()
    return {tuple(sorted(order[:size].tolist()))}


def least_broken(
    questions: int, *, more_than: float, chance: float, p: float, at_least: int
) -> int | None:
    """The smallest number of broken `questions`, with none mended, that is a larger
    share than `more_than`, no smaller than `at_least`, and comes about by chance with
    at most the probability `p`; None if not even all questions are enough.

    `chance` is that of one question, as in `Flips`; 0 for a system that doesn't vary.
    """
    for broken in range(at_least, questions + 1):
        if broken > more_than * questions and chance**broken <= p:
            return broken
    return None
