"""docs/entrypoints.md: its programs are run, its settings loaded, its lists compared with the code."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from ragstone.golden.aliases import SYSTEM_NAMES
from ragstone.golden.sample import Sample
from ragstone.settings.load import load_settings
from ragstone.system import environment
from ragstone.system.entrypoint import parse_entrypoint

PAGE = (Path(__file__).parents[2] / "docs" / "entrypoints.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("source", blocks("python"))
def test_every_program_on_the_page_answers(room: Any, source: str) -> None:
    kind, what = re.findall(r"# (entrypoint|command): (\S+)", source)[0]
    if kind == "command":
        (room.folder / what).write_text(source, encoding="utf-8")
        (response,) = room.ask(f"command:{sys.executable} {what}", "q")
    else:
        (room.folder / "app.py").write_text(source, encoding="utf-8")
        sample = Sample(id="s0", question="q", reference_contexts=("A passage.",))
        half = {"part": "generation"} if re.search(r"def \w+\([^)]*contexts", source) else {}
        (response,) = room.ask_samples(what, sample, **half)
    assert response.failure is None
    assert response.contexts


@pytest.mark.parametrize("source", blocks("toml"))
def test_every_configuration_on_the_page_loads(tmp_path: Path, source: str) -> None:
    (tmp_path / "ragstone.toml").write_text(source, encoding="utf-8")
    loaded = load_settings(directory=tmp_path, environ={}).system
    parse_entrypoint(loaded.entrypoint)
    environment.check_names(loaded.env)


def test_the_recorded_answers_on_the_page_are_read(room: Any) -> None:
    (source,) = blocks("json")
    (room.folder / "outputs.jsonl").write_text(source, encoding="utf-8")
    found = room.ask_samples(
        "file:outputs.jsonl",
        Sample("refund-window", "?"),
        Sample("x", "When is the chief executive's birthday?"),
        Sample("broken", "?"),
    )
    assert [r.answer for r in found] == ["30 days.", "I don't know.", ""]
    assert found[0].latency_s == json.loads(source.splitlines()[0])["latency_s"]


@pytest.mark.parametrize(
    "names",
    [SYSTEM_NAMES["answer"], SYSTEM_NAMES["contexts"], SYSTEM_NAMES["text"], SYSTEM_NAMES["id"], SYSTEM_NAMES["score"]],
)
def test_the_names_that_are_read_are_listed_in_their_order(names: tuple[str, ...]) -> None:
    listed = ",\\s+".join(f"`{name}`" for name in names)
    assert re.search(listed, PAGE)
