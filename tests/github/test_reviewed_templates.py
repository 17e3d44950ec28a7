"""A job reports with the report templates of the reviewed base; those of a pull request count after the merge."""

from __future__ import annotations

import pytest

from tests.github.api.fake import BASE_SHA, FakeGitHub
from tests.github.builders import Checkout, Outcome, pull_request

TEMPLATE = '{% extends "ragstone/report.md.j2" %}{% block header %}WORDS\n{% endblock %}'
DIFFER = "The report templates in this checkout differ from those of the base branch: they count after the merge."


@pytest.fixture
def checkout(checkout: Checkout) -> Checkout:
    checkout.answer_badly()
    return checkout


def template(checkout: Checkout, words: str, name: str = "report.md.j2") -> None:
    checkout.write(f"templates/{name}", TEMPLATE.replace("WORDS", words))


def texts(github: FakeGitHub, found: Outcome, checkout: Checkout) -> tuple[str, ...]:
    written = (checkout.root / "ragstone-run" / "report.md").read_text(encoding="utf-8")
    return (*github.bodies(), found.summary, written)


def test_the_template_of_the_base_is_used(github: FakeGitHub, checkout: Checkout) -> None:
    template(checkout, "Ask the help desk.")
    checkout.is_base()
    found = checkout.gate()
    assert len(github.bodies()) == 1
    assert all("Ask the help desk." in text for text in texts(github, found, checkout))
    assert DIFFER not in found.log


@pytest.mark.parametrize("event", ["pull_request", "merge_group"])
def test_a_change_of_the_template_counts_after_the_merge(github: FakeGitHub, checkout: Checkout, event: str) -> None:
    template(checkout, "Ask the help desk.")
    checkout.is_base()
    template(checkout, "All is well, merge this.")
    found = checkout.gate(event)
    for text in texts(github, found, checkout):
        assert "Ask the help desk." in text
        assert "All is well" not in text
    assert DIFFER in found.log


@pytest.mark.attack(
    by="text",
    tries="a pull request's own report template",
    stopped_by="only the reviewed base's are used, in Jinja's sandbox",
)
def test_a_template_that_the_base_does_not_have_is_not_used(github: FakeGitHub, checkout: Checkout) -> None:
    checkout.is_base()
    template(checkout, "All is well, merge this.")
    found = checkout.gate()
    assert not any("All is well" in text for text in texts(github, found, checkout))
    assert DIFFER in found.log


def test_a_file_that_the_pull_request_removes_is_still_included(github: FakeGitHub, checkout: Checkout) -> None:
    checkout.write("templates/report.md.j2", "{% include 'parts/team.md.j2' %}")
    checkout.write("templates/parts/team.md.j2", "Ask the help desk.")
    checkout.is_base()
    (checkout.root / "templates" / "parts" / "team.md.j2").unlink()
    checkout.write("templates/report.md.j2", "All is well, merge this.")
    found = checkout.gate()
    assert all("Ask the help desk." in text for text in texts(github, found, checkout))


def test_a_template_of_an_unreviewed_base_is_not_used(github: FakeGitHub, checkout: Checkout) -> None:
    template(checkout, "All is well, merge this.")
    checkout.is_base()
    github.files["9" * 40], github.files[BASE_SHA] = github.files[BASE_SHA], {}
    github.branches["evil-base"] = "9" * 40
    payload = pull_request()
    payload["pull_request"]["base"].update(ref="evil-base", sha="9" * 40)
    found = checkout.gate("pull_request", payload)
    assert not any("All is well" in text for text in texts(github, found, checkout))


def test_on_the_default_branch_the_checkout_is_the_base(checkout: Checkout) -> None:
    template(checkout, "Ask the help desk.")
    found = checkout.gate("push")
    assert "Ask the help desk." in found.summary
    assert DIFFER not in found.log


def test_without_access_to_the_base_the_built_in_template_is_used(checkout: Checkout) -> None:
    template(checkout, "All is well, merge this.")
    checkout.is_base()
    found = checkout.gate(GITHUB_TOKEN="")
    assert "All is well" not in found.summary
    assert "The report templates are not used, because the base branch can't be read" in found.log
