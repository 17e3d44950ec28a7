"""Judgements of an earlier run that are asked for again."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest

from ragstone.errors import JudgeError
from ragstone.evaluation.rounds.judge_watch import choose_canaries, repeat_judgements
from ragstone.judge.judgements import JudgementFailure, SupportTable
from ragstone.judge.protocol import Call, JudgementFailed
from ragstone.judge.scripted import ScriptedJudge
from tests.evaluation.builders import judgement, record, samples

GOLDEN = samples(6)
REFUSED = JudgementFailure("refused")


@pytest.mark.parametrize(
    ("change", "chosen"),
    [
        ({}, True),
        ({"statements": REFUSED}, False),
        ({"support": REFUSED}, False),
        ({"support": SupportTable(())}, False),
    ],
)
def test_judgements_with_a_verdict_are_chosen(change: dict[str, Any], chosen: bool) -> None:
    one = record(GOLDEN[0])
    answer = dataclasses.replace(one.answers[0], judgements=(dataclasses.replace(judgement(), **change),))
    assert bool(choose_canaries([dataclasses.replace(one, answers=(answer,))])) is chosen
    without_contexts = dataclasses.replace(answer, response=dataclasses.replace(answer.response, contexts=()))
    for unusable in (without_contexts, dataclasses.replace(answer, judgements=())):
        assert choose_canaries([dataclasses.replace(one, answers=(unusable,))]) == ()


def test_verdicts_that_differ_and_those_without_an_answer_are_counted() -> None:
    class Changed(ScriptedJudge):
        async def support(self, contexts: Any, statements: Any, *, call: Call) -> SupportTable:
            match call.sample_id:
                case "q0":
                    raise JudgementFailed("refused")
                case "q1":
                    raise JudgeError("no credit")
                case "q2":
                    return SupportTable(())
            assert call.fresh
            return await super().support(contexts, statements, call=call)

    judge = Changed({sample.id: judgement(sample.id != "q3") for sample in GOLDEN})
    found, _ = asyncio.run(repeat_judgements(judge, choose_canaries(record(sample) for sample in GOLDEN)))
    assert (found.asked, found.differing, found.unanswered) == (3, 1, 3)
    assert (found.supported_then, found.supported_now) == (3, 2)
