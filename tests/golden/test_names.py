"""Names of documents are told from passages of text."""

from __future__ import annotations

import pytest

from ragstone.golden.names import are_names, is_name


@pytest.mark.parametrize(
    "name",
    [
        "file.md",
        "docs/guide/setup.md",
        "./notes",
        "/srv/corpus/17",
        "Annual report 2023.pdf",
        "résumé.docx",
        "規則.pdf",
        "setup.md#install",
        "https://example.org/a?page=2#top",
        "sample_2.txt",
        "chunk:4",
        "policy#2",
        "doc-7",
        "42",
        "3f2a-bc90",
    ],
)
def test_a_path_an_address_and_an_id_are_names(name: str) -> None:
    assert is_name(name)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Paris",
        "Paris.",
        "yes",
        "e.g.",
        "The limit is 42",
        "東京は日本の首都です",
        "2の10乗は1024です",
        "See README.md. It also names setup.md",
        "Whoever wants to change it should first have read everything that is written in README.md",
        "One line\nand another.md",
        "x1" * 300,
    ],
)
def test_text_is_not_a_name(text: str) -> None:
    assert not is_name(text)


def test_texts_are_names_only_if_each_is_one() -> None:
    assert are_names(["a.md", "b.md"])
    assert not are_names(["a.md", "The second is a passage."])
    assert not are_names([])
