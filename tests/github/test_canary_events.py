"""Which jobs ask their judge again."""

from __future__ import annotations

import pytest

from ragstone.evaluation.rounds.judge_watch import DEFAULT_CANARY_COUNT
from ragstone.github.api.event import EventKind
from ragstone.github.checkout import _with_canaries
from ragstone.settings.settings import JudgeSettings, Settings


@pytest.mark.parametrize(
    ("kind", "own", "asked"),
    [
        (EventKind.PUSH, None, DEFAULT_CANARY_COUNT),
        (EventKind.SCHEDULE, None, DEFAULT_CANARY_COUNT),
        (EventKind.WORKFLOW_DISPATCH, None, DEFAULT_CANARY_COUNT),
        (EventKind.PUSH, 0, 0),
        (EventKind.PULL_REQUEST, 3, 3),
        (EventKind.PULL_REQUEST, None, None),
        (EventKind.MERGE_GROUP, None, None),
    ],
)
def test_the_branchs_own_runs_ask_the_judge_again_unless_the_config_says_how_often(
    kind: EventKind, own: int | None, asked: int | None
) -> None:
    assert _with_canaries(Settings(judge=JudgeSettings(canaries=own)), kind).judge.canaries == asked
