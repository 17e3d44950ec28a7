"""Text that tries to be more than text."""

from __future__ import annotations

from hypothesis import strategies as st

FRAGMENTS = (
    *("@octocat", "@acme/owners", "&#64;octocat", "&commat;octocat", "\\@octocat", "＠octocat"),
    *("#123", "&#35;123", "&num;123", "GH-123", "gh-7", "acme/app#1", "acme/app@deadbeefcafe", "JIRA-42", "CVE-2026-1"),
    *("3f2c1e9a7b5d4c6e8f0a1b2c3d4e5f6a7b8c9d0e", "deadbee", "GHSA-aaaa-bbbb-cccc"),
    *("https://evil.example/x", "http://evil.example", "ftp://evil.example", "www.evil.example", "WWW.EVIL.EXAMPLE"),
    *("mallory@evil.example", "mailto:mallory@evil.example", "<https://evil.example>", "<mallory@evil.example>"),
    *("![x](https://evil.example/x.png)", "[x](javascript:alert(1))", "[x][y]", "\n\n[y]: https://evil.example\n\n"),
    *("[^1]", "\n\n[^1]: note\n\n", "[x](", "](", "![", "<a href=//evil.example>", ":tada:", ":octocat:"),
    *("<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "</details>", "<details open>", "</summary>"),
    *("<!-- ragstone:report -->", "<!--", "-->", "<![CDATA[", "]]>", "<?xml?>", "</script>", "</style>", "</pre>"),
    *("```", "````", "~~~", "\n```\n", "\n~~~~\n", "`", "``", "|", "\\|", "\\", "\\\\|", "\n| a | b |\n|--|--|\n"),
    *("\n# h", "\n- li", "\n1. li", "\n> q", "\n---\n", "\n===\n", "\n    code", "\n\n", "\r", "\r\n", "\t"),
    *("*b*", "__b__", "~~s~~", "$x$", "$$x$$", "$`x`$", "&amp;", "&lt;script&gt;", "&#x3c;b>", "&nbsp;"),
    *("\x1b[31m", "\x1b]8;;https://evil.example\x1b\\x\x1b]8;;\x1b\\", "\x9b31m", "\x07", "\x08", "\x00", "\x7f"),
    *("\u202e", "\u2066", "\u200b", "\u200f", "\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\ufeff", "\ufffe"),
    *("\ud800", "\U000e0041", "{{ 7 * 7 }}", "{% raw %}", "{#", "::error::x", "##[error]x", "%0A", '"', "'", "\x1e"),
)

hostile = st.lists(
    st.one_of(st.sampled_from(FRAGMENTS), st.sampled_from((" ", "a", "7", "_", ".")), st.text(max_size=6)),
    min_size=1,
    max_size=8,
).map("".join)
"""Fragments that mean something to Markdown, HTML, XML, terminals or GitHub, and arbitrary text between them."""

every_fragment = " ".join(FRAGMENTS)
