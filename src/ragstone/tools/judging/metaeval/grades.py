"""How far a judge can be trusted with each task: its grade on the hard cases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from scipy.stats import binomtest

from ragstone.judge.offline.reliability import Evidence, Grade
from ragstone.tools.judging.metaeval.load import HARD_CASES_NAME

_MAX_WEAKEST = 3
_MIN_CASES = 4


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


def grade_tasks(dataset: str, cases: Iterable[tuple[str, str, bool]]) -> tuple[TaskGrade, ...]:
    """The grade of each task, in order of first appearance; none if `dataset` is not the hard cases of this version.

    `cases` are task, difficulty and "judged right".
    """
    tasks: dict[str, dict[str, list[bool]]] = {}
    for task, difficulty, right in cases if dataset == HARD_CASES_NAME else ():
        tasks.setdefault(task, {}).setdefault(difficulty, []).append(right)
    return tuple(_grade(task, kinds) for task, kinds in tasks.items())


def _grade(task: str, kinds: Mapping[str, Sequence[bool]]) -> TaskGrade:
    right, items = sum(map(sum, kinds.values())), sum(map(len, kinds.values()))
    low, high = (float(limit) for limit in binomtest(right, items).proportion_ci(method="wilson"))
    by = Grade((Evidence(HARD_CASES_NAME, "share_right", right / items, low, high, items),))
    wrong = [(sum(kind) / len(kind), name) for name, kind in kinds.items() if not all(kind) and len(kind) >= _MIN_CASES]
    weakest = tuple((name, sum(kinds[name]), len(kinds[name])) for _, name in sorted(wrong)[:_MAX_WEAKEST])
    return TaskGrade(task, f"{by.letter}, {by.word}", right, items, right / items, low, high, weakest)
