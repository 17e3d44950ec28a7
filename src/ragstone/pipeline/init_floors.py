"""Floors for a new policy: what the present system clears by more than its own noise."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ragstone.errors import RagstoneError
from ragstone.evaluation.directory import MANIFEST, RunDirectory
from ragstone.evaluation.scores import MetricScores, RunScores, without_drafts
from ragstone.formatting import counted
from ragstone.gate.policy_table import DEFAULT_MAX_DROP, OFFLINE_BLOCKS
from ragstone.report.escape import one_line
from ragstone.stats.intervals import Floats
from ragstone.stats.sensitivity import TYPICAL_CHANGED

METRICS = ("faithfulness", "context_recall", "context_precision", "answer_correctness")
"""The metrics that get a floor. That of answer relevancy would say more of the embeddings than of the answers."""

MIN_QUESTIONS = 5
"""A floor from fewer questions would be a guess."""

ERRORS = 2.33
"""Standard errors below the mean: a system that stays as it is falls below its floor in one of a hundred runs."""

OTHER_WORDS = 0.03
"""What answers with the same facts can lose by the words of the offline judge, beside what it takes for other words:
0.02 to 0.03 where all are reworded (`bench/real_changes.py`)."""


@dataclass(frozen=True, slots=True)
class MeasuredFloor:
    """The floor of a metric, from its `mean` on `questions` questions."""

    metric: str
    mean: float
    questions: int
    floor: float


@dataclass(frozen=True, slots=True)
class MeasuredFloors:
    """The floors from a finished run, and how its noise was measured."""

    folder: str
    day: str
    judge: str
    offline: bool
    answers: int
    floors: tuple[MeasuredFloor, ...]

    @property
    def less(self) -> str:
        """What each floor is below its mean."""
        parts = f"{ERRORS:g} standard errors and one question"
        return f"{parts}, and {OTHER_WORDS:g} for other words" if self.offline else parts

    @property
    def how(self) -> str:
        """How the noise is known."""
        if self.answers > 1:
            return f"the noise is that of {self.answers} answers to each question"
        return "each question was asked once, so 4 of 10 answers are assumed to change from run to run"

    def toml(self) -> str:
        """The tables of the policy, with a comment on how they were chosen."""
        judge = one_line(self.judge)  # a run may be someone else's, and a comment ends with its line
        lines = [
            f"# Floors that the run in {self.folder} clears by more than its noise ({judge}, {self.day}):",
            f"# each mean, less {self.less}; {self.how}.",
        ]
        for measured in self.floors:
            questions = counted(measured.questions, "question")
            lines += [
                f"[metrics.{measured.metric}]",
                f"min = {measured.floor:.2f}  # measured: {measured.mean:.2f} on {questions}",
                f"max_drop = {DEFAULT_MAX_DROP:g}",
                "",
            ]
        return "\n".join(lines).rstrip() + "\n"


def measured_floors(directory: Path, name: str) -> MeasuredFloors | None:
    """The floors from the run `name` in `directory`; None if there is no finished run with enough scores."""
    if not (directory / name / MANIFEST).is_file():
        return None
    try:
        run = RunDirectory.open(directory / name)
        scores, _ = without_drafts(run.scores())
    except RagstoneError:
        return None  # what is wrong with it is said by the command that needs it
    if run.manifest.state != "finished":
        return None
    floors = tuple(floors_of(scores))
    if not floors:
        return None
    judge = run.manifest.judge
    return MeasuredFloors(name, str(run.manifest.day), judge.label(), judge.offline, run.manifest.answers, floors)


def floors_of(scores: RunScores) -> Iterator[MeasuredFloor]:
    """A floor for each metric with enough scores, if it is above 0. Pure.

    By the offline judge, only for those whose drops it measures well enough to block.
    """
    offline = scores.manifest is not None and scores.manifest.judge.offline
    for name in METRICS:
        if name not in scores.metrics or len(scores.metrics[name].values) < MIN_QUESTIONS:
            continue
        if offline and name not in OFFLINE_BLOCKS:
            continue
        values = np.array(list(scores.metrics[name].values.values()))
        margin = max(ERRORS * _standard_error(scores.metrics[name], values), 1.0 / len(values))
        margin += OTHER_WORDS if offline else 0.0
        floor = math.floor(100.0 * (float(values.mean()) - margin) + 1e-9) / 100.0
        if floor > 0.0:
            yield MeasuredFloor(name, float(values.mean()), len(values), floor)


def _standard_error(scores: MetricScores, values: Floats) -> float:
    """How far the mean of a later run is from this one, as one standard deviation: the noise of both counts."""
    within = [
        np.var([value for value in answers if value is not None], ddof=1)
        for answers in scores.answers.values()
        if sum(value is not None for value in answers) > 1
    ]
    if within:
        answers = max(len(answers) for answers in scores.answers.values())
        return math.sqrt(float(np.mean(within)) * (1.0 + 1.0 / answers) / len(values))
    return math.sqrt(2.0 * TYPICAL_CHANGED * float(np.var(values, ddof=1)) / len(values))
