"""How far a judge can be trusted with each task: ``python bench/judge_grades.py [JUDGE] [--limit N]``.

Grades the judge (``offline``, ``openai:MODEL``, …) on the hard cases, and prints for each task a grade, the cases that
are judged right and the kinds of cases that most often go wrong; then calls, tokens and dollars. An LLM needs its key;
all 738 cases take about 1,300 calls.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from judge_opinions import as_golden_set, run_judge
from labelled_sets import HARD_CASES_NAME, Item, hard_cases
from scipy.stats import binomtest

from ragstone.judge.factory import build_judge
from ragstone.judge.protocol import Judge, Ledger
from ragstone.judge.reliability import Evidence, Grade
from ragstone.settings.settings import JudgeSettings

_MAX_WEAKEST, _MIN_CASES = 3, 4


@dataclass(frozen=True, slots=True)
class TaskGrade:
    """A letter by the lower end of Wilson's 95 % interval of `share`, as for the metrics of the offline judge.

    `share` is that of the cases judged right, which is the balanced accuracy, since as many are positive as negative.
    `weakest` are the difficulties most often judged wrong: name, cases judged right, cases.
    """

    task: str
    grade: str
    right: int
    items: int
    share: float
    low: float
    high: float
    weakest: tuple[tuple[str, int, int], ...]


def grade_tasks(cases: Iterable[tuple[str, str, bool]]) -> tuple[TaskGrade, ...]:
    """The grade of each task, in order of first appearance. `cases` are task, difficulty and "judged right"."""
    tasks: dict[str, dict[str, list[bool]]] = {}
    for task, difficulty, right in cases:
        tasks.setdefault(task, {}).setdefault(difficulty, []).append(right)
    return tuple(_grade(task, kinds) for task, kinds in tasks.items())


def _grade(task: str, kinds: Mapping[str, Sequence[bool]]) -> TaskGrade:
    right, items = sum(map(sum, kinds.values())), sum(map(len, kinds.values()))
    low, high = (float(limit) for limit in binomtest(right, items).proportion_ci(method="wilson"))
    by = Grade((Evidence(HARD_CASES_NAME, "share_right", right / items, low, high, items),))
    wrong = [(sum(kind) / len(kind), name) for name, kind in kinds.items() if not all(kind) and len(kind) >= _MIN_CASES]
    weakest = tuple((name, sum(kinds[name]), len(kinds[name])) for _, name in sorted(wrong)[:_MAX_WEAKEST])
    return TaskGrade(task, f"{by.letter}, {by.word}", right, items, right / items, low, high, weakest)


async def graded(judge: Judge, items: Sequence[Item], ledger: Ledger | None = None) -> tuple[TaskGrade, ...]:
    """The grades of `judge` on `items`, which must be hard cases."""
    outcomes = await run_judge(judge, items, ledger)
    return grade_tasks((one.item.task.value, one.item.difficulty or "", one.right) for one in outcomes)


async def main(name: str, limit: int | None) -> None:
    items, ledger = hard_cases()[:limit], Ledger()
    judge = build_judge(JudgeSettings(name=name), golden_set=as_golden_set(items), cache=None, environ=os.environ)
    try:
        grades = await graded(judge, items, ledger)
    finally:
        await judge.close()
    print(f"{judge.identity.label()} on the {HARD_CASES_NAME}\n")
    print("| task | cases | right | 95 % interval | grade | weakest |")
    print("|---|---|---|---|---|---|")
    for grade in grades:
        weakest = ", ".join(f"{kind} {right}/{cases}" for kind, right, cases in grade.weakest)
        interval = f"{grade.low:.3f} to {grade.high:.3f}"
        print(f"| `{grade.task}` | {grade.items} | {grade.right} | {interval} | {grade.grade} | {weakest} |")
    if ledger.calls:
        print(f"\n{ledger.calls:,} calls, {ledger.input_tokens:,} tokens in, {ledger.output_tokens:,} out")
        print(f"cost in dollars: {ledger.cost_usd}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("judge", nargs="?", default="offline")
    parser.add_argument("--limit", type=int)
    arguments = parser.parse_args()
    asyncio.run(main(arguments.judge, arguments.limit))
