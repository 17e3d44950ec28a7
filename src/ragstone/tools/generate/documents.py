"""Documents as text: Markdown, text, HTML, PDF and Word files, one document each."""

from __future__ import annotations

import io
import logging
import os
import re
import unicodedata
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from ragstone.errors import ConfigError
from ragstone.files import read_regular, read_table

MAX_FILE_BYTES = 64 * 1024 * 1024
MAX_TEXT_CHARACTERS = 500_000_000
"""Of all documents together."""

MAX_UNPACKED_BYTES = 256 * 1024 * 1024
MAX_PAGES = 5_000

_TABLE = read_table("documents.toml", __package__)
_SPACES = re.compile(r"\s+")
_BLANK_LINES = re.compile(r"\s*\n\s*\n\s*")


class UnreadableError(Exception):
    """A document that can't be read. Its text is a clause that fits after "can't be
    read:"."""


class Documents(Struct):
    """The `texts` that were read, by id, the files that are `unreadable` with the
    reason, and the number of others."""

    texts: dict[str, str] = {}
    unreadable: dict[str, str] = {}
    other: int = 0


def read_documents(places: Sequence[Path]) -> Documents:
    """The documents in files and folders (with subfolders, without hidden files).

    The id of a document is its path below the folder if one folder is given, else its
    path as given. A damaged file is listed, and the others are read. Raises ConfigError
    if there is no document to read, for ids that occur twice, and if a library is
    missing.
    """
    documents = Documents()
    size = 0
    for place in places:
        if not place.exists():
            raise ConfigError(
                "does not exist.",
                where=str(place),
                hint="Name a file or folder with documents.",
            )
        for path in _files_in(place):
            if path.suffix.lower() not in _TABLE["endings"]:
                documents.other += 1
                continue
            named = path
            if len(places) == 1 and path != place:
                named = path.relative_to(place)
            name = named.as_posix()
            if name in documents.texts:
                raise ConfigError(
                    f"two documents have the id '{name}'.", hint="Name each file once."
                )
            try:
                documents.texts[name] = read_text(path, place)
            except (OSError, UnreadableError) as error:
                reason = getattr(error, "strerror", error)
                documents.unreadable[str(path)] = str(reason)
                continue
            size += len(documents.texts[name])
            if size > MAX_TEXT_CHARACTERS:
                raise ConfigError(
                    f"more than {MAX_TEXT_CHARACTERS:,} characters of text.",
                    where=str(path),
                )
    if not documents.texts:
        reasons = [
            f": {path} can't be read: {reason}"
            for path, reason in documents.unreadable.items()
        ]
        first_reason = "".join(reasons[:1])
        raise ConfigError(
            f"there is no document to read{first_reason}.",
            where=", ".join(map(str, places)),
            hint="Name Markdown, text, HTML, PDF or DOCX files, or a folder of them.",
        )
    return documents


def _files_in(place: Path) -> Iterator[Path]:
    """`place`, or the files in it and its subfolders, sorted, without hidden ones."""
    if not place.is_dir():
        yield place
    for folder, folders, names in os.walk(place):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (
            Path(folder, name) for name in sorted(names) if not name.startswith(".")
        )


def read_text(path: Path, within: Path) -> str:
    """The text of a document. Raises OSError, also for a link that leads out,
    ConfigError, and UnreadableError."""
    ending = path.suffix.lower()
    body = read_regular(path, limit=MAX_FILE_BYTES, within=within)
    if ending not in _READERS:
        return body.decode("utf-8-sig", "replace")
    try:
        text = _READERS[ending](body)
    except ImportError as error:
        hint = 'Run: pip install "ragstone[documents]"'
        raise ConfigError(
            f"reading {ending} needs {error.name}.", where=str(path), hint=hint
        ) from None
    except (UnreadableError, MemoryError):
        raise
    except Exception as error:  # a damaged file makes these libraries raise anything
        lines = str(error).splitlines() or [""]
        reason = lines[0][:120]
        raise UnreadableError(
            f"it is damaged ({type(error).__name__}: {reason})"
        ) from None
    if not text:
        raise UnreadableError("it has no text; scanned pages need OCR first")
    return text


def html_text(body: bytes) -> str:
    """What a reader of HTML sees."""
    from lxml import etree

    text = ""
    unseen = _TABLE["unseen"]
    # The fewer, where an element that is never closed hides everything.
    for tags in (unseen, unseen[:2]):
        parser = etree.HTMLParser(
            encoding="utf-8", huge_tree=True, remove_comments=True
        )
        root = etree.fromstring(body, parser)
        if root is None:
            break
        etree.strip_elements(root, *tags, with_tail=False)
        for element in root.iter("*"):
            gap = "" if element.tag in _TABLE["inline"] else "\n\n"
            text_inside = _SPACES.sub(" ", element.text or "")
            element.text = gap + text_inside
            if element.tag == "br":
                gap = "\n"
            text_behind = _SPACES.sub(" ", element.tail or "")
            element.tail = gap + text_behind
        content = "".join(root.itertext())
        text = _tidied(content)
        if text:
            break
    return text


def _pdf(body: bytes) -> str:
    import pypdf

    logging.getLogger("pypdf").setLevel(
        logging.CRITICAL
    )  # it reports each flaw of a file that it can read
    reader = pypdf.PdfReader(io.BytesIO(body))
    if reader.is_encrypted and not reader.decrypt(""):
        raise UnreadableError("it is encrypted")
    if len(reader.pages) > MAX_PAGES:
        raise UnreadableError(f"it has more than {MAX_PAGES:,} pages")
    pages = [str(page.extract_text()) for page in reader.pages]
    text = "\n\n".join(pages)
    normalized = unicodedata.normalize("NFKC", text)  # which takes ligatures apart
    return _tidied(normalized)


def docx_text(body: bytes) -> str:
    """The headings, paragraphs and tables of a Word file. Raises UnreadableError for
    one that unpacks to too much."""
    import docx
    from docx.table import Table

    # zipfile never unpacks more of a part than the archive states as its size.
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        size = sum(part.file_size for part in archive.infolist())
        if size > MAX_UNPACKED_BYTES:
            raise UnreadableError(
                f"it unpacks to more than {MAX_UNPACKED_BYTES // 1024**2} MB"
            )
    parts: list[str] = []
    document = docx.Document(io.BytesIO(body))
    for block in document.iter_inner_content():
        if isinstance(block, Table):
            lines = []
            for row in block.rows:
                cells = dict.fromkeys(cell.text.strip() for cell in row.cells)
                lines.append(" | ".join(cells))
            parts.append("\n".join(lines))
        else:
            style = str(getattr(block.style, "name", ""))
            heading = re.fullmatch(r"Heading (\d)", style)
            marks = f"{'#' * int(heading[1])} " if heading else ""
            parts.append(f"{marks}{block.text}")
    return _tidied("\n\n".join(parts))


def _tidied(text: str) -> str:
    lines = "\n".join(map(str.strip, text.splitlines()))
    return _BLANK_LINES.sub("\n\n", lines).strip()


_READERS: Mapping[str, Callable[[bytes], str]] = {
    ".html": html_text,
    ".htm": html_text,
    ".pdf": _pdf,
    ".docx": docx_text,
}
