"""The page of the history in a real browser: it fits, can be read, and asks for nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ragstone.tools.history_page.page import history_page, render_history
from tests.report.browser import Page, chromium
from tests.tools.history_page.histories import POLICY, make_history
from tests.tools.history_page.test_page import with_loss

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with chromium() as browser:
        browser.size(1240, 1000)
        yield browser


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    history = with_loss(make_history(40), 38, 39)
    versions = [history.runs[place] for place in (25, 35, 39)]
    shown = history_page(history, POLICY, versions=versions, repository="https://github.example/acme/shop")
    path = tmp_path_factory.mktemp("page") / "index.html"
    path.write_text(render_history(shown), encoding="utf-8")
    return path


@pytest.mark.parametrize("width", [390, 1240])
def test_nothing_is_wider_than_the_screen(page: Page, file: Path, width: int) -> None:
    page.size(width, 800)
    page.open(file)
    assert page.run("document.documentElement.scrollWidth") == width
    page.size(1240, 1000)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_and_lines_stand_out_from_the_page(page: Page, file: Path, scheme: str) -> None:
    page.colours(scheme)
    page.open(file)
    contrast = """(() => {
      const linear = value => value <= 10 ? value / 3295 : ((value / 255 + 0.055) / 1.055) ** 2.4;
      const light = text => {
        const [r, g, b] = text.match(/[\\d.]+/g).map(Number).map(linear);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      const of = (selector, name) => light(getComputedStyle(document.querySelector(selector))[name]);
      const card = of('body', 'backgroundColor');
      const against = one => (Math.max(one, card) + 0.05) / (Math.min(one, card) + 0.05);
      return {
        text: against(of('.chart .soft', 'color')), below: against(of('#versions b', 'color')),
        line: against(of('.chart .trend', 'stroke')), dot: against(of('.dot.fail', 'fill')),
        limit: against(of('.chart .limit', 'stroke')),
      };
    })()"""
    ratios = page.run(contrast)
    assert min(ratios["text"], ratios["below"]) >= 4.5, ratios
    assert min(ratios.values()) >= 3.0, ratios
    page.colours("light")


def test_every_chart_and_link_has_a_name(page: Page, file: Path) -> None:
    page.open(file)
    nodes = page.call("Accessibility.getFullAXTree")["nodes"]
    shown = [node for node in nodes if not node.get("ignored") and "role" in node]
    found = [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in shown]
    named = [(role, name) for role, name in found if role in {"link", "image"}]
    assert {role for role, _ in named} == {"link", "image"}
    assert all(name.strip() for _, name in named)
    assert next(name for role, name in named if role == "image").startswith("Faithfulness: 0.")
