"""The examples of docs/metrics.md on metrics of ones own, run as a reader would run them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from ragstone.evaluation.directory import RunDirectory
from ragstone.judge.protocol import Call
from ragstone.judge.rubric import Rubric, RubricTexts
from tests.cli.project import append, make_project, ragstone
from tests.docs.page import blocks, page

PAGE = page("metrics", "Custom metrics")


def test_the_functions_the_rubrics_and_the_row_of_the_page(tmp_path: Path) -> None:
    root = make_project(tmp_path / "repo", n=3)
    functions, rubrics, policy = blocks(PAGE, "toml")
    code = next(block for block in blocks(PAGE, "python") if block.startswith("# evals/checks.py"))
    (root / "evals").mkdir()
    (root / "evals" / "checks.py").write_text(code, encoding="utf-8")
    append(root / "ragstone.toml", functions + rubrics)
    append(root / "golden.jsonl", json.dumps(json.loads(blocks(PAGE, "json")[0])) + "\n")
    (root / "thresholds.toml").write_text(policy, encoding="utf-8")
    grades = {name: {"value": 1.0} for name in ("tone", "helpfulness")}
    script = {sample_id: {"custom": grades} for sample_id in ("house-0", "house-1", "house-2", "returns")}
    (root / "judge.json").write_text(json.dumps(script), encoding="utf-8")
    metrics = "cites_source tone helpfulness assertions"
    arguments = ["gate", "--judge", "scripted:judge.json", "--metrics", metrics, "--verbose"]
    done = ragstone(arguments, root, exit_code=1)  # its floor is 0.95
    assert "Assertions is 0.60 on 1 sample" in " ".join(done.stdout.split())  # "I don't know." lacks the 30 days
    found = RunDirectory.open(root / "ragstone-run").scores().metrics
    assert found["cites_source"].not_applicable == {"returns": "the function returned None"}
    assert set(found["tone"].values.values()) == {1.0}
    assert set(found["helpfulness"].not_applicable.values()) == {"the sample has no reference"}
    assert found["assertions"].values == {"returns": 0.6}
    record = next(one for one in RunDirectory.open(root / "ragstone-run").records() if one.sample.id == "returns")
    assert "lacks '30 days'" in str(record.scores["assertions"])


def test_a_judge_of_ones_own_grades_by_rubrics() -> None:
    """The class on the page has the method; the rest of a judge is examples/extending's, which is run there."""
    names: dict[str, object] = {}
    exec(next(block for block in blocks(PAGE, "python") if "class MyJudge" in block), names)
    judge = names["MyJudge"]()  # type: ignore[operator]
    shown = RubricTexts(answer="Please wait.")
    assert asyncio.run(judge.grade(Rubric("tone", "Polite?"), shown, call=Call("a"))).value == 1.0
