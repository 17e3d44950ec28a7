from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstone.errors import ConfigError
from ragstone.github.api import event as module
from ragstone.github.api.event import Event, EventKind, build_event, load_event
from tests.github.api.payloads import HEAD_SHA, MERGE_SHA, payload_of, pull_request, runner, with_payload, workflow_run


def of_pull_request(side: str = "head", *, actor: str = "dev", **more: Any) -> Event:
    """`more` is about the repository of one side; gone: there is none."""
    payload = pull_request(author=more.pop("author", "dev"), fork=more.pop("fork", False))
    of_side = payload["pull_request"][side]
    of_side["repo"] = None if more.pop("gone", False) else of_side["repo"] | more
    return build_event(runner("pull_request", GITHUB_ACTOR=actor), payload)


def test_a_pull_request_has_its_number_its_sides_and_no_branch() -> None:
    event = of_pull_request()
    assert event.pull_request is not None
    assert (event.kind, event.branch, event.report_sha) == (EventKind.PULL_REQUEST, None, HEAD_SHA)
    assert (event.pull_request.number, event.pull_request.base_branch) == (7, "main")


@pytest.mark.parametrize(
    ("event", "is_fork", "without_secrets"),
    [
        (of_pull_request(), False, False),
        (of_pull_request(fork=True), True, True),
        (of_pull_request(fork=True, full_name="acme/rag"), True, True),
        (of_pull_request(gone=True), True, True),
        (of_pull_request("base", gone=True), True, True),
        (of_pull_request("base", id=3003), True, True),
        (of_pull_request(id=None), True, True),
        (of_pull_request(author="dependabot[bot]"), False, True),
        (of_pull_request(actor="dependabot[bot]"), False, True),
    ],
    ids=[
        *("its own", "a fork", "a fork that took the same name", "a head that is gone", "a base that is gone"),
        *("another base", "a head without id", "by Dependabot", "rebased by Dependabot"),
    ],
)
def test_a_fork_is_told_by_id_and_has_no_secrets(event: Event, is_fork: bool, without_secrets: bool) -> None:
    assert event.pull_request is not None
    assert event.pull_request.is_fork is is_fork
    assert event.without_secrets is without_secrets


@pytest.mark.parametrize(
    ("name", "ref", "branch"),
    [
        *((name, "refs/heads/main", "main") for name in ("push", "schedule", "workflow_dispatch", "release")),
        ("push", "refs/tags/v1", None),
        ("merge_group", "refs/heads/main", None),
    ],
)
def test_other_events_run_on_a_branch_and_have_secrets(name: str, ref: str, branch: str | None) -> None:
    event = build_event(runner(name, ref=ref, GITHUB_ACTOR="dependabot[bot]"), payload_of(name))
    assert (event.kind, event.branch, event.pull_request) == (name, branch, None)
    assert event.report_sha == MERGE_SHA
    assert not event.without_secrets
    assert event.merge_base_branch == ("main" if name == "merge_group" else None)


def test_a_workflow_run_carries_the_run_it_follows() -> None:
    event = build_event(runner("workflow_run"), workflow_run())
    assert event.upstream is not None
    assert (event.upstream.run_id, event.upstream.head_owner) == (555, "mallory")
    for gone in ({"head_repository": None}, {"head_repository": {"id": 2002}}):
        payload = workflow_run()
        payload["workflow_run"] |= gone
        upstream = build_event(runner("workflow_run"), payload).upstream
        assert upstream is not None
        assert upstream.head_owner is None


def test_an_unknown_event_is_other_and_keeps_its_name() -> None:
    event = build_event(runner("issue_comment"), payload_of("push"))
    assert (event.kind, event.name) == (EventKind.OTHER, "issue_comment")
    assert build_event(runner("other"), payload_of("push")).kind is EventKind.OTHER


@pytest.mark.parametrize(
    ("reference", "file"),
    [
        ("acme/rag/.github/workflows/gate.yml@refs/heads/main", "gate.yml"),
        ("acme/rag/.github/workflows/gate.yaml@refs/heads/a@b", "gate.yaml"),
        ("dynamic/dependabot/dependabot-updates@refs/heads/main", None),
        ("", None),
    ],
)
def test_the_workflow_is_known_by_its_file(reference: str, file: str | None) -> None:
    assert build_event(runner("push", GITHUB_WORKFLOW_REF=reference), payload_of("push")).workflow == file


def test_what_the_runner_does_not_say_is_githubs_own() -> None:
    names = ("GITHUB_SERVER_URL", "GITHUB_API_URL", "GITHUB_ACTOR", "GITHUB_RUN_ID")
    event = build_event({**runner("push"), **dict.fromkeys(names, "")}, payload_of("push"))
    assert (event.repository, event.actor, event.run_id) == ("acme/rag", None, 0)
    assert (event.server_url, event.api_url) == ("https://github.com", "https://api.github.com")
    assert build_event(runner("push", GITHUB_RUN_ID="\u00b2"), {}).run_id == 0
    own = {"GITHUB_SERVER_URL": "https://git.example/", "GITHUB_API_URL": "https://git.example/api/v3/"}
    event = build_event(runner("push", GITHUB_REPOSITORY="acme/renamed", **own), payload_of("push"))
    assert event.run_url == "https://git.example/acme/renamed/actions/runs/900"
    assert event.api_url == "https://git.example/api/v3"


@pytest.mark.parametrize("missing", ["GITHUB_EVENT_PATH", "GITHUB_REPOSITORY"])
def test_outside_of_a_job_it_says_so(tmp_path: Path, missing: str) -> None:
    environ = with_payload(runner("push"), payload_of("push"), tmp_path)
    with pytest.raises(ConfigError, match="not a GitHub Actions job"):
        load_event({**environ, missing: ""})


def test_a_payload_is_read_up_to_a_size_and_named_if_it_can_not_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = with_payload(runner("push"), payload_of("push"), tmp_path)
    path = Path(environ["GITHUB_EVENT_PATH"])
    size = path.stat().st_size
    monkeypatch.setattr(module, "MAX_PAYLOAD_BYTES", size)
    assert load_event(environ).kind is EventKind.PUSH
    breaks: list[Callable[[], object]] = [
        lambda: monkeypatch.setattr(module, "MAX_PAYLOAD_BYTES", size - 1),
        lambda: path.write_text("{", encoding="utf-8"),
    ]
    for make_unreadable in breaks:
        make_unreadable()
        with pytest.raises(ConfigError, match=r"event\.json"):
            load_event(environ)


@pytest.mark.parametrize("name", ["pull_request", "pull_request_target", "workflow_run"])
def test_a_payload_that_lacks_what_its_event_is_about_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="has no"):
        build_event(runner(name), payload_of("push"))


_KEYS = st.sampled_from(["repository", "pull_request", "head", "repo", "id", "number", "workflow_run", "ref"])
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.heavy
@settings(max_examples=150, deadline=None)
@given(payload=_JSON, name=st.sampled_from([*EventKind]))
def test_any_payload_is_an_event_or_a_clear_error(payload: object, name: str) -> None:
    outcome: object
    try:
        outcome = build_event(runner(name), payload)
    except ConfigError as error:
        outcome = str(error)
    assert isinstance(outcome, Event) or "payload" in str(outcome)
