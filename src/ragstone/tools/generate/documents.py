"""Documents as text: Markdown, text, HTML, PDF and Word files, one document each, and JSON Lines with ids."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from ragstone.errors import ConfigError
from ragstone.files import read_regular, read_table
from ragstone.golden.aliases import ID_KEYS, TEXT_KEYS, normal

MAX_FILES = 200_000
MAX_FILE_BYTES = 64 * 1024 * 1024
MAX_TEXT_CHARACTERS = 500_000_000
"""Of all documents together."""

MAX_UNPACKED_BYTES = 256 * 1024 * 1024
MAX_PAGES = 5_000

_TABLE = read_table("documents.toml", __package__)
TEXT_ENDINGS, HTML_ENDINGS, ROW_ENDINGS, PACKED_ENDINGS, _INLINE = (
    frozenset(_TABLE[name]) for name in ("text", "html", "rows", "packed", "inline")
)
_ENDINGS = TEXT_ENDINGS | HTML_ENDINGS | ROW_ENDINGS | PACKED_ENDINGS
_LIBRARIES = _TABLE["libraries"]
_UNSEEN = _TABLE["unseen"]
_BREAK = "\0"
_MANY_LINES = re.compile(r"\n\s*\n\s*")


class UnreadableError(Exception):
    """A document that can't be read. Its text is a clause that fits after "can't be read:"."""


