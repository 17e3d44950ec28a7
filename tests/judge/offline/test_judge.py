"""The offline judge through the Judge protocol."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstone.golden.sample import Sample
from ragstone.judge.collect import collect_judgements
from ragstone.judge.judgements import JudgementFailure, JudgementKind, Statement, Verdict
from ragstone.judge.offline import OfflineJudge
from ragstone.judge.protocol import Call, JudgementFailed
from ragstone.system.response import Context, Response

T = TypeVar("T")
CALL = Call("sample-1")
LIGHTHOUSE = "The lighthouse on Grey Point was built in 1871. It is 34 metres tall and its keeper was Ada Brown."


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(coroutine)


def test_a_statement_taken_from_a_context_is_supported_by_that_context() -> None:
    judge = OfflineJudge()
    contexts = [Context("Bread is baked with flour, water and salt."), Context(LIGHTHOUSE)]
    table = run(judge.support(contexts, [Statement("s1", "The lighthouse was built in 1871.")], call=CALL))
    (support,) = table.supports
    assert support.verdict is Verdict.SUPPORTED
    assert support.supported_by == ("c2",)
    assert support.probability is not None
    assert support.probability > 0.5


def test_too_many_statements_are_refused_rather_than_judged_in_part() -> None:
    answer = " ".join(f"Boat number {n} sails on day {n}." for n in range(2, 600))
    with pytest.raises(JudgementFailed, match="statements"):
        run(OfflineJudge().statements("Which boats?", answer, call=CALL))


_SCRIPT = """
import asyncio
from ragstone.golden.sample import Sample
from ragstone.judge.collect import collect_judgements
from ragstone.judge.judgements import JudgementKind
from ragstone.judge.offline import OfflineJudge
from ragstone.judge.protocol import Call
from ragstone.system.response import Context, Response

line = "Boat {0} of the Grey Point harbour sails at {0} with Ada Brown, 3.5 tons of salt and no passengers."
texts = [line.format(n) for n in range(2, 9)]
sample = Sample("a", "Which boat sails with salt?", reference=texts[3] + " " + texts[1])
answer = texts[2] + " The harbour was closed and the captain stayed at home."
response = Response("a", answer, tuple(map(Context, texts)))
calls = []

class Recording(OfflineJudge):
    def __getattribute__(self, name):
        calls.append(name)
        return super().__getattribute__(name)

judge = Recording()
print(asyncio.run(collect_judgements(judge, sample, response, frozenset(JudgementKind), Call("a"))))
print([name for name in calls if not name.startswith("_")])
"""


@pytest.mark.usefixtures("processes")
def test_another_process_with_another_hash_seed_asks_in_the_same_order_and_judges_the_same_to_the_last_digit() -> None:
    outputs = {
        subprocess.run(
            [sys.executable, "-c", _SCRIPT],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(outputs) == 1
    assert "probability=0." in outputs.pop()


_ANY_TEXT = st.text(max_size=120) | st.text(alphabet=st.characters(categories=("Cs", "Cc", "Cf", "Mn")), max_size=30)


@settings(max_examples=60, deadline=None)
@given(question=_ANY_TEXT, answer=_ANY_TEXT, reference=_ANY_TEXT, contexts=st.lists(_ANY_TEXT, max_size=3))
def test_no_text_breaks_it(question: str, answer: str, reference: str, contexts: list[str]) -> None:
    sample = Sample("a", question, reference=reference)
    response = Response("a", answer, tuple(Context(text) for text in contexts))
    found = run(collect_judgements(OfflineJudge(), sample, response, frozenset(JudgementKind), CALL))
    assert found.statements is not None
    for kind in JudgementKind:
        assert not isinstance(getattr(found, kind), JudgementFailure) or getattr(found, kind).reason


def test_what_a_reference_says_is_not_known_need_not_be_in_a_context() -> None:
    reference = "The lighthouse was built in 1871, but the documents do not say who paid for it."
    use = run(OfflineJudge().context_use("When was it built?", reference, "In 1871.", [Context(LIGHTHOUSE)], call=CALL))
    assert [one.text for one in use.reference_statements] == ["The lighthouse was built in 1871"]
    assert [one.verdict for one in use.attributions] == [Verdict.SUPPORTED]


def test_a_reference_that_only_says_that_it_is_not_known_is_judged_as_it_stands() -> None:
    use = run(
        OfflineJudge().context_use("Who?", "The papers do not say who paid.", "", [Context(LIGHTHOUSE)], call=CALL)
    )
    assert [one.text for one in use.reference_statements] == ["The papers do not say who paid."]
