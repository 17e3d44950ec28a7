"""The HTML page in a real browser."""

from __future__ import annotations

import dataclasses
import json
import random
import time
from pathlib import Path
from urllib.parse import quote

import pytest
from msgspec.structs import replace

from ragstone.evaluation.record import SampleRecord
from ragstone.printable import clean
from ragstone.report.parts import Document
from ragstone.report.render import render
from ragstone.system.response import Context
from tests.report.browser import Page
from tests.report.conftest import Text, helpdesk_report, record, with_samples
from tests.report.paged import paged

browser = pytest.mark.browser


def answering(*contexts: Context, answer: str | None = None) -> dict[str, SampleRecord]:
    """The record of the worst sample with these contexts, and another answer if one is given."""
    mine = record(Text(), answer)
    response = mine.response if not contexts else dataclasses.replace(mine.response, contexts=contexts)
    return {
        "port-default": dataclasses.replace(mine, answers=(dataclasses.replace(mine.answers[0], response=response),))
    }


def opened(page: Page, folder: Path, report: Document, html: str | None = None) -> Page:
    file = folder / "report.html"
    file.write_text(render(report, "html") if html is None else html, encoding="utf-8")
    page.requests.clear()
    page.complaints.clear()
    page.open(file)
    waited(page, "document.getElementById('samples').dataset.ready === 'yes'")
    return page


def waited(page: Page, condition: str) -> None:
    end = time.monotonic() + 20
    while not page.run(condition):
        assert time.monotonic() < end, condition


SHOWN = "[...document.querySelectorAll('#samples tbody tr')].filter(row => !row.hidden)"
IDS = f"{SHOWN}.map(row => row.cells[0].querySelector('code').textContent)"


def chosen(page: Page, select: str, value: str) -> None:
    page.run(f"document.getElementById('{select}').value = {json.dumps(value)}")
    page.run(f"document.getElementById('{select}').dispatchEvent(new Event('change'))")


def test_the_page_asks_the_network_for_nothing() -> None:
    html = render(helpdesk_report(), "html")
    policy = html.partition('http-equiv="Content-Security-Policy" content="')[2].partition('"')[0]
    assert policy.startswith("default-src &#39;none&#39;; style-src &#39;sha256-")
    assert "unsafe" not in policy
    assert "src=" not in html
    assert "<link" not in html
    assert "@import" not in html
    assert "url(" not in html
    assert "Contexts that answers draw on" not in html, "no verdicts, no picture"


@browser
@pytest.mark.parametrize(("scheme", "background"), [("light", (246, 247, 249)), ("dark", (14, 17, 22))])
def test_the_page_opens_from_a_file_in_light_and_dark_without_a_complaint(
    page: Page, tmp_path: Path, scheme: str, background: tuple[int, int, int]
) -> None:
    page.colours(scheme)
    opened(page, tmp_path, helpdesk_report())
    assert page.run("getComputedStyle(document.body).backgroundColor") == f"rgb{background}"
    assert page.run("getComputedStyle(document.querySelector('.word')).color") not in (
        "rgb(0, 0, 0)",
        f"rgb{background}",
    )
    assert page.run("document.querySelector('.word').textContent") == "Blocked"
    assert page.run("document.documentElement.scrollWidth") <= 1240
    assert page.requests == [(tmp_path / "report.html").as_uri()]
    assert page.complaints == []


@browser
def test_samples_are_sorted_by_a_click_on_a_heading(page: Page, tmp_path: Path) -> None:
    opened(page, tmp_path, helpdesk_report())
    first = "document.querySelectorAll('#samples tbody tr')[0].cells[0].querySelector('code').textContent"
    button = "[...document.querySelectorAll('#samples th button')].find(one => one.textContent === 'Latency')"
    page.run(f"{button}.click()")
    assert page.run(first) == "port-default"
    page.run(f"{button}.click()")
    assert page.run(first) == "q-059"
    assert page.run(f"{button}.parentNode.getAttribute('aria-sort')") == "descending"


