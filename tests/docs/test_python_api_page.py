"""docs/python-api.md: its blocks run, one after the other, and a run and a verdict have what it names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ragstone.api import Run, Verdict
from tests.docs.page import blocks, page

PAGE = page("python-api")


def attributes_named_after(introduction: str) -> list[str]:
    """The attributes in the list that follows `introduction`, such as ``path`` for ``.path``."""
    listed = PAGE.partition(introduction)[2].partition("\n## ")[0]
    return re.findall(r"`\.(\w+)", listed)


def test_the_blocks_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec("import ragstone", names)
    for block in blocks(PAGE, "python")[1:]:  # the first one names files of the reader's
        exec(block, names)
    run = names["run"]
    verdict = names["verdict"]
    assert isinstance(run, Run)
    assert isinstance(verdict, Verdict)
    scores = run.scores["context_recall"]
    assert scores.values.keys() == {"warranty", "returns"}
    assert verdict.status == "pass"
    for introduction, parts in (("The run has", (run, scores)), ("The verdict has", (verdict, verdict.explanation))):
        named = attributes_named_after(introduction)
        assert named
        assert [name for name in named if not any(hasattr(part, name) for part in parts)] == []
