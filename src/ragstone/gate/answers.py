"""Does the system answer at all? A guard that applies with any judge and any policy.

An empty answer makes no claims, so it is never unfaithful; a constant one can be faithful to a constant context; and a
floor may only warn. So every finished run is checked for three things: empty answers, the same answer to everything,
and retrieval that finds almost nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ragstone.formatting import clipped, counted, figure, most_common, percent
from ragstone.gate.grouping import group_labels
from ragstone.gate.policy import Policy
from ragstone.gate.rules import Rule
from ragstone.gate.verdict import Action, Check, CheckKind, Interval, Status
from ragstone.run.scores import RunScores
from ragstone.stats.intervals import mean_interval
from ragstone.system.response import RETRIEVAL

_RECALL = "context_recall"
_HALF = 0.5

_FEWEST_ALIKE = 2
"""The same answer to this many questions with different references counts as one answer to everything."""
_FEWEST_ALIKE_UNREFERENCED = 5
"""Five if there are no references: fewer questions may all be answered "Yes."."""


def answers_checks(run: RunScores, rules: Sequence[Rule], policy: Policy) -> Iterator[Check]:
    """A check of the answers of a finished run, and a check of context recall if it is almost zero.

    Unanswerable samples don't count here: the same answer to each of them, or none, is right. Nor do the answers of a
    system that only retrieves: it gives none.
    """
    if run.manifest is None or run.manifest.state != "finished" or not run.system.answers:
        return
    asked = [sample_id for sample_id, facts in run.samples.items() if facts.answerable]
    if asked and run.manifest.system.part != RETRIEVAL:
        yield _answers(run, asked, policy.system.max_empty)
    yield from _recall(run, rules, policy)


def _answers(run: RunScores, asked: Sequence[str], allowed: float) -> Check:
    n = counted(len(asked), "answerable sample")
    each = 1 if run.manifest is None else run.manifest.answers
    empty = sum(run.system.answers.get(sample_id, ()).count("") for sample_id in asked)
    share = empty / (len(asked) * each)
    found = f"an empty answer to {empty} of {n}"
    if each > 1:
        found = f"{counted(empty, 'empty answer')} to {n}, each asked {each} times"
    status = Status.FAIL
    if share > allowed:
        reason = f"the system gave {found}, more than the {percent(allowed)} allowed."
    elif _all_alike(run, asked):
        reason = f"the system gave the same answer to each of {n}."
    else:
        status = Status.PASS
        reason = f"the system gave {found}, and not the same answer to all."
    return Check(
        name="system.answers",
        kind=CheckKind.ANSWERS,
        status=status,
        action=Action.BLOCK,
        reason=reason,
        estimate=share,
        threshold=allowed,
        current=share,
        n=len(asked),
    )


def no_answer_check(run: RunScores) -> Check | None:
    """An error if the system under test failed on every sample of a finished run: then nothing else can be checked."""
    failures = run.system.failures
    finished = run.manifest is not None and run.manifest.state == "finished"
    if not finished or not run.samples or not failures.keys() >= run.samples.keys() or any(run.system.answers.values()):
        return None
    reasons = {failures[sample_id].rstrip(".") for sample_id in run.samples}
    often = "" if len(reasons) == 1 else ", most often"
    why = clipped(most_common(failures[sample_id].rstrip(".") for sample_id in run.samples))
    return Check(
        name="system.answers",
        kind=CheckKind.ANSWERS,
        status=Status.ERROR,
        action=Action.BLOCK,
        reason=f"the system under test failed on all of {counted(len(run.samples), 'sample')}{often}: {why}.",
        n=len(run.samples),
    )


def _all_alike(run: RunScores, asked: Sequence[str]) -> bool:
    given = [sample_id for sample_id in asked if any(run.system.answers.get(sample_id, ()))]
    if len({answer for sample_id in given for answer in run.system.answers[sample_id]}) != 1 or 2 * len(given) <= len(
        asked
    ):
        return False
    questions = len({run.samples[sample_id].question for sample_id in given})
    references = {run.samples[sample_id].reference for sample_id in given} - {None}
    if not references:
        return questions >= _FEWEST_ALIKE_UNREFERENCED
    return len(references) > 1 and questions >= _FEWEST_ALIKE


def _recall(run: RunScores, rules: Sequence[Rule], policy: Policy) -> Iterator[Check]:
    floor = next((rule.min for rule in rules if rule.metric == _RECALL and rule.slice is None), None)
    scores = run.metrics.get(_RECALL)
    if not floor or scores is None or not scores.values:
        return
    ids = sorted(scores.values)
    values = np.array([scores.values[sample_id] for sample_id in ids], dtype=np.float64)
    groups = group_labels(run, {sample_id: index for index, sample_id in enumerate(ids)})
    found = mean_interval(values, confidence=policy.gate.confidence, groups=groups)
    if found.high >= _HALF * floor:
        return
    hint = "" if values.any() else " Does the entrypoint return the contexts?"
    yield Check(
        name=f"{_RECALL}.answers",
        kind=CheckKind.ANSWERS,
        status=Status.FAIL,
        action=Action.BLOCK,
        reason=f"{_RECALL} is {figure(found.estimate)} on {counted(found.n, 'sample')} "
        f"({percent(found.confidence)} interval {figure(found.low)} to {figure(found.high)}): shown to be less than "
        f"half of its floor of {figure(floor)}, which fails with any judge.{hint}",
        metric=_RECALL,
        estimate=found.estimate,
        interval=Interval(found.low, found.high, found.confidence, found.method),
        threshold=_HALF * floor,
        current=found.estimate,
        n=found.n,
    )
