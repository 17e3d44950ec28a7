"""Entrypoint strings: what each means, and what a wrong one gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragstone.errors import ConfigError
from ragstone.settings.settings import SystemSettings
from ragstone.system.entrypoint import build_system
from ragstone.system.http_service import HttpService
from ragstone.system.pool import Pool
from ragstone.system.recorded import RecordedAnswers


@pytest.mark.parametrize(
    ("entrypoint", "says"),
    [
        ("", "no entrypoint"),
        *((f"{scheme}:out/answers.jsonl", "unknown scheme") for scheme in ("FILE", "file ")),
        ("https:/host/ask", "not a valid URL"),
        ("ftp://user:pw@host/x", "'ftp://host/x' is not an entrypoint"),
        ("app:", "is not an entrypoint"),
        (":answer", "is not an entrypoint"),
        ("app:answer()", "is not an entrypoint"),
        ("python:", "'python:' is not an entrypoint"),
        ("command:  ", "'command:' is not an entrypoint"),
        ("http://", "not a valid URL"),
        ("http://host:99999/", "not a valid URL"),
        ("http://[::1/", "not a valid URL"),
    ],
)
def test_a_wrong_entrypoint_says_what_was_meant(entrypoint: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        build_system(SystemSettings(entrypoint=entrypoint), root=tmp_path, environ={})
    assert says in str(caught.value)
    assert "pw" not in str(caught.value)


def test_each_scheme_builds_its_system_and_shows_no_secret(tmp_path: Path) -> None:
    expected = {
        "app:answer": (Pool, "python:app:answer"),
        "my-app/rag.py:Klass.answer": (Pool, "python:my-app/rag.py:Klass.answer"),
        "command:./rag --api-key sk": (Pool, "command:./rag --api-key ***"),
        "file:out.jsonl": (RecordedAnswers, "file:out.jsonl"),
        "http://u:p@host/ask?key=1": (HttpService, "http://host/ask?key=***"),
    }
    for entrypoint, (kind, shown) in expected.items():
        given = SystemSettings(entrypoint=entrypoint, concurrency=7)
        system = build_system(given, root=tmp_path, environ={})
        assert isinstance(system, kind)
        assert system.entrypoint == shown
        assert system.concurrency == 7


def test_a_working_directory_that_is_not_there_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"system\.working_directory"):
        build_system(SystemSettings(entrypoint="app:a", working_directory="nope"), root=tmp_path, environ={})


def test_forbidden_names_are_refused_for_every_kind(tmp_path: Path) -> None:
    for entrypoint in ("app:answer", "command:./rag", "file:out.jsonl", "http://host/"):
        with pytest.raises(ConfigError, match="GITHUB_TOKEN"):
            build_system(SystemSettings(entrypoint=entrypoint, env=("GITHUB_TOKEN",)), root=tmp_path, environ={})
