"""Hostile text in every field of a run changes what a report says, never what it is."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import fields
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from markdown_it.token import Token

from ragstone.gate.verdict import Status
from ragstone.report.render import render
from ragstone.report.terminal import render_text
from tests.report.conftest import Text, helpdesk_report
from tests.report.hostile import every_fragment, hostile
from tests.report.test_escape import ACTIVE, parser, text_of
from tests.report.test_junit_and_json import SCHEMA

OURS = "https://github.com/acme/helpdesk/"
TAGS = re.compile(r"</?(details|summary|sub|span|code)>|[^<>]")

# A file outside of the repository would get no link, which is another report.
in_repository = hostile.map(lambda text: "golden/x" + text.replace("..", "."))
anywhere = hostile.map(lambda text: "x" + text)
texts = st.builds(Text, **{field.name: in_repository if field.name == "file" else anywhere for field in fields(Text)})
all_hostile = Text(**{field.name: f"{field.name} {every_fragment}" for field in fields(Text)})

few = settings(max_examples=6, phases=(Phase.explicit, Phase.generate))
statuses = st.sampled_from((Status.FAIL, Status.INCONCLUSIVE))


def shape(token: Token) -> tuple[str, str]:
    return token.type, token.content if token.type == "html_block" else ""


def check_markdown(text: Text, status: Status) -> None:
    markdown = render(helpdesk_report(status, text=text), "md")
    tokens = parser().parse(markdown)
    harmless = parser().parse(render(helpdesk_report(status, text=Text(note="n", id="a", system_reason="b")), "md"))
    assert [shape(token) for token in tokens] == [shape(token) for token in harmless]
    children = [child for token in tokens for child in token.children or []]
    links = [str(child.attrs["href"]) for child in children if child.type == "link_open"]
    assert all(link.startswith(OURS) for link in links)
    assert len(links) == sum(child.type == "link_open" for token in harmless for child in token.children or [])
    assert "image" not in {child.type for child in children}
    assert all(TAGS.sub("", child.content) == "" for child in children if child.type == "html_inline")
    outside = text_of([token for token in tokens if "](http" not in token.content])
    assert not [pattern.pattern for pattern in ACTIVE if pattern.search(outside)]
    assert "<!--" not in markdown


class Skeleton(HTMLParser):
    """The tags of a page with the names of their attributes, and all links."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[Any, ...]] = []
        self.links: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, *(name for name, _ in attrs)))
        self.links += [value or "" for name, value in attrs if name in {"href", "src"}]

    def handle_endtag(self, tag: str) -> None:
        self.tags.append(("/", tag))

    def handle_comment(self, data: str) -> None:
        self.tags.append(("comment", data))

    def handle_decl(self, decl: str) -> None:
        self.tags.append(("declaration", decl))

    def handle_pi(self, data: str) -> None:
        self.tags.append(("instruction", data))

    def unknown_decl(self, data: str) -> None:
        self.tags.append(("unknown", data))


def check_html(text: Text, status: Status) -> None:
    page = Skeleton(render(helpdesk_report(status, text=text), "html"))
    assert page.tags == Skeleton(render(helpdesk_report(status), "html")).tags
    assert all(link.startswith(OURS) for link in page.links)


def check_junit(text: Text, status: Status) -> None:
    found = ElementTree.fromstring(render(helpdesk_report(status, text=text), "junit").encode("utf-8"))
    harmless = ElementTree.fromstring(render(helpdesk_report(status), "junit").encode("utf-8"))
    assert [element.tag for element in found.iter()] == [element.tag for element in harmless.iter()]
    assert [set(element.keys()) for element in found.iter()] == [set(element.keys()) for element in harmless.iter()]


def check_json(text: Text, status: Status) -> None:
    body = render(helpdesk_report(status, text=text), "json")
    assert body.isascii()
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f]", body)
    document = json.loads(body)
    jsonschema.validate(document, SCHEMA)
    if status is Status.FAIL:
        expected = text.answer.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        assert document["samples"]["worst"][0]["answer"] == expected


CHECKS = (check_markdown, check_html, check_junit, check_json)


@pytest.mark.heavy
@pytest.mark.parametrize("check", CHECKS)
@few
@given(text=texts, status=statuses)
def test_a_report_keeps_its_structure(check: Callable[[Text, Status], None], text: Text, status: Status) -> None:
    check(text, status)


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("status", [Status.FAIL, Status.ERROR])
def test_a_report_keeps_its_structure_with_every_fragment(
    check: Callable[[Text, Status], None], status: Status
) -> None:
    check(all_hostile, status)


@few
@given(texts, statuses, st.booleans(), st.sampled_from((40, 80, 120, 200)))
def test_a_terminal_is_told_nothing_but_text_and_our_colours(
    text: Text, status: Status, colour: bool, width: int
) -> None:
    shown = render_text(helpdesk_report(status, text=text), width=width, colour=colour)
    if colour:
        shown = re.sub("\x1b\\[[0-9;]*m", "", shown)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", shown)
