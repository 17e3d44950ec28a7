"""The grades on the hard cases: judges get the grades that they deserve, by an interval and by kind of case."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from judge_grades import grade_tasks, graded
from judge_opinions import as_golden_set
from labelled_sets import hard_cases

from ragstone.judge.factory import build_judge
from ragstone.settings.settings import JudgeSettings

pytestmark = pytest.mark.heavy

ITEMS = hard_cases()


@pytest.mark.parametrize(
    ("right", "cases", "letter"), [(100, 100, "A"), (95, 100, "B"), (85, 100, "C"), (75, 100, "D"), (10, 10, "C")]
)
def test_a_grade_is_by_the_lower_end_of_the_interval(right: int, cases: int, letter: str) -> None:
    """A few cases get no good grade by luck."""
    (grade,) = grade_tasks([("task", "kind", at < right) for at in range(cases)])
    assert grade.grade[0] == letter
    assert grade.low < grade.share
    assert grade.high > grade.share or right == cases


README = (Path(__file__).parents[2] / "bench/README.md").read_text("utf-8")


def test_the_grades_of_the_offline_judge_are_those_of_the_page() -> None:
    judge = build_judge(JudgeSettings(), golden_set=as_golden_set(ITEMS), cache=None, environ={})
    for grade in asyncio.run(graded(judge, ITEMS)):
        cells = f"{grade.items} | {grade.right} | {grade.low:.3f} to {grade.high:.3f} | {grade.grade} |"
        assert re.search(rf"^\| `{grade.task}` \| [^|]+ \| {re.escape(cells)}$", README, re.MULTILINE), grade
    assert f"the {len(ITEMS)} cases" in README
