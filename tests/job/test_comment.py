"""One comment per merge request, on fakes of GitLab and Azure DevOps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ragstone.ci.gitlab import without_commands
from ragstone.errors import ConfigError, PlatformError
from ragstone.job.comment import comment
from tests.ci.fakes import ME, Fake, azure, gitlab, serving
from tests.commands.project import ragstone

MARK = "<!-- ragstone:comment:ragstone -->"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "ragstone-run"
    folder.mkdir()
    (folder / "report.md").write_text("## PASS\n", encoding="utf-8")
    return folder


@pytest.fixture(params=["gitlab", "azure"])
def platform(request: pytest.FixtureRequest) -> Iterator[tuple[Fake, dict[str, str]]]:
    fake = Fake()
    with serving(fake, gitlab if request.param == "gitlab" else azure) as url:
        yield fake, environ_of(request.param, fake, url)


def environ_of(name: str, fake: Fake, url: str) -> dict[str, str]:
    if name == "gitlab":
        return {
            "GITLAB_CI": "true",
            "CI_API_V4_URL": f"{url}/api/v4",
            "CI_PROJECT_ID": "7",
            "CI_MERGE_REQUEST_IID": "5",
            "CI_JOB_TOKEN": fake.job_token,
            "GITLAB_TOKEN": fake.token,
        }
    return {
        "TF_BUILD": "True",
        "BUILD_REASON": "PullRequest",
        "SYSTEM_COLLECTIONURI": f"{url}/org/",
        "SYSTEM_TEAMPROJECTID": "proj",
        "BUILD_REPOSITORY_ID": "repo",
        "SYSTEM_PULLREQUEST_PULLREQUESTID": "5",
        "SYSTEM_ACCESSTOKEN": fake.token,
    }


def bodies(fake: Fake) -> list[str]:
    return [note["body"] for note in fake.notes] + [
        comment["content"] or "" for thread in fake.threads for comment in thread["comments"][:1]
    ]


def test_the_comment_is_posted_once_and_then_updated(run: Path, platform: tuple[Fake, dict[str, str]]) -> None:
    fake, environ = platform
    assert comment(run, environ) == "Posted the comment on merge request 5."
    (run / "report.md").write_text("## FAIL\n", encoding="utf-8")
    assert comment(run, environ) == "Updated the comment on merge request 5."
    assert bodies(fake) == [f"{MARK}\n## FAIL\n"]
    assert comment(run, environ, name="other") == "Posted the comment on merge request 5."
    assert len(bodies(fake)) == 2


def test_only_our_own_comment_is_updated_also_on_a_later_page(run: Path, platform: tuple[Fake, dict[str, str]]) -> None:
    fake, environ = platform
    others = [f"{MARK}\nnot ours", f"quoted: {MARK}"] * 60
    fake.notes += [{"id": 100 + n, "author": {"id": n % 2 + 1}, "body": body} for n, body in enumerate(others)]
    fake.notes += [{"id": 900, "author": {"id": ME}, "body": f"Look:\n{MARK}"}]
    fake.threads += [
        {"id": 100 + n, "comments": [{"id": 1, "author": {"id": str(n % 2 + 1)}, "content": body}]}
        for n, body in enumerate(others)
    ]
    fake.threads += [{"id": 900, "comments": []}, {"id": 901, "comments": [{"id": 1, "content": None}]}]
    assert comment(run, environ).startswith("Posted")
    assert comment(run, environ).startswith("Updated")
    assert [body for body in bodies(fake) if "PASS" in body] == [f"{MARK}\n## PASS\n"]


def test_a_job_without_a_merge_request_posts_nothing(run: Path, platform: tuple[Fake, dict[str, str]]) -> None:
    fake, environ = platform
    kept = {name: value for name, value in environ.items() if name not in _REQUEST}
    assert "nothing to comment on" in comment(run, kept)
    assert fake.requests == []


_REQUEST = ("CI_MERGE_REQUEST_IID", "SYSTEM_PULLREQUEST_PULLREQUESTID", "BUILD_REASON")


def test_without_its_token_the_variable_is_named(run: Path, platform: tuple[Fake, dict[str, str]]) -> None:
    _, environ = platform
    kept = {name: value for name, value in environ.items() if name not in ("GITLAB_TOKEN", "SYSTEM_ACCESSTOKEN")}
    with pytest.raises(ConfigError, match=r"GITLAB_TOKEN|SYSTEM_ACCESSTOKEN"):
        comment(run, kept)


def test_a_refusal_is_exit_code_7_and_shows_no_token(run: Path, platform: tuple[Fake, dict[str, str]]) -> None:
    fake, environ = platform
    changed = {name: "another-secret-99" if value == fake.token else value for name, value in environ.items()}
    done = ragstone(["comment", str(run)], run.parent, env=changed)
    assert done.returncode == 7, done.stdout + done.stderr
    assert "another-secret-99" not in done.stdout + done.stderr
    assert "GitLab CI: GET /api/v4/user answered 401" in done.stderr or "Azure Pipelines:" in done.stderr


@pytest.mark.parametrize("answer", [{"value": 3}, [], "text", None])
def test_a_reply_of_another_shape_is_a_platform_error(
    run: Path, platform: tuple[Fake, dict[str, str]], answer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ragstone.ci.http import Api

    monkeypatch.setattr(Api, "json", lambda *_: answer)
    with pytest.raises(PlatformError):
        comment(run, platform[1])


def test_elsewhere_the_report_is_named(run: Path) -> None:
    with pytest.raises(ConfigError, match="on Jenkins"):
        comment(run, {"JENKINS_URL": "https://ci/"})
    with pytest.raises(ConfigError, match="outside of GitLab CI"):
        comment(run, {})


def test_a_report_that_is_a_link_is_not_posted(
    run: Path, tmp_path: Path, platform: tuple[Fake, dict[str, str]]
) -> None:
    fake, environ = platform
    (tmp_path / "secret").write_text("key")
    (run / "report.md").unlink()
    (run / "report.md").symlink_to(tmp_path / "secret")
    with pytest.raises(ConfigError, match="outside"):
        comment(run, environ)
    assert fake.requests == []


@pytest.mark.parametrize("line", ["/merge", "  /approve", "\t/close", "> text\n/assign @me"])
def test_no_line_is_a_command_for_gitlab(line: str) -> None:
    import re

    assert not re.search(r"^\s*/\w", without_commands(f"answer:\n{line}\n"), re.MULTILINE)


def test_other_text_stays_as_it_is() -> None:
    text = "a/b, 1 / 2, https://x/y, $0.02, 95 %, a & b, 3 > 2!\n\n| a | /b |\n"
    assert without_commands(text) == text
    assert without_commands("see !12 and &3") == "see !\u200b12 and &\u200b3"
