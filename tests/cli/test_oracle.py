"""`--oracle`: the same questions with the reference contexts given, and what that says of retrieval and generation."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ragstone as package
from ragstone.errors import ConfigError, SystemUnderTestError
from ragstone.evaluation.directory import ORACLE, RunDirectory
from tests.cli.project import change_rows, make_project, ragstone, read_json, start, wait_for_lines
from tests.system.conftest import server  # noqa: F401 - a fixture
from tests.system.service import Reply, Server, said

COLOURS = ("red", "green", "blue", "white", "yellow")
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


def project_of(
    path: Path, source: str = SYSTEM, *, metrics: str = "token_f1", entrypoint: str = "", n: int = N
) -> Path:
    project = make_project(path, n=n, system=source, policy="")
    (project / "thresholds.toml").unlink()
    change_rows(project, lambda row: {**row, "reference_contexts": [row["reference"]]})
    where = entrypoint or "python:houses:answer"
    (project / "ragstone.toml").write_text(
        f'[golden]\npaths = ["golden.jsonl"]\n[system]\nentrypoint = {json.dumps(where)}\nconcurrency = 2\n'
        f"[run]\nmetrics = {json.dumps(metrics.split())}\n",
        encoding="utf-8",
    )
    return project


def check_halves(run: Path) -> None:
    """The faults of SYSTEM are found in the halves of the run: houses 4 and 8 by retrieval, 0 and 6 by generation."""
    normal, oracle = RunDirectory.open(run).scores(), RunDirectory.open(run / ORACLE).scores()
    then, now = normal["token_f1"].values, oracle["token_f1"].values
    assert {name for name in now if now[name] < 1.0} == {"house-0", "house-6"}
    assert {name for name in then if then[name] < 1.0} == {"house-0", "house-4", "house-6", "house-8"}


# -- every kind of entrypoint ------------------------------------------------------------------------------------------


def test_a_python_function(tmp_path: Path) -> None:
    project = project_of(tmp_path / "repo")
    found = ragstone(["run", "--oracle"], project, exit_code=0)
    check_halves(project / "ragstone-run")
    (line,) = [line for line in found.stdout.splitlines() if line.startswith("- Token F1:")]
    assert "is retrieval (95 % interval" in line
    assert "is generation" in line
    assert line.endswith("on 12 samples.")
    oracle = RunDirectory.open(project / "ragstone-run").rounds.oracle
    assert oracle is not None
    assert (oracle.asked, oracle.without, oracle.strangers) == (12, 0, 0)
    half = RunDirectory.open(project / "ragstone-run" / ORACLE).manifest
    assert (half.system.part, half.standing.eligible) == ("generation", False)


def test_a_callable_of_this_process(tmp_path: Path) -> None:
    space: dict[str, Any] = {}
    exec(SYSTEM, space)
    project = project_of(tmp_path / "repo")
    golden = package.load_golden_set(project / "golden.jsonl")
    run = package.evaluate(
        golden, space["answer"], metrics=["token_f1"], oracle=True, out=project / "run", progress=False
    )
    check_halves(run.path)
    shares = package.compare(run).oracle
    assert shares is not None
    (one,) = shares.metrics
    assert one.missing == pytest.approx(one.retrieval + one.generation)
    assert "is retrieval" in run.report("md")
    with pytest.raises(SystemUnderTestError, match="it takes none"):
        package.evaluate(golden, lambda question: question, metrics=["token_f1"], oracle=True, progress=False)
    with pytest.raises(ConfigError, match="--oracle needs a metric of the answer"):
        package.evaluate(golden, space["answer"], metrics=["recall@5"], oracle=True, progress=False)


def test_whether_a_service_reads_contexts_can_not_be_known(tmp_path: Path, server: Server) -> None:  # noqa: F811
    project = project_of(tmp_path / "repo", entrypoint=f"{server.url}/ask")
    checked = ragstone(["check", "--oracle"], project)
    assert "can't be known" in checked.stdout, checked.stderr


# -- at the door -------------------------------------------------------------------------------------------------------


def no_contexts(project: Path) -> list[str]:
    change_rows(project, lambda row: {**row, "reference_contexts": []})
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
    "metrics of retrieval alone": (lambda _: ["--metrics", "recall@5"], 2, "--oracle needs a metric of the answer"),
    "half of a system": (half, 2, "it needs the whole system"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_can_have_no_oracle_half_is_refused_before_anything_is_written(tmp_path: Path, case: str) -> None:
    prepare, code, says = REFUSED[case]
    project = project_of(tmp_path / "repo")
    options = prepare(project)
    for name in ("gate", "check"):
        found = ragstone([name, "--oracle", *options], project)
        assert (found.returncode, says in found.stderr) == (code, True), f"{name}: {found.stderr}"
    assert not (project / "ragstone-run" / "samples.jsonl").exists()


@pytest.mark.heavy
def test_check_says_whether_contexts_are_taken_and_counts_both_halves(tmp_path: Path) -> None:
    project = project_of(tmp_path / "repo", metrics="faithfulness context_recall")
    change_rows(project, lambda row: {**row, "reference_contexts": []} if row["id"] == "house-1" else row)
    judge = ["--judge", "openai:gpt-5.4-mini"]
    key = {"RAGSTONE_JUDGE_API_KEY": "sk-not-a-real-key-0123456789"}
    usual, oracle = (ragstone(["check", *judge, *more], project, env=key).stdout for more in ([], ["--oracle"]))
    assert "oracle       not asked for; the entrypoint takes contexts" in usual
    assert "oracle       11 of 12 samples asked again with the reference contexts" in oracle
    assert "faithfulness; answer_correctness would tell the most" in oracle
    calls = [int(text.split("at most ")[-1].split(" judge calls")[0]) for text in (usual, oracle)]
    assert calls == [12 * 3, 12 * 3 + 11 * 2]  # statements, support and context use; then statements and support
    plain(project)
    assert "oracle       not asked for; the entrypoint takes no contexts" in ragstone(["check"], project).stdout


# -- the gate ----------------------------------------------------------------------------------------------------------


@pytest.mark.heavy
def test_the_oracle_half_changes_nothing_that_is_decided(tmp_path: Path) -> None:
    project = project_of(tmp_path / "repo", metrics="token_f1 faithfulness context_recall")
    (project / "thresholds.toml").write_text("[metrics.token_f1]\nmin = 0.95\n", encoding="utf-8")
    change_rows(project, lambda row: {**row, "reference_contexts": []} if row["id"] == "house-1" else row)
    without, with_it = (
        ragstone(["gate", "--out", name, "--verbose", *more], project)
        for name, more in (("without", []), ("with", ["--oracle"]))
    )
    assert (without.returncode, with_it.returncode) == (1, 1), with_it.stderr
    one, other = (read_json(project / name / "report.json") for name in ("without", "with"))
    for report in (one, other):
        report["samples"].pop("rows")  # they have latencies
    for name in ("verdict", "checks", "metrics", "samples", "findings"):
        assert one[name] == other[name], name
    assert one["explanation"]["attribution"] == other["explanation"]["attribution"]
    assert one["explanation"]["oracle"] is None
    (shares,) = [part for part in other["explanation"]["oracle"]["metrics"] if part["metric"] == "token_f1"]
    assert {part["metric"] for part in other["explanation"]["oracle"]["metrics"]} == {"token_f1", "faithfulness"}
    assert (shares["n"], other["explanation"]["oracle"]["without"]) == (11, 1)
    assert shares["missing"] == pytest.approx(shares["retrieval"] + shares["generation"])
    heading = "With the reference contexts given (oracle)"
    for file in ("report.md", "report.html"):
        assert heading in (project / "with" / file).read_text(encoding="utf-8")
        assert heading not in (project / "without" / file).read_text(encoding="utf-8")
    assert heading in with_it.stdout
    assert "Not asked again: 1 sample without reference contexts." in with_it.stdout


@pytest.mark.heavy
def test_the_report_is_the_same_again_and_the_half_is_rescored_with_its_run(tmp_path: Path) -> None:
    project = project_of(tmp_path / "repo")
    assert ragstone(["gate", "--oracle"], project).returncode == 0
    again = ragstone(["report", "--format", "json"], project)
    assert again.stdout == (project / "ragstone-run" / "report.json").read_text(encoding="utf-8")
    found = ragstone(["rescore", "ragstone-run", "--metrics", "exact_match,token_f1", "--out", "again"], project)
    assert found.returncode == 0, found.stderr
    check_halves(project / "again")
    assert "Exact match: " in ragstone(["report", "again", "--verbose"], project).stdout
    more = ragstone(
        ["rescore", "ragstone-run", "--out", "ragstone-run", "--missing", "--metrics", "exact_match"], project
    )
    assert more.returncode == 0, more.stderr
    check_halves(project / "ragstone-run")
    assert set(RunDirectory.open(project / "ragstone-run" / ORACLE).manifest.metrics) == {"exact_match", "token_f1"}


@pytest.mark.heavy
def test_a_run_without_the_option_has_no_half_of_an_earlier_one(tmp_path: Path) -> None:
    project = project_of(tmp_path / "repo")
    assert ragstone(["run", "--oracle"], project).returncode == 0
    assert ragstone(["run"], project).returncode == 0
    assert not (project / "ragstone-run" / ORACLE).exists()
    assert "oracle" not in ragstone(["report"], project).stdout


def test_a_half_is_no_baseline(tmp_path: Path) -> None:
    project = project_of(tmp_path / "repo")
    assert ragstone(["run", "--oracle"], project).returncode == 0
    found = ragstone(["gate", "--baseline", f"ragstone-run/{ORACLE}", "--out", "next"], project, exit_code=6)
    assert "it is the oracle half of a run" in found.stderr


# -- what goes wrong in the half ---------------------------------------------------------------------------------------

SLOW = SYSTEM.replace(
    "    given = contexts is not None\n",
    "    given = contexts is not None\n    import time; time.sleep(0.05)\n"
    "    with open('asked.log', 'a') as log: log.write(f'{given} {number}\\n')\n",
)


@pytest.mark.usefixtures("processes")
def test_a_half_that_was_killed_is_resumed_without_asking_twice(tmp_path: Path) -> None:
    project = project_of(tmp_path / "repo", SLOW, n=40)
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


@pytest.mark.usefixtures("processes")  # not that it starts any: it waits
def test_the_time_limit_ends_the_half_and_not_the_gate(tmp_path: Path, server: Server) -> None:  # noqa: F811
    released = threading.Event()

    def reply(_path: str, body: Any) -> Reply:
        if "contexts" in body:
            released.wait(60)
        return said({"answer": "It is so.", "contexts": ["It is so."]})

    server.reply = reply
    project = project_of(tmp_path / "repo", entrypoint=f"{server.url}/ask")
    found = ragstone(["gate", "--oracle", "--time-limit", "10", "--verbose"], project)
    released.set()
    shown = " ".join(found.stdout.split())
    assert "(0 of 12 samples were asked): The time limit was reached" in shown, found.stderr
    usual = ragstone(["gate", "--out", "usual"], project)
    assert found.returncode == usual.returncode != 124
    assert RunDirectory.open(project / "ragstone-run").manifest.verdict == "fail"


HOSTILE = """
def answer(question, contexts=None):
    if contexts is None:
        return {"answer": "It is so.", "contexts": ["It is so."]}
    number = int(question.split()[-1].rstrip("?"))
    if number == 1:
        raise ValueError("::error::stop\\n# Pass\\n\\x1b[2J<script>alert(1)</script> sk-verysecretkey0123456789")
    if number == 2:
        import os; os._exit(3)
    return {"answer": "::set-output name=x::y \\x1b[2J <script>alert(2)</script>", "contexts": ["<img src=x>"]}
