"""From production to the golden set: bad answers become drafts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ragstone.errors import ConfigError, GoldenSetError
from ragstone.golden.load import load_golden_set
from ragstone.golden.sample import Message, Sample
from ragstone.settings.settings import Settings
from ragstone.tools.monitor.drafts import MAX_DRAFTS, read_samples
from ragstone.tools.monitor.report import monitor_text
from tests.tools.monitor.production import SOURCE, WRONG, interaction, monitor_day, write

BAD = [
    interaction(0.1, "Why was the parcel delivered to a neighbour?", feedback=False),
    interaction(0.2, "How many days do returns of shoes take?", answer=WRONG, sources=[SOURCE]),
    interaction(0.3, "May a pupil return shoes?", sources=[SOURCE], feedback=True),
]
POLICY = {"monitor": {"sample": 20}}


def drafts_in(folder: Path) -> list[Sample]:
    return list(load_golden_set([str(folder / "drafts.jsonl")]))


def test_bad_feedback_and_low_scores_become_drafts_with_provenance_and_without_the_answer(tmp_path: Path) -> None:
    log = write(tmp_path / "a.jsonl", BAD)
    monitored = monitor_day(tmp_path, log, policy=POLICY, drafts="drafts.jsonl")
    drafts = {draft.question: draft for draft in drafts_in(tmp_path)}
    assert {question: draft.tags for question, draft in drafts.items()} == {
        BAD[0]["query"]: ("production", "bad feedback"),
        BAD[1]["query"]: ("production", "low faithfulness"),
    }
    for draft in drafts.values():
        assert draft.is_draft
        assert (draft.reference, draft.reference_contexts) == (None, ())
        assert "window 2026-10-01, interaction " in (draft.provenance or "")
    assert f"drafts added to {tmp_path / 'drafts.jsonl'}: 2" in monitor_text(monitored)


def test_personal_data_is_replaced(tmp_path: Path) -> None:
    chat = [
        {"role": "user", "content": "I am anna@example.com."},
        {"role": "assistant", "content": "Hello!"},
        {"role": "user", "content": "Send order 4711-0815 to +49 30 1234567, token-abcdef"},
    ]
    log = write(tmp_path / "a.jsonl", [{**interaction(0.1), "query": chat, "feedback": "bad"}])
    monitor_day(tmp_path, log, drafts="drafts.jsonl", secrets=["token-abcdef"])
    (draft,) = drafts_in(tmp_path)
    assert draft.question == "Send order 4711-0815 to [phone], ***"
    assert draft.history == (Message("user", "I am [email]."), Message("assistant", "Hello!"))


def test_a_second_job_adds_nothing_and_what_was_reviewed_stays_byte_for_byte(tmp_path: Path) -> None:
    log = write(tmp_path / "a.jsonl", BAD)
    monitor_day(tmp_path, log, policy=POLICY, drafts="drafts.jsonl")
    file = tmp_path / "drafts.jsonl"
    first, *others = file.read_text(encoding="utf-8").splitlines()
    row = {**json.loads(first), "question": "Who wrote the last chapter?", "status": "reviewed", "reviewer": "anna"}
    file.write_text("\n".join([json.dumps(row, separators=(",", ":")), *others]), encoding="utf-8")
    before = file.read_bytes()
    monitor_day(tmp_path, log, policy=POLICY, drafts="drafts.jsonl")
    assert file.read_bytes() == before
    log = write(tmp_path / "b.jsonl", [interaction(1.5, "Is the garden open on Sundays?", feedback=False)])
    monitor_day(tmp_path, log, day=2, drafts="drafts.jsonl")
    assert file.read_bytes().startswith(before + b"\n")
    assert len(drafts_in(tmp_path)) == 3


def test_near_duplicates_of_the_golden_set_and_of_each_other_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "golden.jsonl").write_text('{"question": "Why was my parcel delivered to a neighbour?"}\n')
    twice = [interaction(0.5, f"Do you ship  furniture to Iceland{marks}", feedback=False) for marks in ("?", "??")]
    log = write(tmp_path / "a.jsonl", [BAD[0], twice[0], {**twice[1], "id": "x"}])
    monitored = monitor_day(tmp_path, log, drafts="drafts.jsonl", golden="golden.jsonl")
    assert len(drafts_in(tmp_path)) == 1
    assert "or no valid sample: 2" in monitor_text(monitored)


def test_of_each_reason_only_so_many(tmp_path: Path) -> None:
    words = ["apple", "boat", "candle", "dragon", "engine", "forest", "garden", "hammer", "island", "jacket", "kettle"]
    log = write(
        tmp_path / "a.jsonl", [interaction(n / 20, f"What is {word}?", feedback=0) for n, word in enumerate(words)]
    )
    monitor_day(tmp_path, log, drafts="drafts.jsonl")
    drafts = drafts_in(tmp_path)
    assert len(drafts) == MAX_DRAFTS
    assert "What is apple?" not in [draft.question for draft in drafts], "the oldest"


@pytest.mark.parametrize(
    ("file", "error", "says"),
    [("drafts.csv", ConfigError, "written as JSON Lines"), ("drafts.jsonl", GoldenSetError, "drafts.jsonl:1")],
)
def test_a_file_that_takes_no_drafts_is_refused_before_anything_is_judged(
    tmp_path: Path, file: str, error: type[Exception], says: str
) -> None:
    (tmp_path / file).write_text("{")
    with pytest.raises(error, match=says):
        monitor_day(tmp_path, write(tmp_path / "a.jsonl", BAD), policy=POLICY, drafts=file)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl", file]
    columns = (
        Settings(root=tmp_path).with_value("golden.paths", ["g.jsonl"]).with_value("golden.columns", {"question": "q"})
    )
    with pytest.raises(ConfigError, match=r"is read with \[golden\] columns"):
        read_samples(tmp_path / "g.jsonl", columns)
