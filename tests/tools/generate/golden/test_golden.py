"""`ragstone golden`, as it is run."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.project import golden_lines
from tests.pipeline.conftest import Ragstone

FLAWED: list[dict[str, object]] = [
    {"id": "w1", "question": "How long is the warranty?", "reference": "The warranty is 24 months."},
    {"id": "w2", "question": "How long is warranty?", "reference": "The warranty is 12 months."},
    {"id": "a1", "question": "Who approves travel?", "reference": "The head of department."},
    {"id": "a2", "question": "Who approves the travel?", "answerable": False},
    {"id": "p1", "question": "Where is the office?", "reference": "In Bonn.", "reference_contexts": ["It is in Bonn."]},
    {"id": "p2", "question": "Where is the offices?", "reference": "In Bonn.", "status": "draft"},
    {"id": "p3", "question": "Where is the office?", "reference": "The office is in Bonn."},
]


def write(path: Path, rows: list[dict[str, object]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path.name


def test_the_command_says_what_there_is_and_what_needs_a_look(ragstone: Ragstone, tmp_path: Path) -> None:
    name = write(tmp_path / "golden.jsonl", FLAWED)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("We are in Cologne.")
    code, out, _ = ragstone("golden", name, "--corpus", "docs")
    assert code == 0
    assert "7 samples, 1 draft among them; 14.3 % unanswerable." in out
    assert "fewer than 100 samples count" in out
    assert "  p1 and p3 (golden.jsonl:5 and golden.jsonl:7)\n" in out
    assert "w1 and w2 (golden.jsonl:1 and golden.jsonl:2): the offline judge finds a contradiction" in out
    assert "a1 and a2 (golden.jsonl:3 and golden.jsonl:4): only one of them is answerable" in out
    assert "  p1: It is in Bonn." in out
    assert ragstone("golden", name, "--strict")[0] == 3
    found = json.loads(ragstone("golden", name, "--format", "json")[1])
    pairs = [pair["ids"] for pair in found["near_duplicates"] if pair["contradiction"] is not None]
    assert pairs == [["a1", "a2"], ["w1", "w2"]]
    assert (found["corpus"], found["history"]) == (None, None)


def test_a_sound_set_of_its_config_has_nothing_to_look_at(ragstone: Ragstone, tmp_path: Path) -> None:
    (tmp_path / "golden.jsonl").write_text(golden_lines(120), encoding="utf-8")
    (tmp_path / "ragstone.toml").write_text('[golden]\npaths = ["golden.jsonl"]\n', encoding="utf-8")
    code, out, _ = ragstone("golden", "--strict")
    assert code == 0
    assert "Warning" not in out
    for finding in (
        "Same question",
        "Near-duplicates",
        "Contradictions among them",
        "Questions that hold their answer",
    ):
        assert f"{finding}: none" in out


def test_what_it_says_of_a_large_set_fits_a_screen(ragstone: Ragstone, tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {
            "id": f"q{number}",
            "question": f"Who pays for {number // 2}?",
            "reference": "The firm.",
            "tags": [f"t{number}"],
        }
        for number in range(100)
    ]
    _, out, _ = ragstone("golden", write(tmp_path / "golden.jsonl", rows))
    assert "Same question: 50" in out
    assert "and 45 more (--format json lists all)" in out
    assert "and 95 more tags" in out
    assert len(out.splitlines()) <= 40


def test_hostile_text_reaches_the_terminal_harmless(ragstone: Ragstone, tmp_path: Path) -> None:
    row: dict[str, object] = {"question": "A\x1b[2Jb?", "reference": "\x1b]0;x\x07", "tags": ["\u202eevil\x1b[31m"]}
    name = write(tmp_path / "golden.jsonl", [{**row, "id": "a"}, {**row, "id": "b"}])
    _, out, err = ragstone("golden", name)
    assert "\x1b" not in out + err
    assert "\u202e" not in out + err
