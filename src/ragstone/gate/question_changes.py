"""Which questions broke since the baseline, and which were mended. Where the system
always says the same, each of them is a fact; elsewhere, it may be chance."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ragstone.evaluation.scores import RunScores
from ragstone.gate.bounds import Drop, answers_per_sample
from ragstone.gate.comparability import Pairing
from ragstone.gate.evidence import Evidence
from ragstone.gate.findings import QUESTIONS, Finding, Level
from ragstone.gate.grouping import group_labels
from ragstone.gate.verdict import Action
from ragstone.gate.word_comparison import without_word_losses
from ragstone.stats.flips import Flips, flips_of, least_broken
from ragstone.system.response import RETRIEVAL

MIN_BROKEN = 3
"""Fewer broken questions never fail a run by their number alone."""
MIN_QUESTIONS = 10
"""Where there are fewer questions, reports say what so few can't show."""
MAX_P_SHOWN = 0.005
"""The probability of as many broken questions by chance up to which they are shown to
be broken."""
MAX_P_ASKED = 0.25
"""The probability of as many by chance up to which the system is asked again: two
questions that broke, and none mended, have 1/4."""
MAX_P_SUSPECTED = 0.05
"""The probability of as many by chance up to which they are suspected."""
MAX_P_SUSPECTED_NONE_MENDED = 0.13
"""MAX_P_SUSPECTED where no question was mended: three that broke have 1/8."""
MAX_P_STILL_SUSPECTED = 0.02
"""MAX_P_SUSPECTED once each question was asked again."""
RECORDED_PREFIX = "file:"
"""How an entrypoint of recorded answers begins."""
MIN_SAME_SHARE = 0.9
"""A system does not vary if at least this share of the questions that neither broke nor
were mended have the same answer and contexts as in the baseline."""
MIN_SAME_QUESTIONS = 5
"""Fewer questions with the same answer don't show that a system does not vary."""


class QuestionChanges(Struct, frozen=True):
    """What became of the paired questions."""

    paired: int
    """The number of paired questions."""
    broken: tuple[str, ...]
    """The ids of the questions that broke, sorted."""
    mended: tuple[str, ...]
    """The ids of the questions that were mended, sorted."""
    is_steady: bool
    """Whether the system is known to give the same answer whenever it is asked. Then
    each broken question is a fact."""
    is_likely_steady: bool
    """Whether nearly all other questions have the answers that they had."""
    p_value: float
    """The probability of as many broken questions by chance, if the system is not
    steady."""
    was_asked_again: bool = False

    def __str__(self) -> str:
        """``3 of 15 questions got worse, none better``."""
        better = "none"
        if self.mended:
            better = f"{len(self.mended):,}"
        worse = len(self.broken)
        return f"{worse:,} of {self.paired:,} questions got worse, {better} better"

    @property
    def is_shown(self) -> bool:
        """Whether the questions are broken beyond chance."""
        return self.is_steady or self.p_value <= MAX_P_SHOWN

    @property
    def is_unsettled(self) -> bool:
        """Whether more answers could show that the system doesn't vary, or that chance
        does not explain the broken questions."""
        if self.is_steady:
            return False
        if self.was_asked_again:
            return self.is_suspected
        return self.is_likely_steady or self.p_value <= MAX_P_ASKED

    @property
    def is_suspected(self) -> bool:
        """Whether chance is a poor explanation of the broken questions."""
        max_p = MAX_P_SUSPECTED_NONE_MENDED
        if self.was_asked_again:
            max_p = MAX_P_STILL_SUSPECTED
        elif self.mended:
            max_p = MAX_P_SUSPECTED
        return self.is_shown or self.p_value <= max_p


def question_changes(evidence: Evidence) -> QuestionChanges:
    """The questions that broke or were mended, by the metrics with a blocking drop.

    A question also broke if the system fails on it and did not in the baseline. A loss
    that only the words of the offline judge show breaks none. Without a comparable
    baseline, no question is paired.
    """
    pairing = evidence.compared
    run = evidence.current
    counted_drops = list(filter(_breaks_questions, evidence.drops))
    drops = without_word_losses(counted_drops, evidence)
    ids = sorted(run.samples)
    answers = run.system.answers
    has_one_answer = [len(set(answers.get(sample_id, ()))) == 1 for sample_id in ids]
    changes = [drop.change for drop in drops]
    flips = flips_of(changes, np.array(has_one_answer))
    failed = _failed_since_baseline(pairing)
    broken = _ids_at(flips.broken, ids) | failed
    mended = _ids_at(flips.mended, ids) - failed
    paired = set(pairing.samples)
    unchanged = paired - broken - mended
    has_same_answers = _have_same_answers(pairing, unchanged)
    return QuestionChanges(
        paired=len(paired),
        broken=tuple(sorted(broken)),
        mended=tuple(sorted(mended)),
        is_steady=_is_steady(run, drops, has_same_answers=has_same_answers),
        is_likely_steady=has_same_answers,
        p_value=_p_value(flips, np.isin(ids, list(failed)), group_labels(run, ids)),
        was_asked_again=evidence.was_asked_again,
    )


def _ids_at(mask: NDArray[np.bool_], ids: Sequence[str]) -> set[str]:
    """The ids whose entry in `mask` (ids,) is true."""
    return {ids[index] for index in np.flatnonzero(mask).tolist()}


def _failed_since_baseline(pairing: Pairing) -> set[str]:
    """The ids of questions that the system fails on each time, and did not fail on in
    the baseline."""
    times_asked = answers_per_sample(pairing.current)
    failures = pairing.current.system.failed_answers
    failed = {
        sample_id
        for sample_id in pairing.samples
        if failures.get(sample_id, 0) >= times_asked
    }
    return failed - pairing.baseline.system.failures.keys()


