"""Where the offline judge is sure that the judge of a run errs: listed in the report, and drawn to be labelled."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ragstone.app.second_opinion import MAX_LISTED, Doubt, doubt_notes, doubts_of
from ragstone.judge.judgements import (
    JudgementFailure,
    Judgements,
    Statement,
    StatementList,
    Support,
    SupportTable,
    Verdict,
)
from ragstone.run.directory import RunDirectory
from tests.app.conftest import Ragstone, WriteRun

INVENTED = "The Eiffel tower was painted green by forty volunteers in 1923."
IDS = [f"q{i:02}" for i in range(30)]
SCORES = {"faithfulness": dict.fromkeys(IDS, 1.0)}


def said(text: str, verdict: Verdict) -> Judgements:
    table = SupportTable((Support("s1", verdict, ("c1",) if verdict is Verdict.SUPPORTED else ()),))
    return Judgements(statements=StatementList((Statement("s1", text),), abstains=False), support=table)


JUDGEMENTS = {
    "q00": said(INVENTED, Verdict.SUPPORTED),
    "q01": said("It is q01, we say.", Verdict.UNSUPPORTED),
    "q02": said("It is q02, we say.", Verdict.SUPPORTED),
    "q03": said(INVENTED, Verdict.UNSUPPORTED),
    "q04": said("It was q04, as people say.", Verdict.UNSUPPORTED),  # the offline judge is not sure
    "q05": said("エッフェル塔は1923年に緑色に塗られました。", Verdict.SUPPORTED),  # of another language it never is
    "q06": Judgements(statements=JudgementFailure("no reply")),
}


@pytest.fixture
def run(write_run: WriteRun, tmp_path: Path) -> RunDirectory:
    return write_run(tmp_path / "run", SCORES, judge="openai", judgements=JUDGEMENTS)


def test_statements_are_named_on_which_the_offline_judge_is_sure_of_the_opposite(run: RunDirectory) -> None:
    assert list(doubts_of(run)) == [
        Doubt("q00", INVENTED, Verdict.SUPPORTED),
        Doubt("q01", "It is q01, we say.", Verdict.UNSUPPORTED),
    ]


def test_the_offline_judge_has_no_second_opinion_on_itself(write_run: WriteRun, tmp_path: Path) -> None:
    assert list(doubts_of(write_run(tmp_path / "run", SCORES, judgements=JUDGEMENTS))) == []


def test_the_report_lists_them_below_the_fold_and_no_score_changes(
    ragstone: Ragstone, run: RunDirectory, write_run: WriteRun, tmp_path: Path
) -> None:
    code, out, err = ragstone("compare", "run", "--format", "md")
    assert code == 0, err
    first, _, folded = out.replace("\\", "").partition("<details>")
    assert "Judges differ" not in first
    assert "Judges differ on 2 statements of 2 answers: look." in folded
    assert f"“{INVENTED}” (q00) is supported for the judge." in folded
    assert "“It is q01, we say.” (q01) is unsupported for the judge." in folded
    without = json.loads(
        ragstone("compare", str(write_run(tmp_path / "b", SCORES, judge="openai").path), "--format", "json")[1]
    )
    found = json.loads(ragstone("compare", "run", "--format", "json")[1])
    assert found["metrics"] == without["metrics"]
    assert found["checks"] == without["checks"]


def test_what_is_listed_is_bounded() -> None:
    doubts = [Doubt(f"q{i}", "word " * 1_000, Verdict.SUPPORTED) for i in range(500)]
    notes = list(doubt_notes(doubts))
    assert "500 statements of 500 answers" in notes[0]
    assert len(notes) == 1 + MAX_LISTED
    assert max(map(len, notes)) < 400


def test_answers_that_judges_differ_on_are_drawn_more_often(
    ragstone: Ragstone, run: RunDirectory, tmp_path: Path
) -> None:
    code, _, err = ragstone("label", "run", "--by", "disagreement", "--n", "10")
    assert code == 0, err
    batch = json.loads((tmp_path / "labels" / "batch.json").read_text(encoding="utf-8"))
    shares = {one["id"]: one["probability"] for one in batch["items"]}
    assert shares.keys() >= {"q00", "q01"}
    assert shares["q00"] == shares["q01"] == 1.0
    assert all(share < 0.4 for name, share in shares.items() if name not in ("q00", "q01"))
