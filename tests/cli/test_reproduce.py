"""What a report prints under "To reproduce" starts the same run again, whatever the run was started with."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from ragstone.cli import gate, run
from ragstone.cli.options import FLAGS, settings_from
from ragstone.evaluation.manifest import (
    BaselineFact,
    BaselineUsed,
    GoldenManifest,
    Invocation,
    Manifest,
    SystemManifest,
)
from ragstone.evaluation.rounds.context import RunContext
from ragstone.judge.protocol import JudgeIdentity
from ragstone.pipeline.invocation import invocation_of
from ragstone.report.reproduce import reproduce_lines
from ragstone.settings.load import OPTIONS
from ragstone.settings.settings import Settings
from tests.cli.project import SYSTEM, append, commit, environment, git, make_project, ragstone, read_json

NOT_SETTINGS = {
    "config": "says where the settings are",
    "github": "is for a job",
    "format_name": "is about the report",
    "output": "is about the report",
    "verbose": "is about what is printed",
    "failed": "is written as the ids that it stands for: --only",
    "resume": "is not needed, since a run is reproduced from its start",
}


# -- the whole way -----------------------------------------------------------------------------------------------------


def repository(path: Path) -> Path:
    """A repository whose system lies in a folder and got worse than the baseline that is committed with it."""
    project = make_project(path / "qa", n=30)
    (project / "ragstone.toml").rename(project / "gate.toml")
    (project / "strict.toml").write_text("[metrics.context_recall]\nmin = 0.9\nmax_drop = 0.01\n", encoding="utf-8")
    (path / ".gitignore").write_text("ragstone-run/\n__pycache__/\n", encoding="utf-8")
    ragstone(["run", "--config", "qa/gate.toml", "--out", "qa/main"], path, exit_code=0)
    (project / "houses.py").write_text(SYSTEM.replace("painted {c}", "painted black"), encoding="utf-8")
    git(path, "init", "--quiet")
    commit(path)
    return path


def printed(text: str) -> list[str]:
    """The lines under "To reproduce", as a user copies them."""
    lines = text.partition("To reproduce:\n")[2].partition("\n\n")[0]
    return [line.removeprefix("  ") for line in lines.splitlines()]


def in_shell(lines: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    return subprocess.run(
        ["sh", "-e"],
        input="\n".join(lines) + "\n",
        cwd=folder,
        env={**environment(), "PATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def facts(run: Path) -> dict[str, Any]:
    report = read_json(run / "report.json")
    report["comparison"].pop("baseline")  # as it was named
    return {name: report[name] for name in ("verdict", "metrics", "checks", "comparison")}


@pytest.mark.usefixtures("processes")
def test_the_printed_lines_reproduce_the_run_in_a_clone(tmp_path: Path) -> None:
    origin = repository(tmp_path / "shop")
    flags = ["--metrics", "context_recall,faithfulness", "--limit", "20", "--thresholds", "strict.toml"]
    command = ["gate", "--config", "gate.toml", *flags, "--baseline", "main", "--verbose"]
    first = ragstone(command, origin / "qa", exit_code=1)
    git(tmp_path, "clone", "--quiet", str(origin), "clone")
    clone = tmp_path / "clone"
    again = in_shell(printed(ragstone(["report", "ragstone-run", "--verbose"], origin / "qa").stdout), clone)
    assert again.returncode == 1, again.stdout + again.stderr
    assert facts(clone / "qa/ragstone-run") == facts(origin / "qa/ragstone-run")
    shown = ragstone(["report", "ragstone-run", "--verbose"], clone / "qa")
    assert printed(shown.stdout) == [line for line in printed(first.stdout) if not line.startswith("HTML report: ")]


def test_without_a_config_the_run_starts_in_its_folder_and_uncommitted_changes_are_not_checked_out(
    tmp_path: Path,
) -> None:
    origin = repository(tmp_path / "shop")
    named = ["gate", "--golden", "golden.jsonl", "--entrypoint", "houses:answer", "--baseline", "main", "--verbose"]
    lines = printed(ragstone(named, origin / "qa", exit_code=1).stdout)
    assert "cd qa" in lines
    assert any(line.startswith("git checkout ") for line in lines)
    append(origin / "qa/houses.py", "# changed\n")
    text = " ".join(printed(ragstone(named, origin / "qa", exit_code=1).stdout)).replace(" # ", " ")
    assert "uncommitted changes in 1 file" in text
    assert "git checkout" not in text


# -- every option ------------------------------------------------------------------------------------------------------


def again(settings: Settings, command: str = "gate") -> Settings:
    """The settings of the run that is started by the lines for a run with `settings`."""
    invocation = invocation_of(settings, RunContext(dict(os.environ)), "gate" if command == "gate" else "run")
    *_, line = reproduce_lines(manifest(invocation))
    words = shlex.split(line)
    assert words[:2] == ["ragstone", command]
    module = gate if command == "gate" else run
    with module.command.make_context("ragstone", words[2:]) as context:
        return settings_from(context.params, {})


def manifest(invocation: Invocation | None, **update: Any) -> Manifest:
    found = Manifest(
        ragstone_version="0",
        state="finished",
        created_at="2026-01-01T00:00:00+00:00",
        golden=GoldenManifest(files=(), content_hash="", samples=1),
        judge=JudgeIdentity(provider="offline", model="lexical", version="1"),
        system=SystemManifest(entrypoint="x:y", commit="c" * 40),
        metrics={},
        invocation=invocation,
    )
    return found.model_copy(update=update)


def sample_words(parameter: click.Parameter) -> list[str]:
    """The flag with a value that differs from the config file's."""
    flag = parameter.opts[0]
    if isinstance(parameter, click.Option) and parameter.is_flag:
        return [flag]
    if isinstance(parameter.type, click.Choice):
        return [flag, parameter.type.choices[-1]]
    value = {"integer": "3", "float": "2.5"}.get(parameter.type.name, "odd value's")
    named = {"--metrics": "faithfulness"}
    value = named.get(flag, value)
    return [flag, value, flag, "b.jsonl"] if parameter.multiple else [flag, value]


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = make_project(tmp_path / "project", n=1)
    monkeypatch.chdir(path)
    return path


