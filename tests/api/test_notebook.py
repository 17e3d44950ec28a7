"""Notebooks: the one in examples/ in a real kernel, and what a notebook shows of hostile text."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import nbclient
import pytest

import ragstone
from ragstone.errors import ConfigError
from tests.cli.project import ragstone as run_command
from tests.cli.project import write_rows
from tests.report.browser import chromium
from tests.report.hostile import FRAGMENTS, every_fragment

NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebook.ipynb"
FACT = "The old mill by the river was built of oak and granite in 1901."


@pytest.fixture(scope="module")
def outputs(processes: None) -> list[dict[str, str]]:
    """The outputs of the notebook, each as its texts by type, cell by cell."""
    nbformat: Any = import_module("nbformat")  # without types
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "clear the outputs before committing"
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    found = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert {output["output_type"] for output in found} <= {"execute_result", "display_data", "stream"}, found
    found = [output for output in found if output["output_type"] != "stream"]
    return [dict(output["data"]) for output in found]


def shown(outputs: list[dict[str, str]], start: str) -> dict[str, str]:
    return next(output for output in outputs if output["text/plain"].startswith(start))


def test_the_notebook_shows_golden_set_run_and_verdict(outputs: list[dict[str, str]]) -> None:
    assert shown(outputs, "GoldenSet(10 samples from 'data')")
    run = shown(outputs, "Run(")
    assert re.fullmatch(r"Run\('.+': 10 samples, faithfulness [01]\.\d\d, .* 0\.\d\d\)", run["text/plain"])
    verdict = shown(outputs, "Verdict('fail', 'context_recall ")
    assert re.search("❌ Blocked: retrieval .*7 of 10", verdict["text/markdown"])


@pytest.mark.browser
def test_the_outputs_are_readable_in_a_browser(outputs: list[dict[str, str]], tmp_path: Path) -> None:
    page = "<!doctype html><meta charset=utf-8>" + "<hr>".join(output.get("text/html", "") for output in outputs)
    (tmp_path / "page.html").write_text(page, encoding="utf-8")
    with chromium() as tab:
        tab.size(900, 2000)
        tab.open(tmp_path / "page.html")
        assert tab.run("document.documentElement.scrollWidth <= window.innerWidth")
        frame = tab.call("Page.getFrameTree")["frameTree"]
        assert len(frame.get("childFrames", ())) == 1 or tab.run("document.querySelectorAll('iframe').length") == 1
        assert tab.complaints == []


def system(_: str) -> dict[str, object]:
    return {"answer": every_fragment, "contexts": [every_fragment]}


@pytest.fixture(scope="module")
def hostile() -> list[Any]:
    """A golden set and a run with hostile text wherever text can be."""
    text = every_fragment.replace("\x00", "").replace("\ud800", "")  # which no golden set may have
    attack = f"x{text}<script>window.hit=1</script><img src=x onerror=window.hit=1>\"onload='window.hit=1'"
    rows = [
        {"id": f"{n}<script>window.hit=1</script>$x$", "question": f"{n}{attack}", "tags": [attack, fragment]}
        for n, fragment in enumerate(FRAGMENTS[:6])
    ]
    rows = [{**row, "reference": attack} for row in rows]
    golden = ragstone.load_golden_set(rows)
    run = ragstone.evaluate(golden, system, metrics=["faithfulness", "context_recall"])
    return [golden, run]


def test_representations_of_hostile_text_are_short_and_on_one_line(hostile: list[Any]) -> None:
    for thing in (*hostile, hostile[1].scores, hostile[1].scores["faithfulness"]):
        assert len(repr(thing)) < 1000
        assert not re.search("[\x00-\x1f\x7f-\x9f]", repr(thing))


@pytest.mark.browser
def test_hostile_text_does_not_run_in_a_browser(hostile: list[Any], tmp_path: Path) -> None:
    frame = hostile[1].report("html")._repr_html_()
    (tmp_path / "page.html").write_text(f"<!doctype html><meta charset=utf-8>{frame}", encoding="utf-8")
    with chromium() as tab:
        tab.open(tmp_path / "page.html")
        assert tab.run("window.hit === undefined")
        assert tab.run("document.scripts.length + document.images.length") == 0
        assert [url for url in tab.requests if not url.startswith(("file:", "about:"))] == []


def test_a_table_says_why_a_score_is_missing() -> None:
    def answer(question: str) -> dict[str, object]:
        if question == "Fail?":
            raise RuntimeError("no index")
        return {"answer": FACT, "contexts": [{"text": FACT, "id": "d1"}]}

    rows: list[dict[str, Any]] = [{"id": "a", "question": "Why?", "reference": FACT, "tags": ["x"]}]
    rows += [{"id": "b", "question": "How?"}, {"id": "c", "question": "Fail?", "reference": "No."}]
    run = ragstone.evaluate(ragstone.load_golden_set(rows), answer, metrics=["context_recall"])
    table = run.to_pandas().set_index("id")
    assert list(table.loc["a", ["question", "reference", "answer"]]) == ["Why?", FACT, FACT]
    assert (table.loc["a", "tags"], table.loc["a", "contexts"]) == (["x"], [FACT])
    for name, reason in (("a", "statement"), ("b", "reference"), ("c", "no index")):
        assert reason in table.loc[name, "context_recall_reason"]
    assert "no index" in table.loc["c", "error"]
    assert table["context_recall"].isna().tolist() == [False, True, True]
    assert ragstone.Run.open(run.path).to_pandas().equals(run.to_pandas())


def test_reports_of_a_run_and_of_a_verdict_in_every_format() -> None:
    golden = ragstone.load_golden_set([{"id": "a", "question": "Why?", "reference": FACT}])
    run = ragstone.evaluate(golden, lambda _: {"answer": FACT, "contexts": [FACT]})
    verdict = ragstone.compare(run)
    assert run.report() == verdict.report("text")
    assert run.report("md") == verdict.to_markdown()
    for form, start in (("md", "## "), ("json", "{"), ("html", "<!doctype html>"), ("junit", "<?xml")):
        assert run.report(form).startswith(start)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="unknown report format 'pdf'"):
        run.report("pdf")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="no metric 'faithfullness'") as caught:
        run.scores["faithfullness"]
    assert "Did you mean 'faithfulness'?" in str(caught.value)


INTERRUPTED = """
import asyncio, os, signal, sys, threading
import ragstone

