"""One cascade: defaults, file, environment, flags."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ragstone.errors import ConfigError
from ragstone.judge.names import provider_of
from ragstone.settings.load import OPTIONS, load_settings
from ragstone.settings.settings import _MAX_CUSTOM_METRICS, Settings


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def load(directory: Path, text: str | None = None, environ: Mapping[str, str] | None = None, **more: Any) -> Settings:
    """The settings in `directory`, after its ragstone.toml was written."""
    if text is not None:
        write(directory / "ragstone.toml", text)
    return load_settings(directory=directory, environ=environ or {}, **more)


def test_a_flag_goes_before_the_environment_and_the_environment_before_the_file(tmp_path: Path) -> None:
    text = '[system]\nentrypoint = "a:file"\nconcurrency = 2\ntimeout_s = 5\n'
    environ = {"RAGSTONE_ENTRYPOINT": "b:env", "RAGSTONE_CONCURRENCY": "3"}
    overrides = {"system.entrypoint": "c:flag", "system.concurrency": None}
    system = load(tmp_path, text, environ, overrides=overrides).system
    assert (system.entrypoint, system.concurrency, system.timeout_s) == ("c:flag", 3, 5)


def test_an_empty_flag_unsets_what_file_and_environment_say(tmp_path: Path) -> None:
    write(tmp_path / "ragstone.toml", '[judge]\nembeddings = "openai-compatible:nomic-embed-text"\nname = "offline"\n')
    environ = {"RAGSTONE_EMBEDDINGS": "openai:text-embedding-3-small"}
    for variables in ({}, environ):
        settings = load(tmp_path, environ=variables, overrides={"judge.embeddings": ""})
        assert settings.judge.embeddings is None
        assert "judge.embeddings" not in settings.from_file
    with pytest.raises(ConfigError, match="unknown judge"):
        provider_of(load(tmp_path, overrides={"judge.name": ""}).judge.name)


def test_an_empty_variable_counts_as_not_set(tmp_path: Path) -> None:
    """A workflow passes a secret that is not there as empty text, which must not lift what the file demands."""
    write(tmp_path / "ragstone.toml", '[judge]\nmax_cost_usd = 2\nbase_url = "https://gateway.example/v1"\n')
    for empty in ("", "  "):
        judge = load(tmp_path, None, {"RAGSTONE_MAX_COST_USD": empty, "RAGSTONE_JUDGE_BASE_URL": empty}).judge
        assert (judge.max_cost_usd, judge.base_url) == (2, "https://gateway.example/v1")


def test_pyproject_is_read_where_there_is_no_ragstone_toml(tmp_path: Path) -> None:
    write(tmp_path / "pyproject.toml", '[project]\nname = "x"\n[tool.ragstone.golden]\npaths = "a.jsonl"\n')
    assert load(tmp_path).golden.paths == ("a.jsonl",)
    assert load(tmp_path, '[golden]\npaths = ["b.jsonl"]\n').golden.paths == ("b.jsonl",)


@pytest.mark.parametrize("text", ["[tool]\nragstone = 3\n", "[[tool.ragstone]]\n"])
def test_what_pyproject_has_instead_of_our_table_is_refused(tmp_path: Path, text: str) -> None:
    write(tmp_path / "pyproject.toml", text)
    with pytest.raises(ConfigError, match="must be a table"):
        load(tmp_path)


def test_the_next_ragstone_toml_above_is_read_inside_of_the_repository(tmp_path: Path) -> None:
    inside = tmp_path / "repository" / "services" / "search"
    inside.mkdir(parents=True)
    write(tmp_path / "ragstone.toml", '[golden]\npaths = ["outside.jsonl"]\n')
    assert load(inside).golden.paths == ()
    (tmp_path / "repository" / ".git").mkdir()
    assert load(inside).golden.paths == ()
    write(tmp_path / "repository" / "ragstone.toml", '[golden]\npaths = ["a.jsonl"]\n')
    settings = load(inside)
    assert settings.path(settings.golden.paths[0]) == tmp_path / "repository" / "a.jsonl"
    assert load(inside, within=tmp_path).golden.paths == (), "not in a job on GitHub"
    assert load(inside, '[golden]\npaths = ["b.jsonl"]\n').golden.paths == ("b.jsonl",)


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("limit = = 3\n", "2 | limit = = 3"),
        ("api_key = sk-very-secret\n", None),
        ("headers = a\n", None),
        ("limit = [", None),
        (f"limit = {'9' * 5000}", None),
    ],
    ids=["shown", "a key", "headers", "at the end of the file", "without a line"],
)
def test_an_error_in_toml_shows_its_line_but_for_what_may_be_secret(
    tmp_path: Path, line: str, hint: str | None
) -> None:
    with pytest.raises(ConfigError, match="not valid TOML") as caught:
        load(tmp_path, f"[golden]\n{line}")
    assert caught.value.hint == hint


def test_relative_paths_start_from_the_file_that_names_them_and_those_of_flags_from_here(tmp_path: Path) -> None:
    config = write(tmp_path / "eval" / "ragstone.toml", '[golden]\npaths = ["g.jsonl"]\n')
    write(tmp_path / "policy.toml", "")
    overrides = {"gate.thresholds": "policy.toml", "system.entrypoint": "file:runs/answers.jsonl"}
    settings = load(tmp_path, None, {"RAGSTONE_OUT": "runs/one"}, overrides=overrides, config=config)
    assert settings.path(settings.golden.paths[0]) == tmp_path / "eval" / "g.jsonl"
    assert settings.gate.thresholds is not None
    assert settings.path(settings.gate.thresholds).resolve() == tmp_path / "policy.toml"
    assert settings.path(settings.run.out).resolve() == tmp_path / "runs" / "one"
    assert settings.system.entrypoint == "file:../runs/answers.jsonl"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[sistem]\n", "Did you mean 'system'"),
        ('[system]\nentrypiont = "x"\n', "Did you mean 'entrypoint'"),
        ("[system.http]\nanswer = 1\n", "unknown key 'system.http.answer'"),
        ("[system]\nconcurrency = 0\n", "'system.concurrency'.*found 0"),
        ("[system]\ntimeout_s = true\nconcurrency = []\n", "'system.concurrency'"),
        ("system = 3\n", "'system' must be a table, found 3"),
        ("[system\n", "not valid TOML"),
        ("[run]\nrepeats = nan\n", "'run.repeats'"),
        ('[run]\nworkers = "all"\n', r"toml:2: 'run\.workers' must be 'auto' or a whole number, found"),
        ('[run]\n\ndask = "tcp:x"\n', r"toml:3: 'run\.dask' must be the address of a scheduler"),
        ('[metrics.tone]\nrubric = " "\n', r"toml:1: 'metrics\.tone': the rubric is empty, found"),
        ("[metrics]\ntone = 3\n", r"toml:2: 'metrics\.tone' must be a table, found 3"),
        ("[metrics.tone]\nsees = ['answer']\n", "needs either 'rubric' or 'python'"),
        ("[metrics.tone]\nrubric = 'x'\npython = 'a:b'\n", "needs either 'rubric' or 'python'"),
        ("[metrics.tone]\npython = 'a:b'\nlevels = ['a', 'b']\n", "'levels' and 'sees' are for rubrics"),
        ("[metrics.tone]\nrubric = 'x'\ntimeout_s = 3\n", "'timeout_s' is for functions"),
        ("[metrics.tone]\nrubric = 'x'\nlevels = ['a']\n", "'levels' needs 2 to 10 descriptions"),
        ("[metrics.tone]\nrubric = 'x'\nlevels = ['a', ' ']\n", "'levels' needs 2 to 10 descriptions"),
        ("[metrics.tone]\nrubric = 'x'\nlevels = ['a', 'a']\n", "must not list a value twice"),
        ("[metrics.tone]\nrubric = 'x'\nsees = ['answer', 'answer']\n", "must not list a value twice"),
        ("[metrics.tone-x]\nrubric = 'x'\n", "'tone-x' is not a name for a metric"),
        ("[system]\nprice = 3\n", r"toml:2: 'system\.price'.*found 3"),
        (f"[system]\nprice = '{'x' * 78}'\n", f'found "{"x" * 78}"'),
        (f"[system]\nprice = '{'x' * 79}'\n", f'found "{"x" * 76}\\.\\.\\.'),
        ("[metrics.tone]\nmin = 0.5\n", r"toml:1: 'metrics\.tone' sets thresholds, which belong in the policy"),
        ('[metrics.tone]\nrubric = "x"\nmin = 0.5\n', r"toml:3: unknown key 'metrics\.tone\.min'"),
        ("x = [\n1]\n[[golden]]\n[golden.y]\n", "toml:1: unknown table 'x'"),
        ('[judge]\napi_key = "sk-very-secret"\n', r"toml:2: 'judge\.api_key' must not be set in a file"),
        ("[judge]\nextra_headers = { a = 'sk-very-secret' }\n", r"toml:2: unknown key 'judge\.extra_headers'"),
    ],
)
def test_what_is_wrong_in_the_file_is_said_with_its_place_and_no_secret(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        load(tmp_path, text)
    assert "ragstone.toml" in str(caught.value)
    assert "sk-very-secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("python3", "python3"),
        ("app.rag:answer", "app.rag:answer"),
        ("http://localhost:1/x", "http://localhost:1/x"),
        ("command:./rag --json", "command:./rag --json"),
        ("file:answers.jsonl", "file:answers.jsonl"),
        ("file:here.jsonl", "file:../here.jsonl"),
        ("file:./answers.jsonl", "file:../answers.jsonl"),
        ("file:", "file:"),
        ("file:runs/answers.jsonl", "file:../runs/answers.jsonl"),
        ("file:/abs/answers.jsonl", "file:/abs/answers.jsonl"),
    ],
)
def test_an_entrypoint_is_placed_only_if_it_is_a_path_from_here(tmp_path: Path, name: str, found: str) -> None:
    config = write(tmp_path / "eval" / "ragstone.toml", "")
    write(tmp_path / "here.jsonl", "")
    for directory, expected in ((tmp_path, found), (config.parent, name)):
        settings = load(directory, overrides={"system.entrypoint": name}, config=config)
        assert settings.system.entrypoint == expected


def test_a_file_that_is_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="config file not found"):
        load(tmp_path, config=tmp_path / "none.toml")


def test_every_option_names_a_setting_that_exists_once() -> None:
    fields = {
        f"{table}.{name}"
        for table in ("golden", "system", "judge", "run", "gate")
        for name in Settings.model_fields[table].annotation.model_fields  # type: ignore[union-attr]
    }
    keys = [option.key for option in OPTIONS]
    assert set(keys) <= fields
    assert len(set(keys)) == len(keys)
    assert len({option.env for option in OPTIONS}) == len(OPTIONS)


def test_the_page_of_the_docs_is_what_the_settings_say() -> None:
    from scripts.configuration_page import page

    written = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert written == page(), "run: python scripts/configuration_page.py > docs/configuration.md"
    assert "None |" not in written  # every setting is described


@pytest.mark.parametrize(
    ("name", "meant"), [("RAGSTONE_ENTRYPONT", "RAGSTONE_ENTRYPOINT"), ("RAGSTONE_TIMEOUT_S", "RAGSTONE_TIMEOUT")]
)
def test_a_variable_that_is_almost_a_setting_is_refused(tmp_path: Path, name: str, meant: str) -> None:
    with pytest.raises(ConfigError, match="there is no setting with this name") as caught:
        load(tmp_path, None, {name: "x"})
    assert caught.value.where == f"environment variable {name}"
    assert caught.value.hint == f"Did you mean '{meant}'?"


def test_variables_of_the_workflow_are_nobodys_business(tmp_path: Path) -> None:
    environ = {"RAGSTONE_COMMENT_ID": "1", "RAGSTONE_IMAGE_STATE": "x", "TIMEOUT_S": "3", "RAGSTONE_GOLDN": ""}
    assert load(tmp_path, None, environ) == Settings(root=tmp_path)


@pytest.mark.parametrize("name", ["RAGSTONE_TIMEOUT", "RAGSTONE_STARTUP_TIMEOUT", "RAGSTONE_JUDGE_TIMEOUT"])
@pytest.mark.parametrize("value", ["inf", "nan", "0"])
def test_every_wait_ends(tmp_path: Path, name: str, value: str) -> None:
    with pytest.raises(ConfigError, match="timeout_s"):
        load(tmp_path, None, {name: value})


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("run.workers", "0", "option for run.workers: must be 'auto' or at least 1, found \"0\"."),
        ("run.workers", "many", "option for run.workers: must be 'auto' or a whole number, found \"many\"."),
        ("system.concurrency", 0, "option for system.concurrency: must be at least 1, found 0."),
        ("run.time_limit_s", 0, "option for run.time_limit_s: must be greater than 0, found 0."),
    ],
)
def test_a_value_that_is_not_allowed_is_an_error_that_says_what_is(
    tmp_path: Path, key: str, value: object, says: str
) -> None:
    with pytest.raises(ConfigError) as flag:
        load(tmp_path, overrides={key: value})
    assert str(flag.value).startswith(says)


@pytest.mark.parametrize("key", ["judge.api_key", "judge.headers"])
def test_a_secret_that_is_not_valid_is_not_shown(tmp_path: Path, key: str) -> None:
    with pytest.raises(ConfigError, match=f"option for {key}") as caught:
        load(tmp_path, overrides={key: ["sk-very-secret"]})
    assert "secret" not in str(caught.value)


def test_the_paths_of_a_judge_start_from_the_file_or_from_here(tmp_path: Path) -> None:
    text = '[judge]\nname = "fitted:judge.json"\n[run]\ndask = " tcp://host:8786 "\n'
    config = write(tmp_path / "eval" / "ragstone.toml", text)
    settings = load(tmp_path, config=config)
    assert settings.judge.name == f"fitted:{tmp_path / 'eval' / 'judge.json'}"
    assert settings.run.dask == "tcp://host:8786"
    overrides = {"judge.name": "fitted:judge.json", "run.dask": " "}
    settings = load(tmp_path, config=config, overrides=overrides)
    assert settings.judge.name == f"fitted:{tmp_path / 'judge.json'}"
    assert settings.run.dask is None


def test_as_many_metrics_as_the_limit_may_be_defined(tmp_path: Path) -> None:
    tables = [f"[metrics.m{number}]\nrubric = 'x'\n" for number in range(_MAX_CUSTOM_METRICS + 1)]
    assert len(load(tmp_path, "".join(tables[1:])).metrics) == _MAX_CUSTOM_METRICS
    with pytest.raises(
        ConfigError, match=f"defines {_MAX_CUSTOM_METRICS + 1} metrics, but at most {_MAX_CUSTOM_METRICS} are allowed"
    ):
        load(tmp_path, "".join(tables))
