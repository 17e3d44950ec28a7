"""`ragstone report --decide` as a user calls it, and as the workflow in docs/recipes.md does."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.cli.project import Completed, environment, git, ragstone
from tests.pipeline.decided import World, make_world, set_field

PAGE = Path(__file__).parents[2] / "docs" / "recipes.md"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("decide") / "repo")


def decide(world: World, run: str, *more: str, exit_code: int | None = None) -> Completed:
    named = ("--policy", "thresholds.toml", "--golden", "golden.jsonl", "--baseline", "baseline")
    command = ["report", run, "--decide", *named, "--commit", world.commit, *more]
    return ragstone(command, world.root, exit_code=exit_code)


def test_the_exit_code_is_the_verdicts_and_another_format_is_all_that_is_printed(world: World, tmp_path: Path) -> None:
    good, bad = decide(world, "good", exit_code=0), decide(world, "bad", exit_code=1)
    assert good.stdout.startswith("Decided again: pass. By thresholds.toml, 12 questions, commit ")
    assert "baseline baseline." in good.stdout.splitlines()[0]
    assert bad.stdout.startswith("Decided again: fail. ")
    assert "✘ Blocked: " in bad.stdout
    found = decide(world, "bad", "--format", "json", exit_code=1)
    assert json.loads(found.stdout)["verdict"]["status"] == "fail"
    assert found.stderr.startswith("Decided again: fail.")
    page = decide(world, "bad", "--format", "html", "-o", str(tmp_path / "page.html"), exit_code=1)
    assert page.stdout.startswith("Decided again: fail.")
    assert (tmp_path / "page.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_what_is_not_named_is_as_in_the_config(world: World) -> None:
    command = ["report", "good", "--decide", "--commit", world.commit]
    ragstone([*command, "--baseline", "baseline"], world.root, exit_code=0)
    assert "--baseline RUN" in ragstone(command, world.root, exit_code=6).stdout


HOW = '--commit "$(git rev-parse HEAD)"'


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--decide"], HOW),
        (["--decide", "--commit", "HEAD"], HOW),
        (["--decide", "--commit", "abc1234"], HOW),
        (["--decide", "--commit", ""], HOW),
        (["--policy", "thresholds.toml"], "--policy: has an effect only with --decide."),
        (["--golden", "golden.jsonl"], "--golden: has an effect only"),
        (["--baseline", "baseline"], "--baseline: has an effect only"),
        (["--judge", "offline"], "--judge: has an effect only"),
        (["--commit", "a" * 40], "--commit: has an effect only"),
    ],
)
def test_the_commit_is_named_in_full_and_what_decides_needs_decide(world: World, options: list[str], says: str) -> None:
    assert says in ragstone(["report", "good", *options], world.root, exit_code=2).stderr


def test_errors_name_the_run_and_go_to_standard_error(world: World) -> None:
    with world.copy(world.good) as run:
        set_field(run, "system.commit", "c" * 40)
        found = decide(world, "tampered", exit_code=2)
    assert found.stdout == ""
    assert "error: tampered: the run is of commit cccc" in found.stderr


# -- the recipe --------------------------------------------------------------------------------------------------------

GH = """
import shutil, sys
arguments = sys.argv[1:]
runs = {{"2": {run!r}, "1": {before!r}}}
if arguments[:2] == ["run", "list"]:
    print("2" if "--commit" in arguments else "1")
elif arguments[:2] == ["run", "download"]:
    shutil.copytree(runs[arguments[2]], arguments[arguments.index("--dir") + 1])
else:
    sys.exit(f"not expected: {{arguments}}")
"""


def deployment(world: World, checkout: Path, run: Path) -> subprocess.CompletedProcess[str]:
    """The steps of the job `decide` of the recipe, as a runner takes them. `gh` finds `run`; nothing is installed."""
    section = PAGE.read_text(encoding="utf-8").partition("## A deployment waits for the gate")[2]
    (text,) = re.findall(r"^```yaml\n(.*?)^```$", section.partition("\n## ")[0], re.MULTILINE | re.DOTALL)
    steps = yaml.safe_load(text)["jobs"]["decide"]["steps"]
    assert steps[0]["uses"].startswith("actions/checkout@")
    git(world.root, "worktree", "add", "--detach", str(checkout), world.commit)
    tools = checkout.parent / "tools"
    tools.mkdir()
    (tools / "gh.py").write_text(GH.format(run=str(run), before=str(world.baseline)), encoding="utf-8")
    for name, command in {
        "gh": f'"{sys.executable}" "{tools}/gh.py" "$@"',
        "ragstone": f'"{sys.executable}" -m ragstone "$@"',
        "pip": "true",
    }.items():
        (tools / name).write_text(f"#!/bin/sh\nexec {command}\n", encoding="utf-8")
        (tools / name).chmod(0o755)
    variables = environment({"GITHUB_SHA": world.commit, "GH_TOKEN": "x"})
    script = "\n".join(f"( set -eo pipefail\n{step['run']}\n)" for step in steps[1:])
    return subprocess.run(
        ["bash", "-e", "-c", script],
        cwd=checkout,
        env={**variables, "PATH": f"{tools}:{variables['PATH']}"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(("name", "code"), [("good", 0), ("bad", 1), ("baseline", 2)])
def test_a_deployment_waits_for_the_gate_as_printed(world: World, tmp_path: Path, name: str, code: int) -> None:
    done = deployment(world, tmp_path / "checkout", world.root / name)
    assert done.returncode == code, done.stdout + done.stderr
    assert code == 2 or done.stdout.startswith(f"Decided again: {'fail' if code else 'pass'}. ")
    shutil.rmtree(tmp_path / "checkout")
    git(world.root, "worktree", "prune")
