"""Floors for a new policy, which the present system clears by more than its noise."""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ragstone.errors import RagstoneError
from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.manifest import Manifest
from ragstone.evaluation.scores import RunScores, split_drafts
from ragstone.files import read_table
from ragstone.gate.policy_table import DEFAULT_MAX_DROP, OFFLINE_BLOCKING_METRICS
from ragstone.report.templates import render_text_template
from ragstone.stats.sensitivity import TYPICAL_CHANGED

# How floors are chosen; names.toml explains each value.
RULES = read_table("names.toml", __package__)["floors"]


class MeasuredFloor(NamedTuple):
    """The floor of a metric, from the mean of its scores on that many `questions`."""

    metric: str
    mean: float
    questions: int
    floor: float


def measured_floors(run: Path) -> tuple[list[MeasuredFloor], str]:
    """The floors from the run in the folder `run`, and their tables in TOML. There are
    none if the run can't be read, is not finished, or has few scores."""
    try:
        directory = RunDirectory.open(run)
        scores, _ = split_drafts(directory.scores())
    except RagstoneError:
        return [], ""  # the first command that needs the run says what is wrong with it
    floors = floors_of(scores) if directory.manifest.state == "finished" else []
    return floors, floors_toml(floors, directory.manifest, run.name)


def floors_toml(floors: list[MeasuredFloor], manifest: Manifest, folder: str) -> str:
    """The tables of the floors for a policy, with a comment on how they were chosen."""
    values = RULES | {
        "floors": floors,
        "manifest": manifest,
        "folder": folder,
        "max_drop": DEFAULT_MAX_DROP,
    }
    return render_text_template("starter/floors.toml.j2", __package__, **values)


def floors_of(scores: RunScores) -> list[MeasuredFloor]:
    """A floor above 0 for each metric with enough scores. Of the scores of the offline
    judge, only the metrics whose drops block get one. Pure."""
    is_offline = scores.manifest is not None and scores.manifest.judge.offline
    other_words = RULES["other_words"] if is_offline else 0.0
    floors = []
    for name in RULES["metrics"]:
        values = np.array(list(scores.scores_of(name).values.values()))
        has_rule = not is_offline or name in OFFLINE_BLOCKING_METRICS
        if len(values) < RULES["min_questions"] or not has_rule:
            continue
        mean = float(values.mean())
        # The noise of the difference between two runs, in which this share of the
        # answers changes.
        variance = 2.0 * TYPICAL_CHANGED * values.var(ddof=1)
        noise = RULES["errors"] * math.sqrt(variance / len(values))
        margin = max(noise, 1.0 / len(values)) + other_words
        # Rounded down to two decimals; 1e-9 makes up for the error of floats.
        floor = math.floor(100.0 * (mean - margin) + 1e-9) / 100.0
        if floor > 0.0:
            floors.append(MeasuredFloor(name, mean, len(values), floor))
    return floors
