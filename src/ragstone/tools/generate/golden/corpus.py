"""The documents that a golden set is about: references that they no longer contain, and questions that quote them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ragstone.errors import ConfigError
from ragstone.golden.sample import Sample
from ragstone.tools.generate.documents import (
    HTML_ENDINGS,
    MAX_TEXT_CHARACTERS,
    UnreadableError,
    files_below,
    plain_html,
    read_texts,
)
from ragstone.tools.generate.near_duplicates import words_of

MIN_QUOTE_WORDS = 8
"""Words of a question that stand in a document in this order, from which on the question quotes it."""

_KNOWN = 0.5
"""If fewer of the ids match documents, their scheme is unknown, and nothing is said of those that don't."""

_CHUNK = re.compile(r"(?:[#:@?|].*|[-_/. ](?:chunk|part|page|section|p|c|s)?[-_ ]?\d+)$", re.IGNORECASE)
_HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+(.+?)[ \t]*#*[ \t]*$", re.MULTILINE)
_ANCHOR = re.compile(r"""\b(?:id|name)\s*=\s*["']([^"'<>\s]+)""")


@dataclass(frozen=True, slots=True)
class Corpus:
    """Documents: `sections` by their path or id (names of the sections that a link can point to), and their words.

    `unread` are documents without text that can be searched, such as pictures, or PDF files without the extra
    ``ragstone[documents]``.
    """

    sections: Mapping[str, frozenset[str]]
    words: str
    unread: int = 0


@dataclass(frozen=True, slots=True)
class Place:
    """What of sample `sample_id` is meant: an id, the start of a passage, or the words that its question quotes."""

    sample_id: str
    what: str


@dataclass(frozen=True, slots=True)
class CorpusCheck:
    """How the references of a golden set agree with its documents.

    `ids` and `passages` are how many there are, `known_ids` how many ids are those of a document. `missing_ids` is
    empty if hardly any id is (`scheme_known` is False then). `missing_passages` are reference contexts whose words are
    in no document in this order. `quoting_questions` are those with words of a document, which any search finds.
    """

    documents: int
    unread: int
    ids: int
    known_ids: int
    scheme_known: bool
    missing_ids: tuple[Place, ...]
    passages: int
    missing_passages: tuple[Place, ...]
    quoting_questions: tuple[Place, ...]


def read_corpus(folder: Path) -> Corpus:
    """The documents in `folder` and its subfolders: a file each, or a line each in JSON Lines with ids.

    Hidden files are left out; links that lead outside are not followed. Raises ConfigError if there is no document, or
    more text than can be searched.
    """
    if not folder.is_dir():
        raise ConfigError("is not a folder.", where=str(folder), hint="Name the folder with the documents.")
    sections: dict[str, frozenset[str]] = {}
    texts: list[str] = []
    unread = size = 0
    for path in files_below(folder):
        name = path.relative_to(folder).as_posix()
        try:
            documents = read_texts(path, name, within=folder)
        except UnreadableError:
            sections[name] = frozenset()
            unread += 1
            continue
        except OSError as error:
            raise ConfigError(f"can't be read: {error.strerror}.", where=str(path)) from None
        for own, body in documents:
            sections[own] = frozenset(_sections(body))
            marked_up = path.suffix.lower() in HTML_ENDINGS | {".xml"}
            texts.append(words_of(plain_html(body) if marked_up else body))
            size += len(texts[-1])
        if size > MAX_TEXT_CHARACTERS:
            raise ConfigError(f"has more than {MAX_TEXT_CHARACTERS:,} characters of text.", where=str(folder))
    if not sections:
        raise ConfigError("has no documents.", where=str(folder))
    return Corpus(sections, "\n".join(f" {text} " for text in texts), unread)


def check_references(samples: Sequence[Sample], corpus: Corpus) -> CorpusCheck:
    """Compare `relevant_ids` and `reference_contexts` with the documents."""
    index = _index(corpus.sections)
    ids = [(sample.id, name) for sample in samples for name, grade in sample.relevant_ids.items() if grade > 0.0]
    owners = {name: _document(name, index) for _, name in ids}
    known = sum(owners[name] is not None for _, name in ids)
    scheme = bool(ids) and known >= _KNOWN * len(ids)
    gone = [Place(sample_id, name) for sample_id, name in ids if owners[name] is None] if scheme else []
    gone += _gone_sections(ids, owners, corpus)
    passages = [(sample.id, text) for sample in samples for text in sample.reference_contexts]
    lost = [
        Place(sample_id, " ".join(text.split())[:100])
        for sample_id, text in passages
        if (words := words_of(text)) and f" {words} " not in corpus.words
    ]
    return CorpusCheck(
        len(corpus.sections),
        corpus.unread,
        len(ids),
        known,
        scheme,
        tuple(gone),
        len(passages),
        tuple(lost),
        tuple(_quoting(samples, corpus)),
    )


def _quoting(samples: Sequence[Sample], corpus: Corpus) -> Iterator[Place]:
    for sample in samples:
        words = words_of(sample.question).split()
        starts = range(len(words) - MIN_QUOTE_WORDS + 1)
        quotes = (" ".join(words[start : start + MIN_QUOTE_WORDS]) for start in starts)
        quote = next((text for text in quotes if f" {text} " in corpus.words), None)
        if quote is not None:
            yield Place(sample.id, quote)


def _sections(text: str) -> Iterator[str]:
    """The anchors of headings, as GitHub makes them, and those in HTML."""
    for heading in _HEADING.findall(text):
        yield re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", heading.strip().casefold()))
    yield from (anchor.casefold() for anchor in _ANCHOR.findall(text))


def _index(names: Iterable[str]) -> dict[str, str]:
    """Each way to name a document: by its path, the end of its path, and both without the extension."""
    found: dict[str, str] = {}
    for name in names:
        found[name.casefold()] = name
    for name in names:
        parts = name.casefold().split("/")
        for start in range(len(parts)):
            tail = "/".join(parts[start:])
            found.setdefault(tail, name)
            found.setdefault(tail.rpartition(".")[0] or tail, name)
    return found


def _document(name: str, index: Mapping[str, str]) -> str | None:
    """The document that an id names: also a chunk of it (``a.md#x``, ``a.md:3``, ``a-chunk-4``), or a longer path."""
    tried = name.casefold().strip().removeprefix("./")
    while tried:
        for start in (0, *(place + 1 for place, sign in enumerate(tried) if sign == "/")):
            if (found := index.get(tried[start:])) is not None:
                return found
        shorter = _CHUNK.sub("", tried)
        if shorter == tried:
            return None
        tried = shorter
    return None


def _gone_sections(ids: Sequence[tuple[str, str]], owners: Mapping[str, str | None], corpus: Corpus) -> Iterator[Place]:
    """Ids of sections that their documents no longer have, if most ids are made of the anchors of sections."""
    named = [
        (sample_id, name, section.casefold() in corpus.sections[owner])
        for sample_id, name in ids
        if (owner := owners[name]) is not None
        and corpus.sections[owner]
        and name.casefold() not in corpus.sections
        and (section := name.partition("#")[2])
    ]
    if sum(found for *_, found in named) >= max(1.0, _KNOWN * len(named)):
        yield from (Place(sample_id, name) for sample_id, name, found in named if not found)
