"""docs/judges.md says what is measured and what the judge does."""

from __future__ import annotations

import asyncio

from ragstone.judge.judgements import Statement
from ragstone.judge.offline import OfflineJudge
from ragstone.judge.offline.lexicon import load_data
from ragstone.judge.protocol import Call
from ragstone.system.response import Context
from ragstone.tools.judging.pairs import measure_judge, read_pairs
from tests.docs.page import ROOT, page
from tests.needs import need_data

WIKIEVAL = ROOT / "../shared/data/wikieval.jsonl"
PAGE = page("judges")
NAMES = {"auroc": "AUROC", "pairwise_accuracy": "pairwise accuracy", "pearson": "Pearson"}


def table(head: str) -> list[list[str]]:
    """The cells of the table whose first line begins with `head`."""
    lines = PAGE[PAGE.index(head) :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_table_has_every_figure_of_the_reliability_file() -> None:
    wanted = []
    for metric, rows in load_data("reliability.json")["metrics"].items():
        for row in rows:
            figures = f"{row['value']:.3f} ({row['low']:.3f}–{row['high']:.3f})"
            wanted.append([f"`{metric}`", row["dataset"], NAMES[row["measure"]], figures])
    assert sorted(table("| metric | data set |")) == sorted(wanted)


def test_the_judge_decides_the_examples_as_the_page_says() -> None:
    rows = table("| context | statement |")
    assert sum(row[3].startswith("wrong") for row in rows) >= 4
    for context, statement, verdict, _ in rows:
        asked = OfflineJudge().support([Context(context)], [Statement("s1", statement)], call=Call("example"))
        found = asyncio.run(asked)
        assert found.supports[0].verdict == verdict, statement


def test_the_offline_judges_figures_on_wikieval_are_those_of_the_command() -> None:
    need_data(WIKIEVAL)
    found = asyncio.run(measure_judge(OfflineJudge(), read_pairs(WIKIEVAL, {}), "statements", file=WIKIEVAL.name))
    figures = [f"{result.accuracy.value:.2f}" for result in found.results if result.accuracy is not None]
    (row,) = [row for row in table("| judge | method |") if row[0] == "offline"]
    assert row[2:] == figures
