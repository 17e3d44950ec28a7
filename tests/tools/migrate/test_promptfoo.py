"""`ragstone migrate` on configs and results of promptfoo, in the shapes of its versions 2 and 3."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragstone.config.load import load_settings
from ragstone.errors import GoldenSetError
from ragstone.golden.load import load_golden_set
from ragstone.tools.migrate.evaluation import Evaluation, Grade
from ragstone.tools.migrate.find import find_evaluation
from ragstone.tools.migrate.promptfoo_service import read_provider
from tests.tools.migrate.migrated import lines, ragstone, scores, verdict

CONFIG = """
prompts:
  - id: rag
    raw: "Answer briefly: {{question}}"
providers:
  - id: http
    label: my service
    config:
      url: http://127.0.0.1:8123/chat
      method: POST
      headers:
        Content-Type: application/json
        Authorization: "Bearer {{env.RAG_TOKEN}}"
      body:
        stream: false
        messages:
          - role: user
            content: "{{question}}"
      transformResponse: json.choices[0].message.content
      contextTransform: "context => context.map(c => c.text)"
defaultTest:
  vars: {tone: polite}
  assert:
    - {type: latency, threshold: 3000}
    - {type: llm-rubric, value: "Is the answer polite?", metric: tone, threshold: 0.5}
tests:
  - vars:
      question: How old is the mill?
      context: file://texts/mill.txt
    assert:
      - {type: context-recall, value: The mill was built in 1901., threshold: 0.8}
      - {type: context-faithfulness, threshold: 0.7}
      - {type: icontains-any, value: ["1901", "{{tone}}"]}
      - {type: javascript, value: "process.exit(1)"}
  - file://more.csv
  - vars: {question: ["Which inn?", "Which mill?"]}
"""


def result(asked: str, *components: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A result as `promptfoo eval -o results.json` writes it."""
    passed = all(one["pass"] for one in components)
    return {
        "promptIdx": 0,
        "testIdx": 0,
        "vars": {"question": asked, "context": "The mill was built in 1901."},
        "prompt": {"raw": f"Answer briefly: {asked}", "label": "rag"},
        "provider": {"id": "http", "label": "my service"},
        "testCase": {"vars": {"question": asked}, "assert": [one.get("assertion") for one in components]},
        "response": {"output": "It was built in 1901.", "tokenUsage": {"total": 5}},
        "success": passed,
        "score": 1.0,
        "latencyMs": 1500,
        "gradingResult": {"pass": passed, "score": 1.0, "reason": "", "componentResults": list(components)},
        **more,
    }


def component(kind: str, score: float, passed: bool, **assertion: Any) -> dict[str, Any]:
    return {"pass": passed, "score": score, "reason": "", "assertion": {"type": kind, **assertion}}


def write_results(folder: Path, results: list[dict[str, Any]], version: int = 3) -> None:
    inner = {"version": version, "results": results, "stats": {}}
    document = {"evalId": "eval-1", "results": inner, "config": {}} if version == 3 else inner
    (folder / "results.json").write_text(json.dumps(document), "utf-8")


def write_config(folder: Path) -> None:
    (folder / "promptfooconfig.yaml").write_text(CONFIG, "utf-8")
    (folder / "texts").mkdir()
    (folder / "texts/mill.txt").write_text("The mill was built in 1901.", "utf-8")
    (folder / "more.csv").write_text("question,__expected\nWhat colour is it?,icontains: red\n", "utf-8")


def test_a_config_becomes_a_golden_set_floors_rubrics_and_the_entrypoint(tmp_path: Path) -> None:
    write_config(tmp_path)
    done = ragstone(tmp_path, "migrate")
    assert done.returncode == 0, done.stderr
    golden = list(load_golden_set("golden/golden.jsonl", root=tmp_path))
    asked = ["How old is the mill?", "What colour is it?", "Which inn?", "Which mill?"]
    assert [sample.question for sample in golden] == asked
    assert golden[0].reference == "The mill was built in 1901."
    assert golden[0].reference_contexts == ("The mill was built in 1901.",)
    rows = lines(tmp_path / "golden/golden.jsonl")
    assert rows[0]["assert"] == [{"type": "icontains-any", "value": ["1901", "polite"]}]
    assert rows[1]["assert"] == [{"type": "icontains", "value": "red"}]
    policy = (tmp_path / "thresholds.toml").read_text("utf-8")
    assert rows[0]["min"] == {"context_recall": 0.8, "faithfulness": 0.7}
    assert not any("min" in row for row in rows[1:])  # only the first test asserts these
    assert "metrics.faithfulness" not in policy
    for rule in ("tone]\nmin = 0.5", "assertions]\nmin = 1.0"):
        assert f"[metrics.{rule}" in policy
    assert "latency_p95_s = 3.0" in policy
    settings = load_settings(directory=tmp_path, environ={})
    assert settings.metrics["tone"].rubric == "Is the answer polite?"
    assert settings.system.entrypoint == "http://127.0.0.1:8123/chat"
    assert settings.system.answer_field == "choices.0.message.content"
    assert settings.system.http.question_field == "messages.0.content"
    assert settings.system.http.body == {"stream": False, "messages": [{"role": "user"}]}
    assert settings.system.http.headers == {"Authorization": "Bearer ${RAG_TOKEN}"}
    assert settings.system.env == ("RAG_TOKEN",)
    page = (tmp_path / "migrated/README.md").read_text("utf-8")
    assert "| assertion javascript | not checked as it stands; use a function of your own" in page
    assert "| contextTransform of http" in page


