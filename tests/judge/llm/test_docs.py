"""What docs/llm-judges.md shows can be used as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ragstone.golden.sample import GoldenSet
from ragstone.judge.factory import build_judge
from ragstone.judge.providers import PROVIDERS
from ragstone.settings.load import load_settings
from ragstone.settings.settings import JudgeSettings

PAGE = (Path(__file__).parents[3] / "docs" / "llm-judges.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS)
def test_every_config_on_the_page_builds_a_judge(block: str, tmp_path: Path, world: object) -> None:
    (tmp_path / "ragstone.toml").write_text(block, encoding="utf-8")
    settings = load_settings(directory=tmp_path, environ={"RAGSTONE_JUDGE_API_KEY": "k-123"})
    judge = build_judge(settings.judge, golden_set=GoldenSet(()), cache=None, environ={})
    assert judge.identity.provider in PROVIDERS
    world.run(judge.close())  # type: ignore[attr-defined]


def test_the_page_names_the_defaults_that_the_code_has() -> None:
    defaults = JudgeSettings()
    for setting in ("concurrency", "timeout_s"):
        assert re.search(rf"`judge\.{setting}`[^.]*\({getattr(defaults, setting):g}\)", PAGE), setting
    for provider in PROVIDERS:
        assert provider == "offline" or f"`{provider}:" in PAGE, provider


def test_every_setting_that_the_page_names_exists() -> None:
    for name in re.findall(r"`judge\.(\w+)", PAGE):
        assert name in JudgeSettings.model_fields, name
