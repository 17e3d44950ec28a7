"""The one way of a gate run through a job: what it goes by is read once, and what ends it is told once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from ragstone.cli.gate import command
from ragstone.evaluation.directory import SAMPLES, RunDirectory
from ragstone.evaluation.redact import Redactor
from ragstone.golden.load import load_golden_set
from tests.evaluation.opened import opened_for_reading
from tests.github.api.test_text_channels import acting, parse_outputs
from tests.github.builders import CONFIG, Checkout, pull_request

POLICY = "[gate]\nconfirm = false\n[metrics.faithfulness]\nmin = 0.1\nmax_drop = 0.05\n"


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
    checkout: Checkout, redacted: list[str]
) -> None:
    assert checkout.gate("push").code == 0
    checkout.uploaded()
    with opened_for_reading("golden.jsonl") as once:
        load_golden_set(["golden.jsonl"], root=checkout.root)
    redacted.clear()
    with opened_for_reading(SAMPLES, "golden.jsonl", "thresholds.toml") as opened:
        found = checkout.gate()
    assert found.baseline == "1", found.log
    counts = Counter(Path(path).name for path in opened)
    assert counts["thresholds.toml"] == 1
    assert counts["golden.jsonl"] == len(once)
    by_run = Counter(Path(path).parent.name for path in opened if path.endswith(SAMPLES))
    assert by_run == {"ragstone-run": 2, "1": 2}  # the baseline, from the first artifact
    assert redacted == ["Document"]


def test_a_run_that_was_judged_in_part_is_decided_and_written_once(checkout: Checkout, redacted: list[str]) -> None:
    checkout.write("thresholds.toml", '[gate]\nconfirm = false\ninconclusive = "warn"\n')
    config = CONFIG.replace('["faithfulness"]', '["faithfulness", "exact_match"]')
    checkout.write("ragstone.toml", f'{config}[judge]\nname = "openai:gpt-x"\n')
    with opened_for_reading(SAMPLES) as opened:
        found = checkout.gate("pull_request", pull_request(fork=True))
    assert (found.code, found.verdict) == (0, "inconclusive"), found.log  # what was not judged has not passed
    assert (found.outputs["exact-match"], found.outputs["faithfulness"]) == ("1", "")
    assert "Not judged: no key on pull requests from forks" in found.summary
    assert len(opened) == 2
    assert redacted == ["Document"]
    report = checkout.read("report.json")
    assert report["verdict"]["status"] == RunDirectory.open(checkout.out).manifest.verdict == "inconclusive"
    assert "For the rest, " in report["verdict"]["reason"]


@pytest.mark.parametrize(
    ("event", "config", "says"),
    [("pull_request_target", "", "does not run on pull_request_target"), ("pull_request", "[judge]\nnam = 1\n", "nam")],
)
def test_an_error_before_the_run_is_an_annotation_and_outputs_on_the_command_line_as_in_the_action(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch, event: str, config: str, says: str
) -> None:
    checkout.write("ragstone.toml", config)
    for name, value in checkout.environ("pull_request").items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("GITHUB_EVENT_NAME", event)
    monkeypatch.chdir(checkout.root)
    ended = CliRunner().invoke(command, ["--github"], standalone_mode=False)
    assert (ended.exception, ended.return_value) == (None, 2), ended.output
    assert any(line.startswith("::error") and says in line for line in acting(ended.output)), ended.output
    outputs = parse_outputs((checkout.files / "output").read_text(encoding="utf-8"))
    assert outputs == {"verdict": "error", "passed": "false"}
