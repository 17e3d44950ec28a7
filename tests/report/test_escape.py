"""Foreign text shows as itself and does nothing."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from ragstone.printable import ZERO_WIDTH_SPACE, clean
from ragstone.report import escape
from tests.report.hostile import FRAGMENTS, hostile

ACTIVE = (
    re.compile(r"(?<![A-Za-z0-9_])@[A-Za-z0-9]"),
    re.compile(r"#\d"),
    re.compile(r"(?i)\bgh-\d"),
    re.compile(r"[A-Za-z]-\d"),
    re.compile(r"(?i)ghsa-\w"),
    re.compile(r"(?<![0-9A-Za-z])[0-9a-fA-F]{7,40}(?![0-9A-Za-z])"),
    re.compile(r":[\w+-]+:"),
    re.compile(r"(?i)www\."),
    re.compile(r"://"),
)
"""What GitHub makes links, mentions, references and images of, after Markdown, in text that is not code."""


@cache
def parser() -> MarkdownIt:
    """Markdown as on GitHub, which makes no link of a bare domain such as `a.ac`."""
    markdown = MarkdownIt("gfm-like")
    assert markdown.linkify is not None
    markdown.linkify.set({"fuzzy_link": False})
    return markdown


def text_of(tokens: list[Token]) -> str:
    """All text that a reader sees outside code, entities resolved."""
    return "\n".join(
        "".join(
            child.content if child.type in {"text", "text_special"} else " "
            for child in token.children or []
            if child.type != "code_inline"
        )
        for token in tokens
    )


def check_inline(text: str) -> None:
    tokens = parser().parse(escape.markdown_inline(text))
    assert {token.type for token in tokens} <= {"paragraph_open", "inline", "paragraph_close"}
    children = [child for token in tokens for child in token.children or []]
    assert {child.type for child in children} <= {"text", "text_special", "html_inline"}
    assert {child.content for child in children if child.type == "html_inline"} <= {"<span>", "</span>"}
    seen = text_of(tokens)
    assert not [pattern.pattern for pattern in ACTIVE if pattern.search(seen)]


@settings(max_examples=60)
@given(st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=126), max_size=60))
def test_a_reader_sees_the_text_as_it_was(text: str) -> None:
    tokens = parser().parse(escape.markdown_inline(text))
    seen = "".join(child.content for token in tokens for child in token.children or [] if child.type != "html_inline")
    assert seen.replace(ZERO_WIDTH_SPACE, "") == " ".join(text.split())


@settings(max_examples=60)
@given(hostile, hostile)
def test_hostile_text_stays_in_its_table_cell(left: str, right: str) -> None:
    table = (
        "| a | b | c |\n|--|--|--|\n"
        f"| {escape.markdown_inline(left)} | {escape.markdown_code(right)} | end |\n"
        f"| {escape.markdown_code(left)} | {escape.markdown_inline(right)} | end |\n"
    )
    tokens = parser().parse(table)
    assert [token.type for token in tokens].count("td_open") == 6
    cells = [token.content for token in tokens if token.type == "inline"]
    assert cells[5] == cells[8] == "end"
    assert "link_open" not in {child.type for token in tokens for child in token.children or []}


def check_code(text: str) -> None:
    tokens = parser().parse(f"before {escape.markdown_code(text)} after")
    children = [child for token in tokens for child in token.children or []]
    assert {child.type for child in children} <= {"text", "text_special", "code_inline", "html_inline"}
    tags = {"<code>", "</code>", "<span>", "</span>"}
    assert {child.content for child in children if child.type == "html_inline"} <= tags
    assert not [pattern.pattern for pattern in ACTIVE if pattern.search(text_of(tokens))]


def check_fence(text: str) -> None:
    tokens = parser().parse(f"before\n\n{escape.markdown_fence(text)}\n\nafter")
    assert [token.type for token in tokens if token.type != "inline"] == [
        *("paragraph_open", "paragraph_close", "fence", "paragraph_open", "paragraph_close")
    ]


def check_terminal(text: str) -> None:
    # What is put in against commands may stay.
    shown = re.sub("(?<=:)\u200b(?=:)|(?<=##)\u200b(?=\\[)", "", escape.escape_terminal(text))
    assert not re.search(
        "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ud800-\udfff]", shown
    )


def check_markup(text: str) -> None:
    assert re.fullmatch("[\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]*", escape.escape_markup(text))


CHECKS = (check_inline, check_code, check_fence, check_terminal, check_markup)
FENCES = ("a\n```\nb", "a\n`````\nb\n```\nc", "```\n</details>\n```", "~~~\na")


@pytest.mark.parametrize("check", CHECKS)
def test_each_hostile_fragment_is_plain_text(check: Callable[[str], None]) -> None:
    for fragment in (*FRAGMENTS, *FENCES):
        check(fragment)


@pytest.mark.heavy
@pytest.mark.parametrize("check", CHECKS)
@settings(max_examples=80)
@given(text=st.one_of(hostile, hostile, st.text(max_size=40)))
def test_hostile_text_is_plain_text(check: Callable[[str], None], text: str) -> None:
    check(text)


@pytest.mark.parametrize("escaped", [escape.markdown_inline, escape.markdown_code, escape.markdown_fence])
def test_a_hidden_marker_cannot_be_forged(escaped: object) -> None:
    assert "<!--" not in escaped("x <!-- ragstone:report --> <!<!---- y")  # type: ignore[operator]


def test_emoji_and_scripts_that_need_joiners_are_left_alone() -> None:
    text = "👩‍💻 می‌خواهم क्‍ष é 漢字"
    assert clean(text) == text


def test_control_characters_are_shown_not_dropped() -> None:
    assert clean("a\x1b[2Jb\x00c\u202ed") == "a␛[2Jb␀c\ufffdd"


ADDRESSES = (
    *("javascript:alert(1)", "data:text/html,x", "//evil.example", "https://", "https://user:pw@host/x", "/x", ""),
    *("https://host/a b", "https://host/\n", "https://[host", None, "HTTPS", "vbscript:x", "file:///etc/passwd"),
)


@pytest.mark.parametrize("address", ADDRESSES)
def test_only_plain_web_addresses_become_links(address: str | None) -> None:
    assert escape.safe_url(address) is None
    assert escape.markdown_link("golden.jsonl:1", address) == "`golden.jsonl:1`"


def test_an_address_can_not_end_its_link() -> None:
    link = escape.markdown_link("x", "https://host/a)[b](c<d>'\"`|\\")
    tokens = parser().parse(f"| {link} |\n|--|\n")
    links = [child for token in tokens for child in token.children or [] if child.type == "link_open"]
    assert len(links) == 1
    assert str(links[0].attrs["href"]).startswith("https://host/a%29%5Bb%5D%28c%3Cd%3E")


def test_clipping_marks_the_cut() -> None:
    assert escape.clip("abcdef", 4) == "abc…"
    assert escape.clip("abcd", 4) == "abcd"


COMMANDS = [
    "::error::x",
    "  ::add-mask::x",
    "\u00a0::stop-commands::x",
    "a ##[error]x",
    "x\n::error file=a::x",
    "::error::",
]


@pytest.mark.parametrize("text", COMMANDS)
@pytest.mark.parametrize(
    "escaped",
    [
        escape.markdown_fence,
        escape.escape_markup,
        escape.escape_terminal,
        escape.escape_terminal_line,
        escape.markdown_inline,
    ],
)
def test_no_line_is_a_command_to_the_runner_that_prints_it(escaped: Callable[[str], str], text: str) -> None:
    for line in escaped(text).splitlines():
        assert not line.strip().startswith("::")
        assert "##[" not in line


@given(st.text(alphabet=":#[ e\n\u2003", max_size=40), st.integers(1, 12))
def test_a_terminal_that_folds_lines_anywhere_prints_no_command(text: str, width: int) -> None:
    shown = escape.escape_terminal(text)
    assert all("::" not in line and "##[" not in line for line in textwrap.wrap(shown, width) or [""])
