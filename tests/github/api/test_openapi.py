"""What the fake GitHub serves and what the shipped description describes are the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.github.api.fake import ROUTES
from tests.github.api.openapi import Contract

SAMPLES = {r"(\d+)": "5", "([^/]+)": "x", "(.+)": "x/y", r"\.\.\.": "..."}
ISSUES = "/repos/acme/rag/issues"


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
        ("PUT", f"{ISSUES}/5", {}, None, True),
        ("POST", ISSUES, {}, {"title": "A title"}, False),
        ("POST", ISSUES, {}, {"body": "no title"}, True),
        ("GET", ISSUES, {"per_page": "100", "state": "open"}, None, False),
        ("GET", ISSUES, {"per_page": "many"}, None, True),
        ("GET", ISSUES, {"pages": "1"}, None, True),
        ("GET", f"{ISSUES}/x/comments", {}, None, True),
    ],
)
def test_a_request_is_held_to_the_description(
    contract: Contract, method: str, path: str, query: dict[str, str], body: object, is_problem: bool
) -> None:
    assert bool(contract.problems_of_request(method, path, query, body)) is is_problem


def test_a_reply_is_held_to_its_schema(contract: Contract) -> None:
    comments = f"{ISSUES}/5/comments"
    comment = contract.example("issue-comment")
    assert contract.problems_of_reply("POST", comments, 201, comment) == []
    assert contract.problems_of_reply("POST", comments, 201, {**comment, "id": "seven"}) != []
    assert contract.problems_of_reply("POST", comments, 200, comment) != []
