"""The one way of a gate run through a job: what it goes by is read once, and what ends it is told once."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from ragstone.cli.gate import command
from ragstone.evaluation.directory import SAMPLES, RunDirectory
from ragstone.evaluation.redact import Redactor
from ragstone.golden.load import load_golden_set
from tests.evaluation.opened import opened_for_reading
from tests.github.api.fake import FakeGitHub
from tests.github.api.test_text_channels import acting, parse_outputs
from tests.github.builders import CONFIG, Checkout, pull_request
from tests.github.runs import artifact_of

POLICY = '[gate]\ndecision = "point"\n[metrics.faithfulness]\nmin = 0.1\nmax_drop = 0.05\n'


@pytest.fixture
def checkout(checkout: Checkout) -> Checkout:
    checkout.write("thresholds.toml", POLICY)
    return checkout


@pytest.fixture
def redacted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The types of what is redacted as a whole."""
    seen: list[str] = []
    tree = Redactor.tree

    def spy(self: Redactor, value: object) -> object:
        seen.append(type(value).__name__)
        return tree(self, value)

    monkeypatch.setattr(Redactor, "tree", spy)
    return seen


def test_a_pull_request_reads_policy_and_golden_set_once_and_both_runs_for_the_verdict_and_for_the_page(
    github: FakeGitHub, checkout: Checkout, redacted: list[str]
) -> None:
    assert checkout.gate("push").code == 0
    github.add_run(1, artifact=artifact_of(checkout.root / "ragstone-run"))
    with opened_for_reading("golden.jsonl") as once:
        load_golden_set(["golden.jsonl"], root=checkout.root)
    redacted.clear()
    with opened_for_reading(SAMPLES, "golden.jsonl", "thresholds.toml") as opened:
        found = checkout.gate()
    assert found.outputs["baseline-run-id"] == "1", found.log
    counts = Counter(Path(path).name for path in opened)
    assert counts["thresholds.toml"] == 1
    assert counts["golden.jsonl"] == len(once)
    by_run = Counter(Path(path).parent.name for path in opened if path.endswith(SAMPLES))
    assert by_run == {"ragstone-run": 2, "baseline": 2}
    assert redacted == ["Document"]


def hosted(checkout: Checkout, *metrics: str, inconclusive: str = "warn") -> None:
    checkout.write("thresholds.toml", f'[gate]\ndecision = "point"\ninconclusive = "{inconclusive}"\n')
    config = CONFIG.replace('["faithfulness"]', json.dumps(metrics))
    checkout.write("ragstone.toml", f'{config}[judge]\nname = "openai:gpt-x"\n')


def test_a_run_that_was_judged_in_part_is_decided_and_written_once(checkout: Checkout, redacted: list[str]) -> None:
    hosted(checkout, "faithfulness", "exact_match")
    with opened_for_reading(SAMPLES) as opened:
        found = checkout.gate("pull_request", pull_request(fork=True))
    assert found.outputs["verdict"] == "inconclusive", found.log
    assert len(opened) == 2
    assert redacted == ["Document"]
    run = checkout.root / "ragstone-run"
    report = json.loads((run / "report.json").read_text(encoding="utf-8"))
    assert report["verdict"]["status"] == RunDirectory.open(run).manifest.verdict == "inconclusive"
    assert "For the rest, " in report["verdict"]["reason"]


def test_fail_on_never_holds_where_nothing_could_be_judged(checkout: Checkout) -> None:
    hosted(checkout, "faithfulness", inconclusive="fail")
    fork = pull_request(fork=True)
    assert checkout.gate("pull_request", fork).code == 8
    found = checkout.gate("pull_request", fork, RAGSTONE_FAIL_ON="never")
    assert (found.code, found.outputs["verdict"]) == (0, "inconclusive"), found.log


@pytest.mark.parametrize(
    ("event", "config", "says", "code"),
    [
        ("pull_request_target", "", "does not run on pull_request_target", 2),
        ("pull_request", "[judge]\nnam = 1\n", "nam", 2),
    ],
)
def test_an_error_before_the_run_is_an_annotation_and_outputs_on_the_command_line_as_in_the_action(
    checkout: Checkout,
    monkeypatch: pytest.MonkeyPatch,
    event: str,
    config: str,
    says: str,
    code: int,
) -> None:
    checkout.write("ragstone.toml", config)
    for name, value in checkout.environ("pull_request").items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("GITHUB_EVENT_NAME", event)
    monkeypatch.chdir(checkout.root)
    ended = CliRunner().invoke(command, ["--github"], standalone_mode=False)
    assert (ended.exception, ended.return_value) == (None, code), ended.output
    assert any(line.startswith("::error") and says in line for line in acting(ended.output)), ended.output
    outputs = parse_outputs((checkout.files / "output").read_text(encoding="utf-8"))
    assert outputs == {"verdict": "error", "passed": "false"}
