"""The base commit: which one it is, its checkout, and the settings of its system."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ragstone.errors import BaselineError, ConfigError
from ragstone.evaluation.rounds.context import RunContext
from ragstone.gate.policy import policy_from_mapping
from ragstone.pipeline.base_checkout import base_from_git, base_settings, refuse_two_baselines
from ragstone.settings.load import load_settings
from ragstone.settings.settings import Settings
from tests.cli.project import commit, git


def settings_of(folder: Path, text: str = "", **overrides: Any) -> Settings:
    """The settings of a config file with `text`, and flags by their names in it, as ``gate__baseline``."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ragstone.toml").write_text(text, encoding="utf-8")
    given = {name.replace("__", "."): value for name, value in overrides.items()}
    return load_settings(directory=folder, environ={}, overrides=given)


def test_two_baselines_are_refused(tmp_path: Path) -> None:
    refuse_two_baselines(settings_of(tmp_path, '[gate]\nbaseline = "main"\n'))
    with pytest.raises(ConfigError, match="two baselines"):
        refuse_two_baselines(settings_of(tmp_path, '[gate]\nbaseline = "main"\n', gate__baseline_commit="HEAD"))
    unset = {"gate__baseline": "", "gate__baseline_commit": "HEAD"}
    refuse_two_baselines(settings_of(tmp_path, '[gate]\nbaseline = "main"\n', **unset))


NOW = '[system]\nentrypoint = "python:now:answer"\n'
THEN = '[system]\nentrypoint = "python:then:answer"\npython = "python3.12"\n'


@pytest.mark.parametrize(
    ("then", "flags", "own", "key", "value"),
    [
        (THEN, {}, False, "entrypoint", "python:then:answer"),
        (THEN, {"system__entrypoint": "python:both:answer"}, False, "entrypoint", "python:both:answer"),
        ("", {}, False, "entrypoint", "python:now:answer"),
        (THEN, {"gate__baseline_entrypoint": "python:x:y"}, False, "entrypoint", "python:x:y"),
        (THEN, {}, False, "python", None),
        (THEN, {}, True, "python", "python3.12"),
        (THEN, {"system__python": "python3.13"}, False, "python", "python3.13"),
        (THEN, {"system__python": ".venv/python"}, False, "python", "{now}/.venv/python"),
        (THEN, {"system__working_directory": "{elsewhere}"}, False, "working_directory", "{elsewhere}"),
        (THEN, {"system__timeout_s": 7.0}, False, "timeout_s", 7.0),
    ],
)
def test_the_systems_settings_are_the_commits_own_and_a_flag_is_for_both(
    tmp_path: Path, then: str, flags: Mapping[str, Any], own: bool, key: str, value: object
) -> None:
    places = {"now": str(tmp_path / "now"), "elsewhere": str(tmp_path / "elsewhere")}
    now = settings_of(
        tmp_path / "now",
        NOW,
        **{name: flag.format(**places) if isinstance(flag, str) else flag for name, flag in flags.items()},
    )
    settings_of(tmp_path / "then", then)
    system = base_settings(now, tmp_path / "then", current_checkout=tmp_path / "now", has_own_environment=own)
    assert getattr(system, key) == (value.format(**places) if isinstance(value, str) else value)


@pytest.mark.parametrize(
    ("then", "flags", "says"),
    [
        ("[sys", {}, "the base commit's config can't be read"),
        ("", {"system__entrypoint": "file:outputs.jsonl"}, "can't be combined with recorded answers"),
        ("", {"system__entrypoint": "http://127.0.0.1:9/ask"}, "have the same address"),
        ("", {"system__entrypoint": "command:python {now}/rag.py"}, "is in the current checkout"),
    ],
)
def test_what_can_not_be_asked_of_the_base_is_refused(
    tmp_path: Path, then: str, flags: Mapping[str, str], says: str
) -> None:
    now = tmp_path / "now"
    settings = settings_of(now, NOW, **{name: flag.format(now=now) for name, flag in flags.items()})
    (tmp_path / "then").mkdir()
    (tmp_path / "then" / "ragstone.toml").write_text(then, encoding="utf-8")
    with pytest.raises((BaselineError, ConfigError), match=says):
        base_settings(settings, tmp_path / "then", current_checkout=now)


