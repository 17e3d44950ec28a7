"""The steps of answers through a whole gate: stored without secrets, read back, measured and shown."""

from __future__ import annotations

from pathlib import Path

from ragstone.evaluation.directory import RunDirectory
from ragstone.system.response import ModelCall, Retrieval, TokenUsage, ToolCall
from tests.cli.project import change_rows, make_project, ragstone

SYSTEM = """
import os

def answer(question):
    number = question.split()[-1].rstrip("?")
    fact = f"House number {number} is painted red."
    return {
        "answer": fact,
        "steps": [
            {"type": "tool", "name": "lookup", "arguments": {"house": int(number), "key": os.environ["HOUSE_TOKEN"]},
             "result": "It is in the register."},
            {"type": "retrieval", "query": number, "contexts": [{"id": "d" + number, "text": fact}], "source": "docs"},
            {"type": "model", "model": "m", "usage": {"input_tokens": 9, "output_tokens": 1}},
        ],
    }
"""
TOKEN = "house-token-1234567890"


def test_a_gate_on_answers_with_steps(tmp_path: Path) -> None:
    project = make_project(tmp_path, n=8, system=SYSTEM)
    change_rows(project, lambda row: {**row, "tools": [{"name": "lookup"}, {"name": "refunds"}]})
    config = (project / "ragstone.toml").read_text(encoding="utf-8")
    config = config.replace("[system]", '[system]\nenv = ["HOUSE_TOKEN"]')
    (project / "ragstone.toml").write_text(config, encoding="utf-8")
    metrics = "faithfulness tool_selection tool_errors"
    done = ragstone(["gate", "--metrics", metrics, "--verbose"], project, env={"HOUSE_TOKEN": TOKEN})
    run = RunDirectory.open(project / "ragstone-run")
    record = run.find(["house-3"])["house-3"]
    lookup, search, model = record.response.steps
    assert isinstance(lookup, ToolCall)
    assert isinstance(search, Retrieval)
    assert (lookup.arguments["house"], lookup.result) == (3, "It is in the register.")
    assert [context.id for context in record.response.contexts] == ["d3", "tool:lookup"]
    assert model == ModelCall("m", TokenUsage(9, 1))
    assert record.response.usage == TokenUsage(9, 1)
    assert TOKEN not in (project / "ragstone-run" / "samples.jsonl").read_text(encoding="utf-8")
    assert set(run.scores()["tool_selection"].values.values()) == {2 / 3}
    shown = ragstone(["report", "ragstone-run", "--sample", "house-3"], project, exit_code=0).stdout
    assert 'Step 2: docs "3" → 1 context' in shown
    said = " ".join(done.stdout.split())
    assert "never called: 'refunds'" in said
    assert "8 retrievals and 8 tool results" in said
