"""Custom metrics from the user's side: the gate, `check` and the Python API on a small repository."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import ragstone
from ragstone.api import _chosen_metrics
from ragstone.errors import ConfigError
from ragstone.evaluation.directory import RunDirectory
from ragstone.judge.judgements import Grade, Judgements
from ragstone.metrics.score import Failed, NotApplicable
from ragstone.pipeline.run_plan import project_metrics
from ragstone.settings.load import load_settings
from ragstone.settings.settings import CustomMetric, Settings
from tests.cli.project import append, change_rows, make_project, read_json, words
from tests.cli.project import ragstone as run_ragstone

CHECKS = """
import os, time

def painted(answer, contexts, context_ids, reference, tags, id, question):
    assert isinstance(contexts, list) and id.startswith("house-") and tags in (["even"], ["odd"])
    return "painted" in answer and reference == answer

def keyless(answer):
    return 0.25 if "RAGSTONE_JUDGE_API_KEY" not in os.environ and "OPENAI_API_KEY" not in os.environ else 0

async def even_only(tags):
    return 1.0 if "even" in tags else None

def broken(id):
    kind = int(id.split("-")[1]) % 6
    if kind == 0: return float("nan")
    if kind == 1: return 1.5
    if kind == 2: return "yes"
    if kind == 3: raise ValueError("no idea")
    if kind == 4: time.sleep(60)
    os._exit(3)
