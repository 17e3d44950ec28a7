"""Every text of a checkout, a system, a fork's run and GitHub itself × every way in which a text can be more than text.

Whole jobs, and what they leave: log, annotations, summary, comment, outputs and reports.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from ragstone.errors import ConfigError
from ragstone.evaluation.directory import RunDirectory
from ragstone.gate.diagnosis import catalogue
from ragstone.github.outputs import OUTPUTS
from tests.cli.project import write_rows
from tests.github.api.fake import FakeGitHub
from tests.github.api.payloads import pull_request, workflow_run
from tests.github.builders import CONFIG, FACTS, Checkout, Outcome
from tests.github.runs import files_of
from tests.github.test_forks import changed
from tests.report.hostile import every_fragment
from tests.report.test_escape import ACTIVE, parser, text_of
from tests.report.test_hostile_reports import TAGS, Skeleton

NOT_SHOWN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200e\u200f\ud800-\udfff]")
COMMANDS = ("::error", "::warning", "::notice", "::group::", "::endgroup::", "::add-mask::", "::stop-commands::")
OURS = ("https://github.com/acme/rag", "https://github.com/owner")
SOURCES_OF_ACTIONS = frozenset(cause["source"] for cause in catalogue().values())
COMMAND = CONFIG.replace("file:outputs.jsonl", "command:./rag.sh")
Put = Callable[[Checkout, str], None]


@pytest.fixture
def checkout(checkout: Checkout) -> Checkout:
    checkout.write("ragstone.toml", CONFIG)
    return checkout


# -- where text comes from ---------------------------------------------------------------------------------------------


def golden_field(name: str) -> Put:
    def put(checkout: Checkout, text: str) -> None:
        rows = checkout.golden_rows()
        rows[0][name] = [text] if name == "tags" else f"x{text}"
        checkout.write_golden(rows)
        checkout.answer_badly()

    return put


def filled(template: Any, text: str) -> Any:
    """`template` with the text for each ``{}`` in it."""
    if isinstance(template, dict):
        return {filled(key, text): filled(value, text) for key, value in template.items()}
    if isinstance(template, list):
        return [filled(value, text) for value in template]
    return template.replace("{}", text) if isinstance(template, str) else template


def recorded(**fields: Any) -> Put:
    """The text in `fields` of each answer."""

    def put(checkout: Checkout, text: str) -> None:
        rows = [{"id": key, "answer": "Bananas are purple.", "contexts": [fact]} for key, _, fact in FACTS]
        write_rows(checkout.root / "outputs.jsonl", [row | filled(fields, text) for row in rows])

    return put


def called(**fields: Any) -> Put:
    """The text in `fields` of a call of a tool in each answer."""
    return recorded(steps=[{"type": "tool", "name": "lookup", "arguments": {"id": 1}, "result": "So."} | fields])


def program(body: str) -> Put:
    def put(checkout: Checkout, text: str) -> None:
        checkout.write("ragstone.toml", COMMAND)
        (checkout.root / "said").write_bytes(text.encode("utf-8", "surrogatepass"))
        checkout.program("rag.sh", f"#!/bin/sh\n{body}\n")

    return put


def toml_string(text: str) -> str:
    written = json.dumps(text, ensure_ascii=True)  # a TOML basic string, but for \u escapes of surrogates
    return re.sub(r"\\ud[89a-f][0-9a-f]{2}", "?", written).replace("\x7f", "\\u007f")


def written(name: str, template: str, *, before: str = "", quote: Callable[[str], str] = toml_string) -> Put:
    def put(checkout: Checkout, text: str) -> None:
        content = before + template.format(quote(text))
        (checkout.root / name).write_bytes(content.encode("utf-8", "surrogatepass"))
        checkout.answer_badly()

    return put


config = partial(written, "ragstone.toml", before=CONFIG)
policy = partial(written, "thresholds.toml")
ANSWERS = 'while read -r line; do echo \'{"answer": "Bananas.", "contexts": ["So."]}\'; done'
SOURCES: dict[str, Put] = {
    **{f"golden {name}": golden_field(name) for name in ("id", "question", "reference", "tags", "group")},
    "recorded answer": recorded(answer="Bananas are purple. {}"),
    "recorded text": recorded(contexts=[{"text": "x{}", "id": "c"}]),
    "recorded id": recorded(contexts=[{"text": "So.", "id": "x{}"}]),
    "recorded error": recorded(answer=None, error="{}"),
    "recorded model": recorded(model="Bananas are purple. {}"),
    "step query": recorded(steps=[{"type": "retrieval", "query": "x{}", "contexts": ["So."]}]),
    **{f"step {name}": called(**{name: "x{}"}) for name in ("name", "result", "error")},
    "step arguments": called(arguments={"x{}": "x{}"}),
    "standard error": program(f"cat said >&2\n{ANSWERS}"),
    "last words": program("cat said >&2\nexit 3"),
    "a reply that is none": program("while read -r line; do cat said; echo; done"),
    "judge": config("[judge]\nname = {}\n"),
    "unknown key": config("[gate]\n{} = 1\n"),
    "unknown table": config("[{}]\n"),
    "baseline": config("[gate]\nbaseline = {}\n"),
    "unknown metric": policy("[gate]\nconfirm = false\n[metrics.{}]\nmin = 0.1\n"),
    "slice": policy("[metrics.faithfulness]\nmin = 0.1\n[slices.{}.metrics.faithfulness]\nmin = 0.9\n"),
    "must pass": policy("[metrics.faithfulness]\nmin = 0.1\n[must_pass]\nids = [{}]\n"),
    "broken golden set": written("golden.jsonl", '{{"id": "a", "question": {}\n', quote=str),
    "broken policy": policy("[gate]\n{}\n", quote=str),
}


# -- where it goes -----------------------------------------------------------------------------------------------------


def run(checkout: Checkout, event: str = "pull_request", payload: Any = None, **environment: str) -> Outcome | None:
    try:
        return checkout.gate(event, payload or pull_request(), **environment)
    except ConfigError:  # of the config file, before there is a job: the door prints it
        return None


def check(found: Outcome, github: FakeGitHub, checkout: Checkout) -> None:
    assert found.code in (0, 1, 2, 3, 4, 5, 6, 8), found.log
    check_log(found.log)
    for annotation in found.annotations:
        assert annotation.startswith(COMMANDS[:3]), annotation
        assert "##[" not in annotation
    assert set(found.outputs) <= OUTPUTS.keys()
    assert found.outputs["verdict"] in ("pass", "fail", "inconclusive", "error")
    for text in (found.summary, *github.bodies()):
        check_markdown(text)
    for name in ("report.md", "report.html", "junit.xml", "report.json", "system.log"):
        report = checkout.root / "ragstone-run" / name
        if report.exists():
            printed = report.read_text(encoding="utf-8")
            assert not [line for line in re.split("[\r\n]", printed) if line.lstrip().startswith("::")], name
            if name != "system.log":
                assert "##[" not in printed, name
    page = checkout.root / "ragstone-run" / "report.html"
    if page.exists():
        check_page(page.read_text(encoding="utf-8"))


def check_log(log: str) -> None:
    assert not NOT_SHOWN.search(log)
    stopped = None
    for line in log.split("\n"):
        if stopped is not None:
            stopped = None if line == f"::{stopped}::" else stopped
        elif line.startswith("::stop-commands::"):
            stopped = line.removeprefix("::stop-commands::")
        elif line.lstrip().startswith("::"):
            assert line.startswith(COMMANDS), line
    assert stopped is None


def check_markdown(text: str) -> None:
    assert not NOT_SHOWN.search(text)
    tokens = parser().parse(text)
    children = [child for token in tokens for child in token.children or []]
    links = [str(child.attrs["href"]) for child in children if child.type == "link_open"]
    assert all(link.startswith(OURS) or link in SOURCES_OF_ACTIONS for link in links), links
    assert "image" not in {child.type for child in children}
    assert all(TAGS.sub("", child.content) == "" for child in children if child.type == "html_inline")
    blocks = [token.content for token in tokens if token.type == "html_block"]
    assert all(re.fullmatch(r"(</?(details|summary|sub)>|<!-- ragstone:[^>]*-->|[^<>]|\n)*", each) for each in blocks)
    lines = text.split("\n")
    own = 2 if lines[0].startswith("<!-- ragstone:comment:") else 0
    assert all(re.fullmatch(r"<!-- ragstone:[a-z]+:[\w:-]+ -->", line) for line in lines[:own])
    assert not [line for line in lines[own:] if "<!--" in line]
    outside = text_of([token for token in tokens if "](http" not in token.content])
    assert not [pattern.pattern for pattern in ACTIVE if pattern.search(outside)], outside
    assert not [line for line in re.split("[\r\n]", text) if line.lstrip().startswith("::") or "##[" in line]


PACKED = re.compile(r'<script type="application/gzip" data-packed="(?:rows|texts)">[A-Za-z0-9+/=]+</script>')
SAMPLE = re.compile(r"#sample=[A-Za-z0-9%._~-]*")
"""A link to a sample in the same page."""


def check_page(page: str) -> None:
    found = Skeleton(PACKED.sub("", page))
    others = [link for link in found.links if not SAMPLE.fullmatch(link)]
    assert all(link.startswith(OURS) or link in SOURCES_OF_ACTIONS for link in others), others
    assert sum(tag[0] == "script" for tag in found.tags) <= 2
    assert not [tag for tag in found.tags if any(str(name).startswith("on") for name in tag[1:])]
    assert not {tag[0] for tag in found.tags} & {"img", "iframe", "object", "embed", "base", "form", "comment"}


LINES = "::error::x\r::stop-commands::x\n::set-output name=verdict::pass\n\u2028::error::x ##[error]b\v::warning::y"


@pytest.mark.heavy
@pytest.mark.attack(
    by="text", tries="mentions, links, workflow commands from 29 sources", stopped_by="escaped for each format"
)
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("text", [every_fragment, LINES], ids=["every fragment", "commands"])
def test_a_text_from_everywhere_stays_text(github: FakeGitHub, checkout: Checkout, source: str, text: str) -> None:
    checkout.reports_again = text == every_fragment
    SOURCES[source](checkout, text)
    found = run(checkout)
    if found is not None:
        check(found, github, checkout)


# -- a fork's run, and what GitHub itself says -------------------------------------------------------------------------


def everywhere(document: dict[str, Any]) -> None:
    """Hostile text in all that a manifest says of itself."""
    if "metrics" not in document:
        document["sample"]["origin"] = {"file": every_fragment.replace("\ud800", ""), "line": 1}
        return
    text = every_fragment.replace("\ud800", "")
    document["judge"] |= dict.fromkeys(("provider", "model", "version", "endpoint", "embeddings"), text)
    document["judge"]["parameters"] = [[text, text]]
    document["system"] |= {"entrypoint": text, "commit": text}
    document["golden"]["files"] = [text]
    document["ragstone_version"] = text


def test_what_a_forks_run_says_of_itself_stays_text(github: FakeGitHub, checkout: Checkout) -> None:
    checkout.answer_badly(f"Bananas are purple. {every_fragment}")
    checkout.gate("push")
    files = changed(files_of(RunDirectory.open(checkout.root / "ragstone-run")), everywhere)
    github.add_fork_run(files)
    found = run(checkout, "workflow_run", workflow_run())
    assert found is not None
    assert github.bodies(7), found.log
    check(found, github, checkout)


def test_what_github_and_an_answer_say_stays_text(github: FakeGitHub, checkout: Checkout) -> None:
    payload = pull_request()
    payload["pull_request"]["base"]["ref"] = every_fragment
    payload["pull_request"]["head"]["ref"] = every_fragment
    payload["pull_request"]["user"]["login"] = every_fragment
    SOURCES["recorded answer"](checkout, every_fragment)
    found = run(checkout, payload=payload)
    github.problems.clear()  # such a branch can't be asked for
    assert found is not None
    check(found, github, checkout)
