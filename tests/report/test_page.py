"""Samples packed into a page."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

import pytest
from msgspec.structs import replace

from ragstone.evaluation.redact import Redactor
from ragstone.report import page
from ragstone.report.page import pack
from ragstone.report.parts import Place, SampleRow, StatementPart
from ragstone.report.render import render
from ragstone.report.texts import Json
from tests.report.conftest import Text, helpdesk_report, record, with_samples
from tests.report.hostile import every_fragment
from tests.report.paged import packed_in, packed_samples, paged, unpacked


def rows(count: int) -> list[SampleRow]:
    return [SampleRow(f"q{at}", "Which?", (), Place("g.jsonl", at + 1), (), None, None) for at in range(count)]


def about(text: str, made: list[str] | None = None) -> Callable[[], Json]:
    def make() -> Json:
        if made is not None:
            made.append(text)
        return {"about": text}

    return make


def test_a_row_names_the_place_of_its_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "_SAMPLES_PER_TEXT_CHUNK", 2)
    chunks = list(pack(((row, about(row.id * 10)) for row in rows(9)), str))
    texts = [unpacked([chunk], "texts") for chunk in chunks if chunk.kind == "texts"]
    assert len(texts) > 2
    for row in unpacked(chunks, "rows"):
        number, at = row[-1]
        assert texts[number][at] == {"about": row[0] * 10}


def test_a_page_without_samples_has_no_chunk() -> None:
    assert list(pack([], str)) == []


def test_beyond_the_limit_samples_keep_their_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "_SAMPLES_PER_TEXT_CHUNK", 1)
    monkeypatch.setattr(page, "MAX_PACKED_CHARACTERS", 200)
    made: list[str] = []
    found = unpacked(pack(((row, about(row.id, made)) for row in rows(50)), str), "rows")
    assert [row[0] for row in found] == [f"q{at}" for at in range(50)]
    with_texts = [bool(row[-1]) for row in found]
    assert with_texts[0]
    assert not with_texts[-1]
    assert sorted(with_texts, reverse=True) == with_texts
    assert made == [row[0] for row in found if row[-1]]  # the others would take time


def test_only_the_first_samples_have_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "MAX_SAMPLES_WITH_TEXTS", 3)
    made: list[str] = []
    texts: list[Callable[[], Json | None]] = [about(f"q{at}", made) for at in range(6)]
    texts[1] = lambda: None  # has none
    found = unpacked(pack(zip(rows(6), texts, strict=True), str), "rows")
    assert [row[0] for row in found if row[-1]] == made == ["q0", "q2", "q3"]


def test_samples_are_taken_one_by_one() -> None:
    taken = []

    def samples() -> Iterator[tuple[SampleRow, Callable[[], Json]]]:
        for row in rows(5000):
            taken.append(row.id)
            yield row, about("x" * 1000)

    chunks = pack(samples(), str)
    next(chunks)
    assert len(taken) < 500


def test_nothing_in_a_chunk_can_end_its_element() -> None:
    attack = f"</script><script>window.hit=1</script>{every_fragment}"
    text = Text(**{name: attack for name in Text.__dataclass_fields__ if name != "file"})
    report = helpdesk_report(text=text)
    chunks = packed_samples(report, {report.samples.worst[0].id: record(text)})
    assert {chunk.kind for chunk in chunks} == {"rows", "texts"}
    assert all(re.fullmatch(r"[A-Za-z0-9+/=]+", chunk.data) for chunk in chunks)
    html = render(report, "html", packed_samples=chunks)
    assert packed_in(html) == chunks
    assert "<script>window" not in html


def test_more_than_twenty_samples_that_got_worse_are_counted() -> None:
    report = helpdesk_report()
    worst = tuple(replace(report.samples.worst[-1], id=f"w{at}") for at in range(30))
    report = with_samples(report, worst=worst, worst_omitted=5)
    html = render(report, "html")
    assert html.count("<article") == 20
    assert "15 more samples" in html
    assert "30 more" in render(report, "text")
    assert "samples are in the HTML report" in render(report, "md")
    assert json.loads(render(report, "json"))["samples"]["worst_omitted"] == 5
    assert '<property name="samples_left_out" value="5"' in render(report, "junit")
    assert render(report, "junit").count('classname="ragstone.samples"') == 30 + 2


def test_rows_are_redacted() -> None:
    secret = "sk-live-0123456789abcdef"
    (row,) = rows(1)
    row = replace(row, id=secret, question=secret, tags=(secret,), place=Place(secret, 1), failure=secret, cause=secret)
    assert secret not in repr(unpacked(pack([(row, None)], Redactor([secret])), "rows"))


def test_the_page_without_javascript_has_the_worst_samples() -> None:
    report = helpdesk_report()
    html = paged(report, {"port-default": record(Text())})
    assert html.count('<td class="q"') == 60
    html = render(with_samples(report, total=4000), "html")
    assert html.count('<td class="q"') == 60
    assert "60 worst of 4,000 samples" in html


def test_reports_say_how_much_of_a_long_answer_they_leave_out() -> None:
    text = Text(answer="a" * 2_000_000)
    report = helpdesk_report(details={text.id: record(text)})
    bad = StatementPart("So it is.", "unsupported")
    long = replace(report.samples.worst[0], unsupported=(bad,) * 50)
    report = with_samples(report, worst=(long, *report.samples.worst[1:]))
    for form in ("html", "json"):
        text_of_report = render(report, form)
        assert len(text_of_report) < 1_000_000
        assert text_of_report.count("1,980,000 more characters") == 1
    assert "30 more statements" in render(report, "html")


def test_many_failed_samples_do_not_flood_a_test_viewer() -> None:
    report = helpdesk_report()
    (first, *_) = report.samples.failures
    many = replace(first, samples=tuple(replace(first.samples[0], id=f"f{at}") for at in range(1500)))
    text = render(with_samples(report, failures=(many,)), "junit")
    assert text.count("(no score)") == 1000
    assert '<property name="failed_left_out" value="500"' in text
