"""What the fake GitHub serves and what the shipped description describes are the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.github.api.fake import ROUTES
from tests.github.api.openapi import Contract

SAMPLES = {r"(\d+)": "5", "([^/]+)": "x", "(.+)": "x/y", r"\.\.\.": "..."}
COMMENTS = "/repos/acme/rag/issues/5/comments"


def sample_path(pattern: str) -> str:
    for part, sample in SAMPLES.items():
        pattern = pattern.replace(part, sample)
    return f"/repos/acme/rag{pattern}"


def test_each_route_and_example_of_the_fake_is_in_the_description_and_the_reverse(contract: Contract) -> None:
    routes = [("GET", "/user"), *((method, sample_path(pattern)) for method, pattern, *_ in ROUTES)]
    paths = contract.document["paths"]
    described = {(method.upper(), path) for path, operations in paths.items() for method in operations}
    assert {(method, contract.template(method, path)) for method, path in routes} == described
    source = (Path(__file__).parent / "fake.py").read_text(encoding="utf-8")
    assert set(re.findall(r'"([\w-]+)"', source)) >= set(contract.document["components"]["examples"])


@pytest.mark.parametrize(
    ("method", "path", "query", "body", "is_problem"),
    [
        ("GET", "/repos/acme/rag/stargazers", {}, None, True),
        ("POST", COMMENTS, {}, {"body": "A comment"}, False),
        ("POST", COMMENTS, {}, {"title": "no body"}, True),
        ("GET", COMMENTS, {"per_page": "many"}, None, True),
        ("GET", COMMENTS.replace("5", "x"), {}, None, True),
    ],
)
def test_a_request_is_held_to_the_description(
    contract: Contract, method: str, path: str, query: dict[str, str], body: object, is_problem: bool
) -> None:
    assert bool(contract.problems_of_request(method, path, query, body)) is is_problem


def test_a_reply_is_held_to_its_schema(contract: Contract) -> None:
    comment = contract.example("issue-comment")
    assert contract.problems_of_reply("POST", COMMENTS, 201, comment) == []
    assert contract.problems_of_reply("POST", COMMENTS, 201, {**comment, "id": "seven"}) != []
    assert contract.problems_of_reply("POST", COMMENTS, 200, comment) != []
