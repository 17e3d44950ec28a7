"""Each default, number and rule that the first path states is what the program does.

A number on these pages that no statement below contains makes a test fail: state it here, with what it is read from.
"""

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
from ragstone.github.inputs import INPUTS
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
COMMENT = "docs/reading-the-comment.md"
EXAMPLE = "thresholds.example.toml"
PAGES = (README, QUICKSTART, WORKFLOW, THRESHOLDS, COMMENT)


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
ALL_FIVE = sorted(default_policy().metrics)
BLOCKING = "With the offline judge only drops of faithfulness, context recall and answer correctness block"

STATEMENTS = [
    (README, "With Python 3.11 or newer", PYTHON, ">=3.11"),
    (README, "Five judge calls for a sample with a reference", judge_calls("So."), 5),
    (README, "four without, however many contexts", judge_calls(None), 4),
    (README, "make reports its exit code, 1", EXIT_GATE_FAILED, 1),
    (README, "the built-in judge needs no key", SETTINGS.judge.name, "offline"),
    (QUICKSTART, "You need Python 3.11 or newer", PYTHON, ">=3.11"),
    (QUICKSTART, "the default judge is built in", SETTINGS.judge.name, "offline"),
    (
        QUICKSTART,
        "a starter golden set of 20 questions",
        len(read_template("starter/golden.jsonl", "ragstone.pipeline.init").splitlines()),
        20,
    ),
    (QUICKSTART, "0 is pass, 1 is fail", (EXIT_PASS, EXIT_GATE_FAILED), (0, 1)),
    (QUICKSTART, "The run is written to `ragstone-run`", SETTINGS.run.out, "ragstone-run"),
    (WORKFLOW, "by default it blocks only on drops", sorted(OFFLINE_BLOCKS) != [], True),
    (WORKFLOW, "other than 0 and 1 are not about your answers", (EXIT_PASS, EXIT_GATE_FAILED), (0, 1)),
    (WORKFLOW, "2 is a setting", ConfigError.exit_code, 2),
    (WORKFLOW, "3 the golden set", GoldenSetError.exit_code, 3),
    (WORKFLOW, "4 a system that can't be started", SystemUnderTestError.exit_code, 4),
    (WORKFLOW, "5 the judge", JudgeError.exit_code, 5),
    (WORKFLOW, "6 a baseline that is required", BaselineError.exit_code, 6),
    (WORKFLOW, "7 GitHub's permissions", GitHubError.exit_code, 7),
    (WORKFLOW, "8 inconclusive", EXIT_INCONCLUSIVE, 8),
    (
        THRESHOLDS,
        "is what the answer says in the contexts? | 0.85 | 0.02 |",
        floor_and_drop("faithfulness"),
        (0.85, 0.02),
    ),
    (THRESHOLDS, "address the question? | | 0.02 |", floor_and_drop("answer_relevancy"), (None, 0.02)),
    (THRESHOLDS, "contain the reference answer? | 0.80 | 0.02 |", floor_and_drop("context_recall"), (0.8, 0.02)),
    (THRESHOLDS, "contexts ranked first? | 0.60 | 0.02 |", floor_and_drop("context_precision"), (0.6, 0.02)),
    (THRESHOLDS, "what the reference says? | | 0.02 |", floor_and_drop("answer_correctness"), (None, 0.02)),
    (THRESHOLDS, BLOCKING, sorted(OFFLINE_BLOCKS), ["answer_correctness", "context_recall", "faithfulness"]),
    (THRESHOLDS, "the system is asked again before the run fails", POLICY.gate.confirm, True),
    (THRESHOLDS, "By default the job passes with a warning", POLICY.gate.inconclusive, "warn"),
    (THRESHOLDS, "Of 100 pull requests that change nothing, at most 5 fail", POLICY.gate.confidence, 0.95),
    (THRESHOLDS, "your golden set shows in 4 of 5 runs", default_of("plan", "--power"), 0.8),
    (THRESHOLDS, "The metrics that you don't name keep their default rules", checked_metrics(), ALL_FIVE),
    (THRESHOLDS, "unless `only_named = true`", checked_metrics(only_named=True), ["faithfulness"]),
    (THRESHOLDS, "Leave `max_drop` at 0.02", floor_and_drop("faithfulness")[1], 0.02),
    (COMMENT, "how large a loss these questions would show | 0 |", EXIT_PASS, 0),
    (COMMENT, "0, or 8 if the policy says so", EXIT_INCONCLUSIVE, 8),
    (COMMENT, "a rule is shown to be violated, or the system is broken | 1 |", EXIT_GATE_FAILED, 1),
    (COMMENT, "2 to 7", (ConfigError.exit_code, GitHubError.exit_code), (2, 7)),
    (
        EXAMPLE,
        "faithfulness 0.85, context_recall 0.80, context_precision 0.60",
        floor_and_drop("faithfulness")[0],
        0.85,
    ),
    (EXAMPLE, "The others keep their default rules, unless `only_named` is true", checked_metrics(), ALL_FIVE),
    (EXAMPLE, "0.95: of 100 runs in which nothing got worse, at most 5 fail", POLICY.gate.confidence, 0.95),
    (EXAMPLE, "pass, warn, or fail (exit code 8)", EXIT_INCONCLUSIVE, 8),
    (EXAMPLE, "a comparable baseline: pass, warn, or fail (exit code 6)", BaselineError.exit_code, 6),
    (EXAMPLE, "has no words of the contexts; above it, exit code 5", JudgeError.exit_code, 5),
    (
        EXAMPLE,
        "block (default): a failed check fails the run",
        default_action("faithfulness"),
        "block",
    ),
]

