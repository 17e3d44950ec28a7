"""Numbers, units and plurals in reports of real verdicts: none that a careful writer would not write."""

from __future__ import annotations

import re
from typing import Literal

import pytest

import ragstone
from ragstone.report.render import FORMATS

NEVER = {
    "a plural of one": r"(?<![\d.,–])1 (?:more )?(?:samples|answers|checks|calls|warnings|metrics|scores|labels)\b",
    "two full stops": r"(?<=[a-z)%])\.\.(?![./])",
    "a unit without a space": r"\d(?:ms|%)(?![\w;])",
    "a percentage with two signs": r"% %",
    "markdown in plain text": r"`[a-z ]*",
    "more decimals than are needed": r"(?<![\d.])[01]\.\d{3,}(?!\d)",
}
N = 12


def scores(value: float, lost: int = 0) -> dict[str, dict[str, float]]:
    return {"faithfulness": {f"q{n}": 0.0 if n < lost else value for n in range(N)}}


VERDICTS = {
    "pass": (scores(0.9), scores(0.9), {"min": 0.5, "max_drop": 0.05}),
    "one lost": (scores(0.9, 1), scores(0.9), {"min": 0.875, "max_drop": 0.005}),
    "one sample": ({"faithfulness": {"q0": 0.1}}, {"faithfulness": {"q0": 0.9}}, {"min": 0.999, "max_drop": 0.1}),
    "fail": (scores(0.3), scores(0.9), {"min": 0.999, "max_drop": 0.005}),
}


@pytest.mark.parametrize("name", VERDICTS)
def test_reports_are_written_with_care(name: str) -> None:
    now, then, rule = VERDICTS[name]
    verdict = ragstone.compare(now, then, {"gate": {"min_coverage": 0.5}, "metrics": {"faithfulness": rule}})
    for form in FORMATS:
        text = readable(verdict.report(form), form)
        for what, pattern in NEVER.items():
            found = re.search(f".*{pattern}.*", text)
            assert not found, (form, what, found)


def readable(text: str, form: str) -> str:
    """A report as it is read: without what is code, or is for programs."""
    if form == "html":
        text = re.sub(r"<(style|script)\b.*?</\1>|<pre>.*?</pre>|<[^>]*>", " ", text, flags=re.DOTALL)
    if form == "md":
        text = re.sub(r"^```.*?^```$|`[^`\n]+`|<[^>]*>", " ", text, flags=re.DOTALL | re.MULTILINE)
    if form == "json":
        numbers = r"(?m)^.*\": -?[\d.e-]+,?$|^.*ragstone .*$"
        text = re.sub(numbers, "", text)
    return text.replace("0.999", "").replace("0.875", "").replace("0.005", "")  # thresholds, as they were written


@pytest.mark.parametrize("form", ["text", "md"])
def test_a_score_below_its_floor_is_not_rounded_onto_it(form: Literal["text", "md"]) -> None:
    verdict = ragstone.compare(scores(0.848), policy={"metrics": {"faithfulness": {"min": 0.85}}})
    text = verdict.report(form)
    assert "0.848" in text.splitlines()[0] + text.splitlines()[1]
    assert not re.search(r"Faithfulness\W+0\.85 ", text)