def test_another_address_and_a_path_elsewhere_are_fine(tmp_path: Path) -> None:
    other = {"system__entrypoint": "http://127.0.0.1:9/a", "gate__baseline_entrypoint": "http://127.0.0.1:8/a"}
    for flags in (other, {"system__entrypoint": f"command:python {tmp_path}/rag.py"}):
        base_settings(settings_of(tmp_path / "now", NOW, **flags), tmp_path, current_checkout=tmp_path / "now")


# -- a checkout --------------------------------------------------------------------------------------------------------


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a config in a folder, of two commits."""
    path = tmp_path / "repository"
    settings_of(path / "service", NOW)
    git(path, "init", "-q")
    (path / "service" / "now.py").write_text("old = True\n", encoding="utf-8")
    commit(path)
    (path / "service" / "now.py").write_text("old = False\n", encoding="utf-8")
    commit(path)
    return path


def base_of(folder: Path, ref: str) -> Any:
    settings = load_settings(directory=folder, environ={}, overrides={"gate.baseline_commit": ref})
    return base_from_git(settings, RunContext(environ={**os.environ}), policy_from_mapping({}))


def worktrees(folder: Path) -> int:
    return len(git(folder, "worktree", "list").splitlines())


def test_a_commit_is_checked_out_for_as_long_as_the_block_lasts(repository: Path) -> None:
    service = repository / "service"
    with base_of(service, "HEAD~1") as base:
        assert (base.commit, worktrees(repository)) == (git(repository, "rev-parse", "HEAD~1"), 2)
        folder = Path(git(repository, "worktree", "list").splitlines()[1].split()[0])
        assert (folder / "service" / "now.py").read_text(encoding="utf-8") == "old = True\n"
        assert (base.lineage, base.notes) == ((base.commit[:16],), ())
    assert worktrees(repository) == 1
    assert not folder.exists()
    with base_of(service, "HEAD") as base:
        assert base.notes == ("The base commit is the current one, so any difference is noise.",)
    (service / "now.py").write_text("changed = True\n", encoding="utf-8")
    with base_of(service, "HEAD") as base:
        assert base.notes == ()


def test_a_shallow_clone_is_told_what_to_fetch(repository: Path, tmp_path: Path) -> None:
    first = git(repository, "rev-parse", "HEAD~1")
    git(tmp_path, "clone", "-q", "--depth=1", repository.as_uri(), "shallow")
    shallow = tmp_path / "shallow"
    with pytest.raises(BaselineError) as refused, base_of(shallow / "service", first):
        pass
    assert f"git knows no commit '{first}'" in str(refused.value)
    assert "fetch-depth: 0" in str(refused.value)
    git(shallow, "fetch", "-q", "--depth=1", "origin", first)
    with base_of(shallow / "service", "FETCH_HEAD") as base:
        assert base.commit == first


def test_a_submodule_in_use_is_refused_and_one_that_is_not_checked_out_is_not(repository: Path, tmp_path: Path) -> None:
    facts = tmp_path / "facts"
    facts.mkdir()
    git(facts, "init", "-q")
    (facts / "data.py").write_text("new = False\n", encoding="utf-8")
    commit(facts)
    git(repository, "submodule", "-q", "add", facts.as_uri(), "facts")
    commit(repository)
    with (
        pytest.raises(BaselineError, match=r"the submodule facts, which this checkout uses"),
        base_of(repository, "HEAD"),
    ):
        pass
    assert worktrees(repository) == 1
    git(tmp_path, "clone", "-q", repository.as_uri(), "clone")
    with base_of(tmp_path / "clone" / "service", "HEAD"):
        pass
