"""Drafts: evaluated and shown, counted in no check, and reviewed by people."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from ragstone.cli.review import merge_review, review_page
from ragstone.errors import ConfigError
from ragstone.gate.verdict import Status
from ragstone.golden.load import load_golden_set
from ragstone.golden.sample import GoldenSet, Review, Sample
from ragstone.report.render import render
from tests.cli.project import ragstone
from tests.pipeline.houses import gated, make_houses, regress

POLICY = '[gate]\ndecision = "point"\n[metrics.faithfulness]\nmin = 0.9\nmax_drop = 0.02\n'


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = make_houses(tmp_path / "repo", POLICY)
    monkeypatch.chdir(path)
    return path


def mark(project: Path, wanted: Callable[[int], bool]) -> None:
    """Turn the samples whose number is `wanted` into drafts."""
    file = project / "golden.jsonl"
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    for row in rows:
        row.pop("status", None)
        if wanted(int(row["id"].removeprefix("house-"))):
            row["status"] = "draft"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def test_drafts_are_evaluated_and_shown_and_count_in_no_check(project: Path) -> None:
    regress(project)  # every third answer is wrong
    mark(project, lambda number: number % 3 == 0)
    found = gated(project, "out")
    assert found.verdict.status is Status.PASS
    assert {check.n for check in found.verdict.checks if check.metric == "faithfulness"} == {20}
    (note,) = (note for note in found.verdict.notes if "draft" in note)
    assert note.startswith("10 samples are drafts")
    assert "faithfulness 0." in note
    rows = {row.id: row for row in found.document.samples.rows}
    assert len(rows) == found.document.samples.total == 30
    assert rows["house-3"].tags[0] == "draft"
    assert "draft" not in rows["house-4"].tags
    assert "10 samples are drafts" in render(found.document, "md")

    mark(project, lambda number: False)
    assert gated(project, "out2").verdict.status is Status.FAIL


def test_a_sample_that_is_turned_into_a_draft_is_named_with_its_scores(project: Path) -> None:
    gated(project, "main")
    regress(project)
    mark(project, lambda number: number % 3 == 0)
    found = gated(project, "out", gate__baseline="main")
    assert found.exit_code == 6  # a third of the baseline is no longer compared
    (project / "thresholds.toml").write_text(POLICY.replace("[gate]", "[gate]\nmax_edited = 0.4"), encoding="utf-8")
    found = gated(project, "out", gate__baseline="main")
    assert found.verdict.status is Status.PASS
    (warning,) = (one for one in found.document.warnings if "draft" in one)
    assert warning.startswith("10 samples")
    assert "house-0 (faithfulness 0.00)" in warning


def test_new_drafts_are_no_cause_for_a_warning(project: Path) -> None:
    gated(project, "main")
    with (project / "golden.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"id": "new", "question": "What is the colour of house number 40?", "status": "draft"}\n')
    found = gated(project, "out", gate__baseline="main")
    assert found.verdict.status is Status.PASS
    assert not any("draft" in one for one in found.document.warnings)
    assert not any("golden set changed" in one for one in found.verdict.notes)


def test_a_golden_set_of_drafts_alone_decides_nothing(project: Path) -> None:
    mark(project, lambda number: True)
    found = gated(project, "out")
    assert found.verdict.status is Status.ERROR


SET = GoldenSet(
    (
        Sample("a", "What is a?", reference="A.", tags=("x",), review=Review("draft")),
        Sample("b", "What is b?", reference="B.", review=Review("draft")),
        Sample("c", "What is c?", reference="C.", review=Review("draft")),
        Sample("d", "What is d?", reference="D."),
    )
)


def keys() -> dict[str, str]:
    html, _ = review_page(SET, everything=True)
    items = json.loads(html.partition('id="data">')[2].partition("</script>")[0])["items"]
    return {one["key"].partition(" ")[2]: one["key"] for one in items}


def saved(folder: Path, name: str, **rows: dict[str, Any]) -> Path:
    path = folder / f"review-{name}.json"
    body = {"ragstone": "review", "schema_version": 1, "batch": "x", "annotator": name, "saved_at": "2026"}
    listed = [{"key": keys()[key], "at": "2026-11-22T10:00:00.000Z", **row} for key, row in rows.items()]
    path.write_text(json.dumps({**body, "rows": listed}), encoding="utf-8")
    return path


def test_decisions_become_status_reviewer_and_date(tmp_path: Path) -> None:
    edits = {"question": " What is A? ", "tags": "x, y", "answerable": False}
    file = saved(
        tmp_path, "anna", a={"decision": "accept", "edits": edits, "comment": "hm"}, b={"decision": "reject"}, c={}
    )
    found = merge_review(SET, [file], today=date(2026, 11, 23))
    assert [one.id for one in found.samples] == ["a", "c", "d"]
    first = found.samples[0]
    assert (first.question, first.reference, first.tags, first.answerable) == ("What is A?", "A.", ("x", "y"), False)
    assert first.review == Review("reviewed", "anna", "2026-11-22")
    assert found.samples[1] == SET.samples[2]
    assert (found.accepted, found.edited, found.rejected, found.left) == (1, 1, ("b",), 1)
    assert found.comments == (("a", "hm"),)


def test_reviewers_who_disagree_and_samples_that_changed_are_errors(tmp_path: Path) -> None:
    anna, ben = saved(tmp_path, "anna", a={"decision": "accept"}), saved(tmp_path, "ben", a={"decision": "reject"})
    with pytest.raises(ConfigError, match="decided differently by anna and ben"):
        merge_review(SET, [anna, ben], today=date(2026, 11, 23))
    same = saved(tmp_path, "cleo", a={"decision": "accept"}, b={"decision": "accept"})
    assert merge_review(SET, [anna, same], today=date(2026, 11, 23)).accepted == 2
    changed = GoldenSet((Sample("a", "What is another a?", review=Review("draft")),))
    with pytest.raises(ConfigError, match="'a' has changed since the page was made"):
        merge_review(changed, [anna], today=date(2026, 11, 23))
    with pytest.raises(ConfigError, match="'a' is not in the golden set"):
        merge_review(GoldenSet(SET.samples[1:]), [anna], today=date(2026, 11, 23))


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"decision": "accept", "edits": {"question": "  "}}, "leaves no question"),
        ({"decision": "accept", "edits": {"id": "x"}}, "rows.0.edits.id"),
        ({"decision": "perhaps"}, "'rows.0.decision' must be 'accept'"),
        ({"decision": "accept", "edits": {"reference": "\x00"}}, "null character"),
    ],
)
def test_a_file_with_anything_else_is_refused(tmp_path: Path, row: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError) as refused:
        merge_review(SET, [saved(tmp_path, "eve", a=row)], today=date(2026, 11, 23))
    assert says in str(refused.value)
    other = tmp_path / "report.json"
    other.write_text('{"rows": []}', encoding="utf-8")
    with pytest.raises(ConfigError, match="is missing"):
        merge_review(SET, [other], today=date(2026, 11, 23))


def test_the_command_makes_a_page_and_merges_its_file(tmp_path: Path) -> None:
    rows = [
        {"id": name, "question": f"What is {name}?", "reference": f"{name.upper()}.", "status": "draft"}
        for name in "bc"
    ]
    (tmp_path / "golden.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    done = ragstone(["review", "golden.jsonl", "--reviewer", "anna"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert "review.html  2 samples" in done.stdout
    saved(tmp_path, "anna", b={"decision": "accept"}, c={"decision": "reject"})
    merge = ["review", "merge", "golden.jsonl", "review-anna.json", "-o", "golden.jsonl"]
    assert ragstone(merge, tmp_path).returncode == 2  # it exists
    done = ragstone([*merge, "--force"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.findall(r"\d+", done.stdout.partition("accepted")[0])[-1:] == ["1"]
    (sample,) = load_golden_set("golden.jsonl", root=tmp_path)
    assert sample.review == Review("reviewed", "anna", "2026-11-22")
    assert "no sample is a draft" in ragstone(["review", "golden.jsonl"], tmp_path).stderr
