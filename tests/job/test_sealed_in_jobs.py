"""Sealed questions in jobs on GitHub: asked on the default branch, and read nowhere else."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragstone.ci.github.event import EventKind, build_event
from ragstone.config.settings import Settings
from ragstone.job.trusted_config import Trusted, with_sealed
from tests.ci.github.fake import BASE_SHA, FakeGitHub
from tests.ci.github.payloads import payload_of, pull_request, runner
from tests.commands.test_sealed import CANARY, MARKS, sealed_lines, stored
from tests.job.builders import FACTS, Checkout, Outcome
from tests.job.test_baseline_in_jobs import Season

SYSTEM = f"""
import sys
FACTS = {{question: fact for _, question, fact in {FACTS!r}}}

def answer(question):
    print("asked", question, file=sys.stderr, flush=True)
    if "{CANARY}" in question and "519" in question:
        raise ValueError(question)
    fact = FACTS.get(question, "It is painted red. {CANARY}.")
    return {{"answer": fact, "contexts": [{{"id": "d", "text": fact}}]}}
"""


@pytest.fixture
def season(github: FakeGitHub, tmp_path: Path) -> Season:
    found = Season(github, Checkout(tmp_path))
    (tmp_path / "vault").mkdir()
    (tmp_path / "vault" / "questions.jsonl").write_text(sealed_lines(), encoding="utf-8")
    found.checkout.write("rag.py", SYSTEM)
    found.checkout.write(
        "ragstone.toml",
        f"""
        [golden]
        paths = "golden.jsonl"
        sealed = "../vault/questions.jsonl"
        [system]
        entrypoint = "python:rag:answer"
        python = {json.dumps(sys.executable)}
        [run]
        metrics = "faithfulness"
        """,
    )
    found.checkout.is_base(github)
    return found


def released(season: Season) -> list[Any]:
    file = season.out / "history.jsonl"
    lines = map(json.loads, file.read_text(encoding="utf-8").splitlines()) if file.is_file() else ()
    return [line["fact"] for line in lines if line["kind"] == "sealed"]


def assert_silent(season: Season, found: Outcome, said: str) -> None:
    texts = [found.log, found.summary, json.dumps(found.outputs), *found.annotations, *season.github.bodies(), said]
    for name, body in [*stored(season.checkout.root.parent), *(("said", text.encode()) for text in texts)]:
        for mark in MARKS:
            assert mark not in body.lower() + body, f"{name}: {body[:2000]!r}"


def test_runs_of_the_default_branch_release_means_and_a_pull_request_reads_nothing(
    season: Season, capfd: pytest.CaptureFixture[str]
) -> None:
    for number, event in enumerate(("push", "schedule", "workflow_dispatch"), start=1):
        found = season.merge(event)
        assert found.code == 0, found.log
        assert len(released(season)) == number
        assert "How far away is the Moon?" in found.log  # what the system says of the golden set is shown
        captured = capfd.readouterr()
        assert_silent(season, found, captured.out + captured.err)
    assert [fact["release"] for fact in released(season)] == [1, 2, 3]
    (season.checkout.root.parent / "vault" / "questions.jsonl").write_text("not even readable", encoding="utf-8")
    asked = season.job("pull_request", RAGSTONE_ASK_SEALED="true")
    assert asked.code == 0, asked.log
    assert season.manifest()["sealed"] is None
    assert_silent(season, asked, "")


@pytest.mark.parametrize(
    ("event", "payload", "more"),
    [
        ("pull_request", pull_request(), {}),
        ("merge_group", payload_of("merge_group"), {}),
        ("push", payload_of("push"), {"GITHUB_REF": "refs/heads/topic"}),
        ("push", payload_of("push"), {"GITHUB_REF": "refs/tags/v1"}),
        ("release", payload_of("push"), {"GITHUB_REF": "refs/tags/v1"}),
        ("push", payload_of("push"), {"RAGSTONE_SHARD": "1/2"}),
    ],
)
def test_no_other_job_reads_them_whatever_the_workflow_or_the_checkout_says(
    season: Season, event: str, payload: object, more: dict[str, str]
) -> None:
    (season.checkout.root.parent / "vault" / "questions.jsonl").write_text("not even readable", encoding="utf-8")
    season.github.files[BASE_SHA] = dict(season.github.files[BASE_SHA])
    season.checkout.reports_again = False
    environ = {"RAGSTONE_ASK_SEALED": "true", **more}
    found = season.checkout.gate(season.github, event, payload, **environ)
    assert "sealed golden set" not in found.log
    assert "asking 24" not in found.log
    assert season.manifest()["sealed"] is None


@pytest.mark.parametrize("kind", list(EventKind))
@pytest.mark.parametrize("branch", ["main", "topic", None])
def test_only_three_events_on_the_default_branch_ask(kind: EventKind, branch: str | None, tmp_path: Path) -> None:
    event = replace(build_event(runner("push"), payload_of("push")), kind=kind, branch=branch)
    given = Settings().having("golden.sealed", ("../q.jsonl",)).having("gate.ask_sealed", True)
    asks = kind in (EventKind.PUSH, EventKind.SCHEDULE, EventKind.WORKFLOW_DISPATCH) and branch == "main"
    for default in ("main", None):
        one = replace(event, default_branch=default)
        found = with_sealed(Trusted(given), one, None, evaluates=True)
        assert found.gate.ask_sealed is (asks and default is not None)
        assert not with_sealed(Trusted(given), one, None, evaluates=False).gate.ask_sealed
        assert not with_sealed(Trusted(given.having("golden.sealed", ())), one, None, evaluates=True).gate.ask_sealed


def test_a_growing_gap_is_an_alarm_that_warns_and_blocks_if_the_policy_says_so(season: Season) -> None:
    season.checkout.write("thresholds.toml", "[metrics.faithfulness]\nmin = 0.0\n[system]\nmax_broken = 1.0\n")
    season.merge()
    assert len(released(season)) == 1
    learnt = SYSTEM.replace(
        'return {"answer": fact,', 'return {"answer": fact if question in FACTS else "Bananas are blue in " + question,'
    )
    season.checkout.write("rag.py", learnt)
    warned = season.merge()
    checks = json.loads((season.out / "report.json").read_text(encoding="utf-8"))["checks"]
    (check,) = [one for one in checks if one["kind"] == "sealed"]
    assert (warned.code, check["status"], check["action"]) == (0, "fail", "warn")
    assert "on questions that pull requests can't see, faithfulness is " in check["reason"]
    assert "the golden set is being learnt" in warned.summary
    policy = '[metrics.faithfulness]\nmin = 0.0\n[system]\nmax_broken = 1.0\n[sealed]\naction = "block"\n'
    season.checkout.write("thresholds.toml", policy)
    assert season.merge().code == 1
