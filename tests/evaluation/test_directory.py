"""The run directory: written as it goes, whole or refused when read."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstone.errors import RunDirectoryError
from ragstone.evaluation.directory import MANIFEST, SAMPLES, RunDirectory
from ragstone.evaluation.record import record_from_line, record_line, record_to_line
from ragstone.evaluation.run_files import replace_text
from ragstone.evaluation.writer import RunWriter
from ragstone.golden.sample import Origin, Sample
from ragstone.judge.judgements import JudgementFailure, Judgements, ReverseQuestions
from ragstone.judge.protocol import Ledger
from ragstone.metrics.score import Failed, NotApplicable, Scored
from ragstone.system.response import (
    Context,
    ModelCall,
    Response,
    Retrieval,
    SystemFailure,
    SystemFailureKind,
    TokenUsage,
    ToolCall,
)
from tests.evaluation.builders import finished_run, judgement, manifest, one_answer, record, samples, unfinished_run

GOLDEN = samples(4)


def test_a_finished_run_reads_back_as_it_was_written(tmp_path: Path) -> None:
    run = finished_run(tmp_path / "run", GOLDEN)
    again = RunDirectory.open(run.path)
    assert again.manifest == run.manifest
    assert again.manifest.counts.scored == 4
    assert list(again.records()) == [record(s) for s in GOLDEN]
    scores = again.scores()
    assert scores.metrics["faithfulness"].values == {f"q{i}": 0.5 for i in range(4)}
    assert scores.samples["q1"].origin == Origin("golden.jsonl", 2)
    assert again.find(["q2", "nobody"]).keys() == {"q2"}


def test_every_state_of_a_record_survives_the_file() -> None:
    found = (Context("c", "id", 0.1), Context(""))
    call = ToolCall("t", {"n": 10**30, "nested": {"a": [1.5, None, True]}}, "r", "e")
    steps = (Retrieval("q", found[:1], "docs"), call, ModelCall("m", TokenUsage(3, 4), 1.5))
    failure = SystemFailure(SystemFailureKind.TIMEOUT, "60 s", "trace")
    full = one_answer(
        Sample("ü\u2028", "q\n?", "r", ("rc",), {"d1": 2.0}, False, ("t",), "g", Origin("f.csv", None)),
        Response("ü\u2028", "", found, None, TokenUsage(3, 4), failure, steps=(*steps, Retrieval(""), ModelCall(""))),
        (Judgements(JudgementFailure("refused"), reverse_questions=ReverseQuestions(("q",), (0.5,))), judgement()),
        {"a": Scored(1.0, "note"), "b": NotApplicable("n"), "c": Failed("judge", "f")},
        Ledger(1, 2, 3, 4, 5, None),
    )
    assert record_from_line(record_to_line(full), "here") == full


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=40), st.text(max_size=40), st.floats(allow_nan=True, allow_infinity=True))
def test_any_text_and_any_retriever_score_can_be_written_and_read(question: str, answer: str, score: float) -> None:
    before = one_answer(Sample("x", question), Response("x", answer, (Context(answer, None, score),)), (), {})
    line = record_to_line(before)
    assert "\n" not in line
    after = record_from_line(line.encode("utf-8", "replace"), "here")
    assert after.sample.question == question.encode("utf-8", "replace").decode()


def test_resuming_cuts_off_a_half_written_line_and_ends_in_the_order_of_the_golden_set(tmp_path: Path) -> None:
    path = tmp_path / "run"
    unfinished_run(path, GOLDEN, upto=2)._stream.close()
    assert RunDirectory.open(path).manifest.state == "running"
    whole = (path / SAMPLES).read_bytes()
    assert whole.count(b"\n") == 2, "each record is on disk at once"
    (path / SAMPLES).write_bytes(whole + whole[: len(whole) // 3])
    resumed = RunWriter.resume(path, manifest(GOLDEN))
    assert set(resumed.finished_ids) == {"q0", "q1"}
    for sample in reversed(GOLDEN.samples[2:]):
        resumed.append(record_line(record(sample)))
    run = resumed.finish((s.id for s in GOLDEN), wall_s=0)
    assert [r.sample.id for r in run.records()] == ["q0", "q1", "q2", "q3"]
    assert run.manifest.counts.scored == 4


def test_resuming_another_evaluation_is_refused_with_what_differs(tmp_path: Path) -> None:
    unfinished_run(tmp_path / "run", GOLDEN, upto=2)._stream.close()
    with pytest.raises(RunDirectoryError, match="judge"):
        RunWriter.resume(tmp_path / "run", manifest(GOLDEN, judge_version="2"))
    with pytest.raises(RunDirectoryError, match="golden"):
        RunWriter.resume(tmp_path / "run", manifest(samples(5)))
    with pytest.raises(RunDirectoryError, match="metrics"):
        RunWriter.resume(tmp_path / "run", manifest(GOLDEN).model_copy(update={"metrics": {"token_f1": "1"}}))


@pytest.mark.parametrize(
    ("run", "name", "says"),
    [
        ("", "thesis.tex", "does not contain a run"),
        ("", "manifest.json", "does not contain a run"),
        ("", "link/x", "does not contain a run"),
        ("", ".git/HEAD", "does not contain a run"),
        (".git", ".git/HEAD", "git's own folder"),
        (".git/run", ".git/HEAD", "git's own folder"),
        ("thesis.tex", "thesis.tex", "is a file"),
    ],
)
def test_what_is_something_else_or_only_looks_like_a_run_is_never_written_to(
    tmp_path: Path, run: str, name: str, says: str
) -> None:
    place = tmp_path / "place"
    (tmp_path / "precious").mkdir()
    place.mkdir()
    (place / "link").symlink_to(tmp_path / "precious")
    (place / name).parent.mkdir(exist_ok=True)
    (place / name).write_text('{"manifest_version": 3, "name": "an extension"}')
    before = sorted(place.rglob("*"))
    with pytest.raises(RunDirectoryError, match=says):
        RunWriter.create(place / run, manifest(GOLDEN))
    assert sorted(place.rglob("*")) == before
    assert "an extension" in (place / name).read_text()


def test_secrets_are_redacted_before_a_record_is_written(tmp_path: Path) -> None:
    writer = RunWriter.create(tmp_path / "run", manifest(GOLDEN), redact=lambda text: text.replace("It is so", "***"))
    writer.append(record_line(record(GOLDEN.samples[0])))
    writer._stream.close()
    assert "It is so" not in (tmp_path / "run" / SAMPLES).read_text()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: {**m, "schema_version": 1}, "not a valid manifest: 'schema_version' must be 2"),
        (lambda m: {**m, "counts": {**m["counts"], "scored": -1}}, "counts.scored"),
        (lambda m: [m], "not a valid manifest"),
    ],
)
def test_a_manifest_that_is_not_valid_is_refused(tmp_path: Path, change: object, message: str) -> None:
    run = finished_run(tmp_path / "run", GOLDEN)
    body = json.loads((run.path / MANIFEST).read_text())
    (run.path / MANIFEST).write_text(json.dumps(change(body)))  # type: ignore[operator]
    with pytest.raises(RunDirectoryError, match=message):
        RunDirectory.open(run.path)


def test_no_directory_no_manifest_and_a_huge_manifest_are_each_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(RunDirectoryError, match="nowhere: there is no such directory"):
        RunDirectory.open(tmp_path / "nowhere")
    with pytest.raises(RunDirectoryError, match="not a run directory"):
        RunDirectory.open(tmp_path)
    (tmp_path / MANIFEST).write_bytes(b" " * (4 * 1024 * 1024 + 1))
    with pytest.raises(RunDirectoryError, match="larger than 4,194,304 bytes"):
        RunDirectory.open(tmp_path)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"value":0.5', b'"value":1.5'),
        (b'"value":0.5', b'"value":NaN'),
        (b'"state":"scored"', b'"state":"perfect"'),
        (b'"latency_s":0.1', b'"latency_s":-0.1'),
        (b'"latency_s":0.1', b'"usage":{"input_tokens":-1,"output_tokens":2}'),
        (b'"id":"q1"', b'"id":"q0"'),
        (b'"faithfulness"', b'"other"'),
    ],
)
def test_a_record_that_lies_is_refused_with_its_line(tmp_path: Path, old: bytes, new: bytes) -> None:
    run = finished_run(tmp_path / "run", GOLDEN)
    lines = (run.path / SAMPLES).read_bytes().splitlines(keepends=True)
    lines[1] = lines[1].replace(old, new)
    (run.path / SAMPLES).write_bytes(b"".join(lines))
    with pytest.raises(RunDirectoryError, match=r"samples\.jsonl:2"):
        RunDirectory.open(run.path).scores()


def test_records_that_were_cut_or_are_too_many_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = finished_run(tmp_path / "run", GOLDEN)
    whole = (run.path / SAMPLES).read_bytes()
    two = b"".join(whole.splitlines(keepends=True)[:2])
    for body, says in ((two, "counts 4 samples, but the file has 2"), (whole[:-20], r"samples\.jsonl:4")):
        (run.path / SAMPLES).write_bytes(body)
        with pytest.raises(RunDirectoryError, match=says):
            RunDirectory.open(run.path).scores()
    monkeypatch.setattr("ragstone.evaluation.records_file.MAX_SAMPLES", 4)
    (run.path / SAMPLES).write_bytes(whole)
    assert len(list(run.records())) == 4
    (run.path / SAMPLES).write_bytes(whole * 2)
    with pytest.raises(RunDirectoryError, match=r"samples\.jsonl:5: the run has more than 4 samples"):
        list(run.records())
    (run.path / SAMPLES).unlink()
    with pytest.raises(RunDirectoryError, match="can't be read"):
        RunDirectory.open(run.path).scores()


# -- one that came from elsewhere can neither hang a reader nor send a writer to another place -------------------------


@pytest.mark.parametrize("name", [MANIFEST, SAMPLES])
def test_a_pipe_in_place_of_a_file_is_refused_at_once(tmp_path: Path, name: str) -> None:
    run = finished_run(tmp_path / "run", GOLDEN)
    (run.path / name).unlink()
    os.mkfifo(run.path / name)
    with pytest.raises(RunDirectoryError, match="not a regular file") as caught:
        RunDirectory.open(run.path).scores()
    assert (caught.value.where or "").endswith(name)


def test_a_new_run_replaces_links_and_writes_through_none(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    run = finished_run(tmp_path / "run", GOLDEN)
    for name in (SAMPLES, f".{MANIFEST}.tmp", f".{SAMPLES}.tmp"):
        (run.path / name).unlink(missing_ok=True)
        (run.path / name).symlink_to(victim)
    again = RunWriter.create(run.path, manifest(GOLDEN))
    for sample in reversed(GOLDEN.samples):  # so that finish has to sort
        again.append(record_line(record(sample)))
    again.finish((s.id for s in GOLDEN), wall_s=1.0)
    assert victim.read_text() == "mine"
    assert not (run.path / SAMPLES).is_symlink()
    assert len(list(RunDirectory.open(run.path).records())) == 4


def test_resuming_never_cuts_or_extends_what_a_link_points_at(tmp_path: Path) -> None:
    unfinished_run(tmp_path / "run", GOLDEN, upto=1)._stream.close()
    victim = tmp_path / "victim"
    (tmp_path / "run" / SAMPLES).replace(victim)
    (tmp_path / "run" / SAMPLES).symlink_to(victim)
    before = victim.read_bytes()
    with pytest.raises(RunDirectoryError, match="link"):
        RunWriter.resume(tmp_path / "run", manifest(GOLDEN))
    assert victim.read_bytes() == before


def test_text_is_replaced_in_one_step(tmp_path: Path) -> None:
    victim, link = tmp_path / "victim", tmp_path / "report.md"
    victim.write_text("mine")
    link.symlink_to(victim)
    replace_text(link, "ü\n")
    assert (victim.read_text(), link.read_bytes()) == ("mine", "ü\n".encode())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.md", "victim"]


@pytest.mark.parametrize("example", ["docs-qa", "support-agent"])
def test_runs_that_were_stored_by_earlier_versions_are_read(example: str) -> None:
    """A field that is renamed would make every baseline in use unreadable."""
    run = RunDirectory.open(Path(__file__).parents[2] / "examples" / example / "baseline")
    stored = [json.loads(line) for line in (run.path / SAMPLES).read_text(encoding="utf-8").splitlines()]
    for found, expected in zip(run.records(), stored, strict=True):
        assert json.loads(record_to_line(found)) == expected
