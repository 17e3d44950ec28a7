"""Odd texts cost the offline judge time in proportion to their length, and too long ones are refused by name."""

from __future__ import annotations

import asyncio
import resource
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.judge.offline import OfflineJudge
from ragstone.judge.offline.judge import MAX_CHARACTERS, MAX_CONTEXT_CHARACTERS
from ragstone.judge.protocol import Call, JudgementFailed
from ragstone.judge.sentences import MAX_SENTENCE_CHARACTERS, _blocks, _cut_long_sentence, _split_long_block
from ragstone.system.response import Context
from tests.judge.offline.odd_texts import ODD, PARTS, judge_in_all_ways

CPU_S = 150
"""Far more than a linear judge takes for a megabyte, far less than one that takes the square of it."""


@pytest.mark.parametrize("name", ODD)
def test_no_odd_text_breaks_the_judge(name: str) -> None:
    for part in PARTS:
        asyncio.run(judge_in_all_ways(ODD[name](400), part))


@pytest.mark.attack(by="pull request", tries="texts that take quadratic time", stopped_by="linear algorithms")
@pytest.mark.heavy
@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize(
    ("length", "part"),
    [(10_000, "answer"), *((100_000, part) for part in PARTS), (1_000_000, "answer"), (1_000_000, "context")],
)
def test_no_odd_text_takes_the_square_of_its_length(name: str, length: int, part: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.judge.offline.odd_texts", name, str(length), part],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.returncode} (-24: more than {CPU_S} s of processor time)\n{done.stderr}"


@given(st.text(alphabet="ab.。！ \"'?", max_size=300).map(lambda text: text * 40))
def test_a_long_paragraph_is_taken_in_parts_that_are_the_whole(text: str) -> None:
    parts = list(_split_long_block(text))
    assert "".join(parts) == text
    assert all(len(part) <= 128_000 for part in parts)


def test_parts_of_a_long_paragraph_end_with_a_sentence() -> None:
    for unit, most in (("北京是中国的首都。", 4_000), ("The tower is in Paris. ", 128_000)):
        *parts, _ = _split_long_block(unit * 15_000)
        assert parts
        assert all(part.rstrip().endswith(("。", ".")) and len(part) <= most for part in parts)


@given(st.text(alphabet="ab ", max_size=200).map(lambda text: (text * 100).strip()))
def test_text_without_a_stop_is_cut_at_spaces_and_nothing_is_lost(text: str) -> None:
    parts = _cut_long_sentence(text)
    assert "".join("".join(parts).split()) == "".join(text.split())
    assert all(len(part) <= MAX_SENTENCE_CHARACTERS for part in parts)


def test_lines_of_a_paragraph_are_joined_and_items_stand_alone() -> None:
    blocks = [block for _, block in _blocks("one\ntwo\n\n- a\n- b\nmore\n# head\nlast")]
    assert blocks == ["one two", "a", "b more", "head", "last"]


def test_a_text_beyond_the_limit_is_refused_with_how_long_it_is_and_how_much_is_judged() -> None:
    judge, call = OfflineJudge(), Call("s")
    long = "The tower is in Paris. " * (MAX_CHARACTERS // 23 + 1)
    contexts = [Context("x " * (MAX_CONTEXT_CHARACTERS // 4 + 1))] * 2
    much, more = f"has {len(long):,} characters", f"the contexts have {2 * len(contexts[0].text):,} characters"
    for work, said in (
        (judge.statements("Where?", long, call=call), f"the answer {much}"),
        (judge.support(contexts, [], call=call), more),
        (judge.context_use("Where?", long, "Paris.", [Context("Paris.")], call=call), f"the reference {much}"),
        (judge.context_use("Where?", "Paris.", long, contexts, call=call), more),
        (judge.reverse_questions(long, "Paris.", n=1, call=call), f"the question {much}"),
        (judge.reference_match("Where?", "Paris.", [], long, call=call), f"the answer {much}"),
        (judge.context_relevance("Where?", contexts, call=call), more),
    ):
        with pytest.raises(JudgementFailed, match="so nothing was judged") as failed:
            asyncio.run(work)
        assert failed.value.reason.startswith(said)
        assert not failed.value.not_applicable


def test_the_answer_is_not_looked_at_where_the_reference_is() -> None:
    judge = OfflineJudge()
    use = judge.context_use("Where?", "In Paris.", "x" * 300_000, [Context("It is in Paris.")], call=Call("s"))
    assert asyncio.run(use).against_reference
