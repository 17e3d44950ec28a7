"""Parsers written by hand read anything: a value or the parser's own error, whatever is changed in a good input."""

from __future__ import annotations

import asyncio
import json
import zipfile
from collections.abc import AsyncIterator
from io import BytesIO

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstone.archive import ArchiveRefused, read_members
from ragstone.errors import RagstoneError
from ragstone.evaluation.record import record_from_line, record_to_line
from ragstone.golden.aliases import SYSTEM_NAMES
from ragstone.system.http_reply import EVENTS, ReportedError, read_reply
from ragstone.system.payload import read
from ragstone.system.worker import fields
from tests.evaluation.builders import record, samples

pytestmark = pytest.mark.heavy

FIELDS = fields.Fields()
EXAMPLES = settings(max_examples=500, deadline=None)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@st.composite
def damaged(draw: st.DrawFn, good: bytes, tokens: tuple[bytes, ...] = ()) -> bytes:
    """`good` with bytes replaced, removed, repeated and inserted, some of them `tokens`."""
    body = bytearray(good)
    for _ in range(draw(st.integers(0, 6))):
        start = draw(st.integers(0, len(body)))
        end = min(len(body), start + draw(st.integers(0, 12)))
        piece = draw(st.sampled_from([b"", bytes(body[start:end]) * 2, *tokens]) | st.binary(max_size=4))
        body[start:end] = piece
    return bytes(body)


# -- replies of services -----------------------------------------------------------------------------------------------

NAMES = (*(name for names in SYSTEM_NAMES.values() for name in names), "delta", "choices", "type", "error")
replies = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=10,
)
STREAM_TOKENS = (b"data:", b"\r", b"\n", b"\r\n", b"event: error\n", b"[DONE]", b'{"answer": "x"}', b"\xff")


def _read(body: bytes, kind: str, size: int) -> object:
    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(body), size):
            yield body[start : start + size]

    async def reply() -> object:
        request = httpx2.Request("POST", "http://127.0.0.1/ask")
        response = httpx2.Response(200, headers={"Content-Type": kind}, content=pieces(), request=request)
        value, _ = await read_reply(response, FIELDS)
        return value

    return asyncio.run(reply())


@EXAMPLES
@given(
    values=st.lists(replies, max_size=4),
    kind=st.sampled_from([EVENTS, "application/json", "application/x-ndjson", "text/plain", ""]),
    size=st.integers(1, 9),
    data=st.data(),
)
def test_any_reply_of_a_service_is_a_value_or_a_named_failure(
    values: list[object], kind: str, size: int, data: st.DataObject
) -> None:
    prefix = "data: " if kind == EVENTS else ""
    good = "".join(f"{prefix}{json.dumps(value)}\n\n" for value in values).encode()
    body = data.draw(damaged(good, STREAM_TOKENS))
    try:
        value = _read(body, kind, size)
    except (fields.BadReturn, ReportedError):
        return
    again = _read(body, kind, len(body) or 1)
    assert again == value, "it does not depend on the pieces in which it arrives"
    read("q", value, 0.1, FIELDS)


@EXAMPLES
@given(value=replies | json_values)
def test_any_value_of_an_entrypoint_is_an_answer_or_a_named_failure(value: object) -> None:
    response = read("q", value, 0.1, FIELDS)
    assert response.sample_id == "q"
    if response.failure is None:
        response.answer.encode()


# -- archives ----------------------------------------------------------------------------------------------------------


def _archive() -> bytes:
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("manifest.json"), b"{}" * 40)
        archive.writestr(zipfile.ZipInfo("samples.jsonl"), b"{}\n" * 40)
    return buffer.getvalue()


LIMITS = {"manifest.json": 100, "samples.jsonl": 200}
ZIP_TOKENS = (b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06", b"PK\x06\x06", b"../", b"\xff\xff\xff\xff", b"\x00\x00")


@EXAMPLES
@given(archive=damaged(_archive(), ZIP_TOKENS))
def test_any_archive_is_read_within_its_limits_or_refused(archive: bytes) -> None:
    try:
        members = read_members(archive, LIMITS)
    except ArchiveRefused:
        return
    assert members.keys() <= LIMITS.keys()
    assert all(len(body) <= LIMITS[name] for name, body in members.items())


# -- records -----------------------------------------------------------------------------------------------------------

LINE = record_to_line(record(next(iter(samples(1))))).encode()
JSON_TOKENS = (b"null", b"[]", b"{}", b'"', b"1e999", b"NaN", b"-1", b'{"sample":', b"\\ud800", b"[" * 2_000, b"true")


@EXAMPLES
@given(line=damaged(LINE, JSON_TOKENS))
def test_any_line_of_a_run_is_a_record_or_an_error_with_its_place(line: bytes) -> None:
    try:
        found = record_from_line(line, "samples.jsonl:7")
    except RagstoneError as error:
        where = error.where
    else:
        where = "samples.jsonl:7"
        assert record_from_line(record_to_line(found), "again") == found
    assert where == "samples.jsonl:7"