PARAMETERS = [one for one in gate.command.params if one.name not in NOT_SETTINGS]


@pytest.mark.parametrize("parameter", PARAMETERS, ids=lambda one: one.name)
def test_every_option_of_gate_is_reproduced(parameter: click.Option) -> None:
    assert parameter.name in FLAGS, "not the flag of a setting, so that a run that uses it can't be reproduced"
    with gate.command.make_context("ragstone", sample_words(parameter)) as context:
        first = settings_from(context.params, {})
    table, _, name = FLAGS[parameter.name].partition(".")
    assert getattr(getattr(first, table), name) != getattr(getattr(settings_from({}, {}), table), name)
    assert again(first) == first


def test_run_is_reproduced_with_its_own_options() -> None:
    flags: dict[str, object] = {"limit": 3, "metrics": "mrr", "thresholds": "x.toml"}
    found = again(settings_from(flags, {}), "run")
    assert (found.golden.limit, found.run.metrics) == (3, ("mrr",))
    of_run = {one.name for one in run.command.params} - {"config", "failed"}
    assert of_run == {flag for flag, key in FLAGS.items() if not next(o for o in OPTIONS if o.key == key).of_gate}


# -- what must not be printed ------------------------------------------------------------------------------------------


def test_secrets_are_not_shown() -> None:
    environ = {"RAGSTONE_JUDGE_API_KEY": "sk-private", "RAGSTONE_ENTRYPOINT": "command:./rag --token private"}
    text = "\n".join(reproduce_lines(manifest(invocation_of(settings_from({}, environ), RunContext(environ), "gate"))))
    assert "--entrypoint=command:./rag" in text
    assert "private" not in text


def test_a_baseline_from_github_is_named_as_it_can_be_had() -> None:
    found = invocation_of(settings_from({"baseline_commit": "main"}, {}), RunContext({"GITHUB_SHA": "c" * 40}), "gate")
    found = found.model_copy(update={"folder": "."})
    base = manifest(None, same_job=True, system=SystemManifest(entrypoint="x:y", commit="b" * 40))
    assert reproduce_lines(manifest(found), base)[1:] == (
        f"git fetch origin {'c' * 40} {'b' * 40}",
        f"git checkout {'c' * 40}",
        f"ragstone gate --baseline-commit={'b' * 40}",
    )
    used = BaselineUsed(fingerprint="f", created_at="", run_id=7, artifact_run_id=8, artifact="run-a b")
    found = Invocation(command="gate", folder=".")
    lines = reproduce_lines(manifest(found, baseline=BaselineFact(eligible=True, reason="", used=used)))
    assert lines[-2:] == (
        "gh run download 8 --name 'run-a b' --dir ragstone-baseline",
        "ragstone gate --baseline=ragstone-baseline",
    )


def test_copies_that_a_job_made_are_not_named(project: Path, tmp_path: Path) -> None:
    private = tmp_path / "staging"
    settings = settings_from({"out": str(private / "run"), "limit": 2}, {}, within=project)
    found = invocation_of(settings, RunContext({"GITHUB_SHA": "c" * 40}, trusts_checkout=False), "gate")
    lines = reproduce_lines(manifest(found))
    assert lines == (
        "# In the root of the repository:",
        f"git fetch origin {'c' * 40}",
        f"git checkout {'c' * 40}",
        "ragstone gate --limit=2",
    )


def test_a_hostile_manifest_adds_no_commands() -> None:
    found = Invocation(
        command="gate",
        folder="x; touch a",
        config="$(touch b)",
        flags=("--golden=`touch c`", "--version=v\ntouch d", "; touch e"),
        changed=1,
    )
    lines = reproduce_lines(manifest(found, system=SystemManifest(entrypoint="x:y", commit="c\ntouch g")))
    assert lines[-2:] == (
        "cd 'x; touch a'",
        "ragstone gate '--config=$(touch b)' '--golden=`touch c`' $'--version=v\\ntouch d' '; touch e'",
    )
    assert all(line.startswith("# ") and "\n" not in line and "touch" not in line for line in lines[:-2])
