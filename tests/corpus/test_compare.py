"""The corpus itself is run by `make corpus`; here is whether its comparison lists what differs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.corpus import compare
from tests.corpus.registry import Steps

STORED: dict[str, Steps] = {
    "a loss": {"gate": {"exit": 1, "status": "fail", "causes": {"cut": 3}, "drop checks": {"mrr": "fail block -0.1"}}},
    "a pass": {"first": {"exit": 0, "means": {"mrr": 0.5}}, "second": {"exit": 0}},
}


@pytest.fixture
def expected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The stored result, with cases that come out as `STORED`, unless a test says otherwise."""
    path = tmp_path / "expected.json"
    path.write_text(compare.as_text(STORED), encoding="utf-8")
    play(monkeypatch, STORED)
    return path


def play(monkeypatch: pytest.MonkeyPatch, present: dict[str, Any]) -> None:
    """Let the cases come out so, without running them."""
    monkeypatch.setattr(compare, "CASES", dict.fromkeys(present))
    monkeypatch.setattr(compare, "not_runnable", set)
    monkeypatch.setattr(
        compare, "run_cases", lambda names, *_, **__: {name: present[name] for name in names if name in present}
    )


def compared(expected: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str]]:
    code = compare.main(["--expected", str(expected), *arguments])
    return code, capsys.readouterr().out.splitlines()[:-1]


def test_the_same_outcomes_differ_in_nothing(expected: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compared(expected, capsys) == (0, [])


@pytest.mark.parametrize(
    ("step", "line"),
    [
        ({"exit": 0}, "exit: 1 → 0"),
        ({"causes": {"cut": 2}}, "causes, cut: 3 → 2"),
        ({"causes": {"evasive": 3}}, "causes, cut: 3 → nothing\na loss: gate, causes, evasive: nothing → 3"),
        ({"drop checks": {"mrr": "pass block -0.1"}}, 'drop checks, mrr: "fail block -0.1" → "pass block -0.1"'),
        ({"half": "retrieval"}, 'half: nothing → "retrieval"'),
    ],
)
def test_each_value_that_differs_is_a_line(
    expected: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    step: dict[str, Any],
    line: str,
) -> None:
    play(monkeypatch, {**STORED, "a loss": {"gate": {**STORED["a loss"]["gate"], **step}}})
    assert compared(expected, capsys) == (1, f"a loss: gate, {line}".splitlines())


def test_a_case_or_step_that_is_gone_is_listed(
    expected: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    play(monkeypatch, {"a pass": {"first": STORED["a pass"]["first"]}})
    lines = ["a loss: is stored, and was not run", "a pass: second, exit: 0 → nothing"]
    assert compared(expected, capsys) == (1, lines)


def test_a_new_case_is_listed_until_it_is_stored(
    expected: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    play(monkeypatch, {**STORED, "new": {"gate": {"exit": 0}}})
    assert compared(expected, capsys) == (1, ["new: is not stored"])
    assert compared(expected, capsys, "--write")[0] == 0
    assert compared(expected, capsys) == (0, [])


def test_writing_some_cases_keeps_the_others_and_drops_what_is_gone(
    expected: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    play(monkeypatch, {"a pass": STORED["a pass"], "a loss": {"gate": {"exit": 5}}})
    expected.write_text(compare.as_text({**STORED, "gone": {"gate": {"exit": 0}}}), encoding="utf-8")
    compared(expected, capsys, "--write", "--only", "loss")
    stored = json.loads(expected.read_text(encoding="utf-8"))
    assert stored == {"a loss": {"gate": {"exit": 5}}, "a pass": STORED["a pass"]}


def test_the_stored_result_reads_back_and_has_a_line_for_each_table() -> None:
    text = compare.as_text(STORED)
    assert json.loads(text) == STORED
    assert '      "drop checks": {"mrr": "fail block -0.1"}' in text.splitlines()


def test_every_case_is_stored() -> None:
    stored = json.loads(compare.EXPECTED.read_text(encoding="utf-8"))
    assert sorted(stored) == sorted(compare.CASES)
