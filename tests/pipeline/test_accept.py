"""What of a run can be accepted."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from ragstone.errors import ConfigError
from ragstone.evaluation.lineage import used
from ragstone.evaluation.manifest import BaselineFact
from ragstone.evaluation.writer import update_manifest
from ragstone.gate.findings import Finding, Level
from ragstone.gate.policy import Policy, load_policy
from ragstone.gate.verdict import Action, Check, CheckKind, GateVerdict, Status
from ragstone.pipeline.accept import Shown, accept, drop_shown_by
from ragstone.pipeline.verdict_file import write_verdict
from ragstone.report.document import document_of
from tests.pipeline.conftest import write

TODAY = date(2026, 11, 28)
SHOWN = Shown(0.1, "a" * 16, "b" * 16)


def check(kind: CheckKind, metric: str | None = "faithfulness", **more: Any) -> Check:
    fields: dict[str, Any] = {
        "status": Status.FAIL,
        "reason": "It fell.",
        "estimate": -0.1,
        "action": Action.BLOCK,
    } | more
    return Check(name=f"{metric}.{kind}", kind=kind, metric=metric, **fields)


DROP, FLOOR = check(CheckKind.DROP), check(CheckKind.FLOOR, estimate=0.5)


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    (tmp_path / "thresholds.toml").write_text("[metrics.faithfulness]\nmin = 0.9\nmax_drop = 0.02\n")
    return load_policy(tmp_path / "thresholds.toml")


def run_with(folder: Path, *checks: Check, compared: bool = True) -> Path:
    """A run whose verdict has these checks."""
    baseline = write(folder / "main", {"faithfulness": {"a": 1.0}})
    run = write(folder / "run", {"faithfulness": {"a": 0.0}})
    fact = BaselineFact(eligible=False, reason="it failed", used=used(baseline) if compared else None)
    run = update_manifest(run, verdict="fail", baseline=fact)
    findings = [Finding(check.kind, Level.FAILURE, check.reason, check.metric, check) for check in checks]
    write_verdict(run, document_of(GateVerdict(Status.FAIL, "It fell.", tuple(findings)), run.scores()))
    return run.path


@pytest.mark.parametrize(
    "checks", [[DROP], [FLOOR, DROP], [check(CheckKind.DROP, slice="even", estimate=-0.2), DROP]], ids=str
)
def test_the_drop_of_a_run_is_accepted(tmp_path: Path, checks: list[Check]) -> None:
    assert drop_shown_by(run_with(tmp_path, *checks), "faithfulness", None).drop == 0.1


@pytest.mark.parametrize(
    ("checks", "metric"),
    [
        ([], "faithfulness"),
        ([check(CheckKind.DROP, status=Status.PASS)], "faithfulness"),
        ([check(CheckKind.DROP, slice="even")], "faithfulness"),
        ([check(CheckKind.DROP, "context_recall")], "faithfulness"),
        ([FLOOR], "faithfulness"),
        ([DROP], "faithfulnes"),
        ([], "golden set"),
        ([], "system.broken"),
    ],
)
def test_why_there_is_nothing_to_accept_is_said(tmp_path: Path, checks: list[Check], metric: str) -> None:
    with pytest.raises(ConfigError, match=f"nothing to accept for {metric} in this run") as refused:
        drop_shown_by(run_with(tmp_path, *checks), metric, None)
    possible = [check.metric for check in checks if check.kind is CheckKind.DROP and check.status is Status.FAIL]
    assert (refused.value.hint or "") == "".join(f"What can be accepted: {name}." for name in possible)


def test_an_edit_of_the_golden_set_is_accepted_by_its_fingerprint(tmp_path: Path) -> None:
    edit = check(CheckKind.GOLDEN_SET, None, estimate=0.6, edit="c" * 16)
    shown = drop_shown_by(run_with(tmp_path, DROP, edit), "golden set", None)
    assert (shown.drop, shown.edit) == (0.6, "c" * 16)


def test_a_run_that_was_compared_with_nothing_shows_no_drop(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="was not compared with a baseline"):
        drop_shown_by(run_with(tmp_path, DROP, compared=False), "faithfulness", None)


def entry(policy: Policy, root: Path, shown: Shown | Path = SHOWN, **more: Any) -> str:
    values: dict[str, Any] = {"metric": "faithfulness", "reason": "cheaper", "today": TODAY} | more
    return accept(policy, root, shown, **values).file.read_text(encoding="utf-8")


def test_an_entry_is_appended_once_and_may_end_today(tmp_path: Path, policy: Policy) -> None:
    entry(policy, tmp_path, expires=TODAY)
    text = entry(policy, tmp_path, metric="context_recall", slice_="even")
    assert text.count("[[accepted]]") == 2
    again = load_policy(tmp_path / "thresholds.toml")
    with pytest.raises(ConfigError, match="this drop of faithfulness is already accepted"):
        entry(again, tmp_path)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"expires": TODAY - timedelta(days=1)}, "2026-11-27 is in the past"),
        ({"metric": "golden set", "slice_": "even"}, "golden set has no slice"),
        ({"metric": "system.broken", "slice_": "even"}, "system.broken has no slice"),
        ({"metric": "golden set"}, "an edit is named for the metric 'golden set'"),
        ({"shown": Shown(0.1, "a" * 16, "b" * 16, edit="c" * 16)}, "an edit is named for the metric 'golden set'"),
        ({"metric": "faithfulnes"}, "unknown metric 'faithfulnes'.*Did you mean 'faithfulness'"),
        ({"shown": Shown(7.0, "a" * 16, "b" * 16)}, "'drop'"),
    ],
)
def test_what_can_not_be_accepted_is_refused(tmp_path: Path, policy: Policy, more: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError) as refused:
        entry(policy, tmp_path, **more)
    assert all(part in str(refused.value).replace("\n", " ") for part in says.split(".*"))
    assert not (tmp_path / "accepted.toml").exists()


def test_a_metric_of_the_project_or_of_the_run_alone_can_be_accepted(tmp_path: Path, policy: Policy) -> None:
    assert "tone" in entry(policy, tmp_path, metric="tone", custom=["tone"])
    run = run_with(tmp_path, check(CheckKind.DROP, "polite"))
    assert "polite" in entry(policy, tmp_path, run, metric="polite")


@pytest.mark.parametrize("text", ["0.1:aa", "x:aa:bb", "", "0.1:a:b:c:d"])
def test_a_drop_is_named_as_the_report_names_it(text: str) -> None:
    assert Shown.parse("0.1:aa:bb:cc") == Shown(0.1, "aa", "bb", "cc")
    with pytest.raises(ConfigError, match="names no drop"):
        Shown.parse(text)
