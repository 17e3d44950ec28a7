"""A run that a job on GitHub made is decided again, as before a deployment."""

from __future__ import annotations

from tests.cli.project import ragstone
from tests.github.api.payloads import MERGE_SHA
from tests.github.builders import Checkout

POLICY = """
[gate]
on_no_baseline = "pass"
[metrics.faithfulness]
min = 0.5
"""


def decided(checkout: Checkout, commit: str) -> tuple[int, str]:
    config = ["--policy", "thresholds.toml", "--golden", "golden.jsonl", "--commit", commit]
    done = ragstone(
        ["report", "ragstone-run", "--decide", *config], checkout.root, env={"RAGSTONE_METRICS": "faithfulness"}
    )
    return done.returncode, done.stdout + done.stderr


def test_a_run_of_the_commit_passes_and_one_with_a_file_that_a_step_edited_does_not(
    checkout: Checkout,
) -> None:
    checkout.write("thresholds.toml", POLICY)
    checkout.is_commit(MERGE_SHA)
    assert checkout.gate("push").code == 0
    code, said = decided(checkout, MERGE_SHA)
    assert (code, said.startswith("Decided again: pass.")) == (0, True), said
    assert decided(checkout, "f" * 40)[0] == 2

    golden = checkout.root / "golden.jsonl"
    golden.write_text(golden.read_text(encoding="utf-8") + "\n", encoding="utf-8")  # by a step before the gate
    assert checkout.gate("push").code == 0
    code, said = decided(checkout, MERGE_SHA)
    assert (code, "1 file differed from the commit" in said) == (2, True), said


def test_where_github_does_not_say_what_a_commit_has_the_run_is_refused(checkout: Checkout) -> None:
    checkout.write("thresholds.toml", POLICY)
    assert checkout.gate("push").code == 0
    code, said = decided(checkout, MERGE_SHA)
    assert (code, "not known whether files differed" in said) == (2, True), said
