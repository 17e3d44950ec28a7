"""docs/golden-sets.md: files of other tools are read with the columns that its table names, by its own command."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from ragstone.evaluation.directory import RunDirectory
from ragstone.golden.load import load_golden_set
from tests.cli.project import ragstone
from tests.docs.page import page

PAGE = page("golden-sets", "Files of other tools")
COMMANDS = [shlex.split(line)[2:] for line in re.findall(r"^\$ ragstone .*$", PAGE, re.MULTILINE)]

QUESTION, REFERENCE, ANSWER = "How old is the mill?", "Built in 1901.", "It is from 1901."
PASSAGES, CONTEXTS = ["The mill was built in 1901."], ["The mill was built in 1901.", "The inn is red."]
DEEPEVAL_CASE = {
    **{"name": "test_case_0", "input": QUESTION, "actualOutput": ANSWER, "expectedOutput": REFERENCE},
    **{"context": PASSAGES, "retrievalContext": CONTEXTS, "success": True},
    "metricsData": [{"name": "Faithfulness", "threshold": 0.5, "score": 0.9, "success": True}],
}
DEEPEVAL_RUN = {
    "testCases": [DEEPEVAL_CASE],
    "conversationalTestCases": [],
    "metricsScores": [{"metric": "Faithfulness", "scores": [0.9]}],
}
PROMPTFOO_RESULT = {
    "prompt": {"raw": f"Answer: {QUESTION}", "label": "rag"},
    "provider": {"id": "http://127.0.0.1:8123/chat", "label": ""},
    **{"success": True, "promptIdx": 0, "vars": {"question": QUESTION}},
    "testCase": {"assert": [{"type": "context-recall", "value": REFERENCE, "threshold": 0.8}]},
    "response": {"output": ANSWER, "metadata": {"context": CONTEXTS}},
    "latencyMs": 1500,
}
PROMPTFOO_RESULTS = {"evalId": "eval-1", "results": {"version": 3, "results": [PROMPTFOO_RESULT]}, "config": {}}
FILES: dict[str, tuple[str, str]] = {
    "ragas": (
        "results.csv",
        "user_input,retrieved_contexts,reference_contexts,response,reference,faithfulness\n"
        f'{QUESTION},"{CONTEXTS}","{PASSAGES}",{ANSWER},{REFERENCE},0.9\n',
    ),
    "DeepEval: run": (".deepeval/.latest_test_run.json", json.dumps(DEEPEVAL_RUN)),
    "promptfoo": ("results.json", json.dumps(PROMPTFOO_RESULTS, indent=2)),
}


@pytest.mark.parametrize("kind", FILES)
def test_one_file_is_the_golden_set_and_the_recorded_answers_by_the_columns_that_the_table_names(
    tmp_path: Path, kind: str
) -> None:
    name, text = FILES[kind]
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text, "utf-8")
    (mapping,) = load_golden_set(name, root=tmp_path).mappings
    columns = {path.rpartition(".")[2] for path in [*mapping.columns.values(), *mapping.recorded.values()]}
    made_by_the_reader = {"actual_output", "retrieval_context", "question", "reference"}
    named = set(re.findall(r"`(\w+)`", PAGE))
    assert columns <= named | (made_by_the_reader if kind.startswith("promptfoo") else set())
    (command,) = COMMANDS
    ragstone([part.replace("results.csv", name) for part in command], tmp_path, exit_code=0)
    (record,) = RunDirectory.open(tmp_path / "ragstone-run").records()
    assert (record.sample.question, record.sample.reference) == (QUESTION, REFERENCE)
    assert record.response.answer == ANSWER
    assert [context.text for context in record.response.contexts] == CONTEXTS