"""


@pytest.mark.heavy
def test_a_system_that_does_as_it_likes_with_what_it_is_given(tmp_path: Path) -> None:
    project = project_of(tmp_path / "repo", HOSTILE, metrics="token_f1 faithfulness")
    key = {"RAGSTONE_JUDGE_API_KEY": "sk-verysecretkey0123456789"}
    usual = ragstone(["gate", "--out", "usual"], project, env=key)
    found = ragstone(["gate", "--oracle", "--verbose"], project, env=key)
    assert found.returncode == usual.returncode, found.stderr
    shown = " ".join(found.stdout.split())
    assert "10 of 10 answers came with contexts other than those given" in shown
    assert "The system failed on 2 samples when given the contexts." in shown
    for file in (project / "ragstone-run").rglob("*"):
        if file.is_file():
            text = file.read_text(encoding="utf-8", errors="replace")
            assert "verysecretkey" not in text, file
            assert "<script>alert" not in text or file.suffix != ".html", file
    assert "\x1b" not in found.stdout
    assert not any(line.startswith("::") for line in found.stdout.splitlines())


@pytest.mark.heavy
def test_a_folder_that_is_no_half_of_the_run_is_not_read_as_one(tmp_path: Path) -> None:
    project = project_of(tmp_path / "repo")
    for name in ("ragstone-run", "other"):
        assert ragstone(["run", "--oracle", "--out", name], project).returncode == 0
    manifest = read_json(project / "other" / "manifest.json")
    manifest["created_at"] = "2020-01-01T00:00:00+00:00"
    (project / "other" / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    assert "is retrieval" in ragstone(["report", "ragstone-run", "--verbose"], project).stdout
    assert "is retrieval" not in ragstone(["report", "other", "--verbose"], project).stdout
    mine = project / "ragstone-run" / ORACLE
    (mine / "keep.txt").write_text("mine", encoding="utf-8")
    found = ragstone(["run", "--oracle"], project)
    assert (found.returncode, "can't be removed" in found.stderr) == (2, True), found.stderr
    assert (mine / "keep.txt").read_text(encoding="utf-8") == "mine"