@dataclass(frozen=True, slots=True)
class Document:
    """A document: its id (the path below the folder, or the id in JSON Lines) and its text."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Documents:
    """What was read. `unreadable` are files with the reason, `other` the number of files that are no documents."""

    read: tuple[Document, ...]
    unreadable: tuple[tuple[str, str], ...] = ()
    other: int = 0


def read_documents(places: Sequence[Path]) -> Documents:
    """The documents in files and folders (with subfolders, without hidden files).

    The id of a file is its path below the folder if one folder is given, else its path as given. A damaged file is
    listed, and the others are read. Raises ConfigError if there is no document to read, for ids that occur twice, and
    if a library is missing.
    """
    documents: dict[str, Document] = {}
    unreadable: list[tuple[str, str]] = []
    other_files = size = 0
    for path, name in _named(places):
        if path.suffix.lower() not in _ENDINGS:
            other_files += 1
            continue
        try:
            texts = read_texts(path, name)
        except (OSError, UnreadableError) as error:
            unreadable.append((str(path), str(getattr(error, "strerror", error))))
            continue
        for document_id, text in texts:
            if document_id in documents:
                raise ConfigError(
                    f"two documents have the id '{document_id}'.", where=str(path), hint="Make the ids unique."
                )
            documents[document_id] = Document(document_id, text)
            size += len(text)
        if size > MAX_TEXT_CHARACTERS:
            raise ConfigError(f"more than {MAX_TEXT_CHARACTERS:,} characters of text.", where=str(path))
    if not documents:
        reason = f": {unreadable[0][0]} can't be read: {unreadable[0][1]}" if unreadable else ""
        raise ConfigError(
            f"there is no document to read{reason}.",
            where=", ".join(map(str, places)),
            hint="Name Markdown, text, HTML, PDF or DOCX files, JSON Lines with id and text, or a folder of them.",
        )
    return Documents(tuple(documents.values()), tuple(unreadable), other_files)


def _named(places: Sequence[Path]) -> Iterator[tuple[Path, str]]:
    for place in places:
        if place.is_dir():
            for path in files_below(place):
                yield path, (path.relative_to(place) if len(places) == 1 else path).as_posix()
        elif not place.exists():
            raise ConfigError("does not exist.", where=str(place), hint="Name a file or folder with documents.")
        elif place.suffix.lower() not in _ENDINGS:
            raise ConfigError(
                f"'{place.suffix or place.name}' is not a supported kind of document.",
                where=str(place),
                hint="Markdown, text, HTML, PDF, DOCX, or JSON Lines with id and text.",
            )
        else:
            yield place, place.as_posix()


def files_below(folder: Path) -> Iterator[Path]:
    """The files in `folder` and its subfolders, sorted; no hidden ones, and no links that lead outside."""
    files = 0
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(place, name)
            if name.startswith(".") or not path.is_file() or not path.resolve().is_relative_to(folder.resolve()):
                continue
            files += 1
            if files > MAX_FILES:
                raise ConfigError(f"has more than {MAX_FILES:,} files.", where=str(folder))
            yield path


def rows_of(path: Path, text: str) -> Iterator[tuple[str, str]]:
    """Id and text of each line of a JSON Lines file. Raises ConfigError."""
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            raise ConfigError("is not a JSON object.", where=f"{path}:{number}")
        named = {normal(str(key)) or str(key): value for key, value in row.items()}
        name = next((named[key] for key in (*ID_KEYS, "id") if named.get(key) is not None), None)
        body = next((named[key] for key in TEXT_KEYS if isinstance(named.get(key), str)), None)
        if body is None:
            raise ConfigError("has no text.", where=f"{path}:{number}", hint='Expected {"id": "…", "text": "…"}.')
        yield (str(name) if name is not None else f"{path.name}:{number}"), body


def require_library(ending: str, where: str) -> None:
    """Raise ConfigError if reading such a file needs a library that is not installed."""
    if ending not in _LIBRARIES:
        return
    module, name = _LIBRARIES[ending]
    if find_spec(module) is None:
        raise ConfigError(
            f"reading {ending} needs {name}, which is not installed.",
            where=where,
            hint='Run: pip install "ragstone[documents]"',
        )


def read_texts(path: Path, name: str) -> list[tuple[str, str]]:
    """The documents in a file: their ids, and their texts.

    Raises OSError, ConfigError, and UnreadableError.
    """
    ending = path.suffix.lower()
    require_library(ending, str(path))
    body = read_regular(path, limit=MAX_FILE_BYTES)
    if ending in PACKED_ENDINGS:
        return [(name, unpacked(ending, body))]
    if ending in ROW_ENDINGS:
        return list(rows_of(path, body.decode("utf-8", "replace")))
    text = body.decode("utf-8-sig", "replace")
    return [(name, html_text(text) if ending in HTML_ENDINGS else text)]


def unpacked(ending: str, body: bytes) -> str:
    """The text of a PDF or Word file, the library for it being installed. Raises UnreadableError."""
    read: Callable[[bytes], str] = _pdf if ending == ".pdf" else _docx
    try:
        text = read(body)
    except (UnreadableError, MemoryError):
        raise
    except Exception as error:  # a damaged file makes these libraries raise anything
        reason = (str(error).splitlines() or [""])[0][:120]
        raise UnreadableError(f"it is damaged ({type(error).__name__}: {reason})") from None
    if not text.strip():
        raise UnreadableError("it has no text; scanned pages need OCR first")
    return text


class _Reader:
    """Collects what a reader sees, as the target of a parser: paragraphs apart, and nothing inside `unseen`."""

    def __init__(self, unseen: Sequence[str]) -> None:
        self._unseen = frozenset(unseen)
        self._hidden = self._written = 0
        self._parts: list[str] = []

    def start(self, tag: str, attributes: object) -> None:  # noqa: ARG002 - the parser's signature
        self._hidden += tag in self._unseen
        self._written += tag == "pre"
        self._part(tag)

    def end(self, tag: str) -> None:
        self._hidden -= tag in self._unseen
        self._written -= tag == "pre"
        if tag != "br":
            self._part(tag)

    def data(self, text: str) -> None:
        if not self._hidden:
            self._parts.append(text.replace("\n", _BREAK) if self._written else text)

    def close(self) -> str:
        return "".join(self._parts)

    def _part(self, tag: str) -> None:
        if tag not in _INLINE:
            self._parts.append(_BREAK if tag in ("br", "tr") else 2 * _BREAK)


def html_text(text: str) -> str:
    """What a reader of HTML sees, the library for it being installed."""
    if not text.strip():
        return text
    from lxml import etree

    shown = ""
    for unseen in (_UNSEEN, _UNSEEN[:2]):  # where an element that is never closed hides everything
        parser = etree.HTMLParser(target=_Reader(unseen), encoding="utf-8", huge_tree=True)
        parser.feed(text.replace(_BREAK, " ").encode("utf-8", "replace"))
        shown = _tidied(" ".join(str(parser.close()).split()).replace(_BREAK, "\n"))
        if shown:
            break
    return shown


def _pdf(body: bytes) -> str:
    import pypdf

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # it reports each flaw of a file that it can read
    reader = pypdf.PdfReader(io.BytesIO(body))
    if reader.is_encrypted and not reader.decrypt(""):
        raise UnreadableError("it is encrypted")
    if len(reader.pages) > MAX_PAGES:
        raise UnreadableError(f"it has more than {MAX_PAGES:,} pages")
    return _tidied("\n\n".join(str(page.extract_text()) for page in reader.pages))


def _docx(body: bytes) -> str:
    import docx
    from docx.table import Table

    # zipfile never unpacks more of a part than the archive states as its size.
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        if sum(part.file_size for part in archive.infolist()) > MAX_UNPACKED_BYTES:
            raise UnreadableError(f"it unpacks to more than {MAX_UNPACKED_BYTES // 1024**2} MB")
    parts: list[str] = []
    for block in docx.Document(io.BytesIO(body)).iter_inner_content():
        if isinstance(block, Table):
            rows = (dict.fromkeys(cell.text.strip() for cell in row.cells) for row in block.rows)
            parts.append("\n".join(" | ".join(cells) for cells in rows))
        else:
            style = str(getattr(block.style, "name", "") or "")
            marks = "#" * int(style[-1]) + " " if style.startswith("Heading ") and style[-1].isdigit() else ""
            parts.append(f"{marks}{block.text}" if block.text.strip() else "")
    return _tidied("\n\n".join(parts))


def _tidied(text: str) -> str:
    lines = "\n".join(line.strip() for line in text.split("\n"))
    return _MANY_LINES.sub("\n\n", lines).strip()
