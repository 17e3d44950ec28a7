"""Build the documentation site into build/site/html: python scripts/docs_site.py

The pages are the repository's own Markdown files, laid out as in the repository, so that a link between two of them is
the same on GitHub and on the site. Links to other files of the repository point to GitHub. The build is strict about
pages and headings. Afterwards the HTML is checked for broken links and for anything that a browser would load from
another host.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "site"
REPOSITORY = "https://github.com/ragstone/ragstone"
PAGES = ("*.md", "docs/**/*.md", "examples/*/*.md", "bench/**/*.md")
PICTURES = {".svg", ".png", ".webp"}
API = """\
# Python API, name by name

Everything that `import ragstone` offers, from its docstrings. [Python](docs/python-api.md) shows how it is used.

::: ragstone
    options:
      show_root_heading: false
      show_root_toc_entry: false
"""
_FENCE = re.compile(r"^( *)(```+|~~~+).*?^\1\2 *$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(\]\()([^)\s]+)(\))")
_LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "audio": "src"}
_LOADED_LINKS = {"stylesheet", "icon", "preload", "prefetch", "preconnect", "dns-prefetch", "modulepreload", "manifest"}


def tracked(*patterns: str) -> list[Path]:
    """The files tracked by git that match `patterns`."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    found = {path for pattern in patterns for path in ROOT.glob(pattern)}
    return sorted(ROOT / name for name in names if name and ROOT / name in found)


def stage(folder: Path) -> None:
    """Lay out the pages and their pictures in `folder` as they are in the repository."""
    pages = tracked(*PAGES)
    pictures = [path for path in tracked("docs/**/*", "bench/**/*") if path.suffix in PICTURES]
    staged = {*pages, *pictures}
    for page in pages:
        target = folder / page.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(with_links_to_github(page.read_text(encoding="utf-8"), page, staged), encoding="utf-8")
    for picture in pictures:
        target = folder / picture.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(picture, target)
    (folder / "api.md").write_text(API, encoding="utf-8")


def with_links_to_github(text: str, page: Path, staged: set[Path]) -> str:
    """`text` of `page`, with links to files that are not on the site pointing to GitHub."""

    def rewritten(match: re.Match[str]) -> str:
        path, hash_sign, anchor = match[2].partition("#")
        if not path or urlsplit(path).scheme:
            return match[0]
        linked = (page.parent / unquote(path)).resolve()
        if linked in staged or not linked.is_relative_to(ROOT) or not linked.exists():
            return match[0]  # the checks report broken links
        if linked.is_dir() and linked / "README.md" in staged:
            return f"{match[1]}{path.rstrip('/')}/README.md{hash_sign}{anchor}{match[3]}"
        kind = "tree" if linked.is_dir() else "blob"
        name = linked.relative_to(ROOT).as_posix()
        return f"{match[1]}{REPOSITORY}/{kind}/main/{name}{hash_sign}{anchor}{match[3]}"

    parts: list[str] = []
    end = 0
    for fence in _FENCE.finditer(text):
        parts += [_LINK.sub(rewritten, text[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, _LINK.sub(rewritten, text[end:])])


class Page(HTMLParser):
    """The links, loaded resources and anchors of a page of the site."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "link" and _LOADED_LINKS & set(given.get("rel", "").split()):
            self.loaded.append(given["href"])
        elif given.get(_LOADED.get(tag, "")):
            self.loaded.append(given[_LOADED[tag]])


def complaints(folder: Path) -> Iterator[str]:
    """Problems of the pages in `folder`: broken links, and anything loaded from another host."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.html"))}
    for path, page in pages.items():
        if path.name == "404.html":
            continue  # served at any address, so its links start from the site's root
        for url in [*page.loaded, *page.links]:
            parts = urlsplit(url)
            if parts.scheme or parts.netloc:
                if url in page.loaded and parts.scheme != "data":
                    yield f"{path.relative_to(folder)}: loads {url} from another host"
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                yield f"{path.relative_to(folder)}: {url} leads nowhere"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                yield f"{path.relative_to(folder)}: {url} names no anchor"


def build() -> int:
    shutil.rmtree(BUILD, ignore_errors=True)
    stage(BUILD / "pages")
    done = subprocess.run(
        [Path(sys.executable).with_name("zensical"), "build", "--strict", "--clean"], cwd=ROOT, check=False
    )
    if done.returncode:
        return done.returncode
    found = list(complaints(BUILD / "html"))
    for complaint in found:
        print(complaint, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(build())
