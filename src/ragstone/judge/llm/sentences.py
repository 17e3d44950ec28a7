"""Numbered sentences for context relevance."""

from __future__ import annotations

from ragstone.judge.untrusted_text import cleaned


def sentences_of(text: str) -> list[str]:
    """The sentences of `text`, in order; lists and headings line by line."""
    # The offline judge's splitter knows lists, tables and abbreviations; it is imported only when needed.
    from ragstone.judge.sentences import split_sentences

    return split_sentences(cleaned(text), "en")
