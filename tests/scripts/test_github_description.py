"""The part of GitHub's description that the tests use."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scripts.github_description import (
    EXAMPLES,
    OPERATIONS,
    TARGET,
    as_text,
    pruned_document,
    references,
)

DESCRIPTION = TARGET / "api.github.com.json"
METHODS = ("get", "post", "patch", "delete")


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


def test_what_is_reached_through_others_and_through_a_discriminator_stays() -> None:
    name = "#/components/schemas/{}".format
    reply = {
        "description": "Response",
        "content": {
            "application/json": {"schema": {"$ref": name("first")}, "example": {}},
            "text/html": {"schema": {"$ref": name("page")}},
        },
    }
    operation = {"operationId": "x", "summary": "X", "responses": {"200": reply}}
    schemas = {
        "first": {"type": "array", "items": {"$ref": name("second")}},
        "second": {"oneOf": [], "discriminator": {"propertyName": "type", "mapping": {"a": name("third")}}},
        "third": {"type": "object", "properties": {"again": {"$ref": name("first")}}},
        "page": {"type": "string"},
    }
    document = {
        "openapi": "3.0.3",
        "info": {"title": "X", "version": "1", "license": {"name": "MIT"}, "description": "Long."},
        "paths": {path: dict.fromkeys(METHODS, operation) for _, path in OPERATIONS},
        "components": {"schemas": schemas, "examples": {name: {"value": {"summary": 1}} for name in EXAMPLES}},
    }
    pruned = pruned_document(document)
    assert set(pruned["components"]["schemas"]) == {"first", "second", "third"}
    assert pruned["components"]["examples"]["issue"] == {"value": {"summary": 1}}
    assert pruned["paths"]["/user"]["get"] == {
        "operationId": "x",
        "parameters": [],
        "responses": {
            "200": {"description": "Response", "content": {"application/json": {"schema": {"$ref": name("first")}}}}
        },
    }
