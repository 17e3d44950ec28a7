"""`ragstone golden`, as it is run."""

from __future__ import annotations

import json
import re
from pathlib import Path

from ragstone.golden.load import load_golden_set
from tests.app.conftest import Ragstone
from tests.commands.project import golden_lines

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


def test_stats_say_what_there_is_what_it_detects_and_what_needs_a_look(ragstone: Ragstone, tmp_path: Path) -> None:
    name = write(tmp_path / "golden.jsonl", FLAWED)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("We are in Cologne.")
    code, out, _ = ragstone("golden", "stats", name, "--corpus", "docs")
    assert code == 0
    assert "7 samples, 1 draft that doesn't count yet; 14.3 % unanswerable." in out
    assert "fewer than 100 samples count" in out
    assert "too small to detect a drop" in out
    assert "  p1, p3\n" in out
    assert "w1 and w2 (golden.jsonl:1 and golden.jsonl:2): the offline judge finds a contradiction" in out
    assert "a1 and a2 (golden.jsonl:3 and golden.jsonl:4): only one of them is answerable" in out
    assert "  p1: It is in Bonn." in out
    assert ragstone("golden", "stats", name, "--strict")[0] == 3
    found = json.loads(ragstone("golden", "stats", name, "--format", "json")[1])
    assert [one["ids"] for one in found["contradictions"]] == [["a1", "a2"], ["w1", "w2"]]
    assert found["enough"] is False


def test_stats_check_and_plan_say_the_same_of_what_a_set_detects(ragstone: Ragstone, tmp_path: Path) -> None:
    draft = {"id": "d", "question": "Is this a draft?", "reference": "Yes.", "status": "draft"}
    text = golden_lines(120) + "".join(json.dumps({**draft, "id": f"d{i}"}) + "\n" for i in range(30))
    (tmp_path / "golden.jsonl").write_text(text, encoding="utf-8")
    (tmp_path / "outputs.jsonl").write_text('{"id": "house-0", "answer": "A.", "contexts": ["A."]}\n', encoding="utf-8")
    (tmp_path / "gate.toml").write_text("[metrics.faithfulness]\nmax_drop = 0.03\n", encoding="utf-8")
    config = '[golden]\npaths = ["golden.jsonl"]\n[system]\nentrypoint = "file:outputs.jsonl"\n'
    for policy in ("", '[gate]\nthresholds = "gate.toml"\n'):
        (tmp_path / "ragstone.toml").write_text(config + policy, encoding="utf-8")
        sentence = re.compile(r"This golden set (?:can't detect|detects) a drop of .*?\)")
        said = [" ".join(ragstone(*command)[1].split()) for command in (("golden", "stats"), ("check",), ("plan",))]
        found, checked = (match[0] if (match := sentence.search(one)) else one for one in said[:2])
        assert found == checked
        assert "answer_correctness" in said[1]
        assert "token_f1" not in said[1]  # no rule for a metric that is not measured
        planned = dict(re.findall(r"(\w+): the current 120 samples detect a drop of ([\d.]+)", said[2]))
        assert planned["faithfulness"] in found


def test_a_sound_set_of_its_config_has_nothing_to_look_at(ragstone: Ragstone, tmp_path: Path) -> None:
    (tmp_path / "golden.jsonl").write_text(golden_lines(120), encoding="utf-8")
    (tmp_path / "ragstone.toml").write_text('[golden]\npaths = ["golden.jsonl"]\n', encoding="utf-8")
    code, out, _ = ragstone("golden", "stats", "--strict")
    assert code == 0
    assert "Warning" not in out
    assert "Same question in several samples: none" in out
    assert "Near-duplicates: none" in out


