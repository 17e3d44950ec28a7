"""Documents as people have them, damaged and hostile ones too."""

from __future__ import annotations

import io
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import docx
import pypdf
import pytest

from ragstone.errors import ConfigError
from ragstone.tools.generate import documents
from ragstone.tools.generate.documents import docx_text, html_text, read_documents


def pdf(*pages: str) -> bytes:
    """A PDF with a line of text on each page, written by hand."""
    kids = " ".join(f"{4 + 2 * index} 0 R" for index in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for index, text in enumerate(pages):
        stream = f"BT /F1 12 Tf 72 700 Td ({text}) Tj ET" if text else ""
        objects.append(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] "
            f"/Resources << /Font << /F1 3 0 R >> >> /Contents {5 + 2 * index} 0 R >>"
        )
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
    body, places = "%PDF-1.4\n", []
    for number, content in enumerate(objects, start=1):
        places.append(len(body))
        body += f"{number} 0 obj\n{content}\nendobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    end = f"trailer << /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(body)}\n%%EOF"
    return f"{body}xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}{end}".encode("latin-1")


def word() -> bytes:
    document = docx.Document()
    document.add_heading("Leave", level=2)
    document.add_paragraph("Trainees get 20 days.")
    table = document.add_table(rows=1, cols=2)
    table.rows[0].cells[0].text = "Interns"
    table.rows[0].cells[1].text = "5 days"
    document.add_paragraph("Ask Ada.")
    stream = io.BytesIO()
    document.save(stream)
    return stream.getvalue()


def test_every_kind_of_document_in_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    (folder / "sub").mkdir(parents=True)
    (tmp_path / "secret.md").write_text("secret")
    (folder / "a.md").write_text("# A\n\nText.", encoding="utf-8")
    (folder / "b.txt").write_bytes(b"\xef\xbb\xbfplain")
    (folder / "c.html").write_text("<nav>menu</nav><p>One <b>bo</b>ld line.<p>Next<script>no()</script>")
    (folder / "sub" / "d.pdf").write_bytes(pdf("The first page.", "The second page."))
    (folder / "e.docx").write_bytes(word())
    (folder / ".hidden.md").write_text("secret")
    (folder / "f.md").symlink_to(tmp_path / "secret.md")
    (folder / "g.png").write_bytes(b"\x89PNG")
    result = read_documents([folder])
    assert result.texts == {
        "a.md": "# A\n\nText.",
        "b.txt": "plain",
        "c.html": "One bold line.\n\nNext",
        "sub/d.pdf": "The first page.\n\nThe second page.",
        "e.docx": "## Leave\n\nTrainees get 20 days.\n\nInterns | 5 days\n\nAsk Ada.",
    }
    assert list(result.unreadable.values()) == ["it is outside the workspace"]
    assert result.skipped_files == 1


def test_files_keep_their_path_if_several_places_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.md").write_text("text")
    assert list(read_documents([Path("one"), Path("two")]).texts) == ["one/a.md", "two/a.md"]
    assert list(read_documents([Path("one/a.md")]).texts) == ["one/a.md"]
    with pytest.raises(ConfigError, match=r"two documents have the id 'one/a\.md'"):
        read_documents([Path("one"), Path("one/a.md")])


def encrypted() -> bytes:
    writer = pypdf.PdfWriter(clone_from=pypdf.PdfReader(io.BytesIO(pdf("text"))))
    writer.encrypt("secret", algorithm="RC4-128")
    stream = io.BytesIO()
    writer.write(stream)
    return stream.getvalue()


def bomb() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("word/document.xml", "w") as part:
        for _ in range(documents.MAX_UNPACKED_BYTES // 2**20 + 1):
            part.write(bytes(2**20))
    return stream.getvalue()


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("name", "make", "reason"),
    [
        ("x.pdf", lambda: b"%PDF-1.4 nothing", "it is damaged"),
        ("x.pdf", lambda: pdf("", ""), "it has no text; scanned pages need OCR first"),
        ("x.pdf", encrypted, "it is encrypted"),
        ("x.docx", lambda: b"no archive", "it is damaged (BadZipFile"),
        ("x.docx", bomb, "it unpacks to more than 256 MB"),
    ],
    ids=["damaged PDF", "scanned PDF", "encrypted PDF", "damaged Word file", "bomb"],
)
def test_a_damaged_file_is_listed_and_the_others_are_read(
    tmp_path: Path, name: str, make: Callable[[], bytes], reason: str
) -> None:
    (tmp_path / name).write_bytes(make())
    with pytest.raises(ConfigError, match="there is no document to read"):
        read_documents([tmp_path])
    (tmp_path / "good.md").write_text("good")
    result = read_documents([tmp_path])
    assert list(result.texts) == ["good.md"]
    ((path, problem),) = result.unreadable.items()
    assert path.endswith(name)
    assert problem.startswith(reason)


def test_entities_of_word_files_are_not_expanded(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("hunter2")
    source, stream = io.BytesIO(word()), io.BytesIO()
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(stream, "w") as new:
        for part in old.namelist():
            body = old.read(part)
            if part == "word/document.xml":
                declared = f'<!DOCTYPE d [<!ENTITY x SYSTEM "{secret.as_uri()}">]>'.encode()
                body = body.replace(b"<w:document", declared + b"<w:document", 1).replace(b"Ask Ada", b"Ask &x;")
            new.writestr(part, body)
    assert "hunter2" not in docx_text(stream.getvalue())


@pytest.mark.parametrize("piece", ["<div>", "<a ", "<!--", "<![CDATA[", "</", "&", "<script>", "<pre>\n", "<nav>x"])
def test_html_of_any_shape_is_read(piece: str) -> None:
    assert isinstance(html_text(f"<p>start {piece * 20_000}".encode()), str)


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<nav><p>menu<p>all", "menu\n\nall"),
        ("<table><tr><td>ä</td> <td>b</td></tr><tr><td>c</td></tr></table>x<br>y <b>z</b>", "ä b\n\nc\n\nx\ny z"),
        (" ", ""),
    ],
)
def test_what_an_unclosed_element_would_hide_is_read(html: str, text: str) -> None:
    assert html_text(html.encode()) == text


def test_what_is_no_document_and_a_missing_library_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.png").write_text("")
    with pytest.raises(ConfigError, match="there is no document to read"):
        read_documents([tmp_path / "x.png"])
    with pytest.raises(ConfigError, match="does not exist"):
        read_documents([tmp_path / "missing"])
    monkeypatch.setitem(sys.modules, "pypdf", None)
    (tmp_path / "a.pdf").write_bytes(pdf("text"))
    (tmp_path / "b.md").write_text("text")
    with pytest.raises(ConfigError, match=r'needs pypdf(?s:.*)pip install "ragstone\[documents\]"'):
        read_documents([tmp_path])