@browser
@pytest.mark.parametrize("width", [1200, 1600])
def test_no_column_is_cut_off(page: Page, tmp_path: Path, width: int) -> None:
    report = helpdesk_report()
    names = tuple(f"a_metric_with_a_name_{at}" for at in range(12))
    row = report.samples.rows[5]
    rows = tuple(replace(row, id=f"s{at}", cells=row.cells[:1] * 12) for at in range(20))
    report = with_samples(report, metrics=names, rows=rows)
    page.size(width, 1000)
    opened(page, tmp_path, report)
    wide = page.run("[...document.querySelectorAll('.scroll')].map(one => one.scrollWidth - one.clientWidth)")
    assert wide == [0] * 4
    assert page.run("document.querySelectorAll('#samples th').length") == 10
    chosen(page, "metric", "11")
    assert page.run("[...document.querySelectorAll('#samples th')].map(one => one.textContent)") == [
        "Sample",
        "a_metric_with_a_name_11",
        "Latency",
    ]
    page.size(1240, 1000)


@browser
def test_samples_are_filtered_by_words_kind_cause_tag_and_metric(page: Page, tmp_path: Path) -> None:
    report = helpdesk_report()
    kept = replace(report.samples.rows[9].cells[0], change=0.0, worse=False)
    rows = [replace(row, cells=(kept, *row.cells[1:])) if at < 8 else row for at, row in enumerate(report.samples.rows)]
    report = with_samples(report, rows=tuple(rows))
    worse = [row.id for row in report.samples.rows if any(cell.worse for cell in row.cells)]
    first = [row.id for row in report.samples.rows if row.cells[0].worse]
    assert 0 < len(first) < len(worse) < 60
    rows = [replace(row, cause="invented" if row.id in worse[:3] else None) for row in report.samples.rows]
    opened(page, tmp_path, with_samples(report, rows=tuple(rows)))
    page.run("document.getElementById('filter').value = 'DEPLOY q-003'")
    page.run("document.getElementById('filter').dispatchEvent(new Event('input'))")
    assert page.run(IDS) == ["q-003"]
    assert page.run("document.getElementById('shown').textContent") == "1 of 60 shown"
    page.run("document.getElementById('clear').click()")
    chosen(page, "which", "failed")
    assert page.run(IDS) == ["q-058", "q-059"]
    page.run("document.getElementById('clear').click()")
    chosen(page, "cause", "invented")
    assert page.run(IDS) == worse[:3]
    page.run("document.getElementById('clear').click()")
    chosen(page, "tag", "network")
    assert set(page.run(IDS)) == {row.id for row in rows if "network" in row.tags}
    page.run("document.getElementById('clear').click()")
    chosen(page, "which", "worse")
    assert page.run(IDS) == worse
    chosen(page, "metric", "0")
    assert page.run(IDS) == first
    page.run("document.getElementById('clear').click()")
    assert page.run("document.getElementById('cause').options[1].textContent") == "invented (3)"


def records() -> tuple[dict[str, SampleRecord], dict[str, SampleRecord]]:
    text = Text()
    return {text.id: record(text)}, {
        text.id: record(text, "The gateway listens on port 8443. It also opens port 9090.")
    }


TEXTS = "document.querySelector('.sample')"


def sample_opened(page: Page, folder: Path, report: Document, html: str) -> None:
    file = folder / "report.html"
    opened(page, folder, report, html)
    page.open(f"{file.as_uri()}#sample={quote(clean(report.samples.worst[0].id), safe='')}")
    waited(page, f"{TEXTS} !== null")


@browser
def test_an_opened_sample_shows_answers_contexts_and_statements(page: Page, tmp_path: Path) -> None:
    report, (now, then) = helpdesk_report(), records()
    sample_opened(page, tmp_path, report, paged(report, now, then))
    assert page.run(f"[...{TEXTS}.querySelectorAll('.diff del')].map(one => one.textContent)") == ["8443"]
    assert page.run(f"[...{TEXTS}.querySelectorAll('.diff ins')].map(one => one.textContent)") == [
        "8080",
        " for metrics",
    ]
    heads = page.run(f"[...{TEXTS}.querySelectorAll('h4')].map(one => one.textContent)")
    assert "Answer, before and after" in heads
    assert "Contexts: the same as in the baseline, in the same order" in heads
    said = page.run(f"{TEXTS}.querySelector('.statements').textContent")
    assert "contradicted The gateway listens on port 8080." in said
    assert "supported Port 9090 serves metrics. (context 1)" in said
    assert "Reference" in heads
    assert page.run("document.activeElement.textContent") == "port-default"
    assert page.complaints == []


