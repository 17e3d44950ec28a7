"""Reads documents as text: Markdown, text, HTML, PDF and Word files, one document
each."""

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
"""The most text that is read, of all documents together."""

MAX_UNPACKED_BYTES = 256 * 1024 * 1024
"""The largest size of a Word file without its compression."""

MAX_PAGES = 5_000
"""The most pages of a PDF file."""

_MAX_REASON_CHARACTERS = 120

_TABLE = read_table("documents.toml", __package__)
_SPACES = re.compile(r"\s+")
_BLANK_LINES = re.compile(r"\s*\n\s*\n\s*")


class UnreadableError(Exception):
    """A document can't be read. The text says why, as a clause that follows "can't be
    read: "."""


class Documents(Struct):
    """The documents in files and folders."""

    texts: dict[str, str] = {}
    """The texts of the documents by their ids."""
    unreadable: dict[str, str] = {}
    """Why a file could not be read, by its path."""
    skipped_files: int = 0
    """How many files have another type."""


def read_documents(paths: Sequence[Path]) -> Documents:
    """Read the documents in files and folders, with subfolders and without hidden files.

    The id of a document is its path below the folder if `paths` is one folder, or else
    its whole path. Damaged files are listed, and all others are read. Raises
    ConfigError if there is no document to read, for ids that occur twice, and if a
    library is missing.
    """
    documents = Documents()
    characters = 0
    for path in paths:
        if not path.exists():
            raise ConfigError(
                "does not exist.",
                where=str(path),
                hint="Name a file or folder with documents.",
            )
        for file in _files_in(path):
            if file.suffix.lower() not in _TABLE["endings"]:
                documents.skipped_files += 1
                continue
            document_id = file.as_posix()
            if len(paths) == 1 and file != path:
                document_id = file.relative_to(path).as_posix()
            if document_id in documents.texts:
                raise ConfigError(
                    f"two documents have the id '{document_id}'.",
                    hint="Name each file once.",
                )
            try:
                text = read_text(file, path)
            except (OSError, UnreadableError) as error:
                # An OSError has its reason, without the path, in strerror.
                reason = getattr(error, "strerror", error)
                documents.unreadable[str(file)] = str(reason)
                continue
            documents.texts[document_id] = text
            characters += len(text)
            if characters > MAX_TEXT_CHARACTERS:
                raise ConfigError(
                    f"more than {MAX_TEXT_CHARACTERS:,} characters of text.",
                    where=str(file),
                    hint="Name fewer documents.",
                )
    if not documents.texts:
        reasons = [
            f": {file} can't be read: {reason}"
            for file, reason in documents.unreadable.items()
        ]
        first_reason = "".join(reasons[:1])
        raise ConfigError(
            f"there is no document to read{first_reason}.",
            where=", ".join(map(str, paths)),
            hint="Name Markdown, text, HTML, PDF or DOCX files, or a folder of them.",
        )
    return documents


def _files_in(path: Path) -> Iterator[Path]:
    """`path`, or the files in it and its subfolders, sorted, without hidden ones."""
    if not path.is_dir():
        yield path
    for folder, folders, names in os.walk(path):
        # os.walk goes on into the folders that are left in this list.
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (
            Path(folder, name) for name in sorted(names) if not name.startswith(".")
        )


def read_text(path: Path, within: Path) -> str:
    """Read the text of a document in the folder `within`.

    Raises UnreadableError, OSError, also for a link that leads out of the folder, and
    ConfigError if a library is missing.
    """
    ending = path.suffix.lower()
    body = read_regular(path, limit=MAX_FILE_BYTES, within=within)
    if ending not in _READERS:
        return body.decode("utf-8-sig", "replace")
    try:
        text = _READERS[ending](body)
    except ImportError as error:
        raise ConfigError(
            f"reading {ending} needs {error.name}.",
            where=str(path),
            hint='Run: pip install "ragstone[documents]"',
        ) from None
    except (UnreadableError, MemoryError):
        raise
    except Exception as error:  # a damaged file makes these libraries raise anything
        lines = str(error).splitlines() or [""]
        reason = lines[0][:_MAX_REASON_CHARACTERS]
        raise UnreadableError(
            f"it is damaged ({type(error).__name__}: {reason})"
        ) from None
    if not text:
        raise UnreadableError("it has no text; scanned pages need OCR first")
    return text


def html_text(body: bytes) -> str:
    """The text of an HTML file that a browser shows."""
    from lxml import etree

    text = ""
    hidden = _TABLE["hidden"]
    # An element that is never closed has everything behind it inside: if nothing is
    # left, only what surely isn't text is removed.
    for hidden_tags in (hidden, hidden[:2]):
        parser = etree.HTMLParser(
            encoding="utf-8", huge_tree=True, remove_comments=True
        )
        root = etree.fromstring(body, parser)
        if root is None:
            break
        etree.strip_elements(root, *hidden_tags, with_tail=False)
        for element in root.iter("*"):
            gap = "" if element.tag in _TABLE["inline"] else "\n\n"
            text_inside = _SPACES.sub(" ", element.text or "")
            element.text = gap + text_inside
            if element.tag == "br":
                gap = "\n"
            text_behind = _SPACES.sub(" ", element.tail or "")
            element.tail = gap + text_behind
        text = _tidy("".join(root.itertext()))
        if text:
            break
    return text


def _pdf_text(body: bytes) -> str:
    """The text of a PDF file. Raises UnreadableError for an encrypted or a very long
    one."""
    import pypdf

    # pypdf logs each flaw, also of a file that it can read.
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    reader = pypdf.PdfReader(io.BytesIO(body))
    if reader.is_encrypted and not reader.decrypt(""):
        raise UnreadableError("it is encrypted")
    if len(reader.pages) > MAX_PAGES:
        raise UnreadableError(f"it has more than {MAX_PAGES:,} pages")
    pages = [str(page.extract_text()) for page in reader.pages]
    text = "\n\n".join(pages)
    # In NFKC, a ligature such as "ﬁ" is written as its letters.
    return _tidy(unicodedata.normalize("NFKC", text))


def docx_text(body: bytes) -> str:
    """The headings, paragraphs and tables of a Word file. Raises UnreadableError for
    one that is too large when it is unpacked."""
    import docx
    from docx.table import Table

    # These sizes can be trusted: zipfile never unpacks more of a part than its size.
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
                # Merged cells are in a row more than once.
                cells = dict.fromkeys(cell.text.strip() for cell in row.cells)
                lines.append(" | ".join(cells))
            parts.append("\n".join(lines))
        else:
            style = str(getattr(block.style, "name", ""))
            heading = re.fullmatch(r"Heading (\d)", style)
            marks = f"{'#' * int(heading[1])} " if heading else ""
            parts.append(f"{marks}{block.text}")
    return _tidy("\n\n".join(parts))


def _tidy(text: str) -> str:
    """`text` without spaces at the ends of lines, and with one blank line between
    paragraphs."""
    lines = "\n".join(map(str.strip, text.splitlines()))
    return _BLANK_LINES.sub("\n\n", lines).strip()


_READERS: Mapping[str, Callable[[bytes], str]] = {
    ".html": html_text,
    ".htm": html_text,
    ".pdf": _pdf_text,
    ".docx": docx_text,
}
