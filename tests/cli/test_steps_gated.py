"""Metrics of steps through whole commands: chosen by the labels, gated, sliced, compared, written to every report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.cli.project import Completed, make_project, ragstone, read_json

AGENT = '''
"""An agent that looks up an order, then searches for its guarantee, and cites what it found."""
import re

def answer(question):
    number = re.search(r"\\d+", question)
    if number is None:
        return {"answer": "I can't find your order. Which one do you mean?", "steps": [{"type": "model", "model": "m"}]}
    order = int(number[0])
    passage = {"id": f"order-{order}", "text": f"Order {order} contains a kettle of make Vell{order} in red."}
    guarantee = {"id": f"make-{order}", "text": f"Kettles of make Vell{order} have a guarantee of {order + 12} months."}
    second = guarantee if HOPS == 2 else passage
    return {
        "answer": f"Kettles of make Vell{order} have a guarantee of {order + 12} months [make-{order}].",
        "steps": [
            {"type": "retrieval", "query": f"order {order}", "contexts": [passage]},
            {"type": "tool", "name": "lookup_order", "arguments": {"order_id": order + OFF}, "result": "Sent."},
            {"type": "retrieval", "query": f"guarantee of Vell{order}", "contexts": [second]},
        ],
    }

'''
GOOD, WORSE = "HOPS = 2\nOFF = 0\n", "HOPS = 1\nOFF = 10\n"  # of another size, or its old bytecode is taken
POLICY = """
[gate]
only_named = true
[metrics.hop_recall]
min = 0.9
max_drop = 0.05
[metrics.tool_arguments]
max_drop = 0.05
[metrics.repeated_retrievals]
max = 0.1
[metrics.citation_recall]
min = 0.9
[metrics."steps_within@3"]
min = 0.9
[metrics.clarification]
min = 0.5
[slices.odd.metrics.hop_recall]
min = 0.9
"""
METRICS = (
    "hop_recall",
    "hop_precision",
    "tool_selection",
    "tool_arguments",
    "clarification",
    "repeated_retrievals",
    "citation_recall",
    "steps_within@3",
)


def row(number: int) -> dict[str, Any]:
    if number % 4 == 0:
        return {"id": f"q{number}", "question": "How long is its guarantee?", "expects": "clarification"}
    return {
        "id": f"q{number}",
        "question": f"How long is the guarantee of order {number}?",
        "reference": f"The guarantee is {number + 12} months.",
        "reference_contexts": [
            {"text": f"Order {number} contains a kettle of make Vell{number} in red.", "hop": 1},
            {"text": f"Kettles of make Vell{number} have a guarantee of {number + 12} months.", "hop": 2},
        ],
        "tools": [{"name": "lookup_order", "arguments": {"order_id": number}}],
        "tags": ["odd"] if number % 2 else [],
    }


@pytest.fixture
def project(tmp_path: Path) -> Path:
    path = make_project(tmp_path / "repo", system=GOOD + AGENT, policy=POLICY)
    (path / "golden.jsonl").write_text("".join(json.dumps(row(n)) + "\n" for n in range(40)), encoding="utf-8")
    return path


def gate(project: Path, *arguments: str) -> Completed:
    return ragstone(["gate", *arguments], project)


def failed_checks(project: Path) -> set[str]:
    report = read_json(project / "ragstone-run" / "report.json")
    return {check["metric"] for check in report["checks"] if check["status"] == "fail"}


@pytest.mark.heavy
def test_metrics_of_steps_are_gated_like_any_other(project: Path) -> None:
    done = gate(project)
    assert done.returncode == 0, done.stdout + done.stderr
    (project / "ragstone-run").rename(project / "baseline")
    measured = read_json(project / "baseline" / "report.json")["metrics"]
    means = {line["metric"]: line["score"] for line in measured if line["slice"] is None}
    checks = read_json(project / "baseline" / "report.json")["checks"]
    assert {check["estimate"] for check in checks if check["name"] == "system.unanswered"} == {0.0}
    assert {name: means[name] for name in METRICS} == dict.fromkeys(METRICS, 1.0) | {"repeated_retrievals": 0.0}

    (project / "houses.py").write_text(WORSE + AGENT, encoding="utf-8")
    done = gate(project, "--baseline", "baseline")
    assert done.returncode == 1, done.stdout + done.stderr
    assert failed_checks(project) >= {"hop_recall", "tool_arguments", "repeated_retrievals", "citation_recall"}
    cases = ElementTree.parse(project / "ragstone-run" / "junit.xml").getroot().iter("testcase")
    failures = " ".join(str(case.get("name")) for case in cases if case.find("failure") is not None)
    assert all(title in failures for title in ("Hop recall", "Citation recall", "Tool arguments"))
    slices = {check["slice"] for check in read_json(project / "ragstone-run" / "report.json")["checks"]}
    assert "odd" in slices
