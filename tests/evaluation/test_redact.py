"""Known secrets are in nothing that is written."""

from __future__ import annotations

import base64
import json
import re
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstone.evaluation.redact import MASK, Redactor
from ragstone.report.escape import markdown_fence, markdown_inline
from ragstone.report.render import FORMATS, render
from tests.report.conftest import Text, helpdesk_report

KEY = "sk-proj-4f_9A+b/c=d&e<f 0123456789abcdef"


def test_a_path_that_means_nothing_to_a_reader_is_shown_by_its_name() -> None:
    redact = Redactor([KEY], {"/tmp/private-1/run": "ragstone-run"})
    assert redact(f"/tmp/private-1/run/samples.jsonl:3 {KEY}") == f"ragstone-run/samples.jsonl:3 {MASK}"
    assert redact.tree({"/tmp/private-1/run": ["in /tmp/private-1/run"]}) == {"ragstone-run": ["in ragstone-run"]}


@pytest.mark.parametrize(
    "text",
    [
        f"Bearer {KEY}",
        f"https://host/?key={quote(KEY, safe='')}",
        f"https://host/?key={quote_plus(KEY)}",
        re.sub("%[0-9A-F]{2}", lambda escape: escape[0].lower(), quote(KEY, safe="")),
        json.dumps({"key": KEY}),
        "key=" + base64.b64encode(KEY.encode()).decode(),
        "Basic " + base64.b64encode(b"user:" + KEY.encode()).decode(),
        "Basic " + base64.b64encode(b"name:" + KEY.encode() + b"@host").decode(),
        "jwt " + base64.urlsafe_b64encode(b"ab" + KEY.encode()).decode(),
        "&quot;sk-proj-4f_9A+b/c=d&amp;e&lt;f 0123456789abcdef&quot;",
        markdown_inline(f"key {KEY}"),
        markdown_fence(f"key {KEY}"),
    ],
)
def test_a_secret_is_taken_out_in_every_form(text: str) -> None:
    redacted = Redactor([KEY])(text)
    assert MASK in redacted
    for part in ("sk-proj", "0123456789", "c2stcHJval", "NmNkZWY"):
        assert part not in redacted


@pytest.mark.heavy
@settings(max_examples=25, deadline=None)
@given(st.text(min_size=8, max_size=40), st.binary(max_size=5), st.binary(max_size=5))
def test_base64_is_found_at_any_offset(secret: str, before: bytes, after: bytes) -> None:
    stripped = secret.strip()
    if len(stripped) < 8 or "\n" in secret or "\r" in secret:
        return
    try:
        raw = stripped.encode()
    except UnicodeEncodeError:
        return
    encoded = base64.b64encode(before + raw + after).decode()
    assert MASK in Redactor([secret])(encoded)


def test_lines_of_a_secret_are_secrets() -> None:
    redact = Redactor(["-----BEGIN KEY-----\nMIIEvQIBADANBg\nkqhkiG9w0BAQEF\n-----END KEY-----\n"])
    assert redact("log: kqhkiG9w0BAQEF.") == f"log: {MASK}."


def test_short_words_and_no_secrets_garble_nothing_and_the_longer_of_two_secrets_goes_first() -> None:
    assert Redactor(["a", "", "   ", "test"])("a test") == "a test"
    assert Redactor([])("anything") == "anything"
    assert Redactor(["secret", "secret-and-more"])("secret-and-more secret") == f"{MASK} {MASK}"
    assert KEY not in repr(Redactor([KEY]))


@pytest.mark.parametrize("format", FORMATS)
def test_a_redacted_view_has_no_secret_in_any_format(format: str) -> None:
    names = [name for name in Text.__dataclass_fields__ if name not in {"file"}]
    report = helpdesk_report(text=Text(**{name: f"{name} {KEY} end" for name in names}))
    redacted = render(Redactor([KEY]).tree(report), format)  # type: ignore[arg-type]
    assert "4f_9A" not in redacted.replace("\\", "").replace("\u200b", "")
    assert "0123456789" not in redacted.replace("\u200b", "")
    assert Redactor([KEY]).tree(report).metrics[0].score == report.metrics[0].score
