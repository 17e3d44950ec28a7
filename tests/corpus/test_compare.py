"""The corpus itself is run by `make corpus`; here is whether its comparison lists what differs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.corpus import compare
from tests.corpus.workbench import Steps

STORED: dict[str, Steps] = {
    "a loss": {"gate": {"exit": 1, "status": "fail", "causes": {"cut": 3}, "drop checks": {"mrr": "fail block -0.1"}}},
    "a pass": {"first": {"exit": 0, "means": {"mrr": 0.5}}, "second": {"exit": 0}},
}
Play = Callable[..., tuple[int, list[str]]]


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Play:
    """Let cases come out so, without running them, and compare them with `STORED`."""
    path = tmp_path / "expected.json"
    path.write_text(compare.as_text(STORED), encoding="utf-8")
    monkeypatch.setattr(compare, "EXPECTED", path)
    monkeypatch.setattr(compare, "not_runnable", set)

    def run(present: dict[str, Any], *arguments: str) -> tuple[int, list[str]]:
        monkeypatch.setattr(compare, "CASES", dict.fromkeys(present))
        monkeypatch.setattr(compare, "run_cases", lambda names, *_, **__: {name: present[name] for name in names})
        code = compare.main(["--expected", str(path), *arguments])
        return code, capsys.readouterr().out.splitlines()[:-1]

    return run


def loss(**step: Any) -> dict[str, Any]:
    return {**STORED, "a loss": {"gate": {**STORED["a loss"]["gate"], **step}}}


@pytest.mark.parametrize(
    ("present", "lines"),
    [
        (STORED, []),
        (loss(exit=0), ["a loss: gate, exit: 1 → 0"]),
        (
            loss(causes={"evasive": 3}),
            ["a loss: gate, causes, cut: 3 → nothing", "a loss: gate, causes, evasive: nothing → 3"],
        ),
        (
            loss(**{"drop checks": {"mrr": "pass block -0.1"}}),
            ['a loss: gate, drop checks, mrr: "fail block -0.1" → "pass block -0.1"'],
        ),
        (loss(half="retrieval"), ['a loss: gate, half: nothing → "retrieval"']),
        (
            {"a pass": {"first": STORED["a pass"]["first"]}},
            ["a loss: is stored, and was not run", "a pass: second, exit: 0 → nothing"],
        ),
        ({**STORED, "new": {"gate": {"exit": 0}}}, ["new: is not stored"]),
    ],
)
def test_each_value_that_differs_is_a_line(play: Play, present: Any, lines: list[str]) -> None:
    assert play(present) == (int(bool(lines)), lines)


def test_what_is_written_differs_no_more_and_keeps_the_other_cases(play: Play) -> None:
    more = {**STORED, "new": {"gate": {"exit": 0}}}
    assert play(more, "--write")[0] == 0
    assert play(more) == (0, [])
    fewer = {"a pass": STORED["a pass"], "a loss": {"gate": {"exit": 5}}}
    play(fewer, "--write", "--only", "loss")
    stored = json.loads(compare.EXPECTED.read_text(encoding="utf-8"))
    assert stored == {"a loss": {"gate": {"exit": 5}}, "a pass": STORED["a pass"]}, "what is gone is dropped"


def test_the_stored_result_reads_back_and_has_a_line_for_each_table() -> None:
    text = compare.as_text(STORED)
    assert json.loads(text) == STORED
    assert '      "drop checks": {"mrr": "fail block -0.1"}' in text.splitlines()


def test_every_case_is_stored() -> None:
    stored = json.loads(compare.EXPECTED.read_text(encoding="utf-8"))
    assert sorted(stored) == sorted(compare.CASES)
