"""How a job judges: with which credentials, and whether it asks its judge again."""

from __future__ import annotations

import pytest
from pydantic import SecretStr

from ragstone.evaluation.rounds.judge_watch import CANARIES
from ragstone.github.api.event import EventKind
from ragstone.github.checkout import _with_canaries
from ragstone.github.credentials import asks_a_server, without_credentials
from ragstone.settings.settings import JudgeSettings, Settings

KEY = "sk-0123456789"


@pytest.mark.parametrize(
    ("name", "value", "kept"),
    [
        ("OPENAI_API_KEY", "", False),
        ("A_COPY", KEY, False),
        ("PADDED", f" {KEY}\n", False),
        ("HEADER", f"Bearer {KEY}", False),
        ("SHORT_COPY", "ab", False),
        ("SHORT_PART", "about", True),
        ("EMPTY", "", True),
        ("OTHER", "sk-other", True),
    ],
)
def test_a_variable_goes_that_is_or_holds_a_credential(name: str, value: str, kept: bool) -> None:
    environ = {"RAGSTONE_JUDGE_API_KEY": KEY, "RAGSTONE_EMBEDDINGS_API_KEY": "ab", name: value}
    settings, left = without_credentials(Settings(judge=JudgeSettings(api_key=SecretStr(KEY))), environ)
    assert left == ({name: value} if kept else {})
    assert settings.judge.secrets() == ()


@pytest.mark.parametrize(
    ("judge", "asks"),
    [
        (JudgeSettings(name="offline"), False),
        (JudgeSettings(name="openai:m"), True),
        (JudgeSettings(name="somebody-elses:m"), True),
    ],
)
def test_a_judge_asks_a_server_unless_it_is_a_free_one(judge: JudgeSettings, asks: bool) -> None:
    assert asks_a_server(judge) is asks


@pytest.mark.parametrize(
    ("kind", "own", "asked"),
    [
        (EventKind.PUSH, None, CANARIES),
        (EventKind.SCHEDULE, None, CANARIES),
        (EventKind.WORKFLOW_DISPATCH, None, CANARIES),
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
