"""The page that fills in a table of labels, in a real browser, by keyboard."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragstone.tools.judging.draw import label_page
from ragstone.tools.judging.label_table import TEXTS, write_table
from tests.report.browser import Page, chromium
from tests.tools.judging.tables import open_table

METRICS = ("faithfulness", "answer_correctness")
COLUMNS = ("id", *METRICS, "comment", *TEXTS, "probability")


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    with chromium() as tab:
        tab.size(1000, 900)
        file = tmp_path / "label.html"
        file.write_text(label_page(METRICS), encoding="utf-8")
        (tmp_path / "saved").mkdir()
        tab.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path / "saved"))
        tab.open(file)
        yield tab


def press(page: Page, *keys: str) -> None:
    for key in keys:
        for kind in ("keyDown", "keyUp"):
            text = {"text": key} if len(key) == 1 and kind == "keyDown" else {}
            page.call("Input.dispatchKeyEvent", type=kind, key=key, **text)


def table_text(tmp_path: Path, *names: str) -> str:
    """The text of a table with an answer for each of `names`, which are their ids."""
    path = tmp_path / "ann.csv"
    rows = [{"id": name, "question": f"What is {name}?", "answer": f'It is "{name}",\nsaid.'} for name in names]
    write_table(path, COLUMNS, [{**row, "contexts": "=1+1", "probability": "0.5"} for row in rows])
    return path.read_text(encoding="utf-8")


def save(page: Page, file: Path) -> str:
    """Save the table, and return the text of the file."""
    press(page, "s")
    for _ in range(200):
        if file.exists() and file.stat().st_size:
            return file.read_text(encoding="utf-8-sig")
        time.sleep(0.05)
    raise AssertionError(f"{file} was not saved")


STATUS = "document.getElementById('status').textContent"
QUESTION = "document.querySelector('#row .text').textContent"


@pytest.mark.browser
def test_a_table_is_filled_in_by_keyboard_and_saved_as_it_was_with_its_labels(page: Page, tmp_path: Path) -> None:
    text = table_text(tmp_path, "a", "b", "=c")
    open_table(page, "ann.csv", text)
    assert page.run(STATUS) == "ann.csv: 1 of 3, 0 done"
    press(page, "p", "f")  # both metrics of the first; the next one comes by itself
    assert page.run(QUESTION) == "What is b?"
    assert page.run(STATUS) == "ann.csv: 2 of 3, 1 done, not saved"
    press(page, "c", "h", "i", "p", "Escape")  # typed into the comment, not taken as labels
    press(page, "m", "p", "k", "u", "f", "k")
    rows = list(csv.DictReader(io.StringIO(save(page, tmp_path / "saved" / "ann.csv"))))
    before = list(csv.DictReader(io.StringIO(text.removeprefix("\ufeff"))))
    labels = [(row["faithfulness"], row["answer_correctness"], row["comment"]) for row in rows]
    assert labels == [("fail", "fail", ""), ("", "pass", "hip"), ("", "", "")]
    unchanged = [column for column in COLUMNS if column not in (*METRICS, "comment")]
    assert [[row[column] for column in unchanged] for row in rows] == [
        [row[column] for column in unchanged] for row in before
    ]
    assert page.complaints == []


@pytest.mark.browser
def test_a_table_of_a_spreadsheet_keeps_its_separator(page: Page, tmp_path: Path) -> None:
    open_table(page, "ann.csv", 'id;faithfulness;question\r\nq1;;What; so?\r\nq2;pass;"a;b""c"\r\n')
    press(page, "p")
    first, second, third = save(page, tmp_path / "saved" / "ann.csv").splitlines()
    assert first == '"id";"faithfulness";"question"'
    assert second.startswith('"q1";"pass";"What"')
    assert third == '"q2";"pass";"a;b""c"'


@pytest.mark.browser
def test_what_was_not_saved_is_offered_again_and_another_file_is_refused(page: Page, tmp_path: Path) -> None:
    open_table(page, "ann.csv", table_text(tmp_path, "a", "b"))
    press(page, "p", "p")
    page.run("window.confirm = () => true")
    open_table(page, "ann.csv", table_text(tmp_path, "a", "b"))
    assert page.run(STATUS) == "ann.csv: 2 of 2, 1 done"
    open_table(page, "other.csv", "id,score\nq1,1\n")
    assert page.run(STATUS).startswith("other.csv has no answers to label: it needs the columns id and faithfulness or")
