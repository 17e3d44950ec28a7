"""Which questions broke since the baseline, and which were mended: facts, where the
system always says the same."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
from msgspec import Struct

from ragstone.evaluation.scores import RunScores
from ragstone.gate.bounds import Drop, answers_per_sample
from ragstone.gate.comparability import Pairing
from ragstone.gate.evidence import Evidence
from ragstone.gate.findings import QUESTIONS, Finding, Level
from ragstone.gate.grouping import group_labels
from ragstone.gate.verdict import Action
from ragstone.gate.word_comparison import without_word_losses
from ragstone.stats.flips import flips_of, least_broken
from ragstone.system.response import RETRIEVAL

MIN_BROKEN = 3
"""Fewer broken questions never fail a run by their number alone."""
FEW = 10
"""Of fewer questions, line one says what they can't show."""
SHOWN = 0.005
"""As many broken questions are shown if chance alone breaks as many with at most this
probability."""
ASKED = 0.25
"""The probability up to which chance is doubted enough to ask again: two questions that
broke, and none mended, have 1/4."""
SUSPECTED = 0.05
"""The probability up to which chance is doubted enough to say so."""
SUSPECTED_ALONE = 0.13
"""The same where no question was mended: three that broke have 1/8."""
STILL_SUSPECTED = 0.02
"""The same once each question was asked again."""
RECORDED = "file:"
"""How an entrypoint of recorded answers begins."""
SAME_ANSWERS = 0.9
"""The share of the other questions that have the same answer and contexts as before if
the system does not vary."""
MIN_SAME = 5
"""Fewer questions with the same answer don't show that a system does not vary."""


class QuestionChanges(Struct, frozen=True):
    """What became of the paired questions."""

    questions: int
    """How many are paired."""
    broken: tuple[str, ...]
    """Their ids, sorted."""
    mended: tuple[str, ...]
    """Their ids, sorted."""
    steady: bool
    """The system gives the same answer whenever it is asked, so that each of them is a
    fact."""
    seems_steady: bool
    """It is not known, but nearly all other questions have the answers that they
    had."""
    p_value: float
    """The probability of as many broken questions by chance, if the system is not
    steady."""
    asked_again: bool = False

    def __str__(self) -> str:
        """``3 of 15 questions got worse, none better``."""
        better = "none"
        if self.mended:
            better = f"{len(self.mended):,}"
        worse = len(self.broken)
        return f"{worse:,} of {self.questions:,} questions got worse, {better} better"

    @property
    def shown(self) -> bool:
        """Whether the questions are broken beyond chance."""
        return self.steady or self.p_value <= SHOWN

    @property
    def unsettled(self) -> bool:
        """Whether asking again could say more: that the system doesn't vary, or that
        chance does not explain this."""
        if self.steady:
            return False
        if self.asked_again:
            return self.suspected
        return self.seems_steady or self.p_value <= ASKED

    @property
    def suspected(self) -> bool:
        """Whether chance is a poor explanation of the broken questions."""
        if self.asked_again:
            return self.shown or self.p_value <= STILL_SUSPECTED
        limit = SUSPECTED if self.mended else SUSPECTED_ALONE
        return self.shown or self.p_value <= limit


def question_changes(evidence: Evidence) -> QuestionChanges:
    """The questions that broke or were mended, by the metrics with a blocking drop; no
    question is paired without a comparable baseline.

    A question also broke if the system fails on it now and did not before. A loss that
    only the words of the offline judge show breaks none.
    """
    pairing = evidence.compared
    run = evidence.current
    counting_drops = list(filter(_counts, evidence.drops))
    drops = without_word_losses(counting_drops, evidence)
    ids = sorted(run.samples)
    system = run.system
    answers = system.answers
    has_one_answer = [len(set(answers.get(name, ()))) == 1 for name in ids]
    changes = [drop.change for drop in drops]
    same = np.array(has_one_answer)
    flips = flips_of(changes, same)
    paired = set(pairing.samples)
    failed = _newly_failed(pairing)
    broken_units = flips.broken.nonzero()[0]
    mended_units = flips.mended.nonzero()[0]
    broken = {ids[unit] for unit in broken_units.tolist()}
    mended = {ids[unit] for unit in mended_units.tolist()}
    broken |= failed
    mended -= failed
    unchanged = paired - broken - mended
    same_answers = _have_same_answers(pairing, unchanged)
    has_failed = np.isin(ids, list(failed))
    all_flips = flips.with_failures(has_failed)
    # Failures are also counted by themselves: no mended question excuses them.
    failures = flips_of((), same).with_failures(has_failed)
    labels = group_labels(run, ids)
    if labels is not None:
        all_flips = all_flips.of_groups(labels)
        failures = failures.of_groups(labels)
    p_value = min(all_flips.p_value, failures.p_value)
    is_steady = _is_steady(run, drops, same_answers=same_answers)
    return QuestionChanges(
        questions=len(paired),
        broken=tuple(sorted(broken)),
        mended=tuple(sorted(mended)),
        steady=is_steady,
        seems_steady=same_answers,
        p_value=p_value,
        asked_again=evidence.confirmed,
    )


