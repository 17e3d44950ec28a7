"""The documentation site: its checks find what is broken, and the built pages are GitHub's, and load nothing."""

from __future__ import annotations

import functools
import http.server
import runpy
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from tests.loopback import answering
from tests.report.browser import chromium

ROOT = Path(__file__).parents[2]
SITE = ROOT / "build" / "site"
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "docs_site.py"))
PARTS = {"h1", "h2", "h3", "ul", "ol", "li", "table", "tr", "pre", "img", "a"}


def complaints(folder: Path, pages: dict[str, str]) -> list[str]:
    for name, text in pages.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return list(SCRIPT["complaints"](folder))


def test_pages_whose_links_lead_somewhere_pass(tmp_path: Path) -> None:
    index = '<a href="guide/#first">1</a><a href="https://example.org/">2</a><img src="a%20b.png"><p id="top">'
    guide = '<h2 id="first">First</h2><a href="../#top">up</a><a href="#first">here</a>'
    (tmp_path / "a b.png").write_bytes(b"")
    assert complaints(tmp_path, {"index.html": index, "guide/index.html": guide}) == []


@pytest.mark.parametrize(
    ("element", "said"),
    [
        ('<a href="nowhere/">x</a>', "nowhere/ leads nowhere"),
        ('<img src="missing.png">', "missing.png leads nowhere"),
        ('<a href="#missing">x</a>', "#missing names no anchor"),
        ('<script src="https://cdn.example.org/x.js"></script>', "from another host"),
        ('<link rel="stylesheet" href="//fonts.example.org/x.css">', "from another host"),
        ('<link rel="preconnect" href="https://fonts.example.org">', "from another host"),
    ],
)
def test_a_broken_link_and_a_foreign_resource_are_found(element: str, said: str, tmp_path: Path) -> None:
    (found,) = complaints(tmp_path, {"index.html": element})
    assert found.startswith("index.html: ")
    assert said in found


def test_links_between_pages_stay_and_links_to_other_files_go_to_github() -> None:
    page = ROOT / "docs" / "thresholds.md"
    staged = {ROOT / "docs" / "metrics.md", ROOT / "examples" / "docs-qa" / "README.md"}
    text = "[a](metrics.md#x) [b](../LICENSE) [c](../src) [d](../examples/docs-qa) [e](gone.md) [f](#x)\n"
    text += "```\n[g](../LICENSE)\n```\n"
    main = "https://github.com/ragstone/ragstone"
    assert SCRIPT["with_links_to_github"](text, page, staged) == (
        f"[a](metrics.md#x) [b]({main}/blob/main/LICENSE) [c]({main}/tree/main/src) "
        "[d](../examples/docs-qa/README.md) [e](gone.md) [f](#x)\n```\n[g](../LICENSE)\n```\n"
    )


# From here on: the site that `make docs` built, and a real browser.


@pytest.fixture(scope="module")
def site() -> Path:
    if not (SITE / "html" / "index.html").is_file():
        pytest.fail("the site is not built: make docs")
    return SITE


class Shape(HTMLParser):
    """How many headings, lists, tables, blocks, pictures and links a page has, without those of the theme."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.counted: Counter[str] = Counter()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        of_the_theme = "headerlink" in (given.get("class") or "") or (tag == "a" and "href" not in given)
        if tag in PARTS and not of_the_theme:
            self.counted[tag] += 1


@pytest.mark.browser
def test_a_page_has_on_the_site_the_parts_that_it_has_on_github(site: Path) -> None:
    pages = [path for path in (site / "pages").rglob("*.md") if path.name != "api.md"]
    assert len(pages) > 20
    for page in pages:
        relative = page.relative_to(site / "pages")
        folder = relative.parent if relative.name == "README.md" else relative.with_suffix("")
        html = (site / "html" / folder / "index.html").read_text(encoding="utf-8")
        # Without autolinks, which take report.md for an address in Moldova.
        on_github = Shape(MarkdownIt("gfm-like", {"linkify": False}).render(page.read_text(encoding="utf-8")))
        article = html.partition("<article")[2].partition("</article>")[0]
        assert Shape(f"<article{article}").counted == on_github.counted, relative


@pytest.mark.browser
def test_the_reference_has_every_name_of_the_package(site: Path) -> None:
    import ragstone

    html = (site / "html" / "api" / "index.html").read_text(encoding="utf-8")
    for name in ragstone.__all__:
        assert name.startswith("__") or f'id="ragstone.{name}"' in html, name


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(site / "html"))
    with answering(http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)) as server:
        yield f"http://127.0.0.1:{server.server_port}/"


@pytest.mark.browser
def test_no_page_asks_another_host_for_anything(site: Path, address: str) -> None:
    with chromium() as page:
        for path in sorted((site / "html").rglob("index.html")):
            page.open(f"{address}{path.parent.relative_to(site / 'html').as_posix()}/")
        asked = {url for url in page.requests if not url.startswith(("data:", "blob:"))}
        assert len(asked) > 20
        assert {url for url in asked if not url.startswith(address)} == set()
        assert page.complaints == []
