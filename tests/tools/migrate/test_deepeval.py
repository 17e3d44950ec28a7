"""`ragstone migrate` on test runs and test files of DeepEval, in the shapes of its versions 3 and 4."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragstone.config.load import load_settings
from ragstone.errors import ConfigError
from ragstone.golden.load import load_golden_set
from ragstone.tools.migrate.evaluation import Grade
from ragstone.tools.migrate.find import find_evaluation
from tests.tools.migrate.migrated import lines, ragstone, scores, verdict


def metric(name: str, score: float | None, threshold: float, success: bool, **more: Any) -> dict[str, Any]:
    return {"name": name, "threshold": threshold, "success": success, "score": score, "strictMode": False, **more}


def case(name: str, asked: str, *metrics: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "input": asked,
        "actualOutput": "It was built in 1901.",
        "expectedOutput": "In 1901.",
        "context": ["The mill was built in 1901."],
        "retrievalContext": ["The mill was built in 1901.", "The inn is red."],
        "completionTime": 0.5,
        "success": all(one["success"] for one in metrics if not one.get("flaky")),
        "metricsData": list(metrics),
        **more,
    }


def write_run(folder: Path, cases: list[dict[str, Any]], talks: list[dict[str, Any]] | None = None) -> None:
    run = {"testCases": cases, "conversationalTestCases": talks or [], "metricsScores": []}
    (folder / ".deepeval").mkdir(exist_ok=True)
    (folder / ".deepeval/.latest_test_run.json").write_text(json.dumps({"testRunData": run}), "utf-8")


def test_a_test_run_becomes_a_golden_set_answers_scores_and_thresholds(tmp_path: Path) -> None:
    good = (metric("Faithfulness", 1.0, 0.7, True), metric("Hallucination", 0.2, 0.5, True))
    bad = (metric("Faithfulness", 0.7, 0.7, True), metric("Hallucination", 0.6, 0.5, False))
    write_run(tmp_path, [case("test_case_0", "How old is the mill?", *good), case("test_case_1", "Which inn?", *bad)])
    done = ragstone(tmp_path, "migrate")
    assert done.returncode == 0, done.stderr
    first, _ = load_golden_set("golden/golden.jsonl", root=tmp_path)
    assert (first.id, first.question, first.reference) == ("test_case_0", "How old is the mill?", "In 1901.")
    assert first.reference_contexts == ("The mill was built in 1901.",)
    answer = lines(tmp_path / "migrated/answers.jsonl")[0]
    assert answer["contexts"] == ["The mill was built in 1901.", "The inn is red."]
    assert answer["latency_s"] == 0.5
    assert scores(tmp_path) == {"faithfulness": [1.0, 0.7], "hallucination": [0.2, 0.6]}
    policy = (tmp_path / "thresholds.toml").read_text("utf-8")
    assert 'must_pass = "all"' in policy
    assert "[metrics.faithfulness]\nmin = 0.7" in policy
    assert "[metrics.hallucination]\nmax = 0.5" in policy
    assert not (tmp_path / "migrated/thresholds.toml").exists()
    assert verdict(tmp_path).status.value == "fail"
    gated = ragstone(tmp_path, "gate")
    assert gated.returncode in (0, 1), gated.stderr


RUNS = {
    "all pass": ([(0.9, 0.7, True), (0.7, 0.7, True)], {}),
    "one is below, the mean is above": ([(1.0, 0.7, True), (0.69, 0.7, False)], {}),
    "strict": ([(1.0, 1.0, True), (0.0, 1.0, False)], {"strictMode": True}),
    "thresholds of their own": ([(0.6, 0.5, True), (0.8, 0.9, False)], {}),
    "thresholds of their own that hold": ([(0.6, 0.5, True), (0.95, 0.9, True)], {}),
    "not in 0 to 1": ([(4.0, 3.0, True), (2.0, 3.0, False)], {}),
    "flaky": ([(0.9, 0.7, True), (0.1, 0.7, False)], {"flaky": True}),
}


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("kind", ["Faithfulness", "Correctness [GEval]", "Toxicity"])
def test_the_verdict_on_the_scores_is_that_of_deepeval(tmp_path: Path, name: str, kind: str) -> None:
    grades, more = RUNS[name]
    cases = [case(f"c{at}", f"Question {at}?", metric(kind, *grade, **more)) for at, grade in enumerate(grades)]
    write_run(tmp_path, cases)
    assert ragstone(tmp_path, "migrate").returncode == 0
    passed = all(one["success"] for one in cases)
    assert (verdict(tmp_path).status.value == "pass") is passed


def test_scores_that_grow_with_quality_are_turned_where_less_is_better(tmp_path: Path) -> None:
    """Since version 4, the hallucination of DeepEval is the share of contexts that agree."""
    cases = [
        case("a", "How old?", metric("Hallucination", 0.9, 0.5, True)),
        case("b", "How red?", metric("Hallucination", 0.25, 0.5, False)),
    ]
    write_run(tmp_path, cases)
    assert ragstone(tmp_path, "migrate").returncode == 0
    assert scores(tmp_path) == {"hallucination": [0.1, 0.75]}
    assert "[metrics.hallucination]\nmax = 0.5" in (tmp_path / "thresholds.toml").read_text("utf-8")
    assert verdict(tmp_path).status.value == "fail"


def test_a_metric_that_failed_is_no_pass(tmp_path: Path) -> None:
    cases = [case(f"c{at}", f"Q{at}?", metric("Faithfulness", 0.9, 0.5, True)) for at in range(20)]
    cases.append(case("x", "Q?", metric("Faithfulness", None, 0.5, False, error="no JSON")))
    write_run(tmp_path, cases)
    assert ragstone(tmp_path, "migrate").returncode == 0
    assert verdict(tmp_path).status.value != "pass"


def test_a_conversation_and_an_unwrapped_run_are_read(tmp_path: Path) -> None:
    turns = [
        {"role": "user", "content": "Is there an inn?"},
        {"role": "assistant", "content": "Yes."},
        {"role": "user", "content": "How old is it?"},
        {"role": "assistant", "content": "From 1920.", "retrievalContext": ["Built in 1920."]},
    ]
    talk = {"name": "talk", "turns": turns, "expectedOutcome": "1920", "success": True, "metricsData": []}
    path = tmp_path / "test_run_20260101.json"
    path.write_text(json.dumps({"testCases": [], "conversationalTestCases": [talk]}), "utf-8")
    assert ragstone(tmp_path, "migrate", path.name).returncode == 0
    (sample,) = load_golden_set("golden/golden.jsonl", root=tmp_path)
    assert (sample.question, len(sample.history), sample.reference) == ("How old is it?", 2, "1920")
    assert lines(tmp_path / "migrated/answers.jsonl") == [
        {"id": "talk", "answer": "From 1920.", "contexts": ["Built in 1920."]}
    ]


TEST_FILE = """
import os
from deepeval import assert_test
from deepeval.metrics import BiasMetric, FaithfulnessMetric, GEval, JsonCorrectnessMetric
from deepeval.test_case import LLMTestCase, LLMTestCaseParams

