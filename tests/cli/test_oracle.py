"""`--oracle`: the same questions with the reference contexts given, and what that says of retrieval and generation."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ragstone as package
from ragstone.errors import ConfigError, SystemUnderTestError
from ragstone.evaluation.directory import ORACLE, RunDirectory
from tests.cli.project import change_rows, make_project, ragstone, read_json, start, wait_for_lines, words
from tests.system.conftest import server  # noqa: F401 - a fixture

SYSTEM = '''
COLOURS = ("red", "green", "blue", "white", "yellow")


def answer(question, contexts=None):
    """Retrieval fails for every fourth house, and generation for every sixth."""
    number = int(question.split()[-1].rstrip("?"))
    given = contexts is not None
    if not given:
        fact = f"House number {number} is painted {COLOURS[number % 5]}."
        contexts = [fact if number % 4 else "The weather in the north is fine today."]
    text = contexts[0] if number % 6 else "It stands at the end of a long and narrow road."
    return {"answer": text, "contexts": contexts}
'''
N = 12
"""Of 12 houses, 0, 4 and 8 are not retrieved, and 0 and 6 not generated."""
HEADING = "With the reference contexts given (oracle)"


def project_of(
    path: Path, source: str = SYSTEM, *, metrics: str = "token_f1", n: int = N, entrypoint: str = ""
) -> Path:
    project = make_project(path / "repo", n=n, system=source, policy="")
    (project / "thresholds.toml").unlink()
    change_rows(project, lambda row: {**row, "reference_contexts": [row["reference"]]})
    where = entrypoint or "python:houses:answer"
    (project / "ragstone.toml").write_text(
        f'[golden]\npaths = ["golden.jsonl"]\n[system]\nentrypoint = {json.dumps(where)}\nconcurrency = 2\n'
        f"[run]\nmetrics = {json.dumps(metrics.split())}\n",
        encoding="utf-8",
    )
    return project


def without_contexts(project: Path, *names: str) -> None:
    """Leave these samples, or all, without reference contexts."""
    change_rows(project, lambda row: row if names and row["id"] not in names else {**row, "reference_contexts": []})


def check_halves(run: Path) -> None:
    """The faults of SYSTEM are found in the halves of the run: houses 4 and 8 by retrieval, 0 and 6 by generation."""
    normal, oracle = (RunDirectory.open(folder).scores()["token_f1"].values for folder in (run, run / ORACLE))
    assert {name for name in oracle if oracle[name] < 1.0} == {"house-0", "house-6"}
    assert {name for name in normal if normal[name] < 1.0} == {"house-0", "house-4", "house-6", "house-8"}


def test_the_halves_of_a_run_are_shown_rescored_and_no_baseline(tmp_path: Path) -> None:
    project = project_of(tmp_path)
    found = ragstone(["gate", "--oracle", "--verbose"], project, exit_code=0)
    check_halves(project / "ragstone-run")
    line = words(found.stdout).partition("- Token F1: ")[2].partition(" samples.")[0]
    assert "is retrieval (95 % interval" in line
    assert line.endswith("on 12")
    half = RunDirectory.open(project / "ragstone-run" / ORACLE).manifest
    assert (half.system.part, half.standing.eligible) == ("generation", False)
    again = ragstone(["report", "--format", "json"], project)
    assert again.stdout == (project / "ragstone-run" / "report.json").read_text(encoding="utf-8")
    refused = ragstone(["gate", "--baseline", f"ragstone-run/{ORACLE}", "--out", "next"], project, exit_code=6)
    assert "it is the oracle half of a run" in refused.stderr
    ragstone(["rescore", "ragstone-run", "--out", "again", "--metrics", "token_f1,exact_match"], project, exit_code=0)
    check_halves(project / "again")
    assert set(RunDirectory.open(project / "again" / ORACLE).manifest.metrics) == {"exact_match", "token_f1"}
    again = ragstone(["compare", "again", "--verbose"], project)
    assert "is retrieval (95 % interval" in words(again.stdout)


def test_a_callable_of_this_process(tmp_path: Path) -> None:
    space: dict[str, Any] = {}
    exec(SYSTEM, space)
    golden = package.load_golden_set(project_of(tmp_path) / "golden.jsonl")
    run = package.evaluate(golden, space["answer"], metrics=["token_f1"], oracle=True, out=tmp_path / "run")
    check_halves(run.path)
    shares = package.compare(run).oracle
    assert shares is not None
    (one,) = shares.metrics
    assert one.missing == pytest.approx(one.retrieval + one.generation)
    with pytest.raises(SystemUnderTestError, match="it takes none"):
        package.evaluate(golden, lambda question: question, metrics=["token_f1"], oracle=True)
    with pytest.raises(ConfigError, match="--oracle needs a metric of the answer"):
        package.evaluate(golden, space["answer"], metrics=["recall@5"], oracle=True)


# -- at the door -------------------------------------------------------------------------------------------------------


def no_contexts(project: Path) -> list[str]:
    without_contexts(project)
    return []


def recorded(project: Path) -> list[str]:
    (project / "outputs.jsonl").write_text('{"id": "house-1", "answer": "Red."}\n', encoding="utf-8")
    return ["--entrypoint", "file:outputs.jsonl"]


def half(project: Path) -> list[str]:
    text = (project / "ragstone.toml").read_text(encoding="utf-8")
    (project / "ragstone.toml").write_text(text.replace("[system]\n", '[system]\npart = "generation"\n'), "utf-8")
    return []


def plain(project: Path) -> list[str]:
    (project / "houses.py").write_text("def answer(question): return question\n", encoding="utf-8")
    return []


REFUSED: dict[str, tuple[Callable[[Path], list[str]], int, str]] = {
    "a golden set without contexts": (no_contexts, 3, "no sample has reference_contexts"),
    "recorded answers": (recorded, 2, "--oracle can't be combined with recorded answers"),
    "a system that takes none": (plain, 4, "--oracle gives the system contexts, but it takes none"),
    "half of a system": (half, 2, "it needs the whole system"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_can_have_no_oracle_half_is_refused_before_anything_is_written(tmp_path: Path, case: str) -> None:
    prepare, code, says = REFUSED[case]
    project = project_of(tmp_path)
    options = prepare(project)
    for name in ("gate", "check"):
        done = ragstone([name, *options], project, env={"RAGSTONE_ORACLE": "true"}, exit_code=code)
        assert says in done.stderr
    assert not (project / "ragstone-run" / "samples.jsonl").exists()


@pytest.mark.heavy
def test_check_counts_the_cost_of_both_halves(tmp_path: Path) -> None:
    project = project_of(tmp_path, metrics="faithfulness context_recall")
    without_contexts(project, "house-1")
    check = ["check", "--judge", "openai:gpt-5.4-mini"]
    key = {"RAGSTONE_JUDGE_API_KEY": "sk-not-a-real-key-0123456789"}
    oracle = {**key, "RAGSTONE_ORACLE": "true"}
    texts = [ragstone(check, project, env=variables).stdout for variables in (key, oracle)]
    calls = [int(text.split("at most ")[-1].split(" judge calls")[0]) for text in texts]
    assert calls == [12 * 3, 12 * 3 + 11 * 2]  # statements, support and context use; then statements and support


# -- the gate ----------------------------------------------------------------------------------------------------------


@pytest.mark.heavy
def test_the_oracle_half_changes_nothing_that_is_decided(tmp_path: Path) -> None:
    project = project_of(tmp_path, metrics="token_f1 faithfulness context_recall")
    (project / "thresholds.toml").write_text("[metrics.token_f1]\nmin = 0.95\n", encoding="utf-8")
    without_contexts(project, "house-1")
    with_it = ragstone(["gate", "--out", "with", "--verbose", "--oracle"], project, exit_code=1)
    ragstone(["gate", "--out", "without"], project, exit_code=1)
    one, other = (read_json(project / name / "report.json") for name in ("without", "with"))
    for report in (one, other):
        report["samples"].pop("rows")  # they have latencies
    for name in ("verdict", "checks", "metrics", "samples", "findings"):
        assert one[name] == other[name], name
    assert one["explanation"]["oracle"] is None
    oracle = other["explanation"]["oracle"]
    assert {part["metric"]: part["n"] for part in oracle["metrics"]} == {"token_f1": 11, "faithfulness": 11}
    assert oracle["without"] == 1
    for file in ("report.md", "report.html"):
        assert HEADING in (project / "with" / file).read_text(encoding="utf-8")
        assert HEADING not in (project / "without" / file).read_text(encoding="utf-8")
    assert HEADING in with_it.stdout
    assert "Not asked again: 1 sample without reference contexts." in with_it.stdout


# -- what goes wrong in the half ---------------------------------------------------------------------------------------

SLOW = SYSTEM.replace(
    "    given = contexts is not None\n",
    "    given = contexts is not None\n    import time; time.sleep(0.05)\n"
    "    with open('asked.log', 'a') as log: log.write(f'{given} {number}\\n')\n",
)


@pytest.mark.usefixtures("processes")
def test_a_half_that_was_killed_is_resumed_without_asking_twice(tmp_path: Path) -> None:
    project = project_of(tmp_path, SLOW, n=40)
    with start(["run", "--oracle"], project) as process:
        wait_for_lines(project / "ragstone-run" / ORACLE / "samples.jsonl", 5)
        os.kill(process.pid, signal.SIGKILL)
    found = ragstone(["run", "--oracle", "--resume"], project, exit_code=0)
    assert "on 40 samples." in found.stdout
    asked = (project / "asked.log").read_text(encoding="utf-8").splitlines()
    assert sum(line.startswith("False") for line in asked) == 40
    assert 40 <= sum(line.startswith("True") for line in asked) <= 44  # those in flight are asked again
    ragstone(["run", "--oracle", "--out", "whole"], project, exit_code=0)
    for place in ("", ORACLE):
        one, other = (RunDirectory.open(project / name / place).scores() for name in ("ragstone-run", "whole"))
        assert one.metrics == other.metrics


@pytest.mark.heavy
def test_a_folder_that_is_no_half_of_the_run_is_not_read_as_one_and_goes_with_the_next_run(tmp_path: Path) -> None:
    project = project_of(tmp_path)
    assert "is retrieval" in ragstone(["run", "--oracle"], project, exit_code=0).stdout
    assert "is retrieval" in ragstone(["compare", "ragstone-run", "--verbose"], project).stdout
    file = project / "ragstone-run" / "manifest.json"
    file.write_text(json.dumps({**read_json(file), "created_at": "2020-01-01T00:00:00+00:00"}), encoding="utf-8")
    assert "is retrieval" not in ragstone(["compare", "ragstone-run", "--verbose"], project).stdout
    ragstone(["run"], project, exit_code=0)
    assert not (project / "ragstone-run" / ORACLE).exists()
    (project / "ragstone-run" / ORACLE).mkdir()
    (project / "ragstone-run" / ORACLE / "keep.txt").write_text("mine", encoding="utf-8")
    assert "can't be removed" in ragstone(["run", "--oracle"], project, exit_code=2).stderr
    assert (project / "ragstone-run" / ORACLE / "keep.txt").read_text(encoding="utf-8") == "mine"
