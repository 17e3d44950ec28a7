"""A job reports with the report templates of the reviewed base; those of a pull request count after the merge."""

from __future__ import annotations

import pytest

from tests.github.api.fake import BASE_SHA
from tests.github.builders import Checkout, Outcome

REPORT = "report.md.j2"
TEMPLATE = '{% extends "ragstone/report.md.j2" %}{% block header %}WORDS\n{% endblock %}'
OURS = {REPORT: TEMPLATE.replace("WORDS", "Ask the help desk.")}
THEIRS = {REPORT: TEMPLATE.replace("WORDS", "All is well, merge this.")}
IN_PARTS = {REPORT: "{% include 'parts/team.md.j2' %}", "parts/team.md.j2": "Ask the help desk."}
DIFFER = "The report templates in this checkout differ from those of the base branch: they count after the merge."
UNREAD = "The report templates are not used, because the base branch can't be read"


@pytest.fixture
def checkout(checkout: Checkout) -> Checkout:
    checkout.answer_badly()
    checkout.is_base()
    return checkout


def said(found: Outcome, checkout: Checkout) -> tuple[str, ...]:
    return (*checkout.comments, found.summary, (checkout.out / "report.md").read_text(encoding="utf-8"))


@pytest.mark.attack(by="text", tries="a pull request's own report template", stopped_by="only the base's are used")
@pytest.mark.parametrize(
    ("base", "checked_out", "event", "more", "is_used", "note"),
    [
        (OURS, OURS, "pull_request", {}, True, None),
        (OURS, THEIRS, "pull_request", {}, True, DIFFER),
        (OURS, THEIRS, "merge_group", {}, True, DIFFER),
        (IN_PARTS, THEIRS, "pull_request", {}, True, DIFFER),
        ({}, THEIRS, "pull_request", {}, False, DIFFER),
        ({}, OURS, "push", {}, True, None),
        (THEIRS, THEIRS, "pull_request", {"GITHUB_TOKEN": ""}, False, UNREAD),
    ],
    ids=[
        *("as in the base", "changed", "changed, in a merge queue", "with parts that are removed"),
        *("new", "on the default branch", "without a token"),
    ],
)
def test_the_templates_of_the_base_are_used(
    checkout: Checkout,
    base: dict[str, str],
    checked_out: dict[str, str],
    event: str,
    more: dict[str, str],
    is_used: bool,
    note: str | None,
) -> None:
    of_base = {f"templates/{name}": text.encode() for name, text in base.items()}
    checkout.github.files[BASE_SHA] |= {**of_base, "other/templates/report.md.j2": b"x", "templates/notes.txt": b"x"}
    for name, text in checked_out.items():
        checkout.write(f"templates/{name}", text)
    found = checkout.gate(event, None, **more)
    for text in said(found, checkout):
        assert ("Ask the help desk." in text) is is_used
        assert "All is well" not in text
    assert [text for text in (DIFFER, UNREAD) if text in found.log] == ([] if note is None else [note])
