"""Custom metrics from the user's side: the gate, `check` and the Python API on a small repository."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import ragstone
from ragstone.errors import ConfigError
from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.rounds.project_metrics import chosen_metrics
from ragstone.judge.judgements import Grade, Judgements
from ragstone.judge.scripted import ScriptedJudge
from ragstone.metrics.score import Failed, NotApplicable, Scored
from ragstone.pipeline.run_plan import project_metrics
from ragstone.settings.load import load_settings
from ragstone.settings.settings import CustomMetric, Settings
from tests.cli.project import make_project
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


def project(path: Path, config: str, *, n: int = 12, policy: str = "[metrics.faithfulness]\nmin = 0.5\n") -> Path:
    root = make_project(path / "repo", n=n, policy=policy)
    (root / "evals").mkdir()
    (root / "evals" / "checks.py").write_text(CHECKS, encoding="utf-8")
    with (root / "ragstone.toml").open("a", encoding="utf-8") as file:
        file.write(config)
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
    done = run_ragstone(["gate", "--verbose"], root, env=keys)
    assert done.returncode == 1, done.stdout + done.stderr
    assert set(scores(root, "painted").values.values()) == {1.0}
    assert set(scores(root, "keyless").values.values()) == {0.25}
    assert len(scores(root, "even_only").values) == len(scores(root, "even_only").not_applicable) == 20
    assert "Keyless is 0.25 on 40 samples" in done.stdout
    verdict = json.loads((root / "ragstone-run" / "report.json").read_text(encoding="utf-8"))
    found = {check["name"]: check["status"] for check in verdict["checks"] if check["kind"] == "floor"}
    ours = {"painted.floor": "pass", "keyless.floor": "fail", "even/even_only.floor": "pass"}
    assert ours.items() <= found.items()
    assert found.keys() - ours.keys() == {"faithfulness.floor", "context_recall.floor", "context_precision.floor"}


def test_a_function_that_fails_gives_a_failed_score_with_the_reason(tmp_path: Path) -> None:
    root = project(tmp_path, function("broken", timeout_s=0.5), n=6)
    assert run_ragstone(["run"], root).returncode == 0
    failed = scores(root, "broken").failed
    assert len(failed) == 6
    assert {one.by for one in failed.values()} == {"function"}
    for number, reason in enumerate(("nan", "1.5", "'yes'", "ValueError: no idea", "within 0.5 s", "crashed")):
        assert reason in failed[f"house-{number}"].reason


@pytest.mark.heavy
def test_check_calls_functions_and_lists_every_metric_with_its_samples(tmp_path: Path) -> None:
    config = function("painted") + '[metrics.tone]\nrubric = "Is it polite?"\nsees = ["answer", "reference"]\n'
    root = project(tmp_path, config)
    lines = (root / "golden.jsonl").read_text(encoding="utf-8").splitlines()
    lines[0] = json.dumps({**json.loads(lines[0]), "must_contain": "red"})
    (root / "golden.jsonl").write_text("\n".join(lines), encoding="utf-8")
    done = run_ragstone(["check"], root)
    assert done.returncode == 0, done.stderr
    assert re.search(r"painted +12 of 12  function evals\.checks:painted\n", done.stdout)
    assert re.search(r"tone +0 of 12  rubric: answer, reference \(none: a rubric needs a language model", done.stdout)
    assert re.search(r"assertions + 1 of 12  no judge \(else: the sample has no assertions\)", done.stdout)
    paid = run_ragstone(["check", "--judge", "openai:gpt-5.4-mini"], root, env={"RAGSTONE_JUDGE_API_KEY": "sk-123456"})
    assert re.search(r"tone +12 of 12  rubric: answer, reference; alone at most 12 judge calls, about \$", paid.stdout)
    with (root / "ragstone.toml").open("a", encoding="utf-8") as file:
        file.write(function("broken"))
    done = run_ragstone(["check"], root)
    assert done.returncode == 4
    assert "metrics.broken" in done.stderr
    assert "nan" in done.stderr


def test_a_rubric_is_never_scored_by_the_offline_judge_and_the_report_says_so_at_the_top(tmp_path: Path) -> None:
    root = project(tmp_path, '[metrics.tone]\nrubric = "Is it polite?"\n')
    done = run_ragstone(["gate"], root)
    assert done.returncode == 0
    assert done.stdout.index("Not scored: tone. A rubric needs a language model") < done.stdout.index("Faithfulness")
    assert not scores(root, "tone").values
    (root / "thresholds.toml").write_text("[metrics.tone]\nmin = 0.5\n", encoding="utf-8")
    done = run_ragstone(["gate"], root)
    assert done.returncode == 5
    assert "no sample has a score, most often because a rubric needs a language model" in " ".join(done.stdout.split())


def test_a_rubric_is_gated_sliced_and_calibrated_like_any_metric(tmp_path: Path) -> None:
    golden = ragstone.load_golden_set(make_project(tmp_path / "repo", n=20) / "golden.jsonl")
    script = {f"house-{i}": Judgements(custom={"tone": Grade(float(i % 2 == 0), "why")}) for i in range(20)}
    rubrics = [ragstone.Rubric("tone", "Is it polite?")]
    run = ragstone.evaluate(golden, lambda question: "Red.", ScriptedJudge(script), rubrics, out=tmp_path / "run")
    record = next(run.directory.records())
    assert record.scores["tone"] == Scored(1.0, "why")
    policy = {"slices": {"even": {"metrics": {"tone": {"min": 0.9}}}}, "metrics": {"tone": {"min": 0.9}}}
    verdict = ragstone.compare(run, policy=policy)
    found = {check.name: check.status.value for check in verdict.checks if check.kind == "floor"}
    assert found == {"tone.floor": "fail", "even/tone.floor": "pass"}
    labels = "".join(f"house-{i},{'pass' if i % 2 == 0 or i == 1 else 'fail'}\n" for i in range(20))
    (tmp_path / "labels.csv").write_text("id,label\n" + labels, encoding="utf-8")
    done = run_ragstone(["calibrate", "labels.csv", "--run", "run", "--metric", "tone"], tmp_path)
    assert "equal on 95 %" in done.stdout, done.stderr


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
        ([ragstone.Rubric("tone", "a"), ragstone.Rubric("tone", "b")], "two metrics are called 'tone'"),
    ],
)
def test_other_metrics_are_refused(given: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        chosen_metrics(given)


def settings_of(tmp_path: Path, config: str) -> Settings:
    (tmp_path / "evals").mkdir(exist_ok=True)
    (tmp_path / "evals" / "checks.py").write_text(CHECKS, encoding="utf-8")
    (tmp_path / "ragstone.toml").write_text(config, encoding="utf-8")
    return load_settings(directory=tmp_path, environ={})


def version(settings: Settings, at: int = 0) -> str:
    return project_metrics(settings).own()[at].info.version


def test_a_metric_has_the_version_of_its_text(tmp_path: Path) -> None:
    before = version(settings_of(tmp_path, function("painted")))
    assert before.startswith("function ")
    assert version(settings_of(tmp_path, function("painted", timeout_s=3))) == before
    (tmp_path / "evals" / "checks.py").write_text(CHECKS + "# changed\n", encoding="utf-8")
    assert version(load_settings(directory=tmp_path, environ={})) != before
    texts = [
        'rubric = "Is it polite?"',
        'rubric = "Is it kind?"',
        'rubric = "Is it polite?"\nlevels = ["no", "a bit", "yes"]',
        'rubric = "Is it polite?"\nsees = ["answer"]',
    ]
    versions = [version(settings_of(tmp_path, f"[metrics.tone]\n{text}\n")) for text in texts]
    assert len(set(versions)) == 4
    assert all(one.startswith("rubric ") for one in versions)


def test_metrics_are_selected_by_name_and_by_default(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, function("painted") + function("keyless"))
    assert [metric.info.name for metric in project_metrics(settings).select()][-2:] == ["painted", "keyless"]
    named = '[run]\nmetrics = ["keyless", "mrr"]\n'
    settings = settings_of(tmp_path, named + function("painted") + function("keyless"))
    assert [metric.info.name for metric in project_metrics(settings).select()] == ["mrr", "keyless"]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("[metrics.tone]\n", "needs either 'rubric' or 'python'"),
        ('[metrics.tone]\nrubric = " "\n', "the rubric is empty"),
        ('[metrics.tone]\nrubric = "a"\nlevels = ["one"]\n', "2 to 10 descriptions"),
        ('[metrics.tone]\nrubric = "a"\nlevels = ["one", "one"]\n', "lists a value twice"),
        ('[metrics.tone]\nrubric = "a"\nsees = ["prompt"]\n', "question"),
        ('[metrics.tone]\nrubrik = "a"\n', "Did you mean 'rubric'"),
        ('[metrics.tone]\npython = "b:c"\nsees = ["answer"]\n', "for rubrics"),
        ("[metrics.faithfulness]\nmin = 0.5\n", "belong in the policy"),
        ('[metrics."a b"]\nrubric = "a"\n', "not a metric's name"),
        ('[metrics.faithfulness]\nrubric = "a"\n', "a metric of Ragstone's own"),
        ('[metrics.x]\npython = "evals.gone:f"\n', "evals/gone.py"),
        ('[metrics.x]\npython = "evals checks:f"\n', "names no function"),
    ],
)
def test_a_wrong_definition_is_an_error_that_says_what_is_wrong(tmp_path: Path, config: str, said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        project_metrics(settings_of(tmp_path, config)).own()


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("def f(contxts): return 1", "Did you mean 'contexts'"),
        ("def f(): return 1", "asks for nothing"),
        ("f = 3", "is not a function"),
        ("import nothing_there", "nothing_there"),
    ],
)
def test_a_function_that_can_not_be_called_stops_the_run_before_it_starts(tmp_path: Path, code: str, said: str) -> None:
    root = project(tmp_path, '[metrics.x]\npython = "evals/own.py:f"\n', n=2)
    (root / "evals" / "own.py").write_text(code, encoding="utf-8")
    done = run_ragstone(["run"], root)
    assert done.returncode == 4
    assert "metrics.x" in done.stderr
    assert said in done.stderr
    assert not (root / "ragstone-run" / "manifest.json").exists()


@pytest.mark.heavy
def test_a_changed_function_scores_the_baselines_answers_again(tmp_path: Path) -> None:
    policy = "[metrics.painted]\nmax_drop = 0.05\n"
    root = project(tmp_path, function("painted"), n=40, policy=policy)
    assert run_ragstone(["run", "--out", "before"], root).returncode == 0
    code = CHECKS.replace('"painted" in answer and', '"yellow" not in answer and')
    (root / "evals" / "checks.py").write_text(code, encoding="utf-8")
    done = run_ragstone(["gate", "--baseline", "before"], root)
    assert done.returncode == 0, done.stdout
    assert "was version function" in " ".join(done.stdout.split())
    assert "judged again" in " ".join(done.stdout.split())


def test_a_worker_that_lies_about_a_grade_gives_no_score(tmp_path: Path) -> None:
    """The worker's process is the user's, so what it says is checked again here."""
    lie = "import json\nreal = json.dumps\njson.dumps = lambda *a, **k: real('?') if a == (1.0,) else real(*a, **k)\n"
    root = project(tmp_path, '[metrics.x]\npython = "evals/own.py:f"\n', n=2)
    (root / "evals" / "own.py").write_text(lie + "def f(answer): return True\n", encoding="utf-8")
    assert run_ragstone(["run"], root).returncode == 0
    assert {one.reason for one in scores(root, "x").failed.values()} == {"the function's worker was tampered with"}


def test_a_grade_outside_the_range_is_no_score() -> None:
    (metric,) = project_metrics(Settings(metrics={"tone": CustomMetric(rubric="Is it?")})).own()
    sample = ragstone.Sample("a", "Q?")
    response = ragstone.Response("a", "A.")
    assert isinstance(metric.score(sample, response, Judgements(custom={"tone": Grade(float("nan"))})), Failed)
    assert isinstance(metric.score(sample, response, Judgements(custom={"tone": Grade(None)})), NotApplicable)
    assert isinstance(metric.score(sample, response, Judgements()), Failed)
