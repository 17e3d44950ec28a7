"""What a report has of a verdict and its runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ragstone.gate.verdict import Comparability, Status
from ragstone.golden.sample import Origin
from ragstone.report.document import MAX_ROWS, document_of
from ragstone.report.parts import Links
from tests.report.conftest import Text, helpdesk_report, run_scores, verdict
from tests.report.runs import passed, scores


def test_without_a_comparable_baseline_there_are_no_changes_and_no_differences() -> None:
    first = helpdesk_report(Status.PASS, first_run=True)
    assert {row.change for row in first.metrics} == {None}
    assert first.comparison is not None
    assert not first.comparison.comparable
    found = replace(verdict(Text(), Status.PASS), comparability=Comparability(False, ("judge changed",), total=60))
    other = document_of(found, run_scores(Text()), run_scores(Text(), label="main"))
    assert all(cell.change is None for row in other.samples.rows for cell in row.cells)
    assert first.samples.differences == other.samples.differences == ()


def test_many_samples_are_cut_to_the_worst() -> None:
    values = {f"s{number:05}": 1 - number / 10_000 for number in range(MAX_ROWS + 500)}
    report = document_of(passed(), scores({"m": values}))
    assert (len(report.samples.rows), report.samples.total) == (MAX_ROWS, MAX_ROWS + 500)
    assert report.samples.rows[0].id == f"s{MAX_ROWS + 499:05}"


def test_commands_that_repeat_the_run_are_quoted() -> None:
    text = Text(entrypoint="command:./rag --x 'y'; rm -rf /", file="a b.jsonl")
    _, checkout, command = helpdesk_report(text=text).run.reproduce
    assert checkout.startswith("git checkout 3f2c1e9")
    assert """--entrypoint 'command:./rag --x '"'"'y'"'"'; rm -rf /'""" in command
    assert "--golden 'a b.jsonl'" in command


@pytest.mark.parametrize(
    ("origin", "url"),
    [
        (Origin("g.jsonl", 3), "https://h/g.jsonl#L3"),
        (Origin("./a/b c.jsonl", 3), "https://h/a/b%20c.jsonl#L3"),
        (Origin("a\\b.jsonl", 3), "https://h/a/b.jsonl#L3"),
        (Origin("g.parquet"), "https://h/g.parquet"),
        (Origin("{line}#?.jsonl", 7), "https://h/%7Bline%7D%23%3F.jsonl#L7"),
        (Origin("/etc/passwd", 1), None),
        (Origin("a/../../x.jsonl", 1), None),
        (Origin("C:\\x.jsonl", 1), None),
    ],
)
def test_places_become_addresses_inside_the_repository(origin: Origin, url: str | None) -> None:
    assert Links.from_pattern("https://h/{file}#L{line}").origin(origin) == url
