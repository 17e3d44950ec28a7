"""The facts of a whole report, in the order in which a reader meets them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ragstone.gate.verdict import Status
from ragstone.report.render import Format, render
from tests.report.conftest import helpdesk_report

CASES: dict[str, dict[str, Any]] = {
    "fail": {"status": Status.FAIL},
    "inconclusive": {"status": Status.INCONCLUSIVE},
    "error": {"status": Status.ERROR},
    "first-run": {"status": Status.PASS, "first_run": True, "offline": True},
}
COST = ("openai gpt-x-mini", "24 ", "212 from the cache", "$0.03", "main@9d8c7b6", "48 of 60 samples")
REPEAT = ("git checkout 3f2c1e9a7b5d4c6e8f0a1b2c3d4e5f6a7b8c9d0e", "ragstone gate", "--golden golden/helpdesk.jsonl")
FAILED = ("Blocked", "0.89", "0.80", "48 questions", "0.02")
ROWS = (
    *("Faithfulness", "0.91 [0.88, 0.96]", "drop", "−0.09 [−0.13, −0.05]", "≥ 0.85", "dropped"),
    *("0.84 [0.80, 0.88]", "−0.14", "≥ 0.75", "0.71 [0.65, 0.77]", "−0.15", "≥ 0.8", "below floor"),
    *("0.83 [0.77, 0.88]", "(warns)", "tone", "0.69", "not gated", "0.62 [0.48, 0.75]", "below floor"),
)
WORST = (
    *("port-default", "golden/helpdesk.jsonl:1", "Faithfulness 1.00 → 0.50", "Context recall 1.00 → 0.00"),
    *("contradicted", "The gateway listens on port 8080.", "missing", "The gateway listens on port 8443."),
    *("q-003", "golden/helpdesk.jsonl:4", "Faithfulness 0.80 → 0.20", "q-006"),
)
LOST = ("TimeoutError: no answer after 60 s", "q-059", "content filter", "q-058")
FACTS: dict[tuple[str, Format], tuple[str, ...]] = {
    ("fail", "text"): (
        *(*FAILED, "Look at retrieval first", "version 1", "0.04", *ROWS, "Coverage: 96.7 %", "960 ms"),
        *("48 of 60", *WORST, "q-012", *LOST, *COST[:4], "1 min 23 s", *COST[4:], *REPEAT, *FAILED),
    ),
    ("fail", "md"): (
        *(*FAILED, "Look at retrieval first", "version 1", "| ❌ Faithfulness | 0.89 → 0.80 | ≥ 0.85 · drop ≤ 0.02 |"),
        *("| ❌ Context recall | 0.71 | ≥ 0.8 |", "| ⚠️ Faithfulness · `lang:de` | 0.62 | ≥ 0.8 (warns) |"),
        *("2 more metrics held.", "1 more is not checked (tone 0.82 → 0.69)."),
        *("~~8443.~~ 8080. It also opens port 9090", "3 of 5 samples", *WORST, "2 more samples", *ROWS, *LOST),
        *("Drop: Faithfulness", "48", "Floor: Context recall", "58", "lang:de", "14", "1 min 23 s", *REPEAT, *COST),
    ),
    ("inconclusive", "text"): (
        *("Not blocked", "0.84", "58 questions", "0.85", "0.84 [0.79, 0.89]", "−0.01 [−0.04, +0.01]"),
        *("floor unclear", "0.86 [0.82, 0.90]", "pass", *LOST, *COST[:4]),
    ),
    ("inconclusive", "md"): (
        *("Not blocked", "0.84", "58 questions", "0.84 [0.79, 0.89]", "floor unclear", *LOST, *COST),
    ),
    ("error", "text"): ("Blocked", "58 of 60", "96.7 %", "98 %", "pass", "✘ Coverage", "98 %", *LOST, *REPEAT),
    ("error", "md"): ("Blocked", "58 of 60", "96.7 %", "98 %", "pass", *LOST, *REPEAT),
    ("first-run", "text"): (
        *("Passed", "0.91 [0.88, 0.96]", "–", "pass", "offline judge 1", "Faithfulness B (fair)", "First run", *LOST),
    ),
    ("first-run", "md"): ("Passed", "0.91 [0.88, 0.96]", "pass", "First run", *LOST),
}


@pytest.mark.parametrize(("case", "form"), FACTS)
def test_a_report_has_its_facts_in_their_order(case: str, form: Format, monkeypatch: pytest.MonkeyPatch) -> None:
    grades = {"faithfulness": "B (fair)"}
    monkeypatch.setattr("ragstone.report.metrics._reliability", lambda metric, _: grades.get(metric))
    text = re.sub(r"</?\w+>|\*|\\|\u200b", "", render(helpdesk_report(**CASES[case]), form))
    text = " ".join(text.split())
    at = 0
    for fact in FACTS[case, form]:
        place = text.find(fact, at)
        assert place >= 0, f"{fact!r} is not after {text[max(0, at - 60) : at]!r}"
        at = place + len(fact)
