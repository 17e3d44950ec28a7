"""What the page of the history carries."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from ragstone.gate.policy import policy_from_mapping
from ragstone.history.codes import sample_codes
from ragstone.history.file import History
from ragstone.history.trend import marks
from ragstone.tools.history_page.page import (
    MAX_METRICS,
    MAX_SLICES,
    HistoryPage,
    SampleName,
    history_page,
    render_history,
)
from tests.report.paged import inflated
from tests.tools.history_page.histories import POLICY, made


def part(page: HistoryPage, number: int) -> Any:
    return inflated(page.parts[number])


def test_the_page_carries_each_mean_of_each_run_and_slice() -> None:
    history = made(12)
    page = history_page(history, POLICY)
    assert [one["name"] for one in page.head["metrics"]] == list(history.runs[0].metrics)
    faithfulness = page.head["metrics"][0]
    for line, mean, low, high, n in zip(
        history.runs,
        *(part(page, faithfulness["all"]["part"])[name] for name in ("mean", "low", "high", "n")),
        strict=True,
    ):
        found = line.metrics["faithfulness"]
        assert (mean / 1e5, low / 1e5, high / 1e5, n) == pytest.approx(
            (found.mean, found.low, found.high, found.n), abs=1e-5
        )
    (first, second) = faithfulness["slices"]
    assert (first["tag"], second["tag"]) == ("topic 0", "topic 1")
    assert part(page, second["part"])["mean"][3] / 1e5 == pytest.approx(
        history.runs[3].slices["topic 1"]["faithfulness"].mean, abs=1e-5
    )


def test_thresholds_are_those_of_the_policy_where_it_has_some() -> None:
    found = {one["name"]: one for one in history_page(made(4), POLICY).head["metrics"]}
    assert (found["faithfulness"]["all"]["limit"], found["faithfulness"]["all"]["drop"]) == (0.8, 0.03)
    assert "limit" not in found["faithfulness"]["slices"][0]
    assert found["faithfulness"]["slices"][1]["limit"] == 0.7
    assert found["context_recall"]["all"]["limit"] == 0.75
    assert "limit" not in found["answer_relevancy"]["all"]


def test_a_ceiling_is_shown_as_it_is_written() -> None:
    (line,) = made(1, kept=0).runs
    line = line.model_copy(
        update={"metrics": {"noise_sensitivity": line.metrics["faithfulness"]}, "versions": {"noise_sensitivity": "1"}}
    )
    policy = policy_from_mapping({"metrics": {"noise_sensitivity": {"max": 0.15}}})
    (metric,) = history_page(History((line,)), policy).head["metrics"]
    assert metric["lower"] is True
    assert metric["all"]["limit"] == 0.15


def test_scores_of_samples_are_found_by_run_and_without_them_a_run_says_so() -> None:
    history = made(6, kept=2)
    page = history_page(history, POLICY)
    where = page.head["scores"]["runs"]
    assert where[:4] == [None] * 4
    for run in (4, 5):
        samples, chunk, place = where[run]
        assert part(page, chunk)[place] == {
            str(at): history.runs[run].scores[one["name"]] for at, one in enumerate(page.head["metrics"])
        }
        assert (
            part(page, page.head["scores"]["sets"][samples])["ids"]
            == history.samples[history.runs[run].samples or ""].ids
        )


def test_the_oldest_scores_are_left_out_where_the_page_would_be_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragstone.tools.history_page.page.MAX_PACKED", 1)
    monkeypatch.setattr("ragstone.tools.history_page.page._CHUNK", 1)
    where = history_page(made(5), POLICY).head["scores"]["runs"]
    assert [one is None for one in where] == [True] * 4 + [False]


def test_of_thousands_of_metrics_and_slices_the_newest_runs_are_shown() -> None:
    history = made(2)
    first, second = history.runs
    mean = first.metrics["faithfulness"]
    many = {f"m{number}": mean for number in range(3000)}
    tags = {f"s{number}": {"faithfulness": mean} for number in range(3000)}
    first = first.model_copy(update={"metrics": {**many, **first.metrics}, "versions": dict.fromkeys(many, "1")})
    second = second.model_copy(update={"slices": {**second.slices, **tags}, "versions": dict.fromkeys(many, "2")})
    page = history_page(replace(history, runs=(first, second)), POLICY)
    shown = page.head["metrics"]
    assert [one["name"] for one in shown[:4]] == list(second.metrics)
    assert (len(shown), sum(len(one["slices"]) for one in shown)) == (MAX_METRICS, MAX_SLICES)
    assert {mark[3] for mark in page.head["marks"] if mark[1] == "metric"} == set(range(4, MAX_METRICS))
    assert page.notes == (
        "The page shows 100 of 3,004 metrics, those of the newest runs first.",
        "The page shows 1,000 of 3,008 slices, those of the newest runs first.",
    )


def test_only_samples_that_the_history_has_are_named() -> None:
    history = made(2)
    code = sample_codes(next(iter(history.samples.values())))[0]
    page = history_page(
        history, POLICY, names={code: SampleName("q1", "Q?"), "elsewhere": SampleName("q2", "Private?")}
    )
    assert part(page, page.head["names"]) == {code: ["q1", "Q?"]}


def test_runs_are_marked_where_they_differ_from_the_run_before() -> None:
    first, second = made(2).runs
    other = second.model_copy(
        update={
            "judge": "openai judge-9",
            "judge_key": "9" * 16,
            "golden": "9" * 64,
            "system": "m-9",
            "part": "retrieval",
            "release": "v9",
            "versions": {**second.versions, "faithfulness": "2"},
            "accepted": made(40).runs[15].accepted,
        }
    )
    assert [(mark.kind, mark.text, mark.metric) for mark in marks((first, other))] == [
        ("judge", "judge: now openai judge-9", None),
        ("golden", "golden set changed", None),
        ("part", "evaluated: retrieval alone", None),
        ("system", "system: m-9", None),
        ("metric", "faithfulness: version 2, was 1", "faithfulness"),
        ("release", "release v9", None),
        ("accepted", "accepted: context_precision may drop by 0.05 (a1)", "context_precision"),
    ]
    assert [mark.place for mark in marks((first, other, other))][-1] == 2, "a release is marked at each of its runs"
    assert sum(mark.kind == "accepted" for mark in marks((first, other, other))) == 1


def test_secrets_are_removed_and_names_are_made_harmless() -> None:
    (line,) = made(1, kept=0).runs
    line = line.model_copy(update={"release": "v1 s3cr3t-t0ken", "system": "m\u202e-1"})
    page = history_page(History((line,)), POLICY, redact=lambda text: text.replace("s3cr3t-t0ken", "***"))
    assert page.head["tables"]["release"] == ["v1 ***"]
    assert page.head["tables"]["system"] == ["m\ufffd-1"]
    assert "s3cr3t" not in json.dumps(page.head)


def test_versions_that_look_alike_stay_apart() -> None:
    first, second = made(2, kept=0).runs
    runs = (first.model_copy(update={"system": "m\u202e"}), second.model_copy(update={"system": "m\u202d"}))
    page = history_page(History(runs), POLICY)
    assert page.head["runs"]["system"] == [0, 1]


def test_the_same_history_gives_the_same_page_and_asks_the_network_for_nothing() -> None:
    html = render_history(history_page(made(5), POLICY))
    assert html == render_history(history_page(made(5), POLICY))
    assert "default-src &#39;none&#39;; style-src &#39;sha256-" in html
    assert "unsafe" not in html.partition("</head>")[0].replace("unsafe-", "")
    for word in ("src=", "<link", "@import", "url("):
        assert word not in html.replace("-src ", ""), word


def test_an_empty_history_is_a_page_that_says_so() -> None:
    html = render_history(history_page(History(), POLICY), notes=["The history is damaged: <b>."])
    assert "The history is empty" in html
    assert "damaged: &lt;b&gt;." in html


@pytest.mark.parametrize("address", [None, "", "javascript:alert(1)//", "https://x y", "//evil.example"])
def test_an_address_that_is_none_gives_no_links(address: str | None) -> None:
    assert "repository" not in history_page(made(1), POLICY, repository=address).head
