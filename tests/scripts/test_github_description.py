"""The part of GitHub's description that the tests use."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scripts.github_description import TARGET, as_text, pruned_document, references

DESCRIPTION = TARGET / "api.github.com.json"


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(DESCRIPTION.read_bytes())
    return loaded


def test_the_file_is_written_by_the_script_from_its_present_lists(document: dict[str, Any]) -> None:
    assert as_text(pruned_document(document)) == DESCRIPTION.read_text(encoding="utf-8")


def test_all_that_is_referred_to_is_there_and_nothing_else(document: dict[str, Any]) -> None:
    components = {
        f"#/components/{kind}/{name}"
        for kind, group in document["components"].items()
        for name in group
        if kind != "examples"
    }
    assert set(references(document)) == components
