"""Forty real changes to two systems, gated as a user would: the harmless must not be blocked, the harmful must be.

    python bench/real_changes.py                          # all of it: two systems, forty changes each
    python bench/real_changes.py --only "top_k" --systems gardens
    python bench/real_changes.py --comments FOLDER        # keep what `ragstone gate` says of each, to read it

The systems and the changes are in real_systems/. Each system is evaluated before the change; that run is the baseline
of the `ragstone gate` after it, with the policy that `ragstone init` writes and the offline judge. The commands run in
processes of their own, in a folder with a golden set and an entrypoint like a user's.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from real_systems.changes import CHANGES, HARMFUL, HARMLESS, Change
from real_systems.corpus import read_corpus

from ragstone.gate.policy_table import POLICY_FILE

SYSTEMS = ("gardens", "coffee")
STARTER = files("ragstone.pipeline").joinpath("starter", POLICY_FILE)
RAG = """import sys

sys.path.insert(0, {bench!r})
from real_systems.changes import system_after

answer = system_after({system!r}, {change!r})
"""
CONFIGS = {
    "gardens": '[run]\nmetrics = ["faithfulness", "answer_relevancy", "context_recall", "context_precision", '
    '"answer_correctness", "mrr", "recall@5"]\n',
    "coffee": "",
}
"""One system is measured by the ids of its passages too; the other by the headline metrics."""
ENTRYPOINT = "python:rag:answer"
BASELINE = "main"
PASSED, YELLOW, BLOCKED = "pass", "inconclusive", "fail"


@dataclass(frozen=True)
class Outcome:
    system: str
    change: Change
    status: str
    headline: str
    half: str
    comment: str

    @property
    def is_right(self) -> bool:
        if self.change.half is None:
            return self.status == PASSED
        return self.status == BLOCKED

    @property
    def names_the_half(self) -> bool:
        return self.half == self.change.half

    def row(self) -> str:
        half = f"{self.half}{'' if self.names_the_half else ' (wrong)'}" if self.change.half else ""
        return f"| {self.system} | {self.change.name} | {self.status} | {half} | {self.headline} |"


def prepare(folder: Path, system: str, change: str) -> None:
    """A user's folder, with the system after `change`."""
    folder.mkdir(parents=True)
    questions = read_corpus(system).questions
    lines = [json.dumps(question.row()) for question in questions]
    (folder / "golden.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / POLICY_FILE).write_text(STARTER.read_text(encoding="utf-8"), encoding="utf-8")
    (folder / "ragstone.toml").write_text(CONFIGS[system], encoding="utf-8")
    bench = str(Path(__file__).resolve().parent)
    (folder / "rag.py").write_text(RAG.format(bench=bench, system=system, change=change), encoding="utf-8")


def gate(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ragstone", "gate", "--golden", "golden.jsonl", "--entrypoint", ENTRYPOINT]
    return subprocess.run([*command, *arguments], cwd=folder, capture_output=True, text=True, check=False)


def evaluate_baseline(folder: Path, system: str) -> None:
    prepare(folder, system, "refactoring")
    completed = gate(folder, "--out", BASELINE)
    if completed.returncode != 0:
        raise SystemExit(f"The first run of {system} ended with {completed.returncode}:\n{completed.stdout}")


def outcome_of(work: Path, system: str, change: Change) -> Outcome:
    """What the gate says of the system after `change`."""
    folder = work / system / change.name.replace(" ", "-")
    prepare(folder, system, change.name)
    completed = gate(folder, "--baseline", str(work / system / "before" / BASELINE))
    run = folder / "ragstone-run"
    if not (run / "report.json").is_file():
        raise SystemExit(f"{system}, {change.name}: exit {completed.returncode}\n{completed.stdout}{completed.stderr}")
    report = json.loads((run / "report.json").read_text(encoding="utf-8"))
    comment = (run / "report.md").read_text(encoding="utf-8")
    attribution = report["attribution"]
    half = "" if attribution is None else str(attribution["side"])
    return Outcome(system, change, str(report["status"]), first_line(comment), half, comment)


def first_line(comment: str) -> str:
    lines = [line for line in comment.splitlines() if line.strip() and not line.startswith("<!--")]
    return lines[0].strip("#* ").replace("|", "\\|")


def measure(work: Path, systems: Sequence[str], changes: Sequence[Change]) -> Iterator[Outcome]:
    for system in systems:
        evaluate_baseline(work / system / "before", system)
        with ThreadPoolExecutor(2) as pool:
            yield from pool.map(lambda change: outcome_of(work, system, change), changes)  # noqa: B023 - used at once


def summary(outcomes: Sequence[Outcome]) -> str:
    harmless = [outcome for outcome in outcomes if outcome.change in HARMLESS]
    harmful = [outcome for outcome in outcomes if outcome.change in HARMFUL]
    blocked = sum(outcome.status not in (PASSED, YELLOW) for outcome in harmless)
    yellow = sum(outcome.status == YELLOW for outcome in harmless)
    stopped = sum(outcome.status == BLOCKED for outcome in harmful)
    halves = sum(outcome.names_the_half for outcome in harmful)
    return (
        f"Harmless: {len(harmless)}, of them {blocked} blocked and {yellow} yellow. "
        f"Harmful: {len(harmful)}, of them {stopped} blocked, and the half is right in {halves}."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", nargs="*", default=SYSTEMS)
    parser.add_argument("--only", nargs="*", default=[""], help="changes with any of these in their names")
    parser.add_argument("--comments", type=Path, help="a folder for the comments")
    options = parser.parse_args()
    changes = [change for change in CHANGES.values() if any(part in change.name for part in options.only)]
    outcomes = []
    print("| system | change | verdict | half | line one |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as work:
        for outcome in measure(Path(work), options.systems, changes):
            outcomes.append(outcome)
            print(outcome.row(), flush=True)
            if options.comments is not None:
                options.comments.mkdir(parents=True, exist_ok=True)
                name = f"{outcome.system}-{outcome.change.name.replace(' ', '-')}.md"
                (options.comments / name).write_text(outcome.comment, encoding="utf-8")
    print(f"\n{summary(outcomes)}")


if __name__ == "__main__":
    main()