def test_results_are_answers_scores_and_outcomes(tmp_path: Path) -> None:
    recall = component("context-recall", 0.9, True, value="Built in 1901.", threshold=0.8)
    first = result("How old is the mill?", recall, component("contains", 1, True, value="1901"))
    second = result("How old is it?", component("contains", 0, False, value="1902"))
    other = result("How old is the mill?", recall, provider={"id": "openai:gpt-5", "label": ""})
    write_results(tmp_path, [first, other, second])
    assert ragstone(tmp_path, "migrate").returncode == 0
    assert lines(tmp_path / "migrated/answers.jsonl")[0] | {"id": ""} == {
        "id": "",
        "answer": "It was built in 1901.",
        "contexts": ["The mill was built in 1901."],
        "latency_s": 1.5,
    }
    assert scores(tmp_path) == {"context_recall": [0.9], "assertions": [1.0, 0.0]}
    assert lines(tmp_path / "golden/golden.jsonl")[0]["reference"] == "Built in 1901."
    assert verdict(tmp_path).status.value == "fail"
    assert "1 results | they are of other prompts or providers" in (tmp_path / "migrated/README.md").read_text("utf-8")
    assert ragstone(tmp_path, "gate").returncode in (0, 1)


PASS, FAIL = component("contains", 1, True, value="1901"), component("icontains", 0, False, value="1902")
SET = {"pass": True, "score": 0.5, "componentResults": [PASS, FAIL], "metadata": {"assertionSet": {"threshold": 0.5}}}
RESULTS: dict[str, list[dict[str, Any]]] = {
    "all pass": [result("A?", PASS), result("B?", PASS, component("context-relevance", 0.2, True))],
    "one fails": [result("A?", PASS), result("B?", PASS, FAIL)],
    "nothing is asserted": [result("A?"), result("B?", PASS)],
    "a threshold of the test": [result("A?", PASS, FAIL, success=True, testCase={"threshold": 0.5, "assert": []})],
    "a rubric without threshold": [result("A?", component("llm-rubric", 0.9, False, value="Polite?"))],
    "a rubric that passes": [result("A?", component("llm-rubric", 0.4, True, value="Polite?"))],
    "a slow answer": [result("A?", PASS, component("latency", 0, False, threshold=100))],
    "a set of alternatives": [result("A?", SET, PASS, FAIL, success=True)],
    "a weight": [result("A?", PASS, component("javascript", 0.5, True, weight=2, value="x"))],
    "less than nothing": [result("A?", component("cost", 0, False, threshold=0.1))],
    "an error": [result("A?", response={"error": "500"}, error="500", success=False, gradingResult=None)],
}


@pytest.mark.parametrize("name", RESULTS)
@pytest.mark.parametrize("version", [2, 3])
def test_the_verdict_on_the_scores_is_that_of_promptfoo(tmp_path: Path, name: str, version: int) -> None:
    write_results(tmp_path, RESULTS[name], version)
    done = ragstone(tmp_path, "migrate", "results.json")
    assert done.returncode == 0, done.stderr
    passed = all(one["success"] for one in RESULTS[name])
    assert (verdict(tmp_path).status.value == "pass") is passed


@pytest.mark.parametrize("place", ["file://../secret.txt", "file:///etc/hostname"])
def test_a_file_outside_the_folder_is_not_read(tmp_path: Path, place: str) -> None:
    (tmp_path / "secret.txt").write_text("secret", "utf-8")
    (tmp_path / "here").mkdir()
    config = {"prompts": ["{{question}}"], "tests": [{"vars": {"question": "Why?", "context": place}}]}
    (tmp_path / "here/promptfooconfig.json").write_text(json.dumps(config), "utf-8")
    done = ragstone(tmp_path / "here", "migrate")
    assert done.returncode == 3
    assert "it is outside the workspace" in done.stderr
    assert not (tmp_path / "here/golden").exists()


