"""The samples in the HTML report of a gate."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import ragstone
from tests.pipeline.asked import report
from tests.pipeline.houses import gated, make_houses, regress, settings
from tests.report.paged import packed_in, unpacked


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = make_houses(tmp_path / "repo")
    monkeypatch.chdir(path)
    gated(path, "main")
    regress(path)
    return path


def html(run: Path) -> str:
    return (run / "report.html").read_text(encoding="utf-8")


def test_every_sample_is_in_the_page_with_both_answers(project: Path) -> None:
    gated(project, "out", gate__baseline="main")
    lines = packed_in(html(project / "out"))
    rows, texts = unpacked(lines, "rows"), unpacked(lines, "texts")
    assert len(rows) == len(texts) == 30
    worse = rows[0]
    (pair,) = texts[worse[10][1]]["pairs"]
    assert pair["current"]["text"] == "Bananas were invented in 1834."
    assert pair["baseline"]["text"].startswith("House number")
    assert [entry["rank"] for entry in pair["contexts"]] == [entry["baselineRank"] for entry in pair["contexts"]]
    assert pair["current"]["statements"][0]["verdict"] != "supported"


def test_rendered_again_the_page_has_the_rows_of_the_document_without_texts(project: Path) -> None:
    gated(project, "out", gate__baseline="main")
    shutil.rmtree(project / "main")
    (project / "thresholds.toml").unlink()
    again = report(Path("out"), "html", settings(project))
    assert ragstone.Run.open("out").report("html") == again
    lines = packed_in(again)
    assert len(unpacked(lines, "rows")) == 30
    assert unpacked(lines, "texts") == []


def test_another_decision_has_its_own_page(project: Path) -> None:
    gated(project, "out")
    assert unpacked(packed_in(html(project / "out")), "texts")[0]["pairs"][0]["baseline"] is None
    found = ragstone.compare("out", "main").report("html")
    assert unpacked(packed_in(found), "texts")[0]["pairs"][0]["baseline"] is not None


def test_a_secret_in_an_answer_is_not_in_the_page(project: Path) -> None:
    gated(project, "out", "Bananas were invented", gate__baseline="main")
    lines = packed_in(html(project / "out"))
    found = json.dumps(unpacked(lines, "texts")) + json.dumps(unpacked(lines, "rows"))
    assert "*** in 1834." in found
    assert "Bananas" not in found
