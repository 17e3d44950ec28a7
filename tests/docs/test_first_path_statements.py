"""The defaults, numbers and rules that the first path states are what the program does."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import click
import pytest

from ragstone.cli.main import cli
from ragstone.errors import (
    EXIT_GATE_FAILED,
    EXIT_INCONCLUSIVE,
    EXIT_PASS,
    BaselineError,
    ConfigError,
    GitHubError,
    GoldenSetError,
    JudgeError,
    SystemUnderTestError,
)
from ragstone.gate.policy import default_policy, policy_from_mapping
from ragstone.gate.policy_table import OFFLINE_BLOCKS, PolicyTable
from ragstone.gate.verdict import CheckKind
from ragstone.golden.sample import Sample
from ragstone.metrics.registry import select_metrics
from ragstone.pipeline.init.entrypoints import Proposal
from ragstone.pipeline.init.survey import survey
from ragstone.pipeline.init.write import write_starter
from ragstone.report.templates import read_template
from ragstone.settings.settings import Settings

ROOT = Path(__file__).parents[2]
README = "README.md"
QUICKSTART = "docs/quickstart.md"
WORKFLOW = "docs/workflow.md"
THRESHOLDS = "docs/your-thresholds.md"
EXAMPLE = "thresholds.example.toml"


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def judge_calls(reference: str | None) -> int:
    """The kinds of judge calls that one sample needs for the default metrics."""
    sample = Sample("a", "Why?", reference=reference)
    return len({kind for metric in select_metrics() for kind in metric.needs(sample)})


def checked_metrics(**gate: object) -> list[str]:
    """The metrics that a policy checks which names faithfulness alone."""
    return sorted(policy_from_mapping({"gate": gate, "metrics": {"faithfulness": {"min": 0.5}}}).metrics)


def floor_and_drop(metric: str) -> tuple[float | None, float | None]:
    rule = default_policy().metrics[metric]
    return rule.min, rule.max_drop


def default_action(metric: str) -> str:
    """What a failed floor does that a policy names without an action."""
    policy = policy_from_mapping({"metrics": {metric: {"min": 0.5}}})
    return str(policy.action_for(metric, CheckKind.FLOOR, offline_judge=True))


def default_of(command: str, flag: str) -> object:
    """The default of an option of a command, as its help says."""
    found = cli.get_command(click.Context(cli), command)
    assert found is not None
    [parameter] = [parameter for parameter in found.params if flag in parameter.opts]
    return parameter.default


PYTHON = tomllib.loads(text_of("pyproject.toml"))["project"]["requires-python"]
SETTINGS, POLICY = Settings(), PolicyTable()
STARTER_QUESTIONS = len(read_template("starter/golden.jsonl", "ragstone.pipeline.init").splitlines())
ALL_FIVE = sorted(default_policy().metrics)
BLOCKING = "With the offline judge only drops of faithfulness, context recall and answer correctness block"

STATEMENTS = [
    (README, "With Python 3.11 or newer", PYTHON, ">=3.11"),
    (README, "Five judge calls for a sample with a reference", judge_calls("So."), 5),
    (README, "four without, however many contexts", judge_calls(None), 4),
    (README, "make reports its exit code, 1", EXIT_GATE_FAILED, 1),
    (README, "the built-in judge needs no key", SETTINGS.judge.name, "offline"),
    (QUICKSTART, "a starter golden set of 20 questions", STARTER_QUESTIONS, 20),
    (QUICKSTART, "0 is pass, 1 is fail", (EXIT_PASS, EXIT_GATE_FAILED), (0, 1)),
    (QUICKSTART, "The run is written to `ragstone-run`", SETTINGS.run.out, "ragstone-run"),
    (WORKFLOW, "2 is a setting", ConfigError.exit_code, 2),
    (WORKFLOW, "3 the golden set", GoldenSetError.exit_code, 3),
    (WORKFLOW, "4 a system that can't be started", SystemUnderTestError.exit_code, 4),
    (WORKFLOW, "5 the judge", JudgeError.exit_code, 5),
    (WORKFLOW, "6 a baseline that is required", BaselineError.exit_code, 6),
    (WORKFLOW, "7 GitHub's permissions", GitHubError.exit_code, 7),
    (WORKFLOW, "8 inconclusive", EXIT_INCONCLUSIVE, 8),
    (THRESHOLDS, BLOCKING, sorted(OFFLINE_BLOCKS), ["answer_correctness", "context_recall", "faithfulness"]),
    (THRESHOLDS, "The system is asked again before the run fails", POLICY.gate.confirm, True),
    (THRESHOLDS, "By default the job passes with a warning", POLICY.gate.inconclusive, "warn"),
    (THRESHOLDS, "Of 100 pull requests that change nothing, at most 5 fail", POLICY.gate.confidence, 0.95),
    (THRESHOLDS, "your golden set shows in 4 of 5 runs", default_of("plan", "--power"), 0.8),
    (THRESHOLDS, "The metrics that you don't name keep their default rules", checked_metrics(), ALL_FIVE),
    (THRESHOLDS, "unless `only_named = true`", checked_metrics(only_named=True), ["faithfulness"]),
    (THRESHOLDS, "Leave `max_drop` at 0.02", floor_and_drop("faithfulness")[1], 0.02),
    (EXAMPLE, "has no words of the contexts; above it, exit code 5", JudgeError.exit_code, 5),
    (EXAMPLE, "block (default): a failed check fails the run", default_action("faithfulness"), "block"),
]
"""A page, what it states, what the program does, and what the statement says that it does."""


@pytest.mark.parametrize(("page", "phrase", "actual", "stated"), STATEMENTS, ids=lambda value: str(value)[:40])
def test_what_a_page_states_is_so(page: str, phrase: str, actual: object, stated: object) -> None:
    assert phrase in " ".join(text_of(page).replace("\n# ", " ").split())
    assert actual == stated


def test_init_writes_what_the_quickstart_says(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    proposal = Proposal("python:rag:answer", "it was named")
    first = write_starter(tmp_path, proposal, survey(tmp_path))
    rows = re.findall(r"^\| `([^`]+)` \|", text_of(QUICKSTART), re.MULTILINE)
    assert "This writes four files, overwrites nothing" in text_of(QUICKSTART)
    assert (sorted(first.written), len(rows)) == (sorted(rows), 4)
    assert "it also adds `ragstone-run/` to `.gitignore`" in text_of(QUICKSTART)
    assert (tmp_path / ".gitignore").read_text(encoding="utf-8") == "ragstone-run/\n"
    assert write_starter(tmp_path, proposal, survey(tmp_path)).written == []
    assert "The `thresholds.toml` that `init` wrote names no metric" in text_of(THRESHOLDS)
    assert "metrics" not in tomllib.loads((tmp_path / "thresholds.toml").read_text(encoding="utf-8"))


def test_the_example_has_the_default_rules_and_no_default_for_what_is_commented_out() -> None:
    text = text_of(EXAMPLE)
    rules = tomllib.loads(text)["metrics"]
    for metric, rule in rules.items():
        assert (rule.get("min"), rule["max_drop"]) == floor_and_drop(metric)
    table = ""
    for line in text.splitlines():
        if header := re.match(r"\[([\w.]+)\]", line):
            table = header[1]
        key = re.match(r"#~ (\w+) =", line)
        if key is not None and table in ("gate", "drift", "system", "labels"):
            assert getattr(getattr(POLICY, table), key[1]) is None, line
