"""The section on perturbed questions: short, the same in every format, and inert whatever a system answers."""

from __future__ import annotations

import json
from dataclasses import replace

import jsonschema
import pytest

from ragstone.gate.robustness import KindResult, PairedChange, PerturbedCase, Robustness, Share
from ragstone.gate.verdict import Interval, Status
from ragstone.report.document import schema
from ragstone.report.render import Format, render
from ragstone.report.terminal import render_robustness, render_text
from ragstone.report.wording import robustness_rows
from tests.report.conftest import view_of
from tests.report.hostile import every_fragment
from tests.report.test_escape import ACTIVE, parser, text_of
from tests.report.test_hostile_reports import TAGS, Skeleton, blocks


def span(low: float, high: float) -> Interval:
    return Interval(low, high, 0.95, "Gaffke's bound")


def result(kind: str = "typos", **more: object) -> KindResult:
    given: dict[str, object] = {
        "kind": kind,
        "asked": 20,
        "left_out": 0,
        "unmade": 0,
        "crashed": Share(0, 20, span(0.0, 0.17)),
        "changes": (PairedChange("answer_correctness", 20, -0.08, span(-0.14, -0.02), True),),
        **more,
    }
    return KindResult(**given)  # type: ignore[arg-type]


def injected(text: str) -> Robustness:
    cases = (PerturbedCase(f"a{text}", "obeyed", f"b{text}", f"c{text}"),)
    found = result("injection", obeyed=Share(1, 20, span(0.0, 0.25)), cases=cases)
    return Robustness(20, (result(), found), incomplete=f"d{text}")


def test_what_it_costs_stands_in_one_line() -> None:
    (row,) = robustness_rows(Robustness(20, (result(),)))
    assert row.change == "Answer correctness −0.08 [−0.14,\u00a0−0.02]"
    assert (row.crashed, row.notes, row.bad) == ("0 of 20", (), True)


def test_every_metric_that_got_worse_is_named_else_the_most_important_one() -> None:
    same = PairedChange("faithfulness", 20, 0.0, span(-0.05, 0.04), False)
    worse = PairedChange("context_recall", 20, -0.3, span(-0.5, -0.1), True)
    correct = PairedChange("answer_correctness", 20, -0.01, span(-0.05, 0.04), False)
    first, second, third, fourth = robustness_rows(
        Robustness(
            20,
            (
                result(changes=(same, worse, correct)),
                result(changes=(same, correct)),
                result(changes=(replace(same, interval=span(0.0, 0.0)),)),
                result(changes=()),
            ),
        )
    )
    assert first.change == "Context recall −0.30 [−0.50,\u00a0−0.10]"
    assert second.change.startswith("Answer correctness −0.01")
    assert not second.bad
    assert third.change == "no score changed"
    assert fourth.change == "no scores to compare"


def test_counts_of_one_are_one() -> None:
    (row,) = robustness_rows(
        Robustness(1, (result("empty", changes=(), refused=1, left_out=1, unmade=1, crashed=None),))
    )
    assert row.notes == (
        "refused 1 question as invalid",
        "left out 1 question whose unchanged version failed, too",
        "1 question can't be changed in this way",
    )
    assert "Robustness: 1 question asked again" in render_robustness(Robustness(1, (result(),)))


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_the_section_fits_any_terminal(width: int) -> None:
    text = render_robustness(injected(""), width=width)
    assert max(map(len, text.splitlines())) <= width
    assert "Not all of them were asked or judged: d. Continue with --resume." in " ".join(text.split())


def test_markdown_and_html_keep_their_structure_and_the_terminal_its_lines() -> None:
    view = view_of(Status.PASS)
    harmless, hostile = (replace(view, robustness=injected(text)) for text in ("", every_fragment))
    markdown = render(hostile, "md")
    assert blocks(markdown) == blocks(render(harmless, "md"))
    children = [child for token in parser().parse(markdown) for child in token.children or []]
    assert "image" not in {child.type for child in children}
    assert all(TAGS.sub("", child.content) == "" for child in children if child.type == "html_inline")
    outside = text_of([token for token in parser().parse(markdown) if "](http" not in token.content])
    assert not [pattern.pattern for pattern in ACTIVE if pattern.search(outside)]
    assert Skeleton(render(hostile, "html")).tags == Skeleton(render(harmless, "html")).tags
    assert not set(render_text(hostile, width=80)) & {"\x1b", "\x07", "\u202e", "\x9b"}


@pytest.mark.parametrize("form", ["text", "md", "html", "json", "junit"])
def test_reports_without_perturbed_questions_say_nothing(form: Format) -> None:
    text = render(view_of(Status.PASS), form)
    assert "Robustness" not in text
    assert "perturb" not in text


def test_the_json_report_has_everything_and_fits_its_schema() -> None:
    document = json.loads(render(replace(view_of(Status.PASS), robustness=injected("x")), "json"))
    jsonschema.validate(document, schema())
    found = document["robustness"]["kinds"][1]
    assert found["obeyed"]["hits"] == 1
    assert found["cases"] == [{"id": "ax", "outcome": "obeyed", "asked": "bx", "got": "cx"}]
    assert found["changes"][0]["change"] == -0.08
