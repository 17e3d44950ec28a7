"""What the page of the history shows."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace

from ragstone.formatting import change, score
from ragstone.gate.policy import policy_from_mapping
from ragstone.history.file import History
from ragstone.history.lines import BelowPart, FigurePart, RunLine, WindowPart
from ragstone.report.html_page import html_environment
from ragstone.tools.history_page.marks import marks
from ragstone.tools.history_page.page import MAX_METRICS, MAX_ROWS, HistoryPage, history_page, render_history
from tests.report.hostile import every_fragment
from tests.tools.history_page.histories import ACCEPTED, POLICY, make_history
from tests.tools.history_page.test_versions import interval_by_gate


def page_of(history: History, *versions: int, repository: str | None = None) -> HistoryPage:
    chosen = [history.runs[index] for index in versions]
    return history_page(history, POLICY, versions=chosen, repository=repository)


def with_loss(history: History, first: int, last: int, until: int | None = None) -> History:
    """With faithfulness below its level from the run `first` to `last`, and over with `until`."""
    runs = list(history.runs)
    for index in range(first, last + 1):
        part = BelowPart(metric="faithfulness", since=runs[first].run, commit=runs[first].commit, loss=0.07, shown=True)
        if until is not None and index == last:
            part = part.model_copy(update={"until": runs[until].run})
        runs[index] = runs[index].model_copy(update={"below": (part,)})
    return replace(history, runs=tuple(runs))


def with_only_metric(run: RunLine, metric: str, **fields: object) -> RunLine:
    """`run` with the scores of faithfulness as those of `metric`, and no others."""
    metrics, scores = {metric: run.metrics["faithfulness"]}, {metric: run.scores["faithfulness"]}
    return run.model_copy(update={"metrics": metrics, "versions": {metric: "1"}, "scores": scores, **fields})


def test_each_version_is_beside_the_one_before_it() -> None:
    history = make_history(40)
    page = page_of(history)
    assert [row.run for row in page.rows] == list(history.runs[::-1])
    wanted = interval_by_gate(history, 38, 39, "faithfulness").estimate
    assert page.rows[0].changes["faithfulness"] == pytest.approx(wanted)
    assert page.rows[-1].changes == {}
    assert page.rows[19].changes == {}, "another judge"
    assert f"<i>{change(wanted, 3)}</i>" in render_history(page)
    assert page.versions == ["model-3, prompt 0003"] * 2
    assert page.comparison == page_of(history, 38, 39).comparison != {}


def test_where_less_is_better_a_rise_is_worse() -> None:
    history = make_history(40)
    runs = tuple(with_only_metric(run, "noise_sensitivity") for run in history.runs)
    policy = policy_from_mapping({"metrics": {"noise_sensitivity": {"max": 0.15}}})
    for first, second, word in ((24, 26, "better"), (26, 24, "worse")):
        page = history_page(replace(history, runs=runs), policy, versions=[runs[first], runs[second]])
        assert page.comparison["noise_sensitivity"][1].word == word
    assert page.charts[0].limit == 0.15


def test_versions_side_by_side_have_the_intervals_of_the_gate() -> None:
    history = make_history(40)
    page = page_of(history, 35, 38, 39)
    first = page.comparison["Faithfulness"]
    assert first[2].mean == score(history.runs[39].metrics["faithfulness"].mean, 3)
    assert first[0].difference is None
    for index, cell in zip((38, 39), first[1:], strict=True):
        wanted = interval_by_gate(history, 35, index, "faithfulness")
        assert cell.difference == wanted
        assert (cell.word == "") is (wanted.low <= 0.0 <= wanted.high)
        assert change(wanted.low, 3) in render_history(page)
    other = page_of(history, 5, 38)
    assert other.comparison["Faithfulness"][1].reason == "the judge changed from openai judge-1 to openai judge-2"
    assert "the judge changed from openai judge-1 to openai judge-2" in render_history(other)


def test_a_trend_has_its_threshold_and_a_gap_where_scores_do_not_compare() -> None:
    history = make_history(40)
    charts = page_of(history).charts
    faithfulness, relevancy, *_ = charts
    newest = score(history.runs[-1].metrics["faithfulness"].mean)
    assert (faithfulness.title, faithfulness.newest, len(faithfulness.points)) == ("Faithfulness", newest, 40)
    assert faithfulness.path.count("M") == 3, "another judge, and another golden set"
    assert (faithfulness.limit, relevancy.limit) == (0.8, None)
    bad = [index for index, run in enumerate(history.runs) if run.verdict != "pass"]
    assert [index for index, _ in faithfulness.dots] == [*bad, 39]
    assert [chart.title for chart in charts][-2:] == ["Latency of the system (median)", "Cost of judging"]
    last = history.runs[-1]
    other = last.model_copy(update={"versions": {**last.versions, "faithfulness": "2"}})
    changed = page_of(replace(history, runs=(*history.runs[:-1], other))).charts
    assert [chart.path.count("M") for chart in changed[:2]] == [4, 3], "a metric's version ends its own line alone"


def test_a_metric_below_its_level_is_marked_until_it_is_over() -> None:
    rows = page_of(with_loss(make_history(40), 32, 36, until=36)).rows
    assert ["faithfulness" in row.below for row in rows] == [39 - index in range(32, 36) for index in range(40)]
    assert "below its level" in render_history(page_of(with_loss(make_history(40), 38, 39)))


def test_windows_of_production_have_trends_of_their_own() -> None:
    history = make_history(4)
    window = WindowPart(end=history.runs[0].time, figures={"errors": FigurePart(value=0.12, n=200)}, alerts=("errors",))
    windows = tuple(run.model_copy(update={"run": f"f{run.run[1:]}", "window": window}) for run in history.runs)
    page = page_of(replace(history, runs=(*history.runs, *windows)))
    assert page.run_count == len(page.rows) == 4
    (errors,) = page.production
    assert (errors.title, errors.newest, len(errors.dots)) == ("Errors", "12 %", 4)
    assert "<h2>Production</h2>" in render_history(page)


def test_the_page_is_small_and_bounded_and_says_so() -> None:
    page = page_of(make_history(200), 150, 199, repository="https://github.example/acme/shop")
    assert len(render_history(page).encode()) <= 76_000
    assert len(page.rows) == MAX_ROWS
    first, second = make_history(2).runs
    many = {f"m{number}": first.metrics["faithfulness"] for number in range(MAX_METRICS - 3)}
    first = first.model_copy(update={"metrics": {**many, **first.metrics}})
    page = page_of(replace(make_history(2), runs=(*[first] * MAX_ROWS, second)))
    assert (page.metrics[0], len(page.metrics), len(page.rows)) == ("faithfulness", MAX_METRICS, MAX_ROWS)
    runs, metrics = page.notes
    assert f"{MAX_ROWS} of {MAX_ROWS + 1} runs" in runs
    assert f"{MAX_METRICS} of {MAX_METRICS + 1} metrics" in metrics
    assert page_of(make_history(4)).notes == []


def test_runs_are_marked_where_they_differ_from_the_run_before() -> None:
    first, second = make_history(2).runs
    new = {"judge": "openai judge-9", "judge_key": "9" * 16, "golden": "9" * 64, "system": "m-9", "release": "v9"}
    versions = {**second.versions, "faithfulness": "2"}
    more = {"part": "retrieval", "versions": versions, "accepted": ACCEPTED}
    other = second.model_copy(update={**new, **more})
    assert [(mark.kind, mark.text, mark.metric) for mark in marks(other, first)] == [
        ("judge", "judge: now openai judge-9", None),
        ("golden", "golden set changed", None),
        ("part", "evaluated: retrieval alone", None),
        ("system", "system: m-9", None),
        ("metric", "faithfulness: version 2, was 1", "faithfulness"),
        ("release", "release v9", None),
        ("accepted", "accepted: context_precision by 0.05 (a1)", "context_precision"),
    ]
    assert [mark.kind for mark in marks(other, other)] == ["release"], "a release is marked at each of its runs"
    row = page_of(History((first, other))).rows[0]
    assert row.marks[:2] == ["judge: now openai judge-9", "golden set changed"]
    assert "v9, m-9" in render_history(page_of(History((first, other))))


def test_links_lead_into_the_repository_only_and_only_to_what_is_a_commit() -> None:
    history = make_history(3)
    odd = history.runs[-1].model_copy(update={"commit": "../../evil?x", "pull_request": 7})
    history = replace(history, runs=(*history.runs[:-1], odd))
    html = render_history(page_of(history, repository="https://github.example/acme/shop"))
    assert re.findall('href="([^"]*)"', html) == [
        "https://github.example/acme/shop/pull/7",
        *(
            f"https://github.example/acme/shop/{path}"
            for run in history.runs[1::-1]
            for path in (f"commit/{(run.commit or '')[:7]}", f"pull/{run.pull_request}")
        ),
    ]


@pytest.mark.parametrize("address", [None, "", "javascript:alert(1)//", "https://x y", "//evil.example"])
def test_an_address_that_is_none_gives_no_links(address: str | None) -> None:
    assert "href" not in render_history(page_of(make_history(1), repository=address))


def test_a_history_or_a_run_without_anything_is_shown() -> None:
    empty = render_history(history_page(History(), POLICY, notes=["The history is damaged: <b>."]))
    assert "The history is empty" in empty
    assert "damaged: &lt;b&gt;." in empty
    (run,) = make_history(1, runs_with_scores=0).runs
    nothing = dict.fromkeys(("commit", "pull_request", "release", "system", "latency_p50_s", "cost_usd"))
    html = render_history(page_of(History((run.model_copy(update={**nothing, "metrics": {}, "verdict": "none"}),))))
    assert "no verdict" in html
    assert "None" not in html


def test_the_page_has_no_script_and_asks_the_network_for_nothing() -> None:
    html = render_history(page_of(make_history(5), 1, 4))
    assert html == render_history(page_of(make_history(5), 1, 4))
    assert "default-src &#39;none&#39;; style-src &#39;sha256-" in html
    assert "unsafe" not in html.partition("</head>")[0]
    for word in ("<script", "src=", "<link", "@import", "url(", " on"):
        assert word not in re.sub(r">[^<]*<", "><", html.replace("-src ", "")), word


@pytest.mark.attack(by="history", tries="act in the page of the history", stopped_by="escaped, no script")
def test_every_text_is_escaped() -> None:
    assert html_environment("ragstone.tools.history_page").autoescape is True
    history = make_history(6)
    evil = f"</script><script>alert(1)</script> {every_fragment}".encode("utf-8", "replace").decode()[:400]
    below = (BelowPart(metric=evil, since=history.runs[0].run, commit=evil, loss=0.1, shown=True),)
    runs = tuple(
        with_only_metric(
            run, evil, below=below, **dict.fromkeys(("system", "release", "commit", "judge"), f"{index} {evil}")
        )
        for index, run in enumerate(history.runs)
    )
    html = render_history(history_page(replace(history, runs=runs), POLICY, versions=runs[:2], notes=[evil]))
    assert "<script" not in html
    assert "<img" not in html
    assert "\u202e" not in html
    assert "&lt;script&gt;" in html
