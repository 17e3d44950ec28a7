from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from ragstone.errors import ConfigError
from ragstone.github.inputs import INPUTS, ActionInputs, CommentMode, read_inputs, read_variables
from ragstone.settings.load import load_settings, option_of
from ragstone.system.environment import passed_variables


def test_inputs_become_settings_through_the_one_cascade(tmp_path: Path) -> None:
    (tmp_path / "ragstone.toml").write_text('[judge]\nname = "offline"\n[system]\ntimeout_s = 5\n', encoding="utf-8")
    found = read_inputs(
        {
            "INPUT_GOLDEN-SET": "golden/a.jsonl\n golden/with space.jsonl \n\n",
            "INPUT_ENTRYPOINT": "python:rag:answer",
            "INPUT_SYSTEM-ENV": "API_URL, OTHER\nTHIRD",
            "INPUT_JUDGE": "openai:gpt-x",
            "INPUT_JUDGE-API-KEY": "sk-secret",
            "INPUT_METRICS": "faithfulness,context_recall",
            "INPUT_FAIL-ON": "never",
            "INPUT_MAX-COST-USD": "2.50",
        }
    )
    settings = load_settings(directory=tmp_path, environ={}, overrides=found.overrides)
    assert settings.golden.paths == ("golden/a.jsonl", "golden/with space.jsonl")
    assert settings.system.env == ("API_URL", "OTHER", "THIRD")
    assert settings.system.timeout_s == 5
    assert settings.judge.name == "openai:gpt-x"
    assert settings.judge.max_cost_usd == 2.5
    assert settings.run.metrics == ("faithfulness", "context_recall")
    assert settings.gate.fail_on == "never"


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("COMMENT", "sometimes", "is not `always`"),
        ("ANNOTATIONS", "yes", "neither true nor false"),
        ("COMMENT-ID", "a -->", "letters, digits"),
        ("COMMENT-ID", "x" * 65, "64 at most"),
        ("PYTHON-VERSION", "3.11; rm -rf /", "such as 3.11"),
        ("PYTHON-VERSION", "--help", "such as 3.11"),
        ("ARTIFACT-NAME", "../run", "can't be an artifact's name"),
        ("ARTIFACT-NAME", "a\nb", "can't be an artifact's name"),
    ],
)
def test_each_bad_value_is_named_with_its_input(name: str, value: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_inputs({f"INPUT_{name}": value})
    assert says in str(caught.value)
    assert f"input '{name.lower()}'" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "key"),
    [
        ("FAIL-ON", "failed", "gate.fail_on"),
        ("MAX-COST-USD", "free", "judge.max_cost_usd"),
        ("MAX-COST-USD", "nan", "judge.max_cost_usd"),
        ("TIME-LIMIT", "0", "run.time_limit_s"),
    ],
)
def test_a_bad_value_of_a_setting_is_named_with_the_setting(tmp_path: Path, name: str, value: str, key: str) -> None:
    found = read_inputs({f"INPUT_{name}": value})
    with pytest.raises(ConfigError, match=rf"option for {key}.*must .*found"):
        load_settings(directory=tmp_path, environ={}, overrides=found.overrides)


@pytest.mark.attack(by="pull request", tries="the gate's own variables in `system-env`", stopped_by="refused")
@pytest.mark.parametrize(
    "name", ["INPUT_JUDGE", "ACTIONS_RUNTIME_TOKEN", "GITHUB_TOKEN", "RAGSTONE_JUDGE_API_KEY", "*"]
)
def test_the_gates_own_variables_are_not_passed_on(tmp_path: Path, name: str) -> None:
    found = read_inputs({"INPUT_SYSTEM-ENV": f"MINE {name}"})
    settings = load_settings(directory=tmp_path, environ={}, overrides=found.overrides)
    with pytest.raises(ConfigError, match=r"system\.env"):
        passed_variables(settings.system.env, {})


def test_a_secret_is_shown_nowhere() -> None:
    secrets = {spec.name for spec in INPUTS if spec.secret}
    assert secrets >= {spec.name for spec in INPUTS if spec.key is not None and option_of(spec.key).secret}
    assert secrets >= {
        spec.name
        for spec in INPUTS
        if "SecretStr" in str(ActionInputs.__annotations__.get(spec.name.replace("-", "_")))
    }
    found = read_inputs({"INPUT_JUDGE-API-KEY": "sk-secret", "INPUT_GITHUB-TOKEN": "ghs_secret"})
    assert "secret" not in repr(found)
    assert found.github_token.get_secret_value() == "ghs_secret"


def test_the_command_line_takes_the_same_from_variables() -> None:
    given = {"COMMENT": "failures", "COMMENT_ID": "nightly", "ANNOTATIONS": "false", "ARTIFACT_NAME": "gate-2"}
    elsewhere = ("SETUP", "REQUIREMENTS", "PYTHON_VERSION", "CONFIG", "WORKING_DIRECTORY", "JUDGE")
    found = read_variables(
        {f"RAGSTONE_{name}": value for name, value in (dict.fromkeys(elsewhere, "x") | given).items()}
    )
    expected = replace(read_variables({}), comment=CommentMode.FAILURES, comment_id="nightly", artifact_name="gate-2")
    assert found == replace(expected, annotations=False), "settings come through load_settings"
    assert read_variables({"RAGSTONE_BASELINE_BRANCH": "refs/heads/release"}).baseline_branch == "release"
    with pytest.raises(ConfigError, match="environment variable RAGSTONE_COMMENT"):
        read_variables({"RAGSTONE_COMMENT": "sometimes"})


def test_the_token_is_no_default_of_the_runners_and_ragstones_own_comes_first() -> None:
    both = {"GITHUB_TOKEN": "ghs_theirs", "RAGSTONE_GITHUB_TOKEN": "ghs_own"}
    for name, token in both.items():
        assert read_variables({name: token}).github_token.get_secret_value() == token
    assert read_variables(both).github_token.get_secret_value() == "ghs_own"
    for found in (read_variables({}), read_inputs({})):
        assert found.github_token.get_secret_value() == ""