def test_a_config_named_from_the_root_reads_what_lies_beside_it_in_the_root(tmp_path: Path) -> None:
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts/rag.txt").write_text("Answer: {{question}}", "utf-8")
    (tmp_path / "evals").mkdir()
    test = {
        "vars": {"question": "Why?"},
        "assert": [
            {"type": "contains", "value": "81,797", "weight": 3},
            {"type": "contains", "value": "no", "weight": 0},
        ],
    }
    config = {"prompts": ["file://../prompts/rag.txt"], "tests": [test]}
    (tmp_path / "evals/one.json").write_text(json.dumps(config), "utf-8")
    done = ragstone(tmp_path, "migrate", "evals/one.json")
    assert done.returncode == 0, done.stderr
    [row] = lines(tmp_path / "golden/golden.jsonl")
    assert row["assert"] == [{"type": "contains", "value": "81,797"}]  # a weight changes no verdict, but 0 takes it out


def test_a_config_that_is_a_program_is_refused(tmp_path: Path) -> None:
    (tmp_path / "promptfooconfig.ts").write_text("export default {}", "utf-8")
    done = ragstone(tmp_path, "migrate")
    assert done.returncode == 2
    assert "the config is a program, which is not executed." in done.stderr
    assert "promptfoo eval -o results.json" in done.stderr


def test_the_prompt_is_the_question_where_no_variable_is(tmp_path: Path) -> None:
    config = {
        "prompts": [{"raw": "How far is {{from}} from {{to.name | upper}}?"}],
        "providers": ["openai:gpt-5"],
        "tests": [{"vars": {"from": "the mill", "to": {"name": "inn"}, "by": "foot"}}],
    }
    (tmp_path / "promptfooconfig.json").write_text(json.dumps(config), "utf-8")
    assert ragstone(tmp_path, "migrate").returncode == 0
    (sample,) = load_golden_set("golden/golden.jsonl", root=tmp_path)
    assert sample.question == "How far is the mill from INN?"


def test_convert_reads_the_tests_of_a_config_and_says_what_it_leaves_out(tmp_path: Path) -> None:
    write_config(tmp_path)
    done = ragstone(tmp_path, "convert", "promptfooconfig.yaml", "-o", "golden.jsonl")
    assert done.returncode == 0, done.stderr
    first, second, third = load_golden_set("golden.jsonl", root=tmp_path)
    assert (first.question, first.reference) == ("How old is the mill?", "The mill was built in 1901.")
    assert (second.question, third.question) == ("Which inn?", "Which mill?")
    for words in (
        "the assertion javascript is left out; use a function",
        "tests in other files are left out: ragstone migrate",
    ):
        assert words in done.stderr


def test_convert_refuses_a_config_whose_tests_are_elsewhere(tmp_path: Path) -> None:
    config = {"prompts": [{"raw": "{{q}}"}], "providers": [{"id": "http", "config": {}}], "tests": "file://more.csv"}
    (tmp_path / "promptfooconfig.json").write_text(json.dumps(config), "utf-8")
    done = ragstone(tmp_path, "convert", "promptfooconfig.json")
    assert done.returncode == 3
    assert "the tests of this promptfoo config are in other files." in done.stderr
    assert "ragstone migrate FILE" in done.stderr


def service(body: object, **settings: Any) -> Evaluation:
    provider = {"id": "http://127.0.0.1:8123/chat", "config": {"body": body, **settings}}
    found = Evaluation("promptfoo", per_case=True)
    read_provider({"providers": [provider]}, found)
    return found


def test_only_the_prompt_is_filled_in_and_what_else_differs_is_left_out_by_name(tmp_path: Path) -> None:
    body = {
        "session_id": "promptfoo-{{case_id}}",
        "user": {"name": "{{ user }}", "role": "tester"},
        "key": "{{env.KEY}}",
        "parts": ["{{a}}", "b", {"text": "{{prompt}}"}],
        "again": "{{prompt}}",
        "when": "{% now %}",
        "brace": "{a}",
    }
    found = service(body, headers={"X-Session": "s-{{case_id}}", "X-Key": "{{env.KEY}}", "X-Tool": "promptfoo"})
    http = found.system["http"]
    assert http["question_field"] == "parts.2.text"
    assert http["body"] == {"user": {"role": "tester"}, "parts": ["", "b", {}], "brace": "{a}"}
    assert http["headers"] == {"X-Key": "${KEY}", "X-Tool": "promptfoo"}
    assert found.system["env"] == ["KEY"]
    assert [what for what, _ in found.left_out] == [
        "session_id in the body: promptfoo-{{case_id}}",
        "user.name in the body: {{ user }}",
        "key in the body: {{env.KEY}}",
        "parts.0 in the body: {{a}}",
        "again in the body: {{prompt}}",
        "when in the body: {% now %}",
        "header X-Session: s-{{case_id}}",
    ]
    assert all("edit [system.http]" in why for _, why in found.left_out)


