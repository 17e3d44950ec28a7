"""Decisions on the way to a verdict: who may be a baseline, which earlier answers count, what is said of a system."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ragstone.github import evaluate
from ragstone.github.api.event import Event, build_event
from ragstone.github.evaluate import _earlier_run, _role, _show_log
from ragstone.github.inputs import read_inputs
from ragstone.settings.settings import Settings, SystemSettings
from tests.github.api.payloads import payload_of, pull_request, runner

QUEUE = payload_of("merge_group")
TOPIC_QUEUE = {"merge_group": {"base_ref": "refs/heads/topic"}, "repository": QUEUE["repository"]}


def job(event: Event, **more: Any) -> Any:
    """As much of a job as these decisions go by."""
    return SimpleNamespace(event=event, inputs=read_inputs({}), **more)


@pytest.mark.parametrize(
    ("event", "refusal", "carries"),
    [
        (build_event(runner("push"), payload_of("push")), None, True),
        (build_event(runner("schedule"), payload_of("schedule")), None, True),
        (build_event(runner("push", ref="refs/heads/topic"), payload_of("push")), None, False),
        (build_event(runner("push", ref="refs/tags/main"), payload_of("push")), "it ran on a tag", False),
        (build_event(runner("merge_group"), QUEUE), None, True),
        (build_event(runner("merge_group"), TOPIC_QUEUE), None, False),
        (build_event(runner("pull_request"), pull_request()), "a run for a pull_request event can't be one", False),
        (build_event(runner("release"), payload_of("release")), "a run for a release event can't be one", False),
    ],
    ids=["push", "schedule", "another branch", "a tag", "a queue", "another queue", "a pull request", "a release"],
)
def test_a_run_of_the_branch_may_be_its_baseline_and_carries_the_one_it_had(
    event: Event, refusal: str | None, carries: bool
) -> None:
    baseline: Any = SimpleNamespace(branch="main", run_id=3, carried_by=None)
    role = _role(job(event), baseline)
    assert str(role.refusal).startswith(str(refusal))
    assert (role.carries, role.run_id, role.artifact) == (carries, 3, (3, "ragstone-run"))
    baseline.carried_by = 5
    assert _role(job(event), baseline).artifact == (5, "ragstone-run")
    assert not _role(job(event), None).carries


HTTP, PYTHON, RECORDED = "http://127.0.0.1:1/ask", "python:rag:answer", "file:outputs.jsonl"


@pytest.mark.parametrize(
    ("entrypoint", "version", "more", "is_asked"),
    [
        (PYTHON, None, {}, True),
        ("an entrypoint that nobody knows", None, {}, True),
        (HTTP, None, {}, False),
        (HTTP, "1", {}, True),
        (RECORDED, "1", {}, False),
        (PYTHON, None, {"api": None}, False),
        (PYTHON, None, {"tree": None}, False),
        (PYTHON, None, {"payload": pull_request(fork=True)}, False),
        (PYTHON, None, {"name": "push"}, False),
    ],
    ids=[
        *("code of the checkout", "unknown", "a service", "a service with its version", "recorded answers"),
        *("no token", "unknown files", "a fork", "a push"),
    ],
)
def test_earlier_answers_are_looked_for_where_the_files_tell_who_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entrypoint: str, version: str | None, more: Any, is_asked: bool
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(evaluate, "find_earlier_run", lambda *arguments, **_: asked.append(arguments))
    name = more.get("name", "pull_request")
    event = build_event(runner(name), more.get("payload", payload_of(name)))
    settings = Settings(system=SystemSettings(entrypoint=entrypoint, version=version))
    plan: Any = SimpleNamespace(invocation=SimpleNamespace(tree=more.get("tree", "1" * 40)))
    of_job = job(event, api=more.get("api", object()), settings=settings, temporary=tmp_path)
    assert _earlier_run(of_job, plan, print) is None
    assert bool(asked) is is_asked
    plan.invocation = None
    assert _earlier_run(of_job, plan, print) is None
    assert len(asked) == is_asked


TAIL = "x" * evaluate._MAX_SHOWN_LOG_BYTES


@pytest.mark.parametrize(
    ("text", "part", "shown"), [(None, "", ""), (" \n", "", ""), (TAIL, "", TAIL), (f"y{TAIL}", " (last part)", TAIL)]
)
def test_the_last_part_of_what_a_system_prints_is_shown(
    tmp_path: Path, text: str | None, part: str, shown: str
) -> None:
    log = tmp_path / "system.log"
    if text is not None:
        log.write_text(text, encoding="utf-8")
    said: list[str] = []
    _show_log(log, said.append, version=" at b")
    assert said == ([f"-- output of the system under test at b{part} --\n{shown}\n--\n"] if shown else [])
