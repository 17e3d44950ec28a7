"""`ragstone label`: drawn, labelled, merged, and compared with the judge."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragstone.evaluation.directory import RunDirectory
from ragstone.gate.calibration import read_calibration
from ragstone.metrics.registry import DEFAULT, find_metric
from ragstone.tools.judging.labelling.labelling import (
    Batch,
    disagree,
    draw_batch,
    merge_labels,
    questions,
    read_batch,
)
from tests.pipeline.conftest import Ragstone, WriteRun


@pytest.fixture
def run(write_run: WriteRun, tmp_path: Path) -> RunDirectory:
    rng = random.Random(0)
    values = {f"q{i}": round(rng.random(), 3) for i in range(80)}
    return write_run(tmp_path / "run", {"faithfulness": values, "answer_correctness": values})


def save(folder: Path, batch: Batch, annotator: str, label: Callable[[str], Any], *, comment: str = "") -> None:
    """The file that the page of `annotator` saves."""
    items = batch.items if annotator == "adjudicate" else batch.of(annotator)
    rows = [
        {
            "key": batch.keys[one.id],
            "labels": dict.fromkeys(batch.metrics, value),
            "comment": comment,
            "at": "2026-11-22T00:00:00Z",
        }
        for one in items
        if (value := label(one.id)) is not None
    ]
    body = {"ragstone": "label", "schema_version": 1, "batch": f"{batch.key}-{annotator}", "annotator": annotator}
    (folder / f"{annotator}.json").write_text(json.dumps({**body, "saved_at": "2026", "rows": rows}), encoding="utf-8")


def passes(run: RunDirectory) -> Callable[[str], str]:
    values = run.scores().metrics["faithfulness"].values
    return lambda name: "pass" if values[name] >= 0.6 else "fail"


def test_a_batch_is_drawn_labelled_merged_and_calibrated(ragstone: Ragstone, run: RunDirectory, tmp_path: Path) -> None:
    code, out, err = ragstone(
        *("label", "draw", "run", "--n", "40", "--annotators", "anna,ben", "--overlap", "20", "--by", "uncertainty"),
    )
    assert code == 0, err
    assert "drew 40 answers of 80, by uncertainty, for faithfulness" in out
    folder = tmp_path / "labels"
    batch = read_batch(folder)
    assert sorted(len(batch.of(name)) for name in ("anna", "ben")) == [30, 30]
    assert sum(len(one.annotators) == 2 for one in batch.items) == 20
    assert sorted(path.name for path in folder.iterdir()) == ["anna.html", "batch.json", "ben.html"]
    assert "ben: 0 of 30, no file yet" in ragstone("label", "status")[1]
    assert ragstone("label", "merge")[0] == 2  # nothing to merge

    people = passes(run)
    twice = [one.id for one in batch.items if len(one.annotators) == 2]
    save(folder, batch, "anna", people, comment="as I see it")
    save(
        folder,
        batch,
        "ben",
        lambda name: {"pass": "fail", "fail": "pass"}[people(name)] if name in twice[:3] else people(name),
    )
    code, out, err = ragstone("label", "merge", "--run", "run")
    assert code == 0, err
    assert "anna and ben: Cohen's kappa" in out
    assert "all: Krippendorff's alpha (nominal)" in out
    assert "3 to adjudicate; until then, the mean of their labels counts:" in out
    rows = [json.loads(line) for line in (folder / "labels.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(rows) == 60
    share = {one.id: one.probability for one in batch.items}
    assert all(row["probability"] == share[row["id"]] for row in rows)
    page = (folder / "adjudicate.html").read_text(encoding="utf-8")
    assert "2 labels: fail, pass" in page
    assert "anna" not in page.partition('id="data">')[2].partition("</script>")[0]  # by whom is not shown

    save(folder, batch, "adjudicate", lambda name: people(name) if name in twice[:3] else None)
    code, out, _ = ragstone("label", "merge")
    assert "3 labels adjudicated." in out
    assert "to adjudicate" not in out
    rows = [json.loads(line) for line in (folder / "labels.jsonl").read_text(encoding="utf-8").splitlines()]
    assert {
        (row["annotator"], row["label"] == (people(row["id"]) == "pass")) for row in rows if row["id"] in twice[:3]
    } == {
        ("anna", True),
        ("ben", False),
        ("adjudicate", True),
    }
    assert len({row["id"] for row in rows}) == 40

    code, out, err = ragstone("calibrate", "labels/labels.jsonl", "--run", "run", "--output", "calibration.json")
    assert code == 0, err
    assert "weighted by the probability of being drawn" in out
    found = read_calibration(tmp_path / "calibration.json").metrics["faithfulness"]
    assert len(found.weights) == 40
    # What people settled decides; how far they agreed is still what each said before.
    assert all(label == float(people(name) == "pass") for name, (_, label) in found.pairs.items())
    assert found.annotators == ("anna", "ben")
    (alpha,) = [one.alpha for one in merge_labels(folder).agreement if one.alpha]
    assert found.people is not None
    assert found.people.estimate is not None
    assert found.people.estimate == pytest.approx(alpha.estimate)
    assert found.people.estimate < 0.8
    truth = sum(people(name) == "pass" for name in run.scores().samples) / 80
    assert found.corrected.low is not None
    assert found.corrected.high is not None
    assert found.corrected.low <= truth <= found.corrected.high


def test_a_page_for_all_answers_is_made_with_one_word(ragstone: Ragstone, run: RunDirectory, tmp_path: Path) -> None:
    code, out, _ = ragstone("label", "run", "--metrics", "faithfulness,answer_correctness")
    assert code == 0
    assert "drew 80 answers of 80, by random, for faithfulness, answer_correctness" in out
    assert (tmp_path / "labels" / "me.html").is_file()
    code, _, err = ragstone("label", "run")
    assert (code, "already has a batch" in err) == (2, True)


def test_pages_do_not_show_what_the_judge_said(ragstone: Ragstone, run: RunDirectory, tmp_path: Path) -> None:
    assert ragstone("label", "draw", "run", "--n", "5")[0] == 0
    data = (tmp_path / "labels" / "me.html").read_text(encoding="utf-8").partition('id="data">')[2]
    items = json.loads(data.partition("</script>")[0])["items"]
    assert len(items) == 5
    fields = {"key", "id", "question", "answer", "reference", "contexts", "tags", "statements", "others", "fields"}
    assert all(item.keys() == fields for item in items)
    assert all(item["others"] == {} for item in items)


def test_keys_in_answers_are_not_written_into_pages(
    ragstone: Ragstone, write_run: WriteRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-a-real-key-0123456789")
    write_run(tmp_path / "run", {"faithfulness": {"sk-not-a-real-key-0123456789": 0.5}})
    assert ragstone("label", "draw", "run")[0] == 0
    page = (tmp_path / "labels" / "me.html").read_text(encoding="utf-8")
    assert "sk-not-a-real-key" not in page


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--n", "81"), "can't draw 81 of 80 scored answers"),
        (("--n", "5", "--overlap", "6"), "with an overlap of 6"),
        (("--annotators", "anna,anna"), "name each annotator once"),
        (("--annotators", "../x"), "can't be an annotator's name"),
        (("--annotators", "adjudicate"), "can't be an annotator's name"),
        (("--metrics", "faithfulnes"), "Did you mean 'faithfulness'?"),
        (("--by", "disagreement"), "no judging rounds or answers disagree"),
    ],
)
def test_what_can_not_be_drawn_is_said(
    ragstone: Ragstone, run: RunDirectory, arguments: tuple[str, ...], says: str
) -> None:
    code, _, err = ragstone("label", "draw", "run", *arguments)
    assert code == 2
    assert says in err


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"batch": "other-me"}, "another batch"),
        ({"annotator": "eve"}, "of another batch or annotator (eve)"),
        ({"schema_version": 2}, "schema_version"),
        ({"rows": [{"key": "q1", "labels": {}}]}, "'q1', which was not assigned to me"),
        ({"rows": [{"key": "1", "labels": {"faithfulness": 7}}]}, "rows.0.labels"),
        ({"rows": [{"key": "1", "labels": {"faithfulness": "perhaps"}}]}, "rows.0.labels"),
    ],
)
def test_a_file_that_no_page_of_the_batch_saved_is_refused(
    ragstone: Ragstone, run: RunDirectory, tmp_path: Path, change: dict[str, Any], says: str
) -> None:
    ragstone("label", "draw", "run")
    folder = tmp_path / "labels"
    save(folder, read_batch(folder), "me", passes(run))
    body = json.loads((folder / "me.json").read_text(encoding="utf-8"))
    (folder / "me.json").write_text(json.dumps(body | change), encoding="utf-8")
    code, _, err = ragstone("label", "merge")
    assert code == 2
    assert says in err


def test_the_uncertain_are_drawn_more_often_and_every_answer_can_be(run: RunDirectory) -> None:
    batch = draw_batch(run, n=30, annotators=["a"], by="uncertainty")
    values = run.scores().metrics["faithfulness"].values
    sizes = {one.id: 0.2 + 0.8 * (1 - abs(2 * values[one.id] - 1)) for one in batch.items}
    ratios = {round(one.probability / sizes[one.id], 6) for one in batch.items if one.probability < 1}
    assert len(ratios) == 1
    assert draw_batch(run, n=30, annotators=["a"], by="uncertainty") == batch
    assert draw_batch(run, n=30, annotators=["a"], by="uncertainty", seed=1) != batch
    assert {one.probability for one in draw_batch(run, n=30, annotators=["a"]).items} == {30 / 80}


def test_three_people_have_a_fleiss_kappa(ragstone: Ragstone, run: RunDirectory, tmp_path: Path) -> None:
    ragstone("label", "draw", "run", "--n", "20", "--annotators", "a,b,c", "--overlap", "20", "--scale", "1-5")
    batch = read_batch(tmp_path / "labels")
    values = run.scores().metrics["faithfulness"].values
    for shift, name in enumerate("abc"):
        higher = {one: min(5, 1 + int(4 * value) + (shift == 2)) for one, value in values.items()}
        save(tmp_path / "labels", batch, name, higher.__getitem__)
    out = ragstone("label", "merge")[1]
    assert "a and b: quadratically weighted kappa" in out
    assert "all: Fleiss' kappa" in out
    assert "alpha (ordinal)" in out
    assert "to adjudicate" not in out  # a difference of one is none


@pytest.mark.parametrize(
    ("values", "scale", "expected"),
    [([1.0], "pass-fail", False), ([1.0, 0.0], "pass-fail", True), ([0.25, 0.5], "1-5", False),
     ([0.25, 0.75], "1-5", True), ([0.5, 0.75], "statements", True)],
)  # fmt: skip
def test_what_has_to_be_settled(values: list[float], scale: Any, expected: bool) -> None:
    assert disagree(values, scale) is expected


@pytest.mark.parametrize("name", questions())
def test_a_question_is_two_sentences_with_a_labelled_example(name: str) -> None:
    asked = questions()[name]
    assert find_metric(name) is not None
    assert len(re.findall(r"[.?](?= |$)", asked["ask"])) == 2
    assert re.search(r"→ (good|bad): ", asked["example"])


def test_what_people_are_asked_by_default_is_explained() -> None:
    assert set(DEFAULT) <= questions().keys()
