from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstone.errors import ConfigError
from ragstone.github.api.event import Event, EventKind, build_event, load_event
from tests.github.api.payloads import HEAD_SHA, MERGE_SHA, payload_of, pull_request, runner, with_payload, workflow_run


def test_a_pull_request_of_the_same_repository_is_no_fork() -> None:
    event = build_event(runner("pull_request"), pull_request())
    assert event.kind is EventKind.PULL_REQUEST
    assert event.pull_request is not None
    assert (event.pull_request.number, event.pull_request.base.ref) == (7, "main")
    assert not event.pull_request.is_fork
    assert not event.without_secrets
    assert event.branch is None
    assert event.report_sha == HEAD_SHA


@pytest.mark.parametrize("payload", [pull_request(fork=True), pull_request(gone=True)])
def test_a_pull_request_of_another_or_a_deleted_repository_is_a_fork(payload: dict[str, object]) -> None:
    event = build_event(runner("pull_request"), payload)
    assert event.pull_request is not None
    assert event.pull_request.is_fork
    assert event.without_secrets


def test_a_fork_is_told_by_id_even_when_it_took_the_same_name() -> None:
    payload = pull_request(fork=True)
    payload["pull_request"]["head"]["repo"] = {**payload["pull_request"]["head"]["repo"], "full_name": "acme/rag"}
    event = build_event(runner("pull_request"), payload)
    assert event.pull_request is not None
    assert event.pull_request.is_fork


@pytest.mark.parametrize(("actor", "author"), [("dev", "dependabot[bot]"), ("dependabot[bot]", "dev")])
def test_dependabot_has_no_secrets(actor: str, author: str) -> None:
    assert build_event(runner("pull_request", GITHUB_ACTOR=actor), pull_request(author=author)).without_secrets


@pytest.mark.parametrize(("side", "identity"), [("head", None), ("base", None), ("base", 3003)])
def test_a_repository_that_is_not_known_to_be_the_same_is_a_fork(side: str, identity: int | None) -> None:
    payload = pull_request()
    repository = payload["pull_request"][side]["repo"]
    payload["pull_request"][side]["repo"] = {**repository, "id": identity} if identity else None
    assert build_event(runner("pull_request"), payload).without_secrets


@pytest.mark.parametrize("name", ["push", "schedule", "workflow_dispatch", "release"])
def test_other_events_run_on_a_branch_and_have_no_pull_request(name: str) -> None:
    event = build_event(runner(name), payload_of(name))
    assert event.kind == name
    assert event.branch == "main"
    assert event.pull_request is None
    assert event.report_sha == MERGE_SHA
    assert not event.without_secrets


def test_a_tag_is_no_branch() -> None:
    assert build_event(runner("push", ref="refs/tags/v1"), payload_of("push")).branch is None


def test_a_merge_group_knows_the_branch_it_merges_into() -> None:
    event = build_event(runner("merge_group"), payload_of("merge_group"))
    assert event.merge_base_branch == "main"
    assert event.branch is None


def test_a_workflow_run_carries_the_run_it_follows() -> None:
    event = build_event(runner("workflow_run"), workflow_run())
    assert event.upstream is not None
    assert (event.upstream.run_id, event.upstream.head_owner, event.upstream.head_branch) == (555, "mallory", "main")


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


@pytest.mark.parametrize("missing", ["GITHUB_EVENT_PATH", "GITHUB_REPOSITORY"])
def test_outside_of_a_job_it_says_so(tmp_path: Path, missing: str) -> None:
    environ = with_payload(runner("push"), payload_of("push"), tmp_path)
    with pytest.raises(ConfigError, match="not a GitHub Actions job"):
        load_event({**environ, missing: ""})


def test_what_the_runner_does_not_say_comes_from_the_payload_or_is_githubs_own() -> None:
    names = ("GITHUB_REPOSITORY", "GITHUB_SERVER_URL", "GITHUB_API_URL", "GITHUB_ACTOR", "GITHUB_RUN_ID")
    event = build_event({**runner("push"), **dict.fromkeys(names, "")}, payload_of("push"))
    assert (event.repository, event.actor, event.run_id) == ("acme/rag", None, 0)
    assert (event.server_url, event.api_url) == ("https://github.com", "https://api.github.com")
    assert build_event(runner("push", GITHUB_REPOSITORY=""), {}).repository == ""
    own = {"GITHUB_SERVER_URL": "https://git.example/", "GITHUB_API_URL": "https://git.example/api/v3/"}
    event = build_event(runner("push", GITHUB_REPOSITORY="acme/renamed", **own), payload_of("push"))
    assert event.run_url == "https://git.example/acme/renamed/actions/runs/900"
    assert event.api_url == "https://git.example/api/v3"


def test_an_unreadable_payload_names_its_file(tmp_path: Path) -> None:
    environ = with_payload(runner("push"), payload_of("push"), tmp_path)
    assert load_event(environ).kind is EventKind.PUSH
    Path(environ["GITHUB_EVENT_PATH"]).write_text("{", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"event\.json"):
        load_event(environ)


@pytest.mark.parametrize("name", ["pull_request", "workflow_run"])
def test_a_payload_that_lacks_what_its_event_is_about_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="without a"):
        build_event(runner(name), payload_of("push"))


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["repository", "pull_request", "head", "repo", "id", "number", "workflow_run", "ref"]),
            inner,
            max_size=4,
        )
    ),
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
