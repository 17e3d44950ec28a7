"""Floors for a new policy: what the present system clears by more than its own noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ragstone.errors import RagstoneError
from ragstone.evaluation.directory import MANIFEST, RunDirectory
from ragstone.evaluation.manifest import Manifest
from ragstone.evaluation.scores import MetricScores, RunScores, without_drafts
from ragstone.gate.policy_table import DEFAULT_MAX_DROP, OFFLINE_BLOCKS
from ragstone.report.escape import one_line
from ragstone.report.templates import render_text_template
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
    """The floors from a run, and the tables of the policy that say how they were chosen."""

    floors: list[MeasuredFloor]
    toml: str


def measured_floors(run: Path) -> MeasuredFloors | None:
    """The floors from the run in the folder `run`; None if it is not finished, or has too few scores."""
    if not (run / MANIFEST).is_file():
        return None
    try:
        directory = RunDirectory.open(run)
        scores, _ = without_drafts(directory.scores())
    except RagstoneError:
        return None  # what is wrong with it is said by the command that needs it
    floors = floors_of(scores)
    if directory.manifest.state != "finished" or not floors:
        return None
    return MeasuredFloors(floors, floors_toml(floors, directory.manifest, run.name))


def floors_toml(floors: list[MeasuredFloor], manifest: Manifest, folder: str) -> str:
    """The tables of the policy, with a comment on how they were chosen."""
    return render_text_template(
        "starter/floors.toml.j2",
        __package__,
        floors=floors,
        folder=folder,
        judge=one_line(manifest.judge.label()),  # a run may be someone else's, and a comment ends with its line
        day=manifest.day,
        answers=manifest.answers,
        errors=ERRORS,
        other_words=OTHER_WORDS if manifest.judge.offline else None,
        max_drop=DEFAULT_MAX_DROP,
    )


def floors_of(scores: RunScores) -> list[MeasuredFloor]:
    """A floor for each metric with enough scores, if it is above 0. Pure.

    By the offline judge, only for those whose drops it measures well enough to block.
    """
    is_offline = scores.manifest is not None and scores.manifest.judge.offline
    floors = []
    for name in METRICS:
        values = list(scores.metrics[name].values.values()) if name in scores.metrics else []
        if len(values) < MIN_QUESTIONS or (is_offline and name not in OFFLINE_BLOCKS):
            continue
        mean = float(np.mean(values))
        margin = max(ERRORS * _standard_error(scores.metrics[name]), 1.0 / len(values))
        if is_offline:
            margin += OTHER_WORDS
        floor = math.floor(100.0 * (mean - margin) + 1e-9) / 100.0
        if floor > 0.0:
            floors.append(MeasuredFloor(name, mean, len(values), floor))
    return floors


def _standard_error(scores: MetricScores) -> float:
    """How far the mean of a later run is from this one, as one standard deviation: the noise of both counts."""
    answers = [[value for value in values if value is not None] for values in scores.answers.values()]
    within = [np.var(values, ddof=1) for values in answers if len(values) > 1]
    count = len(scores.values)
    if within:
        most = max(map(len, scores.answers.values()))
        return math.sqrt(float(np.mean(within)) * (1.0 + 1.0 / most) / count)
    return math.sqrt(2.0 * TYPICAL_CHANGED * float(np.var(list(scores.values.values()), ddof=1)) / count)
