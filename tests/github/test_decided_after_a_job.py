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


def test_a_run_passes_whose_files_were_those_of_the_commit_as_github_has_it(checkout: Checkout) -> None:
    checkout.write("thresholds.toml", POLICY)
    golden = checkout.root / "golden.jsonl"
    runs = []
    for prepare in (
        lambda: checkout.is_commit(MERGE_SHA),
        lambda: golden.write_text(golden.read_text(encoding="utf-8") + "\n", encoding="utf-8"),  # by an earlier step
        checkout.github.files.clear,  # GitHub does not know the commit
    ):
        prepare()
        assert checkout.gate("push").code == 0
        runs.append(decided(checkout, MERGE_SHA))
    (same, same_text), (edited, edited_text), (unknown, unknown_text) = runs
    assert (unknown, "not known whether files differed" in unknown_text) == (2, True), unknown_text
    assert (same, same_text.startswith("Decided again: pass.")) == (0, True), same_text
    assert (edited, "1 file differed from the commit" in edited_text) == (2, True), edited_text
    assert decided(checkout, "f" * 40)[0] == 2