EXAMPLES = {
    README: (
        r"4 \+ 0\.2.*?260 MB",
        r'"Turn 3 no longer carries.*?"',
        "Four metrics on 500 recorded answers",
        "100 ms per call, with 64 concurrent",
        "40 %",
        "Apache-2.0",
    ),
    THRESHOLDS: ("4 of 5 losses of 12 points would show", r"`latency_p95_s = 8\.0`", r"`max_cost_rise = 0\.25`"),
    COMMENT: (r"103 of 139 questions", r"0\.89 → 0\.80 · drop ≤ 0\.02.*?12 more", r"3 more are.*?0\.40"),
}
"""Patterns of figures that are examples, or measured by a benchmark."""


@pytest.mark.parametrize(("page", "phrase", "actual", "stated"), STATEMENTS, ids=lambda value: str(value)[:40])
def test_what_a_page_states_is_so(page: str, phrase: str, actual: object, stated: object) -> None:
    assert phrase in " ".join(text_of(page).replace("\n# ", " ").split())
    assert actual == stated


@pytest.mark.parametrize("page", PAGES)
def test_every_number_of_a_page_is_in_a_statement_or_is_an_example(page: str) -> None:
    text = re.sub(r"^```.*?^```$", "", text_of(page), flags=re.MULTILINE | re.DOTALL)
    text = re.sub(
        r"\]\([^)]*\)|https?://\S+|`[^`]*\.\d[^`]*`|127\.0\.0\.1|^\d\. |^\| \d\. |\d\.\d\.\d+", " ", text, flags=re.M
    )
    text = " ".join(text.split())
    for of_page, phrase, _, _ in STATEMENTS:
        if of_page == page:
            text = text.replace(re.sub(r"\]\([^)]*\)", " ", phrase), " ")
    for pattern in EXAMPLES.get(page, ()):
        text = re.sub(pattern, " ", text)
    assert re.findall(r".{0,40}\b\d[\d.,%]*.{0,30}", text) == []


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


def test_every_key_that_your_thresholds_names_is_one() -> None:
    for key in ('must_pass = ["emergency-number"]', "[system]\nmax_cost_rise = 0.25\nlatency_p95_s = 8.0"):
        PolicyTable.model_validate(tomllib.loads(key))
    for key in ('decision = "assured"', 'decision = "point"', 'on_no_baseline = "fail"', 'inconclusive = "fail"'):
        assert key in text_of(THRESHOLDS)
        PolicyTable.model_validate({"gate": tomllib.loads(key)})
    assert "fail-on" in {spec.name for spec in INPUTS}


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