raise RuntimeError("executed")
FLOOR = 0.8
correctness = GEval(
    name="Correctness",
    criteria="Does the answer agree "
    "with the expected one?",
    evaluation_params=[LLMTestCaseParams.ACTUAL_OUTPUT, LLMTestCaseParams.EXPECTED_OUTPUT],
    threshold=0.6,
)

def test_mill():
    case = LLMTestCase(input="How old is the mill?", actual_output=ask(), expected_output="In 1901.",
                       retrieval_context=("c",))
    bias = BiasMetric(threshold=float(os.environ.get("BIAS", "0.2")))
    assert_test(case, [FaithfulnessMetric(threshold=FLOOR), bias, correctness, JsonCorrectnessMetric(strict_mode=True)])

def test_others(question):
    LLMTestCase(input=question)
"""


def test_a_test_file_becomes_samples_floors_and_rubrics(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_rag.py").write_text(TEST_FILE, "utf-8")
    done = ragstone(tmp_path, "migrate")
    assert done.returncode == 0, done.stderr
    (sample,) = load_golden_set("golden/golden.jsonl", root=tmp_path)
    assert (sample.question, sample.reference) == ("How old is the mill?", "In 1901.")
    policy = (tmp_path / "thresholds.toml").read_text("utf-8")
    for rule in ("faithfulness]\nmin = 0.8", "bias]\nmax = 0.2", "correctness]\nmin = 0.6"):
        assert f"[metrics.{rule}" in policy
    metrics = load_settings(directory=tmp_path, environ={}).metrics
    assert metrics["correctness"].rubric == "Does the answer agree with the expected one?"
    assert metrics["correctness"].sees == ("answer", "reference")
    assert "biased" in str(metrics["bias"].rubric)
    page = (tmp_path / "migrated/README.md").read_text("utf-8")
    assert "its input is not written out in the source" in page
    assert "| metric JsonCorrectness | Ragstone measures nothing of the kind" in page


def test_metrics_of_some_tests_are_not_asked_of_every_case(tmp_path: Path) -> None:
    metric = "[AnswerRelevancyMetric(threshold=0.7)]"
    relevant = f"\ndef test_inn():\n    assert_test(LLMTestCase(input='Which inn?'), {metric})\n"
    (tmp_path / "test_rag.py").write_text(TEST_FILE + relevant, "utf-8")
    assert ragstone(tmp_path, "migrate").returncode == 0
    policy = (tmp_path / "thresholds.toml").read_text("utf-8")
    assert "must_pass" not in policy
    assert "[metrics.answer_relevancy]\nmin = 0.7" in policy
    page = (tmp_path / "migrated/README.md").read_text("utf-8")
    assert "metrics that only some test cases are asked for" in page


def test_the_run_and_its_source_are_one_evaluation(tmp_path: Path) -> None:
    write_run(tmp_path, [case("a", "How old?", metric("Correctness [GEval]", 0.5, 0.6, False))])
    (tmp_path / "test_rag.py").write_text(TEST_FILE, "utf-8")
    assert ragstone(tmp_path, "migrate").returncode == 0
    assert scores(tmp_path) == {"correctness": [0.5]}
    assert "agree" in str(load_settings(directory=tmp_path, environ={}).metrics["correctness"].rubric)
    assert not (tmp_path / "migrated/thresholds.toml").exists()
    assert "the test run has no score of it" in (tmp_path / "migrated/README.md").read_text("utf-8")


def test_contexts_that_were_not_recorded_are_left_out(tmp_path: Path) -> None:
    write_run(tmp_path, [case("a", "How old?", metric("Answer Relevancy", 0.9, 0.5, True), retrievalContext=None)])
    assert ragstone(tmp_path, "migrate").returncode == 0
    assert "contexts" not in lines(tmp_path / "migrated/answers.jsonl")[0]


def test_a_run_that_is_only_a_link_is_said(tmp_path: Path) -> None:
    (tmp_path / ".deepeval").mkdir()
    (tmp_path / ".deepeval/.latest_test_run.json").write_text('{"testRunLink": "https://app.example/run/1"}', "utf-8")
    done = ragstone(tmp_path, "migrate")
    assert done.returncode == 2
    assert "It is on Confident AI; run it once after `deepeval logout`" in done.stderr


HEAD = """
from deepeval import assert_test, evaluate
from deepeval.dataset import EvaluationDataset, Golden
from deepeval.metrics import FaithfulnessMetric
from deepeval.test_case import LLMTestCase
from ours import CitationMetric, ask
TEXT = "LLMTestCase(input='In a text?', actual_output='x')"
"""
UNIT = """
def test_the_metric():
    metric = CitationMetric(threshold=0.9)
    metric.measure(LLMTestCase(input="Unit?", actual_output="Yes [1]."))
    assert metric.score == 1.0
