"""docs/judges.md says what is measured and what the judge does."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

from ragstone.config.settings import Settings
from ragstone.judge.judgements import Statement
from ragstone.judge.offline import OfflineJudge
from ragstone.judge.offline.lexicon import load_data
from ragstone.judge.offline.reliability import grade
from ragstone.judge.protocol import Call
from ragstone.system.response import Context
from ragstone.tools.judging.metaeval.command import evaluate_judge
from ragstone.tools.judging.metaeval.load import HARD_CASES, HARD_CASES_NAME, EvalTask, load_items

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "judges.md").read_text(encoding="utf-8")
NAMES = {"auroc": "AUROC", "pairwise_accuracy": "pairwise accuracy", "pearson": "Pearson"}


def table(head: str) -> list[list[str]]:
    """The cells of the table whose first line begins with `head`."""
    lines = PAGE[PAGE.index(head) :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_table_has_every_figure_of_the_reliability_file() -> None:
    wanted = [
        [f"`{metric}`", row["dataset"], NAMES[row["measure"]], f"{row['value']:.3f}"]
        for metric, rows in load_data("reliability.json")["metrics"].items()
        for row in rows
    ]
    assert sorted(row[:4] for row in table("| metric | data set |")) == sorted(wanted)


def test_the_grades_are_those_of_the_code() -> None:
    for metric, shown in table("| metric | grade |"):
        found = grade(metric.strip("`"))
        assert found is not None
        assert shown == f"{found.letter}, {found.word}"


def test_the_figures_are_those_of_the_judge_that_is_shipped() -> None:
    assert load_data("reliability.json")["judge_version"] == OfflineJudge().identity.version


def test_the_judge_decides_the_examples_as_the_page_says() -> None:
    rows = table("| context | statement |")
    assert sum(row[3].startswith("wrong") for row in rows) >= 4
    for context, statement, verdict, _ in rows:
        found = asyncio.run(
            OfflineJudge().support([Context(context)], [Statement("s1", statement)], call=Call("example"))
        )
        assert found.supports[0].verdict == verdict, statement


def test_the_lines_of_the_format_are_read(tmp_path: Path) -> None:
    lines = [json.dumps(json.loads(block)) for block in re.findall(r"```json\n(.*?)\n```", PAGE, re.DOTALL)]
    path = tmp_path / "labelled.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    assert len(load_items(path, split="test")) == 1
    assert {task.value for task in EvalTask} <= set(re.findall(r"`(\w+)`", PAGE))


def test_the_offline_judges_grades_on_the_hard_cases_are_those_of_the_command() -> None:
    found = asyncio.run(evaluate_judge(Settings(), Path(HARD_CASES), environ={})).grades
    wanted = [
        [f"`{one.task}`", str(one.items), str(one.right), f"{one.low:.3f} to {one.high:.3f}", one.grade]
        for one in found
    ]
    shown = [[row[0], *row[2:]] for row in table("| task | what is judged |")]
    assert sorted(shown) == sorted(wanted)
    assert f"`{HARD_CASES_NAME}`" in PAGE
    assert f"the {sum(one.items for one in found)} cases" in PAGE


def test_the_diagram_is_there() -> None:
    (image,) = re.findall(r"\]\((images/[^)]+)\)", PAGE)
    assert (ROOT / "docs" / image).read_text(encoding="utf-8").startswith("<svg")