@browser
def test_evidence_is_named_also_in_what_a_context_lost(page: Page, tmp_path: Path) -> None:
    report, evidence = helpdesk_report(), "Port 8443 is the default of the gateway."

    def returning(*contexts: Context) -> dict[str, SampleRecord]:
        ((name, mine),) = answering(*contexts).items()
        return {
            name: dataclasses.replace(mine, sample=dataclasses.replace(mine.sample, reference_contexts=(evidence,)))
        }

    now = returning(Context("Ports. See below.", "a"), Context("New.", "b"), Context("Last.", "c"))
    then = returning(Context("Gone.", "d"), Context(f"Ports. {evidence} See below.", "a"), Context("Last.", "c"))
    sample_opened(page, tmp_path, report, paged(report, now, then))
    items = f"[...{TEXTS}.querySelectorAll('.contexts > li')]"
    pills = page.run(f"{items}.map(one => [...one.querySelectorAll('.pill')].map(pill => pill.textContent).join())")
    assert [said.removesuffix(",useful").removesuffix(",not useful") for said in pills] == [
        "up from 2,text changed,evidence lost",
        "added",
        "",
        "lost",
    ]
    heads = page.run(f"[...{TEXTS}.querySelectorAll('h4')].map(one => one.textContent)")
    assert "Contexts: 1 added, 1 lost, 1 moved, 1 with another text" in heads


@browser
def test_a_sample_is_opened_and_closed_by_keyboard(page: Page, tmp_path: Path) -> None:
    report, (now, then) = helpdesk_report(), records()
    opened(page, tmp_path, report, paged(report, now, then))
    chosen(page, "which", "worse")
    page.run("[...document.querySelectorAll('button.open')].find(one => one.textContent === 'port-default').focus()")
    for _ in range(2):
        expanded = page.run("document.activeElement.getAttribute('aria-expanded')")
        for kind in ("keyDown", "keyUp"):
            page.call(
                "Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", text="\r", windowsVirtualKeyCode=13
            )
        waited(page, f"({TEXTS} !== null) === {'true' if expanded == 'false' else 'false'}")
    assert page.run("document.activeElement.getAttribute('aria-expanded')") == "false"


@browser
@pytest.mark.parametrize("seed", range(3))
def test_a_word_diff_holds_both_texts(page: Page, tmp_path: Path, seed: int) -> None:
    source = random.Random(seed)
    words = ["port", "8443", "8080", "the", "gateway,", "\n", "  ", "é", "日本語", "🎉", "a-b"]
    before = "".join(source.choices(words, k=60))
    after = " ".join(source.sample(before.split(" "), k=len(before.split(" ")))) + source.choice(words)
    report = helpdesk_report()
    sample_opened(page, tmp_path, report, paged(report, answering(answer=after), answering(answer=before)))
    parts = page.run(f"[...{TEXTS}.querySelector('.diff').childNodes].map(one => [one.nodeName, one.textContent])")
    assert "".join(text for name, text in parts if name != "INS") == before
    assert "".join(text for name, text in parts if name != "DEL") == after


@browser
def test_without_javascript_the_verdict_and_the_worst_samples_are_there(page: Page, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    report, (now, then) = helpdesk_report(), records()
    file.write_text(paged(report, now, then), encoding="utf-8")
    page.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        page.open(file)
        assert page.run("document.querySelector('.word').textContent") == "Blocked"
        assert page.run("document.querySelectorAll('#samples tbody tr').length") == 60
        assert page.run("document.getElementById('tools').hidden")
        assert page.run("getComputedStyle(document.querySelector('.scripted-only')).display") == "none"
        assert not page.run("document.getElementById('note').hidden")
    finally:
        page.call("Emulation.setScriptExecutionDisabled", value=False)


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 700, 1180])
def test_no_metric_is_cut_or_hidden_in_a_narrow_window(page: Page, tmp_path: Path, width: int) -> None:
    page.size(width, 900)
    opened(page, tmp_path, helpdesk_report())
    page.run("document.querySelector('.why').open = true")
    inside = "[...document.querySelectorAll('.verdict *, #metrics td *')].filter(one => one.getClientRects().length)"
    assert page.run(f"{inside}.every(one => one.getBoundingClientRect().right <= innerWidth)")
    assert page.run("document.documentElement.scrollWidth <= innerWidth")
    labels = page.run("[...document.querySelectorAll('#metrics tbody tr:first-child td')].map(td => td.dataset.label)")
    assert labels[1:] == ["State", "Allowed", "Score", "Change"]
    page.size(1240, 1000)
