"""The samples in the HTML report of a gate, and in the same report later."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import ragstone
from ragstone.errors import RunDirectoryError
from ragstone.evaluation.directory import PAGE, RunDirectory
from ragstone.pipeline.page import read_page
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
    rows, texts = unpacked(lines, "r"), unpacked(lines, "t")
    assert len(rows) == len(texts) == 30
    worse = rows[0]
    (pair,) = texts[worse[10][1]]["pairs"]
    assert pair["now"]["text"] == "Bananas were invented in 1834."
    assert pair["then"]["text"].startswith("House number")
    assert [entry["now"] for entry in pair["contexts"]] == [entry["then"] for entry in pair["contexts"]]
    assert pair["now"]["statements"][0]["verdict"] != "supported"


def test_the_page_is_the_same_without_the_baseline_and_the_policy(project: Path) -> None:
    gated(project, "out", gate__baseline="main")
    shutil.rmtree(project / "main")
    (project / "thresholds.toml").unlink()
    assert report(Path("out"), "html", settings(project)) == html(project / "out")
    assert ragstone.Run.open("out").report("html") == html(project / "out")
    file = project / "out" / PAGE
    file.write_text(file.read_text(encoding="ascii").replace("ragstone page 1 ", "ragstone page 1 of another "))
    assert read_page(RunDirectory.open(project / "out")) == (), "it is the page of another run"


def test_another_decision_has_its_own_page(project: Path) -> None:
    gated(project, "out")
    assert unpacked(packed_in(html(project / "out")), "t")[0]["pairs"][0]["then"] is None
    found = ragstone.compare("out", "main").report("html")
    assert unpacked(packed_in(found), "t")[0]["pairs"][0]["then"] is not None


def test_a_secret_in_an_answer_is_neither_in_the_page_nor_in_what_is_kept_for_it(project: Path) -> None:
    gated(project, "out", "Bananas were invented", gate__baseline="main")
    kept = (project / "out" / PAGE).read_text(encoding="ascii").splitlines()[1:]
    for lines in (kept, packed_in(html(project / "out"))):
        found = json.dumps(unpacked(lines, "t")) + json.dumps(unpacked(lines, "r"))
        assert "*** in 1834." in found
        assert "Bananas" not in found


@pytest.mark.parametrize("line", ["t AAAA</script><script>hit()</script>", "", "x AAAA", "r é"])
def test_a_page_that_was_changed_is_refused(project: Path, line: str) -> None:
    gated(project, "out")
    file = project / "out" / PAGE
    file.write_text(f"{file.read_text(encoding='utf-8')}{line}\n", encoding="utf-8")
    with pytest.raises(RunDirectoryError, match="not the samples of an HTML report") as refused:
        report(Path("out"), "html", settings(project))
    assert "run the gate again" in (refused.value.hint or "")


def test_a_page_that_is_too_large_is_not_read(project: Path) -> None:
    gated(project, "out")
    file = project / "out" / PAGE
    with file.open("ab") as out:
        out.truncate(1 << 40)
    with pytest.raises(RunDirectoryError, match="larger than"):
        read_page(RunDirectory.open(project / "out"))
