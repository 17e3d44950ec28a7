from __future__ import annotations

import io
import struct
import zipfile

import pytest

from ragstone.archive import MAX_ENTRIES, ArchiveRefused, read_members
from tests.github.api.fake import zip_of

LIMITS = {"manifest.json": 1_000, "samples.jsonl": 100_000}


def test_named_members_are_read_and_others_left_alone() -> None:
    archive = zip_of({"manifest.json": b"{}", "report.md": b"x", "extra/evil.py": b"boom"})
    assert read_members(archive, LIMITS) == {"manifest.json": b"{}"}


def test_a_bomb_is_refused_after_its_limit() -> None:
    bomb = zip_of({"manifest.json": b"{}", "samples.jsonl": b"\0" * 50_000_000})
    assert len(bomb) < 100_000
    with pytest.raises(ArchiveRefused, match="larger than 100,000 bytes"):
        read_members(bomb, LIMITS)


def test_a_bomb_that_lies_about_its_size_is_refused() -> None:
    bomb = bytearray(zip_of({"samples.jsonl": b"\0" * 5_000_000}))
    for signature, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        place = bomb.index(signature) + offset
        bomb[place : place + 4] = struct.pack("<I", 10)
    with pytest.raises(ArchiveRefused):
        read_members(bytes(bomb), LIMITS)


@pytest.mark.parametrize("name", ["../../etc/cron.d/x", "/etc/passwd", "a/../../b", "..\\..\\x", "C:\\x", "c:x"])
def test_a_path_that_leads_out_refuses_the_whole_archive(name: str) -> None:
    with pytest.raises(ArchiveRefused, match="leads out"):
        read_members(zip_of({"manifest.json": b"{}", name: b"x"}), LIMITS)


def test_a_name_that_stands_there_twice_is_refused() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("manifest.json", b'{"verdict": "pass"}')
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("manifest.json", b'{"verdict": "fail"}')
    with pytest.raises(ArchiveRefused, match="twice"):
        read_members(buffer.getvalue(), LIMITS)


def test_too_many_entries_are_refused() -> None:
    with pytest.raises(ArchiveRefused, match="entries"):
        read_members(zip_of({f"f{n}": b"" for n in range(MAX_ENTRIES + 1)}), LIMITS)


def test_other_packing_methods_are_refused() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("manifest.json", b"{}")
    with pytest.raises(ArchiveRefused, match="unknown method"):
        read_members(buffer.getvalue(), LIMITS)