"""
LIVE = """
def test_the_system():
    assert_test(LLMTestCase(input="Live?", actual_output=ask("Live?")), [FaithfulnessMetric(threshold=0.7)])
"""
EVALUATED = {
    "assert_test": "def test():\n    assert_test(LLMTestCase(input='Live?', actual_output='Written.'), [])\n",
    "evaluate": "evaluate([LLMTestCase(input='Live?', actual_output='Written.')], [])\n",
    "deepeval.evaluate": "import deepeval\ndeepeval.evaluate([LLMTestCase(input='Live?', actual_output='W')], [])\n",
    "a data set": "EvaluationDataset(test_cases=[LLMTestCase(input='Live?', actual_output='Written.')])\n",
    "added": "dataset.add_test_case(LLMTestCase(input='Live?', actual_output='Written.'))\n",
    "goldens": "GOLDENS = [Golden(input='Live?', expected_output='It is.')]\n",
    "measured": "def test():\n    answer, found = ask('Live?')\n"
    "    case = LLMTestCase(input='Live?', actual_output=answer)\n"
    "    metric.measure(case)\n    assert metric.is_successful()\n",
    "beside a unit test": LIVE + UNIT,
    "with a key from monkeypatch": LIVE.replace("()", "(monkeypatch)", 1),
}
LEFT_OUT = {
    "a unit test": (UNIT, "they test a metric"),
    "only measured": (
        "metric.measure(LLMTestCase(input='Unit?', actual_output='Yes.'))\n",
        "the file does not evaluate",
    ),
    "a fixture": (
        "@fixture\ndef case():\n    return LLMTestCase(input='Unit?', actual_output='x')\n",
        "does not evaluate",
    ),
    "a function that is called evaluate": (
        "from ours import evaluate\nevaluate(LLMTestCase(input='Unit?', actual_output='x'))\n".replace(
            "evaluate", "rate"
        ),
        "the file does not evaluate them",
    ),
    "unit tests beside an evaluation": (UNIT + LIVE, "they test a metric"),
    "unit tests of unittest": (
        LIVE + UNIT.replace("assert metric.score == 1.0", "self.assertEqual(metric.score, 1.0)"),
        "they test a metric",
    ),
    "answers of parametrize": (
        LIVE + UNIT.replace("()", "(answer)", 1).replace('"Yes [1]."', "answer"),
        "they test a metric",
    ),
    "a fake": (
        LIVE + "def test_runner():\n    evaluate([LLMTestCase(input='Unit?', actual_output=ask())], [FakeMetric()])\n",
        "they test a metric: with a double",
    ),
    "a mock": (
        LIVE
        + "@patch('ours.ask')\ndef test_it(a):\n    assert_test(LLMTestCase(input='Unit?', actual_output=ask()), [])\n",
        "they test a metric: with a double",
    ),
}
GOLDEN = '{"question": "Found?", "reference": "Yes."}\n'


def write_tests(folder: Path, code: str) -> None:
    (folder / "tests").mkdir()
    (folder / "tests/test_rag.py").write_text(HEAD + code, "utf-8")
    (folder / "golden.jsonl").write_text(GOLDEN, "utf-8")


@pytest.mark.parametrize("name", EVALUATED)
def test_test_cases_that_are_evaluated_are_the_golden_set(tmp_path: Path, name: str) -> None:
    write_tests(tmp_path, EVALUATED[name])
    found = find_evaluation(tmp_path, None, {})
    assert [one.row["question"] for one in found.cases] == ["Live?"]
    assert found.bounds == ({"Faithfulness": 0.7} if "FaithfulnessMetric" in EVALUATED[name] else {})


@pytest.mark.parametrize("name", LEFT_OUT)
def test_test_cases_of_unit_tests_are_no_golden_set(tmp_path: Path, name: str) -> None:
    code, why = LEFT_OUT[name]
    code += "" if LIVE in code else "METRICS = [FaithfulnessMetric(threshold=0.7)]\n"
    write_tests(tmp_path, code)
    found = find_evaluation(tmp_path, None, {})
    assert [one.row["question"] for one in found.cases] == (["Live?"] if LIVE in code else ["Found?"])
    assert found.bounds == {"Faithfulness": 0.7}
    [reason] = [reason for what, reason in found.left_out if what == "1 test case in tests/test_rag.py"]
    assert why in reason


def test_a_function_of_the_project_that_is_called_evaluate_evaluates_nothing(tmp_path: Path) -> None:
    code = "from deepeval.test_case import LLMTestCase\nfrom ours import evaluate\n"
    (tmp_path / "test_it.py").write_text(f"{code}evaluate(LLMTestCase(input='Unit?', actual_output='x'))\n", "utf-8")
    with pytest.raises(ConfigError, match="no evaluation"):
        find_evaluation(tmp_path, None, {})


def test_the_page_names_the_test_cases_that_are_no_golden_set(tmp_path: Path) -> None:
    write_tests(tmp_path, UNIT + "METRICS = [FaithfulnessMetric(threshold=0.7)]\n")
    assert ragstone(tmp_path, "migrate").returncode == 0
    assert lines(tmp_path / "golden/golden.jsonl")[0]["question"] == "Found?"
    page = (tmp_path / "migrated/README.md").read_text("utf-8")
    assert "| 1 test case in tests/test\\_rag.py | they test a metric: with a double, or by the score" in page


def test_unit_tests_alone_are_no_evaluation(tmp_path: Path) -> None:
    write_tests(tmp_path, UNIT)
    with pytest.raises(ConfigError, match="no evaluation of ragas, DeepEval or promptfoo was found"):
        find_evaluation(tmp_path, None, {})


def test_without_any_question_the_reason_is_given(tmp_path: Path) -> None:
    write_tests(tmp_path, UNIT + "METRICS = [FaithfulnessMetric(threshold=0.7)]\n")
    (tmp_path / "golden.jsonl").unlink()
    with pytest.raises(ConfigError, match="no question was found in it") as caught:
        find_evaluation(tmp_path, None, {})
    assert "1 test case in tests/test_rag.py: they test a metric" in str(caught.value.hint)


def test_a_text_where_a_list_belongs_is_one_context(tmp_path: Path) -> None:
    write_run(
        tmp_path, [case("a", "How old?", metric("Faithfulness", 0.9, 0.5, True), retrievalContext="Built in 1901.")]
    )
    [one] = find_evaluation(tmp_path, None, {}).cases
    assert one.answer is not None
    assert one.answer["contexts"] == ["Built in 1901."]


@pytest.mark.parametrize("text", ["{", '{"testCases": [}'])
def test_a_run_that_is_not_json_is_said(tmp_path: Path, text: str) -> None:
    (tmp_path / ".deepeval").mkdir()
    (tmp_path / ".deepeval/.latest_test_run.json").write_text(text, "utf-8")
    (tmp_path / "notes.txt").write_text("", "utf-8")
    with pytest.raises(ConfigError, match="this test run can't be read") as caught:
        find_evaluation(tmp_path, None, {})
    assert "It can't be read: " in str(caught.value.hint)


def test_a_score_that_is_no_number_has_failed(tmp_path: Path) -> None:
    write_run(tmp_path, [case("a", "How old?", metric("Faithfulness", float("nan"), 0.5, False))])
    [one] = find_evaluation(tmp_path, None, {}).cases
    assert one.grades == {"Faithfulness": Grade(None, 0.5, False)}
