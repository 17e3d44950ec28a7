"""Every page that shows text of others, clicked through in a real browser, with its policy and without it."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from ragstone.system.response import Context, ModelCall, Retrieval, ToolCall
from ragstone.tools.history_page.page import history_page, render_history
from ragstone.tools.judging.draw import label_page
from tests.report.browser import Page
from tests.report.conftest import Text, helpdesk_report, record
from tests.report.hostile import every_fragment
from tests.report.paged import paged
from tests.tools.history_page.histories import POLICY, make_history
from tests.tools.judging.tables import open_table

pytestmark = pytest.mark.browser

ATTACK = (
    "x</script><script>window.hit=1</script><img src=x onerror=window.hit=1><svg onload=window.hit=1>"
    "<a href='javascript:window.hit=1'>x</a><form action=//evil.example><button>x</button></form>"
    "<iframe src=//evil.example></iframe><base href=//evil.example><meta http-equiv=refresh content='0;//evil.example'>"
    "<style>@import '//evil.example'</style>"
    "\"'onfocus='window.hit=1' autofocus onclick='window.hit=1' x=\"`${window.hit=1}`"
)
BEGIN = f"{ATTACK} {every_fragment}".encode("utf-8", "replace").decode()
CONTENT_POLICY = re.compile(r"(?:<|&lt;|&amp;lt;)meta http-equiv=.{1,20}?Content-Security-Policy.*?(?:>|&gt;|&amp;gt;)")


def report() -> str:
    text = Text(**{name: BEGIN for name in Text.__dataclass_fields__ if name != "file"})
    view = helpdesk_report(text=text)
    mine = record(text)
    contexts = (Context(BEGIN, BEGIN), Context(BEGIN * 3))
    steps = (Retrieval(BEGIN, contexts, BEGIN), ToolCall(BEGIN, {BEGIN: BEGIN}, error=BEGIN), ModelCall(BEGIN))
    answer = dataclasses.replace(
        mine.answers[0], response=dataclasses.replace(mine.response, contexts=contexts, steps=steps)
    )
    return paged(
        view,
        {view.samples.worst[0].id: dataclasses.replace(mine, answers=(answer,))},
        {view.samples.worst[0].id: record(text, BEGIN)},
    )


def history() -> str:
    found = make_history(6)
    evil = BEGIN[:480]
    runs = tuple(
        run.model_copy(
            update={
                **dict.fromkeys(("system", "release", "commit", "judge"), f"{at} {evil}"),
                "metrics": {evil[:200]: run.metrics["faithfulness"], "__proto__": run.metrics["faithfulness"]},
                "slices": {evil[:200]: {"__proto__": run.metrics["faithfulness"]}},
                "scores": {evil[:200]: run.scores["faithfulness"], "__proto__": run.scores["faithfulness"]},
            }
        )
        for at, run in enumerate(found.runs)
    )
    past = replace(found, runs=runs)
    return render_history(history_page(past, POLICY, versions=runs[:3], notes=[evil]))


def labels() -> str:
    return label_page(["faithfulness", BEGIN[:200], "__proto__"])


def table() -> str:
    """A table of labels with texts of others in every cell."""
    stream = io.StringIO()
    writer = csv.writer(stream)
    writer.writerow(["id", "faithfulness", "__proto__", "comment", "question", "answer", "contexts", "disagreement"])
    writer.writerows([BEGIN] * 8 for _ in range(2))
    return stream.getvalue()


CLICKED = """(() => {
  const documents = [document];
  let clicked = 0;
  for (let at = 0; at < documents.length; at += 1) {
    const found = documents[at];
    for (let round = 0; round < 2; round += 1) {
      found.querySelectorAll('details').forEach(one => { one.open = true; });
      for (const one of found.querySelectorAll('*')) {
        if (one.tagName === 'IFRAME' && round === 0 && one.contentDocument) documents.push(one.contentDocument);
        if (one.focus) one.focus();
        for (const kind of ['pointerenter', 'mouseover', 'pointermove'])
          one.dispatchEvent(new MouseEvent(kind, { bubbles: true, clientX: 300, clientY: 300 }));
        if (one.matches('input[type=text], input[type=search], textarea')) {
          one.value = ATTACK;
          one.dispatchEvent(new Event('input', { bubbles: true }));
          one.dispatchEvent(new Event('change', { bubbles: true }));
        }
        if (one.matches('a[href^="https:"], input[type=file], label:has(input)')) continue;  // files take a person
        if (one.matches('button, summary, th, tr, td, label, a, select, option, input, [role], [tabindex], svg *')) {
          one.dispatchEvent(new MouseEvent('click', { bubbles: true, cancelable: true }));
          one.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true, cancelable: true }));
          clicked += 1;
        }
      }
    }
  }
  return clicked;
})()""".replace("ATTACK", json.dumps(ATTACK))
LEFT = """(() => {
  const all = [document, ...[...document.querySelectorAll('iframe')].map(one => one.contentDocument).filter(Boolean)];
  const found = kind => all.flatMap(one => [...one.querySelectorAll(kind)]);
  return {
    hit: [window, ...all.map(one => one.defaultView)].some(one => one.hit !== undefined),
    foreign: found('img, form, object, embed, base, link, meta[http-equiv=refresh]').length,
    frames: found('iframe[src]').length,
    handlers: found('*').filter(one => [...one.attributes].some(its => its.name.startsWith('on'))).length,
    links: found('a[href]').map(one => one.getAttribute('href')).filter(one => !/^(#|blob:|OURS)/.test(one)),
    place: location.href.split('#')[0],
  };
})()""".replace("OURS", r"https:\/\/github\.com\/acme\/helpdesk\/[\w/.?=#-]*$")


@pytest.mark.attack(by="text", tries="act in a report's page", stopped_by="no script, request or navigation")
@pytest.mark.parametrize("policy", [True, False])
@pytest.mark.parametrize("made_by", [report, history, labels])
def test_a_page_that_is_clicked_through_runs_nothing_asks_for_nothing_and_stays(
    page: Page, tmp_path: Path, made_by: Callable[[], str], policy: bool
) -> None:
    html = made_by()
    if not policy:
        html, removed = CONTENT_POLICY.subn("", html)
        assert removed >= 1
        assert "Content-Security-Policy" not in html.partition("</head>")[0]
    file = tmp_path / "page.html"
    file.write_text(html, encoding="utf-8")
    page.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    page.open("about:blank")
    page.requests.clear()
    page.complaints.clear()
    page.open(file)
    time.sleep(0.5)
    if made_by is labels:
        open_table(page, "ann.csv", table())
    assert page.run(CLICKED) > 10
    time.sleep(0.5)
    left = page.run(LEFT)
    if made_by is labels:
        page.run("document.getElementById('save').click()")  # or the page asks before it is left
    assert left == {"hit": False, "foreign": 0, "frames": 0, "handlers": 0, "links": [], "place": file.as_uri()}
    assert [url for url in page.requests if not url.startswith(("blob:", "data:", "about:"))] == [file.as_uri()]
    # A script clicks before what is out of sight is drawn, and faster than the address may change.
    assert [one for one in page.complaints if "TypeError" not in one and "Throttling navigation" not in one] == []


def test_the_clicking_finds_what_it_looks_for(page: Page, tmp_path: Path) -> None:
    """A page that shows the same text as it is."""
    file = tmp_path / "page.html"
    file.write_text(f"<!doctype html><meta charset=utf-8><body><p>{ATTACK.replace('http-equiv', 'x')}</p>")
    page.requests.clear()
    page.open(file)
    time.sleep(0.5)
    page.run(CLICKED)
    time.sleep(0.5)
    left = page.run(LEFT)
    assert left["hit"]
    assert left["foreign"] >= 2
    assert len(page.requests) > 1
