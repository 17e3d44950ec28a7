"""Steps as lines of a timeline: on the page, and in the text of one sample."""

from __future__ import annotations

from typing import Any

import pytest

from ragstone.evaluation.record import SampleRecord
from ragstone.evaluation.redact import Redactor
from ragstone.golden.sample import Sample
from ragstone.judge.judgements import Judgements
from ragstone.report.sample_text import sample_lines
from ragstone.report.texts import sample_texts
from ragstone.report.timeline import MAX_STEP_CHARACTERS, MAX_STEPS, step_line
from ragstone.system.response import Context, ModelCall, Response, Retrieval, Step, TokenUsage, ToolCall
from tests.evaluation.builders import one_answer
from tests.report.hostile import every_fragment

SEARCH = Retrieval("returns", (Context("a"), Context("b")), "docs")
LOOKUP = ToolCall("lookup_order", {"order_id": 7, "to": {"city": "Köln"}}, "Shipped.")


def record(*steps: Step) -> SampleRecord:
    response = Response("a", "30 days.", steps=steps)
    return one_answer(Sample("a", "How long?"), response, (Judgements(),), {})


def shown(now: SampleRecord, then: SampleRecord | None = None, redact: Any = str) -> dict[str, Any]:
    (pair,) = sample_texts(now, then, redact)["pairs"]
    return dict(pair)


@pytest.mark.parametrize(
    ("step", "line"),
    [
        (SEARCH, ('docs "returns"', "2 contexts")),
        (Retrieval("x"), ('search "x"', "0 contexts")),
        (LOOKUP, ('lookup_order(order_id=7, to={"city": "Köln"})', "Shipped.")),
        (ToolCall("now"), ("now()", "no result")),
        (ToolCall("refund", error="no permission"), ("refund()", "failed: no permission")),
        (ModelCall("gpt-5", TokenUsage(800, 12), 1.2), ("model gpt-5", "812 tokens, 1.20 s")),
        (ModelCall(""), ("model", "")),
    ],
)
def test_a_step_is_what_was_done_and_what_came_of_it(step: Step, line: tuple[str, str]) -> None:
    assert step_line(step) == line


def test_the_text_of_a_sample_has_its_steps() -> None:
    lines = list(sample_lines(record(SEARCH, ModelCall("gpt-5"))))
    assert lines[lines.index("Answer: 30 days.") + 1 :][:2] == [
        'Step 1: docs "returns" → 2 contexts',
        "Step 2: model gpt-5",
    ]


def test_steps_on_the_page_are_few_short_and_without_secrets() -> None:
    secret = "sk-live-1234567890"
    leaks = ToolCall("call", {"key": secret}, "x" * 250 + secret * 1_000)
    pair = shown(record(*[leaks] * (MAX_STEPS + 5)), redact=Redactor([secret]))
    assert (len(pair["now"]["steps"]), pair["now"]["moreSteps"]) == (MAX_STEPS, 5)
    assert secret[:8] not in repr(pair)
    assert max(map(len, pair["now"]["steps"])) <= 2 * MAX_STEP_CHARACTERS + 3


def test_hostile_texts_in_steps_are_made_visible() -> None:
    hostile = ToolCall("a\x1b[2J", {"b": every_fragment}, every_fragment)
    assert "\x1b" not in repr(shown(record(hostile)))
    assert all("\n" not in line for line in sample_lines(record(ToolCall("a", {}, "one\ntwo"))) if "Step" in line)
