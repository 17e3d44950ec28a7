"""What the fake GitHub serves and what the shipped description describes are the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.github.api.fake import ROUTES
from tests.github.api.openapi import Contract

SAMPLES = {r"(\d+)": "5", "([^/]+)": "x", "(.+)": "x/y", r"\.\.\.": "..."}


def sample_path(pattern: str) -> str:
    for part, sample in SAMPLES.items():
        pattern = pattern.replace(part, sample)
    return f"/repos/acme/rag{pattern}"


def test_each_route_of_the_fake_is_an_operation_of_the_description_and_the_reverse(contract: Contract) -> None:
    routes = [("GET", "/user"), *((method, sample_path(pattern)) for method, pattern, *_ in ROUTES)]
    served = {(method, contract.template(method, path)) for method, path in routes}
    described = {
        (method.upper(), path) for path, operations in contract.document["paths"].items() for method in operations
    }
    assert served == described


def test_the_description_has_the_examples_that_the_fake_uses_and_no_other(contract: Contract) -> None:
    source = (Path(__file__).parent / "fake.py").read_text(encoding="utf-8")
    assert set(re.findall(r'\.example\("([\w-]+)"\)', source)) == set(contract.document["components"]["examples"])


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/repos/acme/rag/stargazers"), ("PUT", "/repos/acme/rag/issues/5"), ("GET", "/")]
)
def test_a_request_that_is_not_described_is_a_problem(method: str, path: str, contract: Contract) -> None:
    (problem,) = contract.problems_of_request(method, path, {}, None)
    assert problem.startswith(f"{method} {path}: no such operation")


def test_a_request_is_held_to_its_schemas(contract: Contract) -> None:
    issues = "/repos/acme/rag/issues"
    assert contract.problems_of_request("POST", issues, {}, {"title": "A title"}) == []
    assert contract.problems_of_request("POST", issues, {}, {"body": "no title"}) != []
    assert contract.problems_of_request("GET", issues, {"per_page": "100", "state": "open"}, None) == []
    assert contract.problems_of_request("GET", issues, {"per_page": "many"}, None) != []
    assert contract.problems_of_request("GET", issues, {"pages": "1"}, None) != []
    assert contract.problems_of_request("GET", f"{issues}/x/comments", {}, None) != []


def test_a_reply_is_held_to_its_schema(contract: Contract) -> None:
    comments = "/repos/acme/rag/issues/5/comments"
    comment = contract.example("issue-comment")
    assert contract.problems_of_reply("POST", comments, 201, comment) == []
    assert contract.problems_of_reply("POST", comments, 201, {**comment, "id": "seven"}) != []
    assert contract.problems_of_reply("POST", comments, 200, comment) != []
