"""From production to the golden set: logs, a monitor, drafts, a review, a gate."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ragstone.cli.convert import write_samples
from ragstone.cli.review import merge_review, review_page
from ragstone.errors import ConfigError, GoldenSetError
from ragstone.evaluation.redact import Redactor
from ragstone.evaluation.rounds.context import RunContext
from ragstone.gate.source import Source
from ragstone.gate.verdict import Status
from ragstone.golden.load import load_golden_set
from ragstone.golden.sample import Sample, Turn
from ragstone.settings.settings import Settings
from ragstone.tools.generate.near_duplicates import likeness
from ragstone.tools.monitor.alerts_file import parse_alerts
from ragstone.tools.monitor.outcome import Drafts, Monitored
from ragstone.tools.monitor.report import monitor_json, monitor_markdown, monitor_text
from ragstone.tools.monitor.watch import monitor
from tests.cli.project import make_project
from tests.pipeline.houses import gated

START = datetime(2026, 10, 1, 12, tzinfo=UTC)
KEY = {"RAGSTONE_MONITOR_KEY": "a key of ours"}
SOURCE = ["Shoes can be returned for 30 days after delivery, in their box."]
COUNT_ONLY: dict[str, Any] = {"sample": {"size": 0}}


def entry(number: int, query: object, day: int = 0, **more: Any) -> dict[str, Any]:
    when = START + timedelta(days=day, seconds=number)
    return {
        "id": f"i{number}",
        "timestamp": when.isoformat(),
        "query": query,
        "answer": "30 days.",
        "sources": SOURCE,
        **more,
    }


GOOD = [entry(100 + i, f"How long may pupil {name} keep the library books?") for i, name in enumerate("abcdef")]
BAD = [
    entry(1, "Where is the invoice of my latest order?", error="Timeout", answer=""),
    entry(2, "Why was the parcel delivered to a neighbour?", feedback=False),
    entry(3, "Do you ship furniture to Iceland?", sources=[]),
    entry(4, "Can the blue lamp be dimmed?", answer="I don't know."),
]


def write(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def watch(
    folder: Path,
    *logs: Path,
    day: float = 1.5,
    rules: Mapping[str, Any] = COUNT_ONLY,
    golden: str | None = None,
    file: str = "drafts.jsonl",
    secret: str = "",
) -> tuple[Monitored, Drafts]:
    settings = Settings(root=folder)
    paths = [golden] if golden else []
    settings = settings.model_copy(update={"golden": settings.golden.model_copy(update={"paths": paths})})
    context = RunContext(
        environ=KEY, now=lambda: START + timedelta(days=day), redact=Redactor([secret] if secret else [])
    )
    found = asyncio.run(
        monitor(
            [str(log) for log in logs], parse_alerts(rules, Source("alerts.toml")), settings, context,
            state_file=folder / "state.sqlite", out=folder / "out", drafts=folder / file,
        )
    )  # fmt: skip
    assert found.drafts is not None
    return found, found.drafts


def drafts_in(folder: Path) -> list[Sample]:
    file = folder / "drafts.jsonl"
    return list(load_golden_set([str(file)])) if file.exists() else []


def test_bad_cases_become_drafts_with_reason_and_origin_and_without_the_answer(tmp_path: Path) -> None:
    found, made = watch(tmp_path, write(tmp_path / "a.jsonl", GOOD + BAD))
    drafts = {one.question: one for one in drafts_in(tmp_path)}
    assert {question: one.tags for question, one in drafts.items()} == {
        BAD[0]["query"]: ("production", "error"),
        BAD[1]["query"]: ("production", "bad feedback"),
        BAD[2]["query"]: ("production", "no sources"),
        BAD[3]["query"]: ("production", "abstained with sources"),
    }
    for one in drafts.values():
        assert one.draft
        assert (one.reference, one.reference_contexts, one.answerable) == (None, (), True)
        assert one.provenance is not None
        assert "window 2026-10-01, interaction " in one.provenance
    assert made.written == 4
    assert "30 days" not in (tmp_path / "drafts.jsonl").read_text(encoding="utf-8")
    text = monitor_text(found)
    assert "4 drafts added" in text
    assert "Personal data replaced: none" in text
    assert json.loads(monitor_json(found))["drafts"]["written"] == 4
    assert "4 drafts added" in monitor_markdown(found)
    assert not any(str(one["query"]) in text for one in BAD)


def test_the_worst_of_the_scored_sample_comes_with_its_metric(tmp_path: Path) -> None:
    wrong = entry(9, "How many days do returns of shoes take?", answer="Elephants are grey and live in Africa.")
    fine = [
        entry(20 + i, f"May {name} return shoes?", answer="Shoes can be returned for 30 days after delivery.")
        for i, name in enumerate(("anyone", "a pupil", "my aunt", "the king"))
    ]
    watch(tmp_path, write(tmp_path / "a.jsonl", [*fine, wrong]), rules={"drafts": {"size": 1}})
    (draft,) = drafts_in(tmp_path)
    assert draft.question == wrong["query"]
    assert "low faithfulness" in draft.tags


def test_personal_data_is_replaced_and_the_report_and_the_draft_say_so(tmp_path: Path) -> None:
    chat = [
        {"role": "user", "content": "I am Anna Schmidt."},
        {"role": "assistant", "content": "Hello Anna!"},
        {
            "role": "user",
            "content": "Send order 4711-0815 of 2026-10-01 to anna@example.com\nor call +49 30 1234567, token-abcdef",
        },
    ]
    log = write(tmp_path / "a.jsonl", [entry(1, chat, error="x", user={"name": "Anna Schmidt"})])
    rules = {**COUNT_ONLY, "privacy": {"fields": ["user.name", "user.street"]}}
    found, made = watch(tmp_path, log, rules=rules, secret="token-abcdef")
    (draft,) = drafts_in(tmp_path)
    assert draft.question == "Send order 4711-0815 of 2026-10-01 to [email]\nor call [phone], ***"
    assert draft.history == (Turn("user", "I am [name]."), Turn("assistant", "Hello [name]!"))
    assert "personal data replaced" in draft.tags
    assert made.replaced == {"email": 1, "name": 2, "phone": 1, "secret of the environment": 1}
    assert draft.provenance is not None
    assert "1 e-mail address, 2 values of name, 1 phone number, 1 text with a secret" in draft.provenance
    text = monitor_text(found)
    assert "1 e-mail address, 2 values of name, 1 phone number, 1 text with a secret" in text
    assert "No record had the field 'user.street'" in text
    everything = "".join(one.read_text(errors="replace") for one in tmp_path.iterdir() if one.is_file() and one != log)
    assert "Anna" not in everything


def test_a_second_job_adds_nothing_and_what_was_reviewed_stays_byte_for_byte(tmp_path: Path) -> None:
    log = write(tmp_path / "a.jsonl", BAD)
    watch(tmp_path, log)
    file = tmp_path / "drafts.jsonl"
    first, *others = file.read_text(encoding="utf-8").splitlines()
    row = {**json.loads(first), "question": "Who wrote the last chapter?", "status": "reviewed", "reviewer": "anna"}
    reviewed = json.dumps(row, separators=(",", ":"))
    file.write_text("\n".join([reviewed, *others[:1]]), encoding="utf-8")  # two were rejected
    before = file.read_bytes()
    found, made = watch(tmp_path, log)
    assert (made.windows, file.read_bytes()) == ((), before)
    assert "Drafts: there is no new window." in monitor_text(found)

    (tmp_path / "state.sqlite").unlink()  # as for a job that was killed before it remembered
    _, again = watch(tmp_path, log)
    assert again.written == 2
    assert file.read_bytes().startswith(before + b"\n")

    more = write(
        tmp_path / "b.jsonl", [entry(50, "Is the garden open on Sundays in winter?", day=1, error="x"), BAD[0]]
    )
    _, later = watch(tmp_path, log, more, day=2.5)
    assert (later.windows, later.written) == (("2026-10-02",), 1)
    assert len(drafts_in(tmp_path)) == 5


def test_near_duplicates_of_the_golden_set_and_of_each_other_are_left_out(tmp_path: Path) -> None:
    write_samples([Sample("g", "Why was my parcel delivered to a neighbour?")], tmp_path / "golden.jsonl")
    twice = entry(7, "Do you ship  furniture to Iceland??", sources=[])
    found, made = watch(tmp_path, write(tmp_path / "a.jsonl", [*BAD, twice]), golden="golden.jsonl")
    assert len(drafts_in(tmp_path)) == 3
    assert made.left_out == {"nearly the same as a sample or another draft": 2}
    assert "2 nearly the same as" in monitor_text(found)


def test_a_question_far_from_every_golden_one_is_unusual(tmp_path: Path) -> None:
    known = "How long may pupils keep the library books?"
    related = entry(7, "May pupils eat in the library?")
    write_samples([Sample("g", known)], tmp_path / "golden.jsonl")
    odd = entry(8, "Quel vélo convient vraiment aux montagnes enneigées?")
    log = write(tmp_path / "a.jsonl", [*GOOD, related, odd, entry(9, "asdf")])
    watch(tmp_path, log, golden="golden.jsonl")
    (draft,) = drafts_in(tmp_path)
    assert (draft.question, draft.tags) == (odd["query"], ("production", "unusual"))
    assert likeness([known, str(odd["query"]), ""], [known]) == [pytest.approx(1.0), pytest.approx(0.0, abs=0.1), 0.0]
    assert likeness([known], []) == [0.0]


def test_the_number_of_drafts_is_that_of_the_rules_and_each_reason_has_a_turn(tmp_path: Path) -> None:
    words = ["apple", "river", "candle", "window", "mountain", "basket", "ribbon", "lantern"]
    many = [entry(200 + i, f"Where do I find the {word} and its {word}s?", error="x") for i, word in enumerate(words)]
    log = write(tmp_path / "a.jsonl", [*many, *BAD[1:]])
    _, made = watch(tmp_path, log, rules={**COUNT_ONLY, "drafts": {"size": 5}})
    assert made.reasons == {"error": 2, "bad feedback": 1, "no sources": 1, "abstained with sources": 1}
    before = (tmp_path / "drafts.jsonl").read_bytes()
    assert made.written == 5
    assert before.count(b"\n") == 5


HOSTILE = [
    "```\nrm -rf /\n``` ::error::stop <script>alert(1)</script>",
    "\x1b[2J\x00\u202e What is this?\r\nignore the rules",
    '{"status": "reviewed", "id": "golden-1"}',
    "=cmd|' /C calc'!A0",
    "Hello,\r\n\r\n\twhere is my parcel?\n  It was sent on 2026-09-28.\u2028Thanks 🙂",
    "\ud800 half a character in a question",
    "x" * 100_000,
    "a, b, production, reviewed",
]


def test_hostile_questions_are_valid_drafts_or_left_out_by_name(tmp_path: Path) -> None:
    log = write(tmp_path / "a.jsonl", [entry(i, query, error="x") for i, query in enumerate(HOSTILE)])
    found, made = watch(tmp_path, log)
    drafts = drafts_in(tmp_path)
    assert all(one.draft and one.tags[:2] == ("production", "error") for one in drafts)
    assert made.written == len(drafts) >= 6
    assert HOSTILE[4] in [one.question for one in drafts]
    assert made.written + sum(made.left_out.values()) == len(HOSTILE)
    assert made.left_out["too long"] == 1
    review_page(load_golden_set([str(tmp_path / "drafts.jsonl")]))
    assert "\x1b" not in monitor_text(found)


def test_cases_that_are_gone_from_the_logs_are_counted(tmp_path: Path) -> None:
    log = write(tmp_path / "a.jsonl", BAD)
    watch(tmp_path, log, day=0.4)  # the day is not over
    log.write_text("", encoding="utf-8")
    found, made = watch(tmp_path, log)
    assert (made.written, made.left_out) == (0, {"no longer in the logs": 4})
    assert "4 no longer in the logs" in monitor_text(found)


def test_drafts_are_json_lines_and_contain_texts(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="JSON Lines"):
        watch(tmp_path, write(tmp_path / "a.jsonl", BAD), file="drafts.csv")
    with pytest.raises(ConfigError, match="drafts contain questions"):
        watch(tmp_path, write(tmp_path / "a.jsonl", BAD), rules={**COUNT_ONLY, "privacy": {"texts": False}})


def test_a_file_that_is_no_golden_set_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "drafts.jsonl").write_text("notes of mine\n", encoding="utf-8")
    with pytest.raises(GoldenSetError):
        watch(tmp_path, write(tmp_path / "a.jsonl", BAD))
    assert (tmp_path / "drafts.jsonl").read_text(encoding="utf-8") == "notes of mine\n"
    assert not (tmp_path / "state.sqlite").exists()  # nothing was counted: the next job decides and tells all


def test_from_logs_to_a_gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = make_project(
        tmp_path / "repo", n=30, policy='[gate]\ndecision = "point"\n[metrics.faithfulness]\nmin = 0.9\n'
    )
    monkeypatch.chdir(project)
    log = write(project / "log.jsonl", [entry(1, "What is the colour of house number 40?", error="Timeout")])
    _, made = watch(project, log, golden="golden.jsonl", file="golden.jsonl")
    assert made.written == 1
    golden = load_golden_set(["golden.jsonl"])
    assert len(golden) == 31
    found = gated(project, "out")
    assert found.verdict.status is Status.PASS
    assert any("1 sample is a draft" in note for note in found.verdict.notes)

    html, count = review_page(golden)
    assert count == 1
    (item,) = json.loads(html.partition('id="data">')[2].partition("</script>")[0])["items"]
    row = {"key": item["key"], "decision": "accept", "edits": {"reference": "House number 40 is red."}}
    body = {"ragstone": "review", "schema_version": 1, "annotator": "anna", "rows": [row]}
    Path("review-anna.json").write_text(json.dumps(body), encoding="utf-8")
    merged = merge_review(golden, [Path("review-anna.json")], today=date(2026, 11, 22))
    write_samples(merged.samples, Path("golden.jsonl"), force=True)
    reviewed = load_golden_set(["golden.jsonl"]).samples[-1]
    assert (reviewed.draft, reviewed.reference) == (False, "House number 40 is red.")
    assert reviewed.provenance is not None
    assert "ragstone monitor" in reviewed.provenance
    found = gated(project, "out2")
    assert {check.n for check in found.verdict.checks if check.metric == "faithfulness"} == {31}
