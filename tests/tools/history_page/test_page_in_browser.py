"""What the page of the history does in a real browser."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragstone.history.codes import decode, sample_code, sample_codes
from ragstone.history.file import History
from ragstone.tools.history_page.page import SampleName, history_page, render_history
from ragstone.tools.history_page.production import MonitorReport
from tests.report.browser import Page, chromium, needs_chromium
from tests.report.hostile import every_fragment
from tests.tools.history_page.histories import POLICY, made
from tests.tools.history_page.test_pairs import by_the_gate

VERSIONS = ("model-0, prompt 0000", "model-1, prompt 0001")

pytestmark = [pytest.mark.browser, needs_chromium]


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with chromium() as found:
        found.size(1240, 1000)
        yield found


def waited(page: Page, condition: str) -> None:
    end = time.monotonic() + 30
    while not page.run(condition):
        assert time.monotonic() < end, (condition, page.complaints)


def opened(page: Page, folder: Path, history: History, fragment: str = "", **given: Any) -> Page:
    file = folder / "index.html"
    file.write_text(render_history(history_page(history, POLICY, **given)), encoding="utf-8")
    page.requests.clear()
    page.complaints.clear()
    page.open("about:blank")
    page.requests.clear()
    page.open(file.as_uri() + fragment)
    waited(
        page,
        "document.documentElement.dataset.ready === 'yes' && document.querySelector('.plot').dataset.ready === 'yes'",
    )
    return page


def press(page: Page, key: str) -> None:
    page.run(
        "document.querySelector('.plot').dispatchEvent(new KeyboardEvent('keydown', "
        f"{{key: {json.dumps(key)}, bubbles: true, cancelable: true}}))"
    )


def given(page: Page, field: str, value: str) -> None:
    """Type into a field, or select in one."""
    page.run(
        f"(() => {{ const box = document.querySelector({json.dumps(field)}); box.value = {json.dumps(value)}; "
        "['input', 'change'].forEach(kind => box.dispatchEvent(new Event(kind))); })()"
    )


def compared(page: Page, history: History, *runs: int, by: str = "run") -> None:
    ids = [f"{by}.{history.runs[run].run}-{history.runs[run].github_run}" for run in runs]
    page.run(f"delete document.getElementById('result').dataset.ready; location.hash = 'compare={','.join(ids)}'")
    waited(page, "document.getElementById('result').dataset.ready === 'yes'")


def test_the_page_opens_from_a_file_with_a_chart_for_each_metric_and_no_complaint(page: Page, tmp_path: Path) -> None:
    opened(page, tmp_path, made(40))
    titles = page.run("[...document.querySelectorAll('#charts article.card h3')].map(one => one.textContent)")
    assert titles[:4] == ["Faithfulness", "Answer relevancy", "Context recall", "Context precision"]
    assert {"Latency of the system", "Cost of judging", "Coverage"} <= set(titles)
    first = "document.querySelector('.plot')"
    assert page.run(f"{first}.querySelector('.limit').textContent") == "min 0.8"
    assert page.run(f"[...{first}.querySelectorAll('text.left')].map(one => one.textContent)")[-4:] == [
        "judge", "golden set", "system", "release",
    ]  # fmt: skip
    assert page.run(f"[...{first}.querySelectorAll('.verdicts')].map(one => one.getAttribute('class')).sort()") == [
        "verdicts fail", "verdicts inconclusive", "verdicts pass",
    ]  # fmt: skip
    assert page.requests == [(tmp_path / "index.html").as_uri()]
    assert page.complaints == []


def test_the_latency_of_a_fast_system_has_an_axis_that_can_be_read(page: Page, tmp_path: Path) -> None:
    history = made(40)
    fast = [
        run.model_copy(update={"latency_p50_s": 0.003 + 0.0001 * at, "latency_p95_s": 0.012})
        for at, run in enumerate(history.runs)
    ]
    opened(page, tmp_path, replace(history, runs=tuple(fast)))
    ticks = page.run(
        "[...[...document.querySelectorAll('#charts article.card')]"
        ".find(one => one.querySelector('h3').textContent === 'Latency of the system').querySelectorAll('.plot text')]"
        ".map(one => one.textContent).filter(text => /^[\\d.]+ m?s$/.test(text))"
    )
    assert len(ticks) > 2
    assert len(set(ticks)) == len(ticks)


def test_a_line_has_a_gap_where_means_cannot_be_compared(page: Page, tmp_path: Path) -> None:
    opened(page, tmp_path, made(40))
    assert page.run("document.querySelector('.plot .line').getAttribute('d').split('M').length - 1") == 2
    assert (
        page.run("document.querySelectorAll('.plot')[4].querySelector('.line').getAttribute('d').split('M').length - 1")
        == 1
    )


def test_the_arrow_keys_move_through_the_runs_and_enter_shows_one(page: Page, tmp_path: Path) -> None:
    history = made(40)
    opened(page, tmp_path, history)
    plot = "document.querySelector('.plot')"
    page.run(f"{plot}.focus()")
    assert page.run(f"{plot}.getAttribute('aria-valuenow')") == "40"
    for key, wanted in (
        ("ArrowLeft", 39),
        ("PageDown", 29),
        ("Home", 1),
        ("ArrowLeft", 1),
        ("ArrowRight", 2),
        ("End", 40),
    ):
        press(page, key)
        assert page.run(f"{plot}.getAttribute('aria-valuenow')") == str(wanted), key
    press(page, "Home")
    for _ in range(5):
        press(page, "ArrowRight")
    said = page.run(f"{plot}.getAttribute('aria-valuetext')")
    line = history.runs[5]
    assert said.startswith(f"{line.time:%Y-%m-%d %H:%M}, v1.0, {(line.commit or '')[:7]}")
    assert f"{line.metrics['faithfulness'].mean:.3f} [" in said
    assert said.endswith("pass, release v1.0")
    press(page, "Enter")
    details = "document.querySelector('.details')"
    assert page.run(f"{details}.getAttribute('aria-live')") == "polite"
    text = page.run(f"{details}.textContent")
    assert line.commit is not None
    assert line.commit in text
    assert "openai judge-1" in text
    assert "null" not in text
    press(page, "Escape")
    assert page.run(f"{details}.textContent") == ""


def test_a_run_has_links_into_the_repository(page: Page, tmp_path: Path) -> None:
    history = made(12)
    odd = history.runs[-1].model_copy(update={"commit": "../../evil?x"})
    history = replace(history, runs=(*history.runs[:-1], odd))
    opened(page, tmp_path, history, repository="https://github.example/acme/shop/")
    links = "[...document.querySelectorAll('.details a')].map(one => one.href)"
    press(page, "Home")
    press(page, "Enter")
    assert page.run(links) == [
        "https://github.example/acme/shop/actions/runs/1000",
        f"https://github.example/acme/shop/commit/{history.runs[0].commit}",
        "https://github.example/acme/shop/pull/100",
    ]
    press(page, "End")
    press(page, "Enter")
    assert page.run(links) == ["https://github.example/acme/shop/actions/runs/1011"]
    assert page.complaints == []


def test_the_pointer_shows_the_run_that_is_nearest(page: Page, tmp_path: Path) -> None:
    history = made(40)
    opened(page, tmp_path, history)
    left, top = page.run("(box => [box.left, box.top])(document.querySelector('.plot svg').getBoundingClientRect())")
    page.call("Input.dispatchMouseEvent", type="mouseMoved", x=left + 67, y=top + 60)
    waited(page, "document.querySelector('.tip') && !document.querySelector('.tip').hidden")
    assert page.run("document.querySelector('.tip').textContent").startswith(f"{history.runs[0].time:%Y-%m-%d %H:%M}")
    page.call("Input.dispatchMouseEvent", type="mouseMoved", x=left + 300, y=5)
    waited(page, "document.querySelector('.tip').hidden")


def test_every_chart_has_the_same_as_a_table(page: Page, tmp_path: Path) -> None:
    history = made(130, slices=0)
    opened(page, tmp_path, history)
    page.run("document.querySelector('.as-table').open = true")
    waited(page, "document.querySelectorAll('.as-table table tbody tr').length === 100")
    row = page.run("[...document.querySelector('.as-table tbody tr').cells].map(cell => cell.textContent)")
    newest = history.runs[-1]
    assert row[1] == f"{newest.metrics['faithfulness'].mean:.3f}"
    assert row[3:5] == ["24", "pass"]
    page.run("document.querySelector('.as-table button').click()")
    waited(page, "document.querySelectorAll('.as-table table tbody tr').length === 130")


def test_slices_are_drawn_when_they_are_opened(page: Page, tmp_path: Path) -> None:
    opened(page, tmp_path, made(12))
    page.run("document.querySelector('.slices').open = true")
    waited(page, "document.querySelector('.slices .plot') !== null")
    page.run("document.querySelector('.slices .plot').scrollIntoView()")
    waited(page, "document.querySelectorAll('.slices .plot svg').length === 2")
    assert page.run("[...document.querySelectorAll('.slices h3')].map(one => one.textContent)") == [
        "Faithfulness on ‘topic 0’",
        "Faithfulness on ‘topic 1’",
    ]


def test_runs_are_filtered_to_releases_and_to_the_newest(page: Page, tmp_path: Path) -> None:
    opened(page, tmp_path, made(40))

    def shown(which: str, newest: str) -> str:
        given(page, "#which", which)
        given(page, "#range", newest)
        found: str = page.run("document.querySelector('.plot').getAttribute('aria-valuemax')")
        return found

    assert shown("release", "40") == "4"
    assert shown("again", "40") == "10"
    found = page.run("[...document.getElementById('which').options].map(one => [one.value, one.textContent])")
    kinds = {text: value for value, text in found}
    assert shown(kinds["scheduled runs (nightly)"], "40") == "10"
    assert shown(kinds["runs of a push"], "40") == "30"
    assert shown("first", "40") == "30"
    assert shown("all", "30") == "30"


@pytest.mark.parametrize("groups", [0, 3])
def test_versions_are_compared_as_the_gate_would(page: Page, tmp_path: Path, groups: int) -> None:
    history = made(40, groups=groups)
    opened(page, tmp_path, history)
    compared(page, history, 39, 38, 35)
    for metric in ("faithfulness", "context_precision"):
        cells = row_of(page, metric)
        assert cells[1].startswith(f"{history.runs[39].metrics[metric].mean:.3f}")
        for run, cell in ((38, cells[2]), (35, cells[3])):
            wanted = by_the_gate(history, run, 39, metric)
            said = cell.replace("−", "-").replace("+", "")
            for value in (-wanted.estimate, -wanted.high, -wanted.low):
                assert shown(value) in said, (said, wanted)
            assert f"{wanted.n} pairs" in said
            word = "worse" if wanted.low > 0 else "better" if wanted.high < 0 else "no difference shown"
            assert word in said
            assert (f"{wanted.n_groups} groups" in said) is bool(groups)
    assert page.run("document.getElementById('bare')") is None


def test_pairs_that_nobody_computed_have_a_difference_without_an_interval_and_a_command(
    page: Page, tmp_path: Path
) -> None:
    history = made(40)
    opened(page, tmp_path, history)
    compared(page, history, 24, 27, 35)
    cells = row_of(page, "faithfulness")
    wanted = by_the_gate(history, 24, 27, "faithfulness")
    said = cells[2].replace("−", "-").replace("+", "")
    assert f"{shown(wanted.estimate)}\nno interval, {wanted.n} pairs" in said
    assert "no interval" not in cells[3]
    assert "ragstone compare BASELINE RUN" in page.run("document.getElementById('bare').innerText")
    assert page.run("document.querySelectorAll('#sample-table tbody tr').length") > 0


def row_of(page: Page, metric: str) -> list[str]:
    found = f"document.querySelector('#means tr[data-metric={metric}]').cells"
    return page.run(f"[...{found}].map(cell => cell.innerText)")


def shown(value: float) -> str:
    """A difference as the page shows it, without its sign if it has none; limits are rounded outward before."""
    return f"{value:.3f}".replace("-0.000", "0.000") if value else "0"


def test_runs_of_different_judges_are_not_compared_and_the_page_says_why(page: Page, tmp_path: Path) -> None:
    history = made(40)
    opened(page, tmp_path, history)
    compared(page, history, 5, 38)
    text = page.run("document.querySelector('#means tr[data-metric=faithfulness]').cells[2].innerText")
    assert "not compared: the judges differ (openai judge-1, and openai judge-2)" in text
    assert "pairs" not in text
    assert page.run("document.querySelectorAll('#sample-table .t-fail, #sample-table .t-pass').length") == 0
    assert "is not compared" in page.run("document.getElementById('result').innerText")


def test_runs_of_a_half_and_of_the_whole_are_not_compared(page: Page, tmp_path: Path) -> None:
    history = made(6)
    half = history.runs[4].model_copy(update={"part": "generation"})
    history = replace(history, runs=(*history.runs[:4], half, history.runs[5]))
    opened(page, tmp_path, history)
    compared(page, history, 3, 4)
    text = page.run("document.querySelector('#means tr[data-metric=faithfulness]').cells[2].innerText")
    assert "not compared: the whole system was evaluated, and generation alone" in text
    assert "pairs" not in text


def test_without_scores_of_samples_means_are_shown_and_no_test(page: Page, tmp_path: Path) -> None:
    history = made(40, kept=5)
    opened(page, tmp_path, history)
    compared(page, history, 38, 25)
    text = page.run("document.querySelector('#means tr[data-metric=faithfulness]').cells[2].innerText")
    assert text.startswith(f"{history.runs[25].metrics['faithfulness'].mean:.3f}")
    assert "no test: the scores of single samples are not kept" in text


def test_versions_are_chosen_from_a_table_by_what_the_system_names(page: Page, tmp_path: Path) -> None:
    history = made(40)
    opened(page, tmp_path, history)
    rows = "[...document.querySelectorAll('#versions tbody tr')]"
    waited(page, f"{rows}.length === 4")
    assert page.run(f"{rows}[0].cells[1].innerText").startswith("model-3, prompt 0003")
    assert "newest of 10 runs" in page.run(f"{rows}[0].cells[1].innerText")
    page.run(f"{rows}[0].querySelector('input').click()")
    page.run(f"{rows}[1].querySelector('input').click()")
    waited(page, "document.getElementById('result').dataset.ready === 'yes'")
    assert page.run("[...document.querySelectorAll('#means thead th')].map(one => one.firstChild.textContent)") == [
        "Metric", "model-2, prompt 0002", "model-3, prompt 0003",
    ]  # fmt: skip
    assert page.run("location.hash").startswith("#compare=system.")
    page.run("document.querySelectorAll('#chosen li')[1].querySelector('button').click()")
    waited(page, "document.querySelectorAll('#means thead th')[1]?.firstChild.textContent === 'model-3, prompt 0003'")
    chosen = page.run("location.hash")
    page.run("document.getElementById('jump').click()")
    assert page.run("location.hash") == chosen
    assert page.run("document.activeElement.id") == "find"
    given(page, "#by", "commit")
    waited(page, f"{rows}.length === 30")
    commit = history.runs[4].commit or ""
    given(page, "#find", commit[:9])
    waited(page, f"{rows}.length === 1 && {rows}[0].innerText.includes('{commit[:7]}')")


def test_five_versions_are_the_most(page: Page, tmp_path: Path) -> None:
    history = made(40)
    opened(page, tmp_path, history)
    compared(page, history, 30, 31, 32, 33, 34)
    given(page, "#by", "run")
    waited(page, "[...document.querySelectorAll('#versions input')].filter(box => box.checked).length === 5")
    assert page.run("[...document.querySelectorAll('#versions input')].every(box => box.checked !== box.disabled)")


def test_a_link_to_versions_that_are_gone_says_so(page: Page, tmp_path: Path) -> None:
    opened(page, tmp_path, made(8), "#compare=run.feedfeedfeedfeed,evil.x,__proto__.y")
    assert "3 versions of this link are not in this history" in page.run("document.getElementById('chosen').innerText")
    assert page.complaints == []


def test_samples_are_named_by_the_golden_set_and_the_worst_come_first(page: Page, tmp_path: Path) -> None:
    history = made(40)
    names = {sample_code(f"q{at}", f"{at}"): SampleName(f"q{at}", f"What is {at}?") for at in range(20)}
    opened(page, tmp_path, history, names=names)
    compared(page, history, 38, 27)
    shown = page.run("[...document.querySelectorAll('#sample-table tbody tr')].map(row => row.innerText)")
    one, other = (
        dict(zip(sample_codes(history.samples[run.samples or ""]), decode(run.scores["faithfulness"]), strict=True))
        for run in (history.runs[38], history.runs[27])
    )
    lost = {code: other[code] - one[code] for code in one.keys() & other.keys()}
    worst = min(lost.values())
    assert shown[0].startswith("q")
    assert "What is " in shown[0]
    assert f"▼ −{-worst:.3f}" in shown[0]
    assert len(shown) == len(one.keys() | other.keys())
    assert "8 samples that the golden set no longer has are shown by the hash" in page.run(
        "document.getElementById('result').innerText"
    )
    given(page, "#result input[type=search]", "is 17?")
    assert page.run("[...document.querySelectorAll('#sample-table tbody code')].map(one => one.textContent)") == ["q17"]


@pytest.mark.parametrize("count", [0, 12])
def test_production_windows_have_charts_of_their_own(page: Page, tmp_path: Path, count: int) -> None:
    figures = {"value": 0.8, "n": 50, "variance": 0.02}
    production = MonitorReport.model_validate(
        {
            "schema_version": 1,
            "length": "week",
            "timezone": "Europe/<b>",
            "windows": [
                {"window": f"2026-10-{day:02}", "figures": {"faithfulness": figures, "<img src=x>": figures}}
                | ({"judge": "<u>"} if day > 12 else {"judge": "<i>"})
                for day in (5, 12, 19, 26)
            ],
            "figures": [{"name": "faithfulness", "alert": True, "since": "2026-10-19"}],
        }
    )
    file = tmp_path / "index.html"
    found = history_page(made(count) if count else History(), POLICY, production=production)
    file.write_text(render_history(found), encoding="utf-8")
    page.complaints.clear()
    page.open("about:blank")
    page.open(file)
    waited(page, "document.documentElement.dataset.ready === 'yes'")
    titles = page.run("[...document.querySelectorAll('#charts > .grid:last-child h3')].map(one => one.textContent)")
    assert titles == ["Faithfulness", "<img src=x>"]
    page.run("document.querySelector('#charts > .grid:last-child').scrollIntoView()")
    plot = "document.querySelector('#charts > .grid:last-child .plot')"
    waited(page, f"{plot}.dataset.ready === 'yes'")
    assert page.run(f"{plot}.getAttribute('aria-valuetext')").startswith(
        "week of 2026-10-26, 0.800 [0.761, 0.839], n = 50"
    )
    assert page.run(f"[...{plot}.querySelectorAll('text.left')].slice(-2).map(one => one.textContent)") == [
        "judge",
        "alert",
    ]
    assert page.run(f"{plot}.querySelector('.line').getAttribute('d').split('M').length - 1") == 2
    page.run(f"{plot}.dispatchEvent(new KeyboardEvent('keydown', {{key: 'Enter'}}))")
    assert "Europe/<b>" in page.run("document.querySelector('.details:not(:empty)').textContent")
    assert page.run("document.getElementById('compare').hidden") is (count == 0)
    assert page.run("document.querySelectorAll('img, u, i').length") == 0
    assert page.complaints == []


def test_versions_in_production_have_lines_of_their_own_and_are_compared(page: Page, tmp_path: Path) -> None:
    def rates(old: float, new: float) -> dict[str, Any]:
        return {name: {"error_rate": {"value": value}} for name, value in zip(VERSIONS, (old, new), strict=True)}

    windows = [
        {"window": f"2026-10-{day:02}", "figures": {"error_rate": {"value": 0.2}}, "versions": rates(0.1, 0.3)}
        for day in (5, 6, 7)
    ]
    production = MonitorReport.model_validate(
        {"schema_version": 1, "length": "day", "timezone": "UTC", "windows": windows} | {"versions": rates(0.1, 0.3)}
    )
    history = made(12)
    assert {run.system for run in history.runs} == set(VERSIONS)
    opened(page, tmp_path, history, production=production)
    page.run("document.querySelector('#charts > .grid:last-child').scrollIntoView()")
    plot = "document.querySelector('#charts > .grid:last-child .plot')"
    waited(page, f"{plot}.dataset.ready === 'yes'")
    assert page.run(f"{plot}.getAttribute('aria-valuetext')") == (
        f"2026-10-07, all 20 %, {VERSIONS[0]} 10 %, {VERSIONS[1]} 30 %"
    )
    assert page.run(f"{plot}.querySelectorAll('.line.second').length") == 2
    compared(page, history, 9, 11, by="system")
    assert page.run("[...document.querySelectorAll('#in-production tbody td')].map(one => one.textContent)") == [
        "10 %",
        "30 %",
    ]
    assert page.complaints == []


def test_a_run_without_a_verdict_says_so(page: Page, tmp_path: Path) -> None:
    history = made(3)
    plain = history.runs[-1].model_copy(update={"verdict": "none", "eligible": False})
    opened(page, tmp_path, replace(history, runs=(*history.runs[:-1], plain)))
    assert "Newest: no verdict" in page.run("document.getElementById('summary').textContent")
    waited(page, "document.querySelector('.plot').dataset.ready === 'yes'")
    assert page.run("document.querySelectorAll('.plot .verdicts.none').length") > 0
    assert page.complaints == []


def test_hostile_names_are_shown_as_text_and_do_nothing(page: Page, tmp_path: Path) -> None:
    history = made(6)
    evil = every_fragment.encode("utf-8", "replace").decode()[:400]
    runs = tuple(
        run.model_copy(
            update={
                "system": f"{at} {evil}",
                "release": f"<img src=x onerror=alert({at})>",
                "commit": f"</script><script>alert({at})</script>",
                "judge": "</title>{{ 7 * 7 }}",
                "metrics": {"</script><b>": run.metrics["faithfulness"], "__proto__": run.metrics["faithfulness"]},
                "versions": {"</script><b>": "<i>", "__proto__": "1"},
                "slices": {"<u>constructor": {"__proto__": run.metrics["faithfulness"]}},
                "scores": {"</script><b>": run.scores["faithfulness"], "__proto__": run.scores["faithfulness"]},
            }
        )
        for at, run in enumerate(history.runs)
    )
    samples = {key: one.model_copy(update={"ids": "toString" + one.ids[8:]}) for key, one in history.samples.items()}
    history = replace(history, runs=runs, samples=samples)
    opened(page, tmp_path, history, names={sample_code("q1", "1"): SampleName("<s>q1", "</table><img src=x>")})
    page.run("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    waited(page, "document.querySelector('.slices .plot') !== null")
    page.run("document.querySelector('.slices .plot').scrollIntoView()")
    waited(page, "document.querySelectorAll('.slices .plot svg').length === 1")
    compared(page, history, 5, 4)
    press(page, "Enter")
    assert page.run("document.querySelectorAll('img, b b, s, i, u').length") == 0
    assert page.run("[...document.querySelectorAll('#charts h3')].map(one => one.textContent)")[0] == "</script><b>"
    assert "<img src=x onerror=alert(5)>" in page.run("document.querySelector('.details').textContent")
    assert page.complaints == []
    assert page.requests == [(tmp_path / "index.html").as_uri()]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_and_lines_stand_out_from_the_page(page: Page, tmp_path: Path, scheme: str) -> None:
    page.colours(scheme)
    opened(page, tmp_path, made(40))
    ratio = """(() => {
      const linear = value => value <= 10 ? value / 3295 : ((value / 255 + 0.055) / 1.055) ** 2.4;
      const light = text => {
        const [r, g, b] = text.match(/[\\d.]+/g).map(Number).map(linear);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      const of = (selector, name) => light(getComputedStyle(document.querySelector(selector))[name]);
      const card = of('.card', 'backgroundColor');
      const against = one => (Math.max(one, card) + 0.05) / (Math.min(one, card) + 0.05);
      return {
        text: against(of('.plot text.left', 'fill')), line: against(of('.plot .line', 'stroke')),
        fail: against(of('.verdicts.fail', 'stroke')), second: against(of('.line.second', 'stroke')),
        lane: against(of('.lane', 'stroke')),
      };
    })()"""
    page.run("document.querySelectorAll('.plot')[4].scrollIntoView()")
    waited(page, "document.querySelector('.line.second') !== null")
    found = page.run(ratio)
    assert found["text"] >= 4.5
    assert min(found.values()) >= 3.0, found
    page.colours("light")


def test_on_a_phone_nothing_is_wider_than_the_screen(page: Page, tmp_path: Path) -> None:
    page.size(390, 800)
    history = made(40)
    opened(page, tmp_path, history)
    compared(page, history, 38, 27, 25)
    assert page.run("document.documentElement.scrollWidth") == 390
    page.size(1240, 1000)


def test_everything_to_operate_has_a_name(page: Page, tmp_path: Path) -> None:
    history = made(40)
    opened(page, tmp_path, history)
    compared(page, history, 38, 27)
    nodes = page.call("Accessibility.getFullAXTree")["nodes"]
    operated = {"button", "combobox", "checkbox", "searchbox", "slider", "link", "DisclosureTriangle", "textbox"}
    nameless = [
        node["role"]["value"]
        for node in nodes
        if not node.get("ignored")
        and node.get("role", {}).get("value") in operated
        and not node.get("name", {}).get("value", "").strip()
    ]
    assert nameless == []
    sliders = [node for node in nodes if node.get("role", {}).get("value") == "slider" and not node.get("ignored")]
    assert len(sliders) == 8
    assert sliders[0]["name"]["value"].startswith("Faithfulness: chart of runs")