def test_a_set_is_divided_and_new_samples_are_added_to_its_parts(ragstone: Ragstone, tmp_path: Path) -> None:
    parts = ("--into", "dev=0.25", "--into", "test=0.75", "-o", "parts")
    (tmp_path / "golden.jsonl").write_text(golden_lines(80), encoding="utf-8")
    assert ragstone("golden", "split", "golden.jsonl", *parts)[0] == 0
    before = {name: {one.id for one in load_golden_set(f"parts/{name}.jsonl")} for name in ("dev", "test")}
    assert len(before["dev"]) == 20
    (tmp_path / "golden.jsonl").write_text(golden_lines(120), encoding="utf-8")
    code, out, _ = ragstone("golden", "split", "golden.jsonl", *parts)
    assert code == 0
    assert "30 samples, 10 of them new" in out
    after = {name: {one.id for one in load_golden_set(f"parts/{name}.jsonl")} for name in ("dev", "test")}
    assert before["dev"] < after["dev"]
    assert before["test"] < after["test"]
    code, _, err = ragstone("golden", "split", "golden.jsonl", "--into", "dev=0.2", "--into", "test=0.7", "-o", "x")
    assert (code, "add up to 1" in err) == (2, True)
    assert not (tmp_path / "x").exists()


def test_a_small_set_has_the_must_pass_samples_and_pairs_with_the_whole(ragstone: Ragstone, tmp_path: Path) -> None:
    (tmp_path / "golden.jsonl").write_text(golden_lines(80), encoding="utf-8")
    (tmp_path / "thresholds.toml").write_text(
        '[metrics.faithfulness]\nmin = 0.8\n[must_pass]\nsamples = ["house-77"]\n'
    )
    code, out, _ = ragstone("golden", "sample", "golden.jsonl", "--n", "12", "-o", "smoke.jsonl")
    assert (code, out) == (0, "wrote 12 of 80 samples to smoke.jsonl\n")
    small = load_golden_set("smoke.jsonl")
    assert "house-77" in {one.id for one in small}
    assert {tag for one in small for tag in one.tags} == {"even", "odd"}
    whole = {one.id: one.content_hash() for one in load_golden_set("golden.jsonl")}
    assert all(whole[one.id] == one.content_hash() for one in small)
    assert ragstone("golden", "sample", "golden.jsonl", "--n", "12", "-o", "smoke.jsonl")[0] == 2  # exists
    assert "0 removed" not in ragstone("golden", "diff", "golden.jsonl", "smoke.jsonl")[1]


def test_a_diff_shows_both_values(ragstone: Ragstone, tmp_path: Path) -> None:
    old = write(tmp_path / "old.jsonl", FLAWED)
    new = write(tmp_path / "new.jsonl", [FLAWED[0] | {"reference": "36 months."}, *FLAWED[1:-1]])
    code, out, _ = ragstone("golden", "diff", old, new)
    assert code == 0
    assert "old.jsonl → new.jsonl: 5 the same, 1 changed, 0 with a new id, 0 reworded, 0 added, 1 removed." in out
    assert "    reference: The warranty is 24 months.\n             → 36 months." in out
    assert json.loads(ragstone("golden", "diff", old, new, "--format", "json")[1])["removed"] == ["p3"]


def test_an_import_says_what_it_read_and_pins_it(ragstone: Ragstone, tmp_path: Path) -> None:
    write(
        tmp_path / "examples.jsonl", [{"id": "e1", "inputs": {"frage": "Wo?", "x": 1}, "outputs": {"antwort": "Da."}}]
    )
    code, _, err = ragstone("golden", "import", "examples.jsonl", "--from", "langsmith", "-o", "golden.jsonl")
    assert code == 3
    assert 'question = "input.frage"' in err
    code, _, err = ragstone(
        "golden",
        "import",
        "examples.jsonl",
        "--from",
        "langsmith",
        "-o",
        "golden.jsonl",
        "--column",
        "question=input.frage",
    )
    assert code == 0, err
    assert "no version: pin one with --version" in err
    assert json.loads((tmp_path / "golden.jsonl").read_text(encoding="utf-8"))["provenance"].startswith("langsmith: ")


def test_hostile_text_reaches_the_terminal_harmless(ragstone: Ragstone, tmp_path: Path) -> None:
    row: dict[str, object] = {"question": "A\x1b[2Jb?", "reference": "\x1b]0;x\x07", "tags": ["\u202eevil\x1b[31m"]}
    old = write(tmp_path / "old.jsonl", [row])
    new = write(tmp_path / "new.jsonl", [row | {"question": "C\x1b[2Jd entirely other?"}])
    for arguments in (("stats", old), ("diff", old, new)):
        _, out, err = ragstone("golden", *arguments)
        assert "\x1b" not in out + err
        assert "\u202e" not in out + err
