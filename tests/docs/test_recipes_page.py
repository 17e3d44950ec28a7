"""The recipes of docs/recipes.md, run as printed on a finished run, with stubs in place of the other tools.

A stub has the parameters of the real function, so that a call which the real one would refuse is refused here. Of a
workflow, the steps of others are checked for what they are given, and those of Ragstone are run as commands.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock, create_autospec

import pandas
import pytest
import yaml

from ragstone.api import Run
from ragstone.judge.offline.model import judge_version
from tests.cli.project import append, change_rows, make_project, ragstone, read_json
from tests.docs.page import ROOT, blocks, page

ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
METRICS = "faithfulness,context_recall,recall@5"
JUDGE = f"offline judge {judge_version()}"
TRACED = """
def answer(question):
    number = question.split()[-1].rstrip("?")
    if not number.isdigit():
        return {"answer": "I don't know.", "contexts": []}
    fact = f"House number {number} is painted {['red', 'green', 'blue', 'white', 'yellow'][int(number) % 5]}."
    return {"answer": fact, "contexts": [{"id": f"d{number}?", "text": fact}], "trace_id": number.zfill(32)}
"""


def recipe(heading: str, language: str = "python") -> str:
    (block,) = blocks(page("recipes", heading), language)
    return block


def filled(text: str, values: Mapping[str, str]) -> str:
    """`text` with GitHub's expressions, by what `values` has for the part before `||`, or else after it."""

    def value(expression: re.Match[str]) -> str:
        name, _, otherwise = (part.strip() for part in expression[1].partition("||"))
        return values[name] or otherwise.strip("'")

    return re.sub(r"\$\{\{(.*?)\}\}", value, text)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a project with a finished run of a gate, whose answers name their traces."""
    root = make_project(tmp_path_factory.mktemp("project"), n=6)
    (root / "rag.py").write_text(TRACED, encoding="utf-8")
    change_rows(root, lambda row: {**row, "relevant_ids": {f"d{row['id'].removeprefix('house-')}?": 1}})
    append(root / "thresholds.toml", '[metrics."recall@5"]\nmin = 0.8\n')
    done = ragstone(["gate", "--entrypoint", "python:rag:answer", "--metrics", METRICS], root)
    assert (root / "ragstone-run" / "report.json").is_file(), done.stderr
    return root


@pytest.fixture
def report(finished: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.chdir(finished)
    document: dict[str, Any] = read_json(finished / "ragstone-run" / "report.json")
    return document


def means_of(report: Mapping[str, Any]) -> dict[str, float]:
    means = {row["metric"]: row["score"] for row in report["metrics"] if row["slice"] is None}
    assert set(means) >= {"faithfulness", "context_recall", "recall@5"}
    return means


def run_recipe(heading: str, package: str, stub: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, stub)
    names: dict[str, Any] = {}
    if heading == "Weights & Biases":  # which begins where that of MLflow does
        beginning = recipe("MLflow").replace("import mlflow\n", "").partition("with mlflow")[0]
        exec(compile(beginning, "MLflow", "exec"), names)
    exec(compile(recipe(heading), heading, "exec"), names)


class MlFlow:
    """The functions that the recipe calls, with the parameters of the real ones."""

    def start_run(self, *, run_name: str | None = None) -> Any: ...
    def set_tags(self, tags: dict[str, str]) -> None: ...
    def log_metrics(self, metrics: dict[str, float]) -> None: ...
    def log_table(self, data: pandas.DataFrame, artifact_file: str) -> None: ...


class WandB:
    def init(self, *, project: str, name: str | None = None, config: dict[str, Any] | None = None) -> Any: ...
    def Table(self, *, dataframe: pandas.DataFrame) -> Any: ...


class Langfuse:
    def create_score(self, *, name: str, value: float, trace_id: str, data_type: str, score_id: str) -> None: ...
    def flush(self) -> None: ...


def test_mlflow_gets_means_verdict_judge_and_a_row_per_sample(
    report: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow = create_autospec(MlFlow, instance=True)
    mlflow.start_run.return_value = MagicMock()
    run_recipe("MLflow", "mlflow", mlflow, monkeypatch)
    mlflow.start_run.assert_called_once_with(run_name=report["run"]["commit"])
    mlflow.set_tags.assert_called_once_with({"verdict": report["verdict"]["status"], "judge": JUDGE})
    (metrics,) = mlflow.log_metrics.call_args.args
    assert metrics == {name.replace("@", "_at_"): mean for name, mean in means_of(report).items()}
    assert all(re.fullmatch(r"[/\w.\- :]+", name) for name in metrics), "MLflow refuses other names"
    table, name = mlflow.log_table.call_args.args
    assert (name, list(table.columns)) == ("samples.json", ["id", *means_of(report)])
    assert len(table) == report["run"]["samples"]


def test_wandb_gets_the_same(report: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = create_autospec(WandB, instance=True)
    run = MagicMock(summary={})
    wandb.init.return_value = MagicMock(__enter__=lambda _: run)
    run_recipe("Weights & Biases", "wandb", wandb, monkeypatch)
    assert wandb.init.call_args.kwargs["config"] == {"judge": JUDGE}
    (logged,) = run.log.call_args.args
    assert {name: mean for name, mean in logged.items() if name != "samples"} == means_of(report)
    assert run.summary == {"verdict": report["verdict"]["status"]}
    assert list(wandb.Table.call_args.kwargs["dataframe"].columns) == ["id", *means_of(report)]


def test_langfuse_gets_each_score_at_the_trace_of_its_answer(
    report: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    client = create_autospec(Langfuse, instance=True)
    run_recipe("Langfuse", "langfuse", SimpleNamespace(get_client=lambda: client), monkeypatch)
    calls = [call.kwargs for call in client.create_score.call_args_list]
    expected = {
        (sample_id.rpartition("-")[2].zfill(32), metric, value)
        for metric, scores in Run.open("ragstone-run").scores.metrics.items()
        for sample_id, value in scores.values.items()
        if sample_id.startswith("house-")
    }
    assert len(expected) >= 6 * 2
    assert {(one["trace_id"], one["name"], one["value"]) for one in calls} == expected
    assert {one["data_type"] for one in calls} == {"NUMERIC"}
    assert len({one["score_id"] for one in calls}) == len(calls)
    client.flush.assert_called_once_with()


@pytest.mark.parametrize(("part", "code"), [("de", 0), ("en", 1)])
def test_each_job_of_a_matrix_is_a_gate_of_its_own(finished: Path, tmp_path: Path, part: str, code: int) -> None:
    workflow = yaml.safe_load(recipe("Matrix jobs", "yaml"))
    gate = workflow["jobs"]["gate"]
    assert part in gate["strategy"]["matrix"]["part"]
    (step,) = (step for step in gate["steps"] if step.get("id") == "gate")
    assert set(step["with"]) <= set(ACTION["inputs"])
    given = {name: filled(value, {"matrix.part": part}) for name, value in step["with"].items()}
    assert part in given["comment-id"]
    assert part in given["artifact-name"]
    root = shutil.copytree(finished, tmp_path / "repo", ignore=shutil.ignore_patterns("ragstone-run"))
    golden = root / given["golden-set"]
    golden.parent.mkdir()
    text = (root / "golden.jsonl").read_text(encoding="utf-8")
    # The system knows nothing of the houses that the English set asks about.
    golden.write_text(text if code == 0 else text.replace("house number ", "tower number x"), encoding="utf-8")
    ragstone(["gate", "--golden", given["golden-set"], "--entrypoint", "python:rag:answer"], root, exit_code=code)


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(("result", "code"), [("success", 0), ("failure", 1), ("skipped", 1)])
def test_the_check_of_a_matrix_passes_only_if_all_its_jobs_do(result: str, code: int) -> None:
    job = yaml.safe_load(recipe("Matrix jobs", "yaml"))["jobs"]["all-parts"]
    assert (job["needs"], job["if"]) == ("gate", "always()")
    (step,) = job["steps"]
    environment = {name: filled(value, {"needs.gate.result": result}) for name, value in step["env"].items()}
    assert subprocess.run(["sh", "-c", step["run"]], env=environment, check=False).returncode == code


def test_every_python_recipe_is_run_here() -> None:
    assert len(blocks(page("recipes"), "python")) == 3