def _p_value(
    flips: Flips, is_failed: NDArray[np.bool_], groups: NDArray[np.int64] | None
) -> float:
    """The probability of as many broken questions by chance: of the broken and the
    failed together, or of the failed alone, if that is smaller.

    `is_failed` (n,) are the questions that the system fails on, `groups` (n,) their
    groups, if there are any.
    """
    all_flips = flips.with_failures(is_failed)
    # Failures are also counted by themselves: no mended question excuses them.
    failures = flips_of((), is_failed).with_failures(is_failed)
    if groups is not None:
        all_flips = all_flips.of_groups(groups)
        failures = failures.of_groups(groups)
    return min(all_flips.p_value, failures.p_value)


def question_findings(evidence: Evidence) -> Iterator[Finding]:
    """How many questions got worse and how many better."""
    changes = question_changes(evidence)
    if changes.paired:
        sentence = f"{changes}."
        yield Finding(QUESTIONS, Level.FACT, sentence, data=changes)


def allowed_share(evidence: Evidence) -> float:
    """The share of the questions that may break: what the policy says, or else at least
    the largest drop it allows."""
    gate = evidence.policy.gate
    if "max_broken_questions" in gate.model_fields_set:
        return gate.max_broken_questions
    allowed_drops = [-drop.bound for drop in evidence.drops if _breaks_questions(drop)]
    return max([gate.max_broken_questions, *allowed_drops])


def least_that_fails(evidence: Evidence) -> int | None:
    """The fewest broken questions that fail this run by their number, if none is
    mended; None if not even all of them do."""
    changes = question_changes(evidence)
    chance = 0.0 if changes.is_steady else chance_of_one(evidence)
    return least_broken(
        changes.paired,
        more_than=allowed_share(evidence),
        chance=chance,
        p=MAX_P_SHOWN,
        at_least=MIN_BROKEN,
    )


def remark_on_few_questions(questions: int) -> str:
    """A sentence on what so few questions can't show, and how many are needed; empty if
    there are at least MIN_QUESTIONS."""
    if questions >= MIN_QUESTIONS:
        return ""
    needed = f"{10 * MIN_BROKEN} are needed to show that one in ten broke."
    if questions < MIN_BROKEN:
        return f"So few questions can't show any loss; {needed}"
    return (
        f"With so few questions, a loss of fewer than {MIN_BROKEN} of them doesn't show; "
        f"{needed}"
    )


def chance_of_one(evidence: Evidence) -> float:
    """The probability that a question whose answers are right or wrong by chance looks
    broken after it was asked as often as the gate may ask it.

    Of 2 + n answers (one of the baseline, one of this run, and n repeats), that of the
    baseline must be the only right one. Recorded answers can't be asked for again.
    """
    gate = evidence.policy.gate
    repeats = 0
    if gate.asks_again and not is_recorded(evidence.current):
        repeats = gate.confirm_repeats
    return 1.0 / (2.0 + repeats)


def is_recorded(run: RunScores) -> bool:
    """Whether the answers of a run were recorded, or are not known: they can't be asked
    for again."""
    manifest = run.manifest
    return manifest is None or manifest.system.entrypoint.startswith(RECORDED_PREFIX)


def _breaks_questions(drop: Drop) -> bool:
    """Whether a question can break by this drop: it blocks, is over all samples, and is
    not accepted."""
    rule = drop.rule
    is_whole = rule.slice is None and rule.accepted is None
    return is_whole and rule.drop_action is Action.BLOCK


def _is_steady(
    run: RunScores, drops: Collection[Drop], *, has_same_answers: bool
) -> bool:
    """Whether the system is known to give the same answer whenever it is asked.

    It must have been asked again and have said the same. Recorded answers can't be
    asked for again; for them, `has_same_answers` suffices: nearly all questions that
    neither broke nor were mended have the answers of the baseline. In both cases,
    nearly all scores must be the same in all known runs of the baseline.
    """
    for drop in drops:
        baseline_scores = drop.change.before
        differs = np.ptp(baseline_scores, axis=1) > 0.0
        max_differing = (1.0 - MIN_SAME_SHARE) * len(baseline_scores)
        if np.count_nonzero(differs) > max_differing:
            return False
    if run.steady or (is_recorded(run) and has_same_answers):
        return True
    # Each question was asked several times, and got the same answer each time.
    system = run.system
    is_asked_once = answers_per_sample(run) == 1 or run.part == RETRIEVAL
    if is_asked_once or not system.answers or system.failed_answers:
        return False
    distinct_answers = map(set, system.answers.values())
    return all(len(answers) == 1 for answers in distinct_answers)


def _have_same_answers(pairing: Pairing, ids: Collection[str]) -> bool:
    """Whether nearly all of these questions have the answers and contexts that they had
    in the baseline."""
    system = pairing.current.system
    baseline_system = pairing.baseline.system
    same = 0
    for sample_id in ids:
        if sample_id in system.answers and sample_id in system.contexts:
            answers = set(system.answers[sample_id])
            baseline_answers = set(baseline_system.answers.get(sample_id, ()))
            contexts = system.contexts[sample_id]
            baseline_contexts = baseline_system.contexts.get(sample_id)
            same += answers == baseline_answers and contexts == baseline_contexts
    enough = max(MIN_SAME_QUESTIONS, MIN_SAME_SHARE * len(ids))
    return same >= enough