"""
RUBRIC = '[metrics.tone]\nrubric = "Is it polite?"\n'


def project(path: Path, config: str, *, n: int = 12, policy: str = "[metrics.faithfulness]\nmin = 0.5\n") -> Path:
    root = make_project(path / "repo", n=n, policy=policy)
    (root / "evals").mkdir()
    (root / "evals" / "checks.py").write_text(CHECKS, encoding="utf-8")
    append(root / "ragstone.toml", config)
    return root


def function(name: str, **more: object) -> str:
    extra = "".join(f"{key} = {json.dumps(value)}\n" for key, value in more.items())
    return f'[metrics.{name}]\npython = "evals.checks:{name}"\n{extra}'


def scores(root: Path, metric: str) -> Any:
    return RunDirectory.open(root / "ragstone-run").scores().metrics[metric]


def test_functions_are_called_in_a_worker_without_the_judges_key_and_gated(tmp_path: Path) -> None:
    policy = "[metrics.painted]\nmin = 0.9\n[metrics.keyless]\nmin = 0.9\n[slices.even.metrics.even_only]\nmin = 0.9\n"
    root = project(tmp_path, function("painted") + function("keyless") + function("even_only"), n=40, policy=policy)
    keys = {"RAGSTONE_JUDGE_API_KEY": "sk-judge-123456", "OPENAI_API_KEY": "sk-open-123456"}
    done = run_ragstone(["gate", "--verbose"], root, env=keys, exit_code=1)
    assert set(scores(root, "painted").values.values()) == {1.0}
    assert set(scores(root, "keyless").values.values()) == {0.25}
    assert len(scores(root, "even_only").values) == len(scores(root, "even_only").not_applicable) == 20
    assert "Keyless is 0.25 on 40 samples" in done.stdout
    checks = read_json(root / "ragstone-run" / "report.json")["checks"]
    found = {check["name"]: check["status"] for check in checks}
    ours = {"painted.floor": "pass", "keyless.floor": "fail", "even/even_only.floor": "pass"}
    assert ours.items() <= found.items()


def test_a_function_that_fails_gives_a_failed_score_with_the_reason(tmp_path: Path) -> None:
    root = project(tmp_path, function("broken", timeout_s=0.5), n=6)
    run_ragstone(["run"], root, exit_code=0)
    failed = scores(root, "broken").failed
    assert {one.by for one in failed.values()} == {"function"}
    for number, reason in enumerate(("nan", "1.5", "'yes'", "ValueError: no idea", "within 0.5 s", "crashed")):
        assert reason in failed[f"house-{number}"].reason


@pytest.mark.heavy
def test_check_calls_functions_and_lists_every_metric_with_its_samples(tmp_path: Path) -> None:
    root = project(tmp_path, f'{function("painted")}{RUBRIC}sees = ["answer", "reference"]\n')
    change_rows(root, lambda row: {**row, "must_contain": "red"} if row["id"] == "house-0" else row)
    shown = run_ragstone(["check"], root, exit_code=0).stdout
    assert re.search(r"painted +12 of 12\n", shown)
    assert re.search(r"assertions + 1 of 12 \(else: the sample has no assertions\)", shown)
    append(root / "ragstone.toml", function("broken"))
    said = run_ragstone(["check"], root, exit_code=4).stderr
    assert "metrics.broken" in said
    assert "nan" in said


def test_a_rubric_is_never_scored_by_the_offline_judge_and_the_report_says_so_at_the_top(tmp_path: Path) -> None:
    root = project(tmp_path, RUBRIC)
    shown = run_ragstone(["gate"], root, exit_code=0).stdout
    assert shown.index("Not scored: tone. A rubric needs a language model") < shown.index("Faithfulness")
    assert not scores(root, "tone").values
    (root / "thresholds.toml").write_text("[metrics.tone]\nmin = 0.5\n", encoding="utf-8")
    shown = run_ragstone(["gate"], root, exit_code=5).stdout
    assert "no sample has a score, most often because a rubric needs a language model" in words(shown)


def test_the_python_api_takes_functions_and_rubrics(tmp_path: Path) -> None:
    golden = ragstone.load_golden_set(make_project(tmp_path / "repo", n=4) / "golden.jsonl")

    def red(answer: str, id: str) -> bool | None:
        if id == "house-3":
            raise RuntimeError("cannot say")
        return None if id == "house-2" else "red" in answer

    async def late(question: str) -> float:
        return 0.5

    run = ragstone.evaluate(golden, lambda question: "It is red.", metrics=[red, late, "exact_match"])
    assert list(run.scores.metrics) == ["exact_match", "red", "late"]
    found = run.scores.metrics["red"]
    assert found.values == {"house-0": 1.0, "house-1": 1.0}
    assert set(found.not_applicable) == {"house-2"}
    assert found.failed == {"house-3": Failed("function", "raised: RuntimeError: cannot say")}
    assert set(run.scores.metrics["late"].values.values()) == {0.5}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([lambda answer: 1.0], "has no name"),
        ([3], "a name, a Rubric or a function, found int"),
        ([ragstone.Rubric("tone", "a"), ragstone.Rubric("tone", "b")], "two metrics have the name 'tone'"),
    ],
)
def test_other_metrics_are_refused(given: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        _chosen_metrics(given)


def settings_of(tmp_path: Path, config: str) -> Settings:
    (tmp_path / "evals").mkdir(exist_ok=True)
    (tmp_path / "evals" / "checks.py").write_text(CHECKS, encoding="utf-8")
    (tmp_path / "ragstone.toml").write_text(config, encoding="utf-8")
    return load_settings(directory=tmp_path, environ={})


def version(settings: Settings) -> str:
    return project_metrics(settings).custom_metrics()[0].info.version


def test_a_metric_has_the_version_of_its_text(tmp_path: Path) -> None:
    before = version(settings_of(tmp_path, function("painted")))
    assert before.startswith("function ")
    assert version(settings_of(tmp_path, function("painted", timeout_s=3))) == before
    (tmp_path / "evals" / "checks.py").write_text(CHECKS + "# changed\n", encoding="utf-8")
    assert version(load_settings(directory=tmp_path, environ={})) != before
    texts = (
        RUBRIC,
        RUBRIC.replace("polite", "kind"),
        f'{RUBRIC}levels = ["no", "a bit", "yes"]\n',
        f'{RUBRIC}sees = ["answer"]\n',
    )
    versions = {version(settings_of(tmp_path, text)) for text in texts}
    assert len(versions) == 4
    assert all(one.startswith("rubric ") for one in versions)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ('[metrics.tone]\nrubric = "a"\nsees = ["prompt"]\n', "question"),
        ('[metrics.tone]\nrubrik = "a"\n', "Did you mean 'rubric'"),
        ("[metrics.faithfulness]\nmin = 0.5\n", "belong in the policy"),
        ('[metrics.faithfulness]\nrubric = "a"\n', "the name of a built-in metric"),
        ('[metrics.x]\npython = "evals.gone:f"\n', "evals/gone.py"),
        ('[metrics.x]\npython = "evals checks:f"\n', "names no function"),
    ],
)
def test_a_wrong_definition_is_an_error_that_says_what_is_wrong(tmp_path: Path, config: str, said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        project_metrics(settings_of(tmp_path, config)).custom_metrics()


def with_own(path: Path, code: str) -> Path:
    root = project(path, '[metrics.x]\npython = "evals/own.py:f"\n', n=2)
    (root / "evals" / "own.py").write_text(code, encoding="utf-8")
    return root


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("def f(contxts): return 1", "requires contxts, which it can't be given"),
        ("def f(answer, threshold, **more): return 1", "requires threshold, which it can't be given"),
        ("def f(answer, /): return 1", "requires answer, which it can't be given"),
        ("def f(*answer): return 1", "has no parameters that it could be called with"),
        ("def f(): return 1", "has no parameters that it could be called with"),
        ("f = 3", "is not a function"),
        ("import nothing_there", "nothing_there"),
    ],
)
def test_a_function_that_can_not_be_called_stops_the_run_before_it_starts(tmp_path: Path, code: str, said: str) -> None:
    root = with_own(tmp_path, code)
    done = run_ragstone(["run"], root, exit_code=4)
    assert "metrics.x" in done.stderr
    assert said in done.stderr
    assert not (root / "ragstone-run" / "manifest.json").exists()


def test_a_worker_that_lies_about_a_grade_gives_no_score(tmp_path: Path) -> None:
    """The worker's process is the user's, so what it says is checked again here."""
    lie = "import json\nreal = json.dumps\njson.dumps = lambda *a, **k: real('?') if a == (1.0,) else real(*a, **k)\n"
    root = with_own(tmp_path, f"{lie}def f(answer): return True\n")
    run_ragstone(["run"], root, exit_code=0)
    assert {one.reason for one in scores(root, "x").failed.values()} == {
        "the function's worker replied with something that is not a grade"
    }


def test_a_grade_outside_the_range_is_no_score() -> None:
    (metric,) = project_metrics(Settings(metrics={"tone": CustomMetric(rubric="Is it?")})).custom_metrics()
    sample, response = ragstone.Sample("a", "Q?"), ragstone.Response("a", "A.")
    graded = [{"tone": Grade(float("nan"))}, {"tone": Grade(None)}, {}]
    found = [type(metric.score(sample, response, Judgements(custom=custom))) for custom in graded]
    assert found == [Failed, NotApplicable, Failed]
