"""What docs/llm-judges.md shows can be used as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ragstone.golden.sample import GoldenSet
from ragstone.judge.factory import build_judge
from ragstone.judge.providers import PROVIDERS
from ragstone.settings.load import load_settings

PAGE = (Path(__file__).parents[3] / "docs" / "llm-judges.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS)
def test_every_config_on_the_page_builds_a_judge(block: str, tmp_path: Path, world: object) -> None:
    (tmp_path / "ragstone.toml").write_text(block, encoding="utf-8")
    settings = load_settings(directory=tmp_path, environ={"RAGSTONE_JUDGE_API_KEY": "k-123"})
    judge = build_judge(settings.judge, golden_set=GoldenSet(()), cache=None, environ={})
    assert judge.identity.provider in PROVIDERS
    world.run(judge.close())  # type: ignore[attr-defined]
