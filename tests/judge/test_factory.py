"""Which judge a name builds, and what is said about a name that builds none."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ragstone.errors import ConfigError
from ragstone.golden.sample import GoldenSet
from ragstone.judge.factory import build_judge
from ragstone.judge.judgements import Statement, StatementList
from ragstone.judge.protocol import Call, JudgementFailed
from ragstone.judge.scripted import ScriptedJudge
from ragstone.settings.settings import JudgeSettings


def build(name: str, **settings: Any) -> Any:
    environ = settings.pop("environ", {})
    return build_judge(JudgeSettings(name=name, **settings), golden_set=GoldenSet(()), cache=None, environ=environ)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("opnai:gpt-4o", "Did you mean 'openai:gpt-4o'?"),
        ("gpt-4o", "Did you mean 'openai:gpt-4o'?"),
        ("no-such-model", "Known:"),
        ("openai", "openai:gpt-5.4-mini"),
        ("openai:", "openai:gpt-5.4-mini"),
        ("scripted:", "scripted:judgements.json"),
        ("offline:2", "Use 'offline'"),
        ("openai:gpt-4o", "OPENAI_API_KEY"),
        ("anthropic:claude-haiku-4-5", "ANTHROPIC_API_KEY"),
        ("openai-compatible:llama", "judge.base_url"),
    ],
)
def test_what_is_wrong_with_a_name_is_said_with_how_to_mend_it(name: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build(name)
    assert says in str(caught.value)
    assert "API_KEY" not in says or "RAGSTONE_JUDGE_API_KEY" in str(caught.value)


def test_identities_differ_in_all_that_bears_on_scores_and_hold_no_secret(world: Any) -> None:
    variants: list[tuple[str, dict[str, Any]]] = [
        ("openai:gpt-4o", {}),
        ("openai:gpt-4o-mini", {}),
        ("openai:gpt-4o", {"embeddings": "text-embedding-3-large"}),
        ("openai:gpt-4o", {"parameters": {"temperature": 0.5}}),
        ("openai:gpt-4o", {"base_url": "http://127.0.0.1:1/v1"}),
        ("openai-compatible:gpt-4o", {}),
        ("anthropic:gpt-4o", {}),
    ]
    identities = [world.judge(name, **settings).identity for name, settings in variants]
    assert len(set(identities)) == len(identities)
    assert world.judge("openai:gpt-4o").identity == identities[0]
    assert "sk-" not in repr(identities)
    assert build("offline").identity.offline
    assert not any(identity.offline for identity in identities)


@pytest.mark.parametrize(
    ("name", "embeddings", "shown"),
    [
        ("openai:gpt-4o", None, "openai text-embedding-3-small"),
        ("anthropic:claude-haiku-4-5", None, "words and trigrams 1"),
        ("anthropic:claude-haiku-4-5", "openai:text-embedding-3-small", "openai text-embedding-3-small"),
        ("anthropic:claude-haiku-4-5", "voyage-3", None),
        ("anthropic:claude-haiku-4-5", "voyage:voyage-3", None),
        ("anthropic:claude-haiku-4-5", "openai:", None),
        ("openai-compatible:llama", "bge", "openai-compatible bge"),
    ],
)
def test_the_identity_says_where_similarities_come_from(
    world: Any, name: str, embeddings: str | None, shown: str | None
) -> None:
    settings = {"embeddings": embeddings, "environ": {"OPENAI_API_KEY": "k"}}
    if shown is None:
        with pytest.raises(ConfigError, match="names no embeddings"):
            world.judge(name, **settings)
    else:
        assert world.judge(name, **settings).identity.embeddings == shown


def test_the_offline_judge_takes_no_embeddings() -> None:
    with pytest.raises(ConfigError) as caught:
        build("offline", embeddings="openai-compatible:bge")
    assert caught.value.where == "judge.embeddings"


@pytest.mark.usefixtures("processes")
def test_neither_ragstone_nor_the_factory_imports_an_sdk() -> None:
    code = (
        "import sys, ragstone, ragstone.judge.factory, ragstone.judge.llm.cost_estimate;"
        "print([m for m in ('openai', 'anthropic', 'numpy', 'aiohttp') if m in sys.modules])"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "[]"


async def _statements(judge: ScriptedJudge, sample_id: str, repeat: int = 0) -> StatementList:
    return await judge.statements("When?", "In 1931.", call=Call(sample_id, repeat))


def test_a_scripted_judge_says_what_is_written(world: Any, tmp_path: Path) -> None:
    script = {
        "q1": {"statements": {"statements": [{"id": "s1", "text": "It opened."}], "abstains": False}},
        "q2": {"statements": {"reason": "the judge was tired"}},
        "q3": [
            {"statements": {"statements": [], "abstains": True}},
            {"statements": {"statements": [{"id": "s1", "text": "Later."}], "abstains": False}},
        ],
    }
    path = tmp_path / "script.json"
    path.write_text(json.dumps(script))
    judge = build(f"scripted:{path}")

    assert judge.identity.provider == "scripted"
    assert world.run(_statements(judge, "q1")) == StatementList((Statement("s1", "It opened."),), abstains=False)
    with pytest.raises(JudgementFailed, match="tired"):
        world.run(_statements(judge, "q2"))
    assert [world.run(_statements(judge, "q3", repeat)).abstains for repeat in (0, 1, 2)] == [True, False, False]
    with pytest.raises(JudgementFailed, match="no judgements for sample 'q9'"):
        world.run(_statements(judge, "q9"))


@pytest.mark.parametrize("content", ["", "[]", '{"q1": 3}', '{"q1": {"statments": {}}}', "\xff"])
def test_a_script_that_can_not_be_read_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "script.json"
    path.write_text(content, encoding="latin-1")
    with pytest.raises(ConfigError) as caught:
        build(f"scripted:{path}")
    assert "script.json" in str(caught.value)
    with pytest.raises(ConfigError, match="can't be read"):
        build(f"scripted:{tmp_path / 'missing.json'}")