def _newly_failed(pairing: Pairing) -> set[str]:
    """The ids of questions that the system fails on each time, and did not fail on in
    the baseline."""
    times_asked = answers_per_sample(pairing.current)
    failures = pairing.current.system.failed_answers
    failed = {name for name in pairing.samples if failures.get(name, 0) >= times_asked}
    return failed - pairing.baseline.system.failures.keys()


def question_findings(evidence: Evidence) -> Iterator[Finding]:
    """How many questions got worse and how many better."""
    changes = question_changes(evidence)
    if changes.questions:
        sentence = f"{changes}."
        yield Finding(QUESTIONS, Level.FACT, sentence, data=changes)


def allowed_share(evidence: Evidence) -> float:
    """The share of the questions that may break: what the policy says, or else at least
    the largest drop it allows."""
    gate = evidence.policy.gate
    if "max_broken_questions" in gate.model_fields_set:
        return gate.max_broken_questions
    allowed_drops = [-drop.bound for drop in evidence.drops if _counts(drop)]
    allowed = [gate.max_broken_questions, *allowed_drops]
    return max(allowed)


def least_that_fails(evidence: Evidence) -> int | None:
    """The fewest broken questions, none of them mended, that fail this run by their
    number; None: not even all do."""
    changes = question_changes(evidence)
    allowed = allowed_share(evidence)
    chance = 0.0 if changes.steady else chance_of_one(evidence)
    return least_broken(
        changes.questions,
        more_than=allowed,
        chance=chance,
        p=SHOWN,
        at_least=MIN_BROKEN,
    )


def needed_questions(samples: int) -> str:
    """What so few samples can't show, and how many are needed; empty for FEW or
    more."""
    if samples >= FEW:
        return ""
    needed = f"{10 * MIN_BROKEN} are needed to show that one in ten broke."
    if samples < MIN_BROKEN:
        return f"So few questions can't show any loss; {needed}"
    return (
        f"Of so few questions, fewer than {MIN_BROKEN} that break don't show; {needed}"
    )


def chance_of_one(evidence: Evidence) -> float:
    """The probability that one question, right or wrong by chance, looks broken when
    all answers are there.

    Each question has one answer of the baseline; recorded answers can't be asked for
    again.
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
    return manifest is None or manifest.system.entrypoint.startswith(RECORDED)


def _counts(drop: Drop) -> bool:
    """Whether a question can break by this drop: it blocks, over all samples, and is
    not accepted."""
    rule = drop.rule
    is_whole = rule.slice is None and rule.accepted is None
    return is_whole and rule.drop_action is Action.BLOCK


def _is_steady(run: RunScores, drops: Collection[Drop], *, same_answers: bool) -> bool:
    """Whether the system is known to give the same answer whenever it is asked.

    It was asked again and said the same. Of recorded answers, which can't be asked for
    again: nearly all questions that neither broke nor were mended have the
    `same_answers` as in the baseline. In any case, scores must be the same in all known
    runs.
    """
    for drop in drops:
        scores = drop.change.before
        differing = (np.ptp(scores, axis=1) > 0.0).sum()
        max_differing = (1.0 - SAME_ANSWERS) * len(scores)
        if differing > max_differing:
            return False
    if run.steady or (is_recorded(run) and same_answers):
        return True
    # Each question was asked several times, and got the same answer each time.
    system = run.system
    is_asked_once = answers_per_sample(run) == 1 or run.part == RETRIEVAL
    if is_asked_once or not system.answers or system.failed_answers:
        return False
    distinct_answers = map(set, system.answers.values())
    return all(len(answers) == 1 for answers in distinct_answers)


def _have_same_answers(pairing: Pairing, samples: Collection[str]) -> bool:
    """Whether nearly all of these questions have the answers and contexts that they had
    in the baseline."""
    system = pairing.current.system
    before = pairing.baseline.system
    same = 0
    for name in samples:
        if name in system.answers and name in system.contexts:
            answers = set(system.answers[name])
            answers_before = set(before.answers.get(name, ()))
            contexts = system.contexts[name]
            contexts_before = before.contexts.get(name)
            has_same_answers = answers == answers_before
            has_same_contexts = contexts == contexts_before
            same += has_same_answers and has_same_contexts
    enough = SAME_ANSWERS * len(samples)
    return same >= MIN_SAME and same >= enough
