"""Forty real changes to two systems, gated as a user would: the harmless must not be blocked, the harmful must be.

    python bench/real_changes.py                          # all of it: two systems, forty changes each
    python bench/real_changes.py --only "top_k" --systems gardens
    python bench/real_changes.py --comments FOLDER        # keep what `ragstone gate` says of each, to read it

The systems and changes are in real_systems/. Before the change, each system is evaluated by `ragstone run`, the policy
is written by `ragstone init`, with floors that this run clears, and `ragstone gate` makes the baseline; then comes the
`ragstone gate` after the change. All run in processes of their own, in a folder like a user's, with the offline judge.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from processes import RAGSTONE, gate, run
from real_systems.changes import CHANGES, HARMFUL, HARMLESS, Change
from real_systems.corpus import read_corpus

from ragstone.gate.policy_table import POLICY_FILE

SYSTEMS = {"gardens": True, "coffee": False}
"""Whether the golden set of each names the ids of relevant passages, beside references."""
RAG = """import sys

sys.path.insert(0, {bench!r})
from processes import RAGSTONE, gate, run
from real_systems.changes import system_after

answer = system_after({system!r}, {change!r})
"""
ENTRYPOINT = "python:rag:answer"
BASELINE = "main"
WRITTEN_BY_INIT = ("ragstone.toml", POLICY_FILE)
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
    def names_the_half(self) -> bool:
        return self.half == self.change.half

    def row(self) -> str:
        half = f"{self.half}{'' if self.names_the_half else ' (wrong)'}" if self.change.half else ""
        return f"| {self.system} | {self.change.name} | {self.status} | {half} | {self.headline} |"


def prepare(folder: Path, system: str, change: str) -> None:
    """A user's folder, with the system after `change`."""
    folder.mkdir(parents=True)
    rows = [question.row(with_ids=SYSTEMS[system]) for question in read_corpus(system).questions]
    (folder / "golden.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    bench = str(Path(__file__).resolve().parent)
    (folder / "rag.py").write_text(RAG.format(bench=bench, system=system, change=change), encoding="utf-8")


def evaluate_baseline(folder: Path, system: str) -> None:
    prepare(folder, system, "refactoring")
    for arguments in (
        ("run", "--golden", "golden.jsonl", "--entrypoint", ENTRYPOINT),
        ("init", "--entrypoint", ENTRYPOINT),
        ("gate", "--out", BASELINE),
    ):
        finished = run([*RAGSTONE, *arguments], folder)
        if finished.exit_code != 0:
            raise SystemExit(f"{system}: {arguments[0]} ended with {finished.exit_code}:\n{finished.output}")


def outcome_of(work: Path, system: str, change: Change) -> Outcome:
    """What the gate says of the system after `change`."""
    folder, before = work / system / change.name.replace(" ", "-"), work / system / "before"
    prepare(folder, system, change.name)
    for name in WRITTEN_BY_INIT:
        (folder / name).write_bytes((before / name).read_bytes())
    report, comment = gate(folder, "--baseline", str(before / BASELINE))
    attribution = report["explanation"]["attribution"]
    half = "" if attribution is None else str(attribution["side"])
    return Outcome(system, change, str(report["verdict"]["status"]), first_line(comment), half, comment)


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
    parser.add_argument("--systems", nargs="*", default=list(SYSTEMS))
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
