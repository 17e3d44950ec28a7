"""The commands of docs/moving-in.md, run as they are printed, on an evaluation of each tool."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.tools.migrate.migrated import ragstone

PAGE = (Path(__file__).parents[2] / "docs/moving-in.md").read_text("utf-8")
SECTIONS = dict(re.findall(r"^## From (\S+)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
FILES = {
    "ragas": (
        "results.csv",
        "user_input,retrieved_contexts,response,reference,faithfulness\n"
        "How old is the mill?,['Built in 1901.'],From 1901.,Built in 1901.,0.9\n",
    ),
    "DeepEval": (
        ".deepeval/.latest_test_run.json",
        json.dumps(
            {
                "testCases": [
                    {
                        "name": "mill",
                        "input": "How old is the mill?",
                        "actualOutput": "From 1901.",
                        "retrievalContext": ["Built in 1901."],
                        "success": True,
                        "metricsData": [{"name": "Faithfulness", "threshold": 0.5, "score": 0.9, "success": True}],
                    }
                ]
            }
        ),
    ),
    "promptfoo": (
        "promptfooconfig.yaml",
        "prompts: ['{{question}}']\ntests:\n  - vars: {question: How old is the mill?}\n"
        "    assert: [{type: contains, value: '1901'}]\n",
    ),
}


def commands(text: str) -> list[list[str]]:
    blocks = re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [shlex.split(line)[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ragstone ")]


def write(folder: Path, tool: str) -> None:
    name, text = FILES[tool]
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(text, "utf-8")


@pytest.mark.parametrize("tool", FILES)
def test_the_command_of_each_tool_works_as_printed(tmp_path: Path, tool: str) -> None:
    write(tmp_path, tool)
    (command,) = commands(SECTIONS[tool])
    done = ragstone(tmp_path, *command)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "golden/golden.jsonl").exists()


@pytest.mark.parametrize("tool", ["ragas", "DeepEval"])
def test_the_way_from_clone_to_comparison_works_as_printed(tmp_path: Path, tool: str) -> None:
    write(tmp_path, tool)
    for command in commands(PAGE.partition("\n## ")[0]):
        done = ragstone(tmp_path, *command)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
