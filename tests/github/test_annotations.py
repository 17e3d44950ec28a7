"""Which annotations a verdict and an error get, and where they point."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from ragstone.errors import ConfigError
from ragstone.gate.policy import default_policy, load_policy
from ragstone.gate.verdict import Action, Check, CheckKind, Status
from ragstone.github.annotations import Places, annotations_on, error_annotation
from ragstone.github.api.commands import Annotation, Level, render_annotation
from ragstone.github.evaluate import _policy_folder
from ragstone.golden.sample import Origin
from ragstone.report.document import check_part
from ragstone.report.parts import SamplesPart
from tests.report.conftest import helpdesk_report

CHECK = Check("m", CheckKind.FLOOR, Status.FAIL, Action.BLOCK, "because", metric="m")


@pytest.fixture
def places(tmp_path: Path) -> Places:
    (tmp_path / "thresholds.toml").write_text("[metrics.m]\nmin = 0.5\n", encoding="utf-8")
    (tmp_path / "golden.jsonl").write_text("{}\n", encoding="utf-8")
    return Places(tmp_path, tmp_path)


def of_checks(places: Places, *checks: Check, policy: str = "thresholds.toml") -> list[Annotation]:
    report = replace(helpdesk_report(), checks=tuple(map(check_part, checks)), samples=SamplesPart())
    return list(annotations_on(report, load_policy(places.root / policy, known_metrics=None), places))


@pytest.mark.parametrize(
    ("status", "action", "level"),
    [
        (Status.FAIL, Action.BLOCK, Level.ERROR),
        (Status.ERROR, Action.BLOCK, Level.ERROR),
        (Status.INCONCLUSIVE, Action.BLOCK, Level.WARNING),
        (Status.FAIL, Action.WARN, Level.WARNING),
        (Status.PASS, Action.BLOCK, None),
    ],
)
def test_a_check_that_did_not_pass_is_annotated_at_its_line(
    places: Places, status: Status, action: Action, level: Level | None
) -> None:
    found = of_checks(places, replace(CHECK, status=status, action=action))
    assert [one.level for one in found] == ([] if level is None else [level])
    assert all((one.file, one.line, one.message) == ("thresholds.toml", 2, "because") for one in found)


def test_failures_come_first_and_a_policy_elsewhere_has_no_line(places: Places) -> None:
    warning = replace(CHECK, status=Status.INCONCLUSIVE, reason="unclear")
    assert [one.message for one in of_checks(places, warning, CHECK)] == ["because", "unclear"]
    outside = Places(places.root, places.root / "inner")
    (found,) = of_checks(outside, CHECK)
    assert (found.file, found.line) == (None, None)


@pytest.mark.parametrize(
    ("where", "file", "line", "start"),
    [
        ("golden.jsonl:3", "golden.jsonl", 3, "it is wrong"),
        ("golden.jsonl", "golden.jsonl", None, "it is wrong"),
        ("../outside.jsonl:3", None, None, "../outside.jsonl:3: it is wrong"),
        ("gone.jsonl", None, None, "gone.jsonl: it is wrong"),
        ("golden.jsonl:0", None, None, "golden.jsonl:0: it is wrong"),
        (None, None, None, "it is wrong"),
    ],
)
def test_an_error_points_at_its_file_or_names_its_place(
    places: Places, where: str | None, file: str | None, line: int | None, start: str
) -> None:
    found = error_annotation(ConfigError("it is wrong", where=where, hint="Mend it."), places)
    assert (found.level, found.file, found.line) == (Level.ERROR, file, line)
    assert found.message == f"{start}\nMend it."


@pytest.mark.parametrize(
    ("file", "line", "link"),
    [
        ("golden.jsonl", 3, "B/golden.jsonl#L3"),
        ("a b.CSV", 3, "B/a%20b.CSV?plain=1#L3"),
        ("notes.md", None, "B/notes.md"),
        ("../outside.jsonl", 3, None),
    ],
)
def test_a_link_leads_to_the_line_of_a_file_of_the_checkout(
    places: Places, file: str, line: int | None, link: str | None
) -> None:
    assert places.link(Origin(file=file, line=line), "B") == link


@pytest.mark.parametrize(
    ("file", "line", "properties"),
    [("a.py", 3, "file=a.py,line=3,title=T"), ("a.py", None, "file=a.py,title=T"), ("a\x1b.py", 3, "title=T")],
)
def test_a_line_is_written_with_its_file_only(file: str | None, line: int | None, properties: str) -> None:
    assert render_annotation(Annotation(Level.NOTICE, "text", "T", file, line)) == f"::notice {properties}::text"


def test_commands_are_run_where_the_policy_is(places: Places) -> None:
    policy = load_policy(places.root / "thresholds.toml", known_metrics=None)
    assert _policy_folder(policy, places.root / "rag", places) == "."
    assert _policy_folder(default_policy(), places.root / "rag", places) == "rag"
