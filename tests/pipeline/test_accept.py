"""What of a run can be accepted."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from ragstone.errors import ConfigError
from ragstone.evaluation.writer import update_manifest
from ragstone.gate.accepted import Offer, title_of
from ragstone.gate.findings import ACCEPT, Finding, Level
from ragstone.gate.policy import Policy, load_policy
from ragstone.gate.verdict import GateVerdict, Status
from ragstone.pipeline.accept import MeasuredDrop, accept, drop_in_run
from ragstone.report.document import document_of
from ragstone.report.render import render
from tests.pipeline.conftest import write

TODAY = date(2026, 11, 28)
SHOWN = MeasuredDrop(0.1, "a" * 16, "b" * 16)


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    (tmp_path / "thresholds.toml").write_text("[metrics.faithfulness]\nmin = 0.9\nmax_drop = 0.02\n")
    return load_policy(tmp_path / "thresholds.toml")


def run_with(folder: Path, *offers: Offer) -> Path:
    """A run whose report offers these drops to be accepted."""
    run = update_manifest(write(folder / "run", {"faithfulness": {"a": 0.0}}), verdict="fail")
    findings = []
    for offer in offers:
        command = offer.command(run="a" * 16, baseline="b" * 16, folder="my app")
        findings.append(Finding(ACCEPT, Level.FACT, command, title_of(offer.metric, offer.slice)))
    document = document_of(GateVerdict(Status.FAIL, "It fell.", tuple(findings)), run.scores())
    (run.path / "report.json").write_text(render(document, "json"), encoding="utf-8")
    return run.path


DROP = Offer("faithfulness", None, 0.1)


def test_the_drop_of_a_run_is_accepted_as_its_report_offers_it(tmp_path: Path) -> None:
    run = run_with(tmp_path, Offer("faithfulness", "even", 0.2), DROP, Offer("golden set", None, 0.6, "c" * 16))
    assert drop_in_run(run, "faithfulness", None) == SHOWN
    assert drop_in_run(run, "faithfulness", "even").size == 0.2
    assert drop_in_run(run, "golden set", None) == MeasuredDrop(0.6, "a" * 16, "b" * 16, "c" * 16)


@pytest.mark.parametrize(
    ("offers", "metric"),
    [
        ([], "faithfulness"),
        ([Offer("faithfulness", "even", 0.1)], "faithfulness"),
        ([Offer("context_recall", None, 0.1)], "faithfulness"),
        ([DROP], "faithfulnes"),
        ([], "system.broken"),
    ],
)
def test_why_there_is_nothing_to_accept_is_said(tmp_path: Path, offers: list[Offer], metric: str) -> None:
    with pytest.raises(ConfigError, match=f"nothing to accept for {metric} in this run") as refused:
        drop_in_run(run_with(tmp_path, *offers), metric, None)
    names = [title_of(offer.metric, offer.slice) for offer in offers]
    assert (refused.value.hint or "") == "".join(f"What can be accepted: {name}." for name in names)


def test_a_run_without_a_verdict_shows_no_drop(tmp_path: Path) -> None:
    run = write(tmp_path / "run", {"faithfulness": {"a": 0.0}})
    with pytest.raises(ConfigError, match="has no verdict"):
        drop_in_run(run.path, "faithfulness", None)


def entry(policy: Policy, root: Path, shown: MeasuredDrop | Path = SHOWN, **more: Any) -> str:
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
        ({"metric": "golden set"}, "`edit` is needed for the metric 'golden set'"),
        (
            {"shown": MeasuredDrop(0.1, "a" * 16, "b" * 16, edit="c" * 16)},
            "`edit` is needed for the metric 'golden set'",
        ),
        ({"metric": "faithfulnes"}, "unknown metric 'faithfulnes'.*Did you mean 'faithfulness'"),
        ({"shown": MeasuredDrop(7.0, "a" * 16, "b" * 16)}, "'drop'"),
    ],
)
def test_what_can_not_be_accepted_is_refused(tmp_path: Path, policy: Policy, more: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError) as refused:
        entry(policy, tmp_path, **more)
    assert all(part in str(refused.value).replace("\n", " ") for part in says.split(".*"))
    assert not (tmp_path / "accepted.toml").exists()


def test_a_metric_of_the_project_or_of_the_run_alone_can_be_accepted(tmp_path: Path, policy: Policy) -> None:
    assert "tone" in entry(policy, tmp_path, metric="tone", custom=["tone"])
    run = run_with(tmp_path, Offer("polite", None, 0.1))
    assert "polite" in entry(policy, tmp_path, run, metric="polite")


@pytest.mark.parametrize("text", ["0.1:aa", "x:aa:bb", "0.1:a:b:c:d"])
def test_a_drop_is_named_as_the_report_names_it(text: str) -> None:
    assert MeasuredDrop.parse("0.1:aa:bb:cc") == MeasuredDrop(0.1, "aa", "bb", "cc")
    with pytest.raises(ConfigError, match="is not a drop"):
        MeasuredDrop.parse(text)
