"""The pages for labelling and reviewing, in a real browser, by keyboard."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ragstone.tools.judging.labelling.page import LabellingPage, PageItem, PageMetric, marked, render_labelling
from tests.report.browser import Page, chromium
from tests.report.hostile import every_fragment

browser = pytest.mark.browser

METRICS = (PageMetric("faithfulness", "Faithfulness"), PageMetric("answer_correctness", "Answer correctness"))
ATTACK = (
    f"x{every_fragment}</script><script>window.hit=1</script><!--<script><img src=x onerror=window.hit=1>"
    "\"onload='window.hit=1' \u202eevil\u2066 \u2028 \x00\x1b[31m ]]> {{7*7}} ${7*7} __proto__"
)


def item(key: str, **own: Any) -> PageItem:
    given: dict[str, Any] = {
        "question": f"What is {key}?",
        "answer": f"It is {key}. It is blue.",
        "reference": f"{key}, blue.",
        "contexts": (("d1", f"We say that it is {key},\nas it was."), (None, "Other.")),
        "evidence": (f"it is {key} as it was",),
        "tags": ("fact",),
        "statements": (("s1", f"It is {key}."), ("s2", "It is blue.")),
    }
    return PageItem(key, key, **(given | own))


def label_page(*items: PageItem, **own: Any) -> LabellingPage:
    given: dict[str, Any] = {"title": "Labels by anna", "key": "k1-anna", "annotator": "anna", "file": "anna"}
    return LabellingPage("label", items=items, metrics=METRICS, **(given | own))


def review_page(*items: PageItem) -> LabellingPage:
    return LabellingPage("review", "Review", "r1", items, annotator="ben", file="review-ben", contexts="Evidence")


def reviewed(key: str, **own: Any) -> PageItem:
    fields = {"question": f"What is {key}?", "reference": f"{key}.", "tags": "fact, easy", "answerable": True}
    return item(key, answer="", fields=fields, **own)


@pytest.fixture
def page() -> Iterator[Page]:
    with chromium() as found:
        found.size(1000, 900)
        yield found


def opened(page: Page, folder: Path, made: LabellingPage, name: str = "page.html") -> Path:
    file = folder / name
    file.write_text(render_labelling(made), encoding="utf-8")
    page.requests.clear()
    page.complaints.clear()
    page.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
    page.open(file)
    begun(page)
    return file


def begun(page: Page) -> None:
    while not page.run("document.documentElement.dataset.ready"):
        time.sleep(0.01)


def press(page: Page, *keys: str) -> None:
    for key in keys:
        for kind in ("keyDown", "keyUp"):
            text = {"text": key} if len(key) == 1 and kind == "keyDown" else {}
            page.call("Input.dispatchKeyEvent", type=kind, key=key, **text)


def saved(page: Page, file: Path) -> dict[str, Any]:
    press(page, "s")
    for _ in range(200):
        if file.exists() and file.stat().st_size:
            found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
            return found
        time.sleep(0.05)
    raise AssertionError(f"{file} was not saved")


HEAD = "document.querySelector('#item bdi').textContent"
STATUS = "document.getElementById('progress').textContent"


@browser
def test_labels_are_given_by_keyboard_and_saved_to_a_file(page: Page, tmp_path: Path) -> None:
    file = opened(page, tmp_path, label_page(*(item(name) for name in "abc")))
    assert page.run(STATUS) == "1 of 3; 0 done"
    assert page.run("[...document.querySelectorAll('mark')].map(one => one.textContent)") == ["it is a,\nas it was"]
    press(page, "p", "f")  # both metrics of the first; the next one comes by itself
    assert page.run(HEAD) == "b · fact"
    assert page.run(STATUS) == "2 of 3; 1 done"
    press(page, "c", "h", "i", "p", "Escape")  # typed into the comment, not taken as labels
    assert page.run("document.getElementById('comment').value") == "hip"
    press(page, "m", "p", "m", "f", "u")
    picture = Path(os.environ.get("RAGSTONE_TEST_SCREENSHOTS", tmp_path)) / "labelling.png"
    press(page, "k")
    page.screenshot(picture)
    body = saved(page, tmp_path / "anna.json")
    assert {name: body[name] for name in ("ragstone", "schema_version", "batch", "annotator")} == {
        "ragstone": "label",
        "schema_version": 1,
        "batch": "k1-anna",
        "annotator": "anna",
    }
    rows = {row["key"]: row for row in body["rows"]}
    assert rows["a"]["labels"] == {"faithfulness": "pass", "answer_correctness": "fail"}
    assert rows["b"]["comment"] == "hip"
    assert "c" not in rows or not rows["c"].get("labels")
    assert [url for url in page.requests if not url.startswith("blob:")] == [file.as_uri()]
    assert page.complaints == []


@browser
def test_what_is_stored_is_first_touched_when_the_page_is_loaded(page: Page, tmp_path: Path) -> None:
    page.call(
        "Page.addScriptToEvaluateOnNewDocument",
        source="""
            const loaded = [];
            for (const name of ["getItem", "setItem"]) {
              const original = Storage.prototype[name];
              Storage.prototype[name] = function (...given) {
                loaded.push(performance.getEntriesByType("navigation")[0].loadEventEnd > 0);
                return original.apply(this, given);
              };
            }
            window.loadedWhenTouched = loaded;
        """,
    )
    opened(page, tmp_path, label_page(item("a")))
    assert page.run("window.loadedWhenTouched") == [True, True]


@browser
def test_what_was_done_is_still_there_when_the_page_is_opened_again(page: Page, tmp_path: Path) -> None:
    file = opened(page, tmp_path, label_page(*(item(name) for name in "abc")))
    press(page, "p", "p", "f")
    page.open("about:blank")
    page.open(file)
    begun(page)
    assert page.run(STATUS) == "2 of 3; 1 done"
    assert page.run("document.querySelectorAll('[aria-pressed=true]').length") == 1
    opened(page, tmp_path, label_page(item("a"), key="k2-anna"))  # another batch starts afresh
    assert page.run(STATUS) == "1 of 1; 0 done"


@browser
def test_numbers_and_statements_can_be_labels(page: Page, tmp_path: Path) -> None:
    opened(page, tmp_path, label_page(item("a"), scale="1-5", key="k3"))
    press(page, "4", "2")
    assert saved(page, tmp_path / "anna.json")["rows"][0]["labels"] == {"faithfulness": 4, "answer_correctness": 2}
    (tmp_path / "anna.json").unlink()
    opened(page, tmp_path, label_page(item("a"), item("b", statements=()), scale="statements", key="k4"))
    for wanted in ("supported", "not supported"):
        index = 0 if wanted == "supported" else 1
        page.run(f"document.querySelectorAll('.statement')[{index}].querySelector('[aria-label=\"{wanted}\"]').click()")
    press(page, "n", "n", "j", "p")
    rows = {row["key"]: row["labels"] for row in saved(page, tmp_path / "anna.json")["rows"]}
    assert rows == {"a": {"faithfulness": {"s1": True, "s2": False}}, "b": {"faithfulness": "pass"}}


@browser
def test_drafts_are_accepted_edited_and_rejected_by_keyboard(page: Page, tmp_path: Path) -> None:
    opened(page, tmp_path, review_page(*(reviewed(name) for name in "abc")))
    press(page, "e", "X", "Escape", "a", "r")
    page.run("document.getElementById('edit-answerable').click()")
    body = saved(page, tmp_path / "review-ben.json")
    rows = {row["key"]: row for row in body["rows"]}
    assert (rows["a"]["decision"], rows["b"]["decision"]) == ("accept", "reject")
    assert "X" in rows["a"]["edits"]["question"]
    assert rows["c"] == {"key": "c", "edits": {"answerable": False}}
    assert page.run(STATUS) == "3 of 3; 2 done"


@browser
@pytest.mark.parametrize("kind", ["label", "review"])
def test_hostile_text_in_every_field_does_nothing(page: Page, tmp_path: Path, kind: str) -> None:
    hostile = PageItem(
        key=ATTACK,
        name=ATTACK,
        question=ATTACK,
        answer=ATTACK,
        reference=ATTACK,
        contexts=((ATTACK, ATTACK), (None, ATTACK)),
        evidence=(ATTACK, "(((("),
        tags=(ATTACK,),
        statements=((ATTACK, ATTACK), ("__proto__", "constructor")),
        others={"faithfulness": (ATTACK,)},
        fields={"question": ATTACK, "reference": ATTACK, "tags": ATTACK, "answerable": True},
    )
    items = (hostile, PageItem("__proto__", "__proto__", "Q?", fields=hostile.fields))
    metrics = (PageMetric("faithfulness", ATTACK, ATTACK),)
    made = LabellingPage(kind, ATTACK, "k5", items, metrics, "pass-fail", "anna", ATTACK, "anna", ATTACK)
    file = opened(page, tmp_path, made)
    press(page, "p", "a", "n", "p", "a")
    assert page.run("window.hit === undefined && ({}).labels === undefined && ({}).decision === undefined")
    assert page.run("document.scripts.length") == 2
    assert page.run("document.images.length") == 0
    shown = page.run(
        "[...document.querySelectorAll('.text, bdi, legend, .source, footer')].map(e => e.textContent).join()"
    )
    assert not any(sign in shown for sign in "\u202e\u2066\x00\x1b")
    assert [url for url in page.requests if not url.startswith("blob:")] == [file.as_uri()]
    assert page.complaints == []
    rows = saved(page, tmp_path / "anna.json")["rows"]
    assert [row["key"] for row in rows] == [ATTACK, "__proto__"]


@browser
def test_a_huge_text_is_cut_until_it_is_asked_for(page: Page, tmp_path: Path) -> None:
    opened(page, tmp_path, label_page(item("a", answer="long word " * 100_000)))
    length = "document.querySelectorAll('.text')[1].textContent.length"
    assert page.run(length) < 21_000
    page.run("document.querySelectorAll('.text')[1].querySelector('button').click()")
    assert 199_000 < page.run(length) < 201_000


def test_the_page_is_one_file_whose_policy_allows_nothing_else() -> None:
    html = render_labelling(label_page(item(ATTACK, answer=ATTACK)))
    policy = html.partition('http-equiv="Content-Security-Policy" content="')[2].partition('"')[0]
    assert policy.startswith("default-src &#39;none&#39;; style-src &#39;sha256-")
    assert "unsafe" not in policy
    assert html.count("<script") == 2
    assert html.count("</script") == 2
    for sign in ("src=", "<link", "@import", "url("):
        assert sign not in html.partition('id="data">')[0]


@pytest.mark.parametrize(
    ("evidence", "parts"),
    [
        (("the WARRANTY lasts",), [("So ", False), ("the warranty, lasts", True), (" 24 months.", False)]),
        (("lasts 24", "24 M"), [("So the warranty, ", False), ("lasts 24", True), (" m", True), ("onths.", False)]),
        (("no such thing", "", "..."), [("So the warranty, lasts 24 months.", False)]),
    ],
)  # fmt: skip
def test_evidence_is_marked_whatever_is_between_its_words(
    evidence: tuple[str, ...], parts: list[tuple[str, bool]]
) -> None:
    assert marked("So the warranty, lasts 24 months.", evidence) == parts
