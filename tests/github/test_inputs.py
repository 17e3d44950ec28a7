from __future__ import annotations

from pathlib import Path

import pytest

from ragstone.errors import ConfigError
from ragstone.github.inputs import INPUTS, CommentMode, read_inputs, read_variables
from ragstone.settings.load import load_settings


def test_no_inputs_give_the_defaults() -> None:
    found = read_inputs({})
    assert found.baseline == "artifact"
    assert found.comment is CommentMode.ALWAYS
    assert found.annotations
    assert not found.report_issue
    assert dict(found.overrides) == {}
    assert found.github_token.get_secret_value() == ""


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


def test_secrets_are_in_no_repr() -> None:
    found = read_inputs({"INPUT_JUDGE-API-KEY": "sk-secret", "INPUT_GITHUB-TOKEN": "ghs_secret"})
    assert "secret" not in repr(found)
    assert found.github_token.get_secret_value() == "ghs_secret"


@pytest.mark.attack(by="pull request", tries="list the gate's own variables in `system-env`", stopped_by="refused")
@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("COMMENT", "sometimes", "not one of its values"),
        ("FAIL-ON", "failed", "Did you mean 'fail'"),
        ("ANNOTATIONS", "yes", "neither true nor false"),
        ("REPORT-ISSUE", "1", "neither true nor false"),
        ("COMMENT-ID", "a -->", "letters, digits"),
        ("COMMENT-ID", "x" * 65, "64 at most"),
        ("PYTHON-VERSION", "3.11; rm -rf /", "such as 3.11"),
        ("PYTHON-VERSION", "--help", "such as 3.11"),
        ("ARTIFACT-NAME", "../run", "can't be an artifact's name"),
        ("ARTIFACT-NAME", "a\nb", "can't be an artifact's name"),
        ("MAX-COST-USD", "free", "a number above 0"),
        ("MAX-COST-USD", "nan", "a number above 0"),
        ("MAX-COST-USD", "-1", "a number above 0"),
        ("MAX-COST-USD", "inf", "a number above 0"),
        ("TIME-LIMIT", "0", "a number above 0"),
        ("SYSTEM-ENV", "KEY=value", "not a variable name"),
        ("SYSTEM-ENV", "INPUT_JUDGE", "never passed"),
        ("SYSTEM-ENV", "actions_runtime_token", "never passed"),
        ("SYSTEM-ENV", "GITHUB_TOKEN", "never passed"),
        ("SYSTEM-ENV", "RAGSTONE_JUDGE_API_KEY", "never passed"),
        ("ENTRYPOINT", "a\0b", "NUL"),
    ],
)
def test_each_bad_value_is_named_with_its_input(name: str, value: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_inputs({f"INPUT_{name}": value})
    assert says in str(caught.value)
    assert f"input '{name.lower()}'" in str(caught.value)


def test_a_bad_key_is_not_shown() -> None:
    with pytest.raises(ConfigError) as caught:
        read_inputs({"INPUT_JUDGE-API-KEY": "sk-secret\0"})
    assert "sk-secret" not in str(caught.value)


def test_the_command_line_takes_the_same_from_variables() -> None:
    found = read_variables(
        {
            "RAGSTONE_COMMENT": "failures",
            "RAGSTONE_COMMENT_ID": "nightly",
            "RAGSTONE_ANNOTATIONS": "false",
            "RAGSTONE_ARTIFACT_NAME": "gate-2",
            "RAGSTONE_JUDGE": "openai:gpt-x",
            "GITHUB_TOKEN": "ghs_x",
        }
    )
    assert (found.comment, found.comment_id, found.artifact_name) == (CommentMode.FAILURES, "nightly", "gate-2")
    assert not found.annotations
    assert found.github_token.get_secret_value() == "ghs_x"
    assert dict(found.overrides) == {}  # those come through load_settings


def test_variables_say_nothing_of_the_container_or_of_where_the_command_line_runs() -> None:
    names = ("SETUP", "REQUIREMENTS", "PYTHON_VERSION", "CONFIG", "WORKING_DIRECTORY")
    found = read_variables({f"RAGSTONE_{name}": "elsewhere" for name in names})
    assert found == read_variables({})


@pytest.mark.parametrize("name", ["GITHUB_TOKEN", "RAGSTONE_GITHUB_TOKEN"])
def test_the_token_is_no_default_of_the_runners(name: str) -> None:
    assert read_variables({name: "ghs_x"}).github_token.get_secret_value() == "ghs_x"
    assert read_variables({}).github_token.get_secret_value() == ""
    assert read_inputs({}).github_token.get_secret_value() == ""


def test_a_bad_variable_is_named_as_a_variable() -> None:
    with pytest.raises(ConfigError, match="environment variable RAGSTONE_COMMENT"):
        read_variables({"RAGSTONE_COMMENT": "sometimes"})


def test_every_input_has_a_name_of_its_own_on_both_doors() -> None:
    assert len({spec.name for spec in INPUTS}) == len(INPUTS)
    assert len({spec.variable for spec in INPUTS}) == len(INPUTS)
