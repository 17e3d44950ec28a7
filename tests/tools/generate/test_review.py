"""Drafts: evaluated and shown, counted in no check, and reviewed by people."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ragstone.errors import ConfigError
from ragstone.gate.verdict import Status
from ragstone.golden.load import load_golden_set
from ragstone.golden.sample import GoldenSet, Review, Sample
from ragstone.tools.generate.review import ReviewedSet, apply_decisions, drafts_of, write_review
from tests.cli.project import ragstone, read_rows, write_rows
from tests.pipeline.houses import gated, make_houses, regress

POLICY = "[gate]\nconfirm = false\n[metrics.faithfulness]\nmin = 0.9\nmax_drop = 0.02\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = make_houses(tmp_path / "repo", POLICY)
    monkeypatch.chdir(path)
    return path


def mark(project: Path, wanted: Callable[[int], bool]) -> None:
    """Turn the samples whose number is `wanted` into drafts."""
    rows = read_rows(project / "golden.jsonl")
    for row in rows:
        row["status"] = "draft" if wanted(int(row["id"].removeprefix("house-"))) else "reviewed"
    write_rows(project / "golden.jsonl", rows)


def test_drafts_are_evaluated_and_shown_and_count_in_no_check(project: Path) -> None:
    regress(project)  # every third answer is wrong
    mark(project, lambda number: number % 3 == 0)
    found = gated(project, "out")
    assert found.verdict.status is Status.PASS
    assert {check.n for check in found.verdict.checks if check.metric == "faithfulness"} == {20}
    (note,) = (note for note in found.verdict.notes if "raft" in note)
    assert "10 samples" in note
    assert "faithfulness 0." in note
    rows = {row.id: row for row in found.document.samples.rows}
    assert len(rows) == found.document.samples.total == 30
    assert [rows[name].tags[:1] == ("draft",) for name in ("house-3", "house-4")] == [True, False]
    mark(project, lambda number: True)
    assert gated(project, "out2").verdict.status is Status.ERROR


SET = GoldenSet(
    (
        Sample("a", "What is a?", reference="A.", tags=("x",), review=Review("draft")),
        Sample("b", "What is b?", reference="B.", review=Review("draft")),
        Sample("=c", "What is c?", reference="C.", review=Review("draft")),
        Sample("d", "What is d?", reference="D."),
    )
)


def write_decisions(folder: Path, golden: GoldenSet = SET, **edits: dict[str, str]) -> Path:
    """Write the table of the drafts of `golden`, with cells as a person edits them, by sample id."""
    path = folder / "review.csv"
    path.unlink(missing_ok=True)
    write_review(path, drafts_of(golden))
    with path.open(encoding="utf-8-sig", newline="") as stream:
        rows = list(csv.DictReader(stream))
    for row in rows:
        row.update(edits.get(row["id"].lstrip("'="), {}))
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def apply_table(path: Path, golden: GoldenSet = SET) -> ReviewedSet:
    return apply_decisions(golden, path, reviewer="ann", day="2026-11-22")


def test_decisions_become_status_reviewer_and_date(tmp_path: Path) -> None:
    edits = {"decision": "Accept", "question": " What is A? ", "tags": "x, y", "answerable": "no"}
    reviewed = apply_table(write_decisions(tmp_path, a=edits, b={"decision": "reject"}, c={"comment": "hm"}))
    assert [sample.id for sample in reviewed.samples] == ["a", "=c", "d"]
    first = reviewed.samples[0]
    assert (first.question, first.reference, first.tags, first.answerable) == ("What is A?", "A.", ("x", "y"), False)
    assert first.review == Review("reviewed", "ann", "2026-11-22")
    assert reviewed.samples[1] == SET.samples[2]
    assert (reviewed.accepted, reviewed.edited, reviewed.rejected, reviewed.undecided) == (1, 1, ("b",), 1)
    again = apply_table(write_decisions(tmp_path, c={"decision": "accept"}))
    assert (again.accepted, again.edited) == (1, 0)
    assert replace(again.samples[2], review=None) == replace(SET.samples[2], review=None)


def test_a_sample_that_changed_or_is_gone_is_an_error(tmp_path: Path) -> None:
    table = write_decisions(tmp_path, a={"decision": "accept"})
    changed = GoldenSet((Sample("a", "What is another a?", review=Review("draft")),))
    with pytest.raises(ConfigError, match="'a' has changed since the table was written"):
        apply_table(table, changed)
    with pytest.raises(ConfigError, match="'a' is not in the golden set"):
        apply_table(table, GoldenSet(SET.samples[1:]))


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        ({"decision": "accept", "question": "  "}, "or none with text in it"),
        ({"decision": "perhaps"}, "neither accept nor reject"),
        ({"decision": "accept", "id": "b"}, "has changed since"),
    ],
)
def test_a_table_with_anything_else_is_refused_with_its_line(tmp_path: Path, cells: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says) as refused:
        apply_table(write_decisions(tmp_path, a=cells))
    assert (refused.value.where or "").endswith("review.csv:2")


def test_the_command_lists_the_drafts_and_takes_the_decisions(tmp_path: Path) -> None:
    rows = [{"id": name, "question": f"What is {name}?", "reference": "It is.", "status": "draft"} for name in "bc"]
    write_rows(tmp_path / "golden.jsonl", rows)
    done = ragstone(["review", "golden.jsonl"], tmp_path, exit_code=0)
    assert "2. c\n   Question:   What is c?\n   Reference:  It is." in done.stdout
    ragstone(["review", "golden.jsonl"], tmp_path, exit_code=2)  # the table may have decisions
    golden = load_golden_set("golden.jsonl", root=tmp_path)
    write_decisions(tmp_path, golden, b={"decision": "accept"}, c={"decision": "reject"})
    decide = ["review", "golden.jsonl", "--decisions", "review.csv", "--reviewer", "ann"]
    assert "--decisions needs --output" in ragstone(decide, tmp_path).stderr
    ragstone([*decide, "-o", "golden.jsonl"], tmp_path, exit_code=2)  # it exists
    done = ragstone([*decide, "-o", "golden.jsonl", "--force"], tmp_path, exit_code=0)
    assert "1 accepted (0 of them edited), 1 rejected, 0 drafts without a decision" in done.stdout
    (sample,) = load_golden_set("golden.jsonl", root=tmp_path)
    assert (sample.id, sample.review and sample.review.reviewer) == ("b", "ann")
    assert "no sample is a draft" in ragstone(["review", "golden.jsonl"], tmp_path).stderr