async def answer(question):
    threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGINT)).start()
    await asyncio.sleep(600)

async def notebook():
    golden = ragstone.load_golden_set([{"question": "Why?"}])
    try:
        ragstone.evaluate(golden, answer, out=sys.argv[1])
    except KeyboardInterrupt:
        print("interrupted")

loop = asyncio.new_event_loop()
loop.run_until_complete(notebook())
"""


@pytest.mark.usefixtures("processes")
def test_an_interrupted_cell_ends_and_keeps_what_is_finished(tmp_path: Path) -> None:
    command = [sys.executable, "-c", INTERRUPTED, str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.strip() == "interrupted", done.stderr
    assert json.loads((tmp_path / "run/manifest.json").read_text())["state"] == "stopped"


def test_the_report_of_a_gates_run_shows_its_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_rows(tmp_path / "golden.jsonl", [{"id": "a", "question": "Mill?", "reference": FACT}])
    write_rows(tmp_path / "out.jsonl", [{"id": "a", "answer": FACT, "contexts": [FACT]}])
    (tmp_path / "thresholds.toml").write_text("[metrics.faithfulness]\nmin = 0.999\n")
    run_command(["gate", "--golden", "golden.jsonl", "--entrypoint", "file:out.jsonl", "--out", "run"], tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "thresholds.toml").unlink()
    run = ragstone.Run.open("run")
    assert run.report("md") == (tmp_path / "run/report.md").read_text(encoding="utf-8")
    assert run.report("json") != run.report("json", policy={"metrics": {"faithfulness": {"min": 0.5}}})
