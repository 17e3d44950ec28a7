"""`ragstone calibrate FILE --method …`: how often a judge prefers the better of two, as in WikiEval's experiment."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ragstone.cli.calibrate import command
from ragstone.errors import ConfigError, GoldenSetError
from ragstone.judge.abilities import AnswerWithContexts, Preference
from ragstone.judge.offline import OfflineJudge
from ragstone.judge.protocol import Call, JudgementFailed
from ragstone.tools.judging.pairs import Case, Pair, PairResults, measure_judge, read_pairs
from tests.cli.project import write_rows

PAGE = "The lighthouse on Grey Point was built in 1871 by Ada Brown. It is 34 metres tall."
ROW: dict[str, Any] = {
    "id": "w1",
    "question": "When was the lighthouse built?",
    "answer": "The lighthouse was built in 1871.",
    "ungrounded_answer": "Penguins eat fish in the cold southern seas.",
    "poor_answer": "I don't know.",
    "context_v1": PAGE,
    "context_v2": [PAGE, "Penguins eat fish in the cold southern seas. The ferry to Norway leaves twice a week."],
}


def write(folder: Path, *rows: Mapping[str, Any]) -> Path:
    path = folder / "pairs.jsonl"
    write_rows(path, rows)
    return path


def measure(judge: OfflineJudge, pairs: Sequence[Pair], method: str) -> PairResults:
    return asyncio.run(measure_judge(judge, pairs, method, file="pairs.jsonl"))


def accuracies(results: PairResults) -> dict[str, float]:
    return {result.metric: result.accuracy.value for result in results.results if result.accuracy is not None}


def test_a_row_of_wikieval_is_three_pairs(tmp_path: Path) -> None:
    pairs = read_pairs(write(tmp_path, ROW), {})
    question, answer = ROW["question"], ROW["answer"]
    assert {pair.better for pair in pairs} == {Case(question, answer, (PAGE,))}
    assert {pair.group for pair in pairs} == {"w1"}
    assert {pair.metric: pair.worse for pair in pairs} == {
        "faithfulness": Case(question, ROW["ungrounded_answer"], (PAGE,)),
        "answer_relevancy": Case(question, ROW["poor_answer"], (PAGE,)),
        "context_relevance": Case(question, answer, tuple(ROW["context_v2"])),
    }
    partial = {name: value for name, value in ROW.items() if name not in ("id", "poor_answer", "context_v2")}
    assert [pair.id for pair in read_pairs(write(tmp_path, partial, partial), {})] == [
        "1/faithfulness",
        "2/faithfulness",
    ]


def test_fields_may_be_in_other_columns(tmp_path: Path) -> None:
    names = {"question": "frage", "context_v1": "stelle", "poor_answer": "schlecht"}
    row = {names.get(field, field): value for field, value in ROW.items() if field != "context_v2"}
    pairs = read_pairs(write(tmp_path, row), names)
    assert pairs == read_pairs(write(tmp_path, {**ROW, "context_v2": ""}), {})
    with pytest.raises(ConfigError, match="a pair has no field 'frage'"):
        read_pairs(write(tmp_path, row), {"frage": "question"})


@pytest.mark.parametrize(
    ("rows", "message", "where"),
    [
        ([{**ROW, "answer": None}], "a pair needs texts as question and answer, and context_v1", "pairs.jsonl:1"),
        ([ROW, {"question": "Q?", "label": 1}], "a pair needs texts as question and answer", "pairs.jsonl:2"),
        ([{key: ROW[key] for key in ("question", "answer", "context_v1")}], "contains no pairs", "pairs.jsonl"),
    ],
)
def test_what_has_no_pairs_is_refused_with_its_line(
    tmp_path: Path, rows: list[dict[str, Any]], message: str, where: str
) -> None:
    with pytest.raises(GoldenSetError, match=message) as caught:
        read_pairs(write(tmp_path, *rows), {})
    assert str(caught.value.where).endswith(where)
    assert "Expected rows with question, answer, context_v1" in (caught.value.hint or "")


class DirectFakeJudge(OfflineJudge):
    """Also a direct judge: likes answers on the lighthouse, or the first that it sees if `prefers_first`."""

    def __init__(self, *, prefers_first: bool = False) -> None:
        super().__init__()
        self.prefers_first = prefers_first
        self.shown: list[str] = []

    async def direct_score(self, _: str, __: str, answer: str, contexts: Sequence[str], *, call: Call) -> float:
        if "Norway" in " ".join(contexts):
            raise JudgementFailed("the reply was cut off")
        return 0.9 if "lighthouse" in answer else 0.2

    async def direct_preference(
        self, _: str, __: str, first: AnswerWithContexts, second: AnswerWithContexts, *, call: Call
    ) -> Preference:
        self.shown.append(first[0])
        if first[0] == second[0]:
            return Preference.NEITHER
        return Preference.FIRST if self.prefers_first or "lighthouse" in first[0] else Preference.SECOND


@pytest.mark.parametrize(
    ("judge", "method", "expected"),
    [
        (OfflineJudge(), "statements", {"faithfulness": 1.0, "answer_relevancy": 1.0, "context_relevance": 1.0}),
        (DirectFakeJudge(), "score", {"faithfulness": 1.0, "answer_relevancy": 1.0}),
        (DirectFakeJudge(), "ranking", {"faithfulness": 1.0, "answer_relevancy": 1.0, "context_relevance": 0.5}),
        (
            DirectFakeJudge(prefers_first=True),
            "ranking",
            {"faithfulness": 0.5, "answer_relevancy": 0.5, "context_relevance": 0.5},
        ),
    ],
    ids=["statements", "grades", "both orders, and a tie is a half", "a place is right by chance"],
)
def test_a_judge_prefers_the_better_of_two(
    tmp_path: Path, judge: OfflineJudge, method: str, expected: dict[str, float]
) -> None:
    pairs = read_pairs(write(tmp_path, *({**ROW, "id": f"w{number}"} for number in range(10))), {})
    results = measure(judge, pairs, method)
    assert accuracies(results) == expected
    if method == "score":
        failed = results.results[2]
        assert (failed.scored, failed.failed, failed.not_applicable) == (0, 10, 0)
        assert failed.reasons == ("the reply was cut off",)
        assert "context_relevance no pair was scored; 0 not applicable, 10 failed" in results.text()
    if isinstance(judge, DirectFakeJudge) and method == "ranking":
        assert {ROW["answer"], ROW["ungrounded_answer"]} <= set(judge.shown)


def test_the_baselines_need_a_judge_that_offers_them(tmp_path: Path) -> None:
    for method in ("score", "ranking"):
        with pytest.raises(ConfigError, match=f"does not support the method '{method}'"):
            measure(OfflineJudge(), read_pairs(write(tmp_path, ROW), {}), method)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--method", "statements", "--fit", "judge.json"], "--fit does not go with --method."),
        (["--method", "statements", "--run", "main-run"], "--run does not go with --method."),
        (["--method", "statements", "--scale", "1", "5"], "--scale does not go with --method."),
        (["--judge", "offline"], "--judge is for pairs, and needs --method."),
        (["--max-cost-usd", "1"], "--max-cost-usd is for pairs, and needs --method."),
        (["--column", "question=q"], "--column is for pairs, and needs --method."),
    ],
)
def test_options_that_would_have_no_effect_are_refused(tmp_path: Path, options: list[str], says: str) -> None:
    done = CliRunner().invoke(command, [str(write(tmp_path, ROW)), *options])
    assert isinstance(done.exception, ConfigError)
    assert says in str(done.exception)