def test_the_only_variable_of_a_body_is_the_question() -> None:
    assert service({"text": "{{message}}", "k": 3}).system["http"] == {"question_field": "text", "body": {"k": 3}}


@pytest.mark.parametrize(
    "body",
    [
        {"session": "{{case_id}}", "text": "Answer: {{question}}"},
        {"a": "{{b}}", "c": "{{d}}"},
        {"key": "{{env.KEY}}"},
        "x",
        None,
    ],
)
def test_a_body_without_a_place_for_the_question_is_no_entrypoint(body: object) -> None:
    found = service(body)
    assert found.live is None
    assert found.left_out == [
        ("provider http://127.0.0.1:8123/chat", "it takes no POST with the prompt in a JSON body")
    ]


def test_the_settings_of_a_service_have_no_template(tmp_path: Path) -> None:
    body = {"session_id": "promptfoo-{{case_id}}", "question": "{{question}}"}
    config = {
        "prompts": ["{{question}}"],
        "providers": [{"id": "http://127.0.0.1:8123/chat", "config": {"body": body}}],
        "tests": [{"vars": {"question": "Why?", "case_id": "7"}}],
    }
    (tmp_path / "promptfooconfig.json").write_text(json.dumps(config), "utf-8")
    assert ragstone(tmp_path, "migrate").returncode == 0
    assert load_settings(directory=tmp_path, environ={}).system.http.body == {}
    assert "{{" not in (tmp_path / "ragstone.toml").read_text("utf-8")
    assert "session\\_id in the body: promptfoo-" in (tmp_path / "migrated/README.md").read_text("utf-8")


def test_a_config_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    (tmp_path / "promptfooconfig.yaml").write_text("tests: !!python/object/apply:os.system ['touch done']\n", "utf-8")
    (tmp_path / "notes.txt").write_text("", "utf-8")
    with pytest.raises(GoldenSetError, match="is not allowed"):
        find_evaluation(tmp_path, None, {})


def found_in(folder: Path, **fields: Any) -> Evaluation:
    config = {"prompts": ["{{question}}"], "tests": [{"vars": {"question": "Why?"}}], **fields}
    (folder / "promptfooconfig.json").write_text(json.dumps(config), "utf-8")
    return find_evaluation(folder, None, {})


def test_an_assertion_with_a_value_that_cannot_be_rendered_is_left_out_whole(tmp_path: Path) -> None:
    asserted = [{"type": "contains-any", "value": ["mill", "{{nothing.at.all}}"]}]
    found = found_in(tmp_path, tests=[{"vars": {"question": "Why?"}, "assert": asserted}])
    assert "assert" not in found.cases[0].row


@pytest.mark.parametrize("weight", [0, 0.0, "0"])
def test_an_assertion_without_weight_is_not_made(tmp_path: Path, weight: object) -> None:
    asserted = [{"type": "contains", "value": "no", "weight": weight}, {"type": "contains", "value": "yes"}]
    found = found_in(tmp_path, tests=[{"vars": {"question": "Why?"}, "assert": asserted}])
    assert found.cases[0].row["assert"] == [{"type": "contains", "value": "yes"}]


def test_lists_that_make_too_many_cases_are_refused(tmp_path: Path) -> None:
    with pytest.raises(GoldenSetError, match="more than 10,000 cases"):
        found_in(tmp_path, tests=[{"vars": {name: ["x"] * 22 for name in "abc"}}])


def test_a_list_of_other_things_than_texts_is_one_case(tmp_path: Path) -> None:
    assert len(found_in(tmp_path, tests=[{"vars": {"question": "Why?", "n": [1, 2], "none": []}}]).cases) == 1


def test_the_service_is_asked_the_variable_that_it_is_sent(tmp_path: Path) -> None:
    provider = {"id": "http://127.0.0.1:8123/chat", "config": {"body": {"q": "{{ message }}"}}}
    variables = {"topic": "Mills", "message": "How old?"}
    [case] = found_in(tmp_path, providers=[provider], tests=[{"vars": variables}]).cases
    assert case.row["question"] == "How old?"


def test_a_context_is_not_the_question_beside_the_only_other_text(tmp_path: Path) -> None:
    variables = {"context": "Built in 1901.", "about": "The mill"}
    [case] = found_in(tmp_path, tests=[{"vars": variables}]).cases
    assert (case.row["question"], case.row["reference_contexts"]) == ("The mill", ["Built in 1901."])


def test_the_parts_of_a_set_of_assertions_are_not_counted_beside_it(tmp_path: Path) -> None:
    own = component("contains", 1, True, value="mill")
    write_results(tmp_path, [result("A?", SET, PASS, FAIL, own, success=True)])
    [case] = find_evaluation(tmp_path, None, {}).cases
    assert case.grades == {"assertions": Grade(1.0, 1.0, True)}
