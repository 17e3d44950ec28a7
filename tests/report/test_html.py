"""The HTML page in a real browser."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ragstone.gate.alignment import ContextsUsed, RankUse
from ragstone.gate.verdict import Status
from ragstone.report.parts import ReportView
from ragstone.report.render import render
from tests.report.browser import Page, chromium, find_chromium
from tests.report.conftest import Text
from tests.report.hostile import every_fragment

FOUND = find_chromium()

browser = pytest.mark.browser
needs_chromium = pytest.mark.skipif(
    FOUND is None, reason="no Chromium on the PATH; on Debian: apt-get install chromium"
)


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    assert FOUND is not None
    with chromium(FOUND) as found:
        found.size(1240, 1000)
        yield found


def opened(page: Page, folder: Path, view: ReportView) -> Page:
    file = folder / "report.html"
    file.write_text(render(view, "html"), encoding="utf-8")
    page.requests.clear()
    page.complaints.clear()
    page.open(file)
    return page


SHOWN = "[...document.querySelectorAll('#samples tbody tr')].filter(row => !row.hidden)"


def test_the_page_asks_the_network_for_nothing(make_view: Callable[..., ReportView]) -> None:
    html = render(make_view(), "html")
    policy = html.partition('http-equiv="Content-Security-Policy" content="')[2].partition('"')[0]
    assert policy.startswith("default-src &#39;none&#39;; style-src &#39;sha256-")
    assert "unsafe" not in policy
    assert "src=" not in html
    assert "<link" not in html
    assert "@import" not in html
    assert "url(" not in html


def test_many_samples_are_cut_to_the_worst_and_the_page_says_so(make_view: Callable[..., ReportView]) -> None:
    view = make_view()
    assert len(view.samples) == view.samples_total == 60
    assert [row.id for row in view.samples[:2]] == ["q-058", "q-059"]
    assert "worst of" not in render(view, "html")


@browser
@needs_chromium
def test_the_page_opens_from_a_file_without_a_complaint(
    page: Page, make_view: Callable[..., ReportView], tmp_path: Path
) -> None:
    opened(page, tmp_path, make_view())
    assert page.run("document.querySelector('.word').textContent") == "Fail"
    assert page.run("document.querySelectorAll('#metrics tbody svg').length") == 6
    assert page.requests == [(tmp_path / "report.html").as_uri()]
    assert page.complaints == []


@browser
@needs_chromium
def test_the_picture_of_used_ranks_has_a_name_and_a_bar_for_each_rank(
    page: Page, make_view: Callable[..., ReportView], tmp_path: Path
) -> None:
    ranks = (RankUse(1, False, 40, 20), RankUse(2, False, 40, 4), RankUse(3, True, 10, 0))
    view = replace(make_view(), contexts_used=ContextsUsed(40, top=20, lower=3, none=17, ranks=ranks))
    opened(page, tmp_path, view)
    picture = "document.querySelector('svg:has(rect.rank)')"
    assert page.run(f"{picture}.getAttribute('role')") == "img"
    name = page.run(f"{picture}.getAttribute('aria-label')")
    assert name.endswith(
        "rank 1: 20 of 40 answers (50 %); rank 2: 4 of 40 answers (10 %); rank 3+: 0 of 10 answers (0 %)"
    )
    heights = page.run(f"[...{picture}.querySelectorAll('rect')].map(bar => bar.getBoundingClientRect().height)")
    assert heights[0] == pytest.approx(5 * heights[1], rel=1e-3)
    assert heights[2] == 0
    assert page.run(f"[...{picture}.querySelectorAll('text')].map(one => one.textContent)") == ["1", "2", "3+"]
    assert page.complaints == []


def test_without_verdicts_there_is_no_picture_of_ranks(make_view: Callable[..., ReportView]) -> None:
    assert "Contexts that answers draw on" not in render(make_view(), "html")


@browser
@needs_chromium
def test_samples_are_sorted_by_a_click_on_a_heading(
    page: Page, make_view: Callable[..., ReportView], tmp_path: Path
) -> None:
    opened(page, tmp_path, make_view())
    first = "document.querySelectorAll('#samples tbody tr')[0].cells[0].querySelector('code').textContent"
    button = "[...document.querySelectorAll('#samples th button')].find(one => one.textContent === 'Latency')"
    page.run(f"{button}.click()")
    assert page.run(first) == "port-default"
    page.run(f"{button}.click()")
    assert page.run(first) == "q-059"
    assert page.run(f"{button}.parentNode.getAttribute('aria-sort')") == "descending"


@browser
@needs_chromium
def test_samples_are_filtered_by_words_and_by_kind(
    page: Page, make_view: Callable[..., ReportView], tmp_path: Path
) -> None:
    opened(page, tmp_path, make_view())
    assert page.run(f"{SHOWN}.length") == 60
    page.run("document.getElementById('filter').value = 'DEPLOY q-003'")
    page.run("document.getElementById('filter').dispatchEvent(new Event('input'))")
    assert page.run(f"{SHOWN}.map(row => row.cells[0].querySelector('code').textContent)") == ["q-003"]
    assert page.run("document.getElementById('shown').textContent") == "1 of 60 shown"
    page.run("document.getElementById('filter').value = ''")
    page.run("document.getElementById('which').value = 'failed'")
    page.run("document.getElementById('which').dispatchEvent(new Event('change'))")
    assert page.run(f"{SHOWN}.map(row => row.cells[0].querySelector('code').textContent)") == ["q-058", "q-059"]


@browser
@needs_chromium
def test_hostile_text_does_not_run(page: Page, make_view: Callable[..., ReportView], tmp_path: Path) -> None:
    attack = f"x{every_fragment}<script>window.hit=1</script><img src=x onerror=window.hit=1>\"onload='window.hit=1'"
    text = Text(**{name: attack for name in Text.__dataclass_fields__ if name != "file"})
    opened(page, tmp_path, make_view(text=text))
    assert page.run("window.hit === undefined")
    assert page.run("document.scripts.length") == 1
    assert page.run("document.images.length") == 0
    assert page.requests == [(tmp_path / "report.html").as_uri()]
    assert page.complaints == []


@browser
@needs_chromium
@pytest.mark.parametrize(("scheme", "background"), [("light", (246, 247, 249)), ("dark", (14, 17, 22))])
@pytest.mark.parametrize("status", [Status.PASS, Status.FAIL])
def test_the_page_is_drawn_in_light_and_dark(
    page: Page,
    make_view: Callable[..., ReportView],
    tmp_path: Path,
    scheme: str,
    background: tuple[int, int, int],
    status: Status,
) -> None:
    page.colours(scheme)
    opened(page, tmp_path, make_view(status))
    picture = Path(os.environ.get("RAGSTONE_TEST_SCREENSHOTS", tmp_path)) / f"report-{status}-{scheme}.png"
    page.screenshot(picture)
    assert first_pixel(picture.read_bytes()) == background
    style = "getComputedStyle(document.querySelector('.word')).color"
    assert page.run(style) not in {"rgb(0, 0, 0)", f"rgb{background}"}
    assert page.run("document.documentElement.scrollWidth") <= 1240


@browser
@needs_chromium
def test_the_page_fits_a_narrow_window(page: Page, make_view: Callable[..., ReportView], tmp_path: Path) -> None:
    page.size(420, 900)
    opened(page, tmp_path, make_view())
    assert page.run("document.documentElement.scrollWidth") <= 420
    page.size(1240, 1000)


def first_pixel(png: bytes) -> tuple[int, ...]:
    """The top left pixel of an 8-bit PNG: every filter leaves the first pixel of the first line as it is."""
    data, at = b"", 8
    while at < len(png):
        size = int.from_bytes(png[at : at + 4], "big")
        if png[at + 4 : at + 8] == b"IDAT":
            data += png[at + 8 : at + 8 + size]
        at += 12 + size
    return tuple(zlib.decompress(data)[1:4])
