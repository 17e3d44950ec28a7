"""What whole jobs take from start to comment: `ragstone gate --github`, and a fake GitHub on loopback.

    python bench/job.py
    python bench/job.py --samples 10000 --changed 100 --rounds 1
    python bench/job.py --command "podman run --rm --network=host -v {workspace}:{workspace} IMAGE gate --github"

The answers are recorded, and the offline judge judges them. First a job on the main branch, whose run is the baseline,
then `--rounds` jobs of a pull request that changes some answers. GitHub is the fake that the tests use. CPU is that of
the process and its children. Prints a table.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engine import write_world
from processes import RAGSTONE, Finished, run_gate
from scale import HEADLINE, write_policy

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.github.api.fake import BASE_SHA, TOKEN, FakeGitHub
from tests.github.api.openapi import Contract, load_contract
from tests.github.api.payloads import payload_of, runner, with_payload
from tests.github.runs import artifact_of

CONFIG = f"""
[golden]
paths = ["golden.jsonl"]

[system]
entrypoint = "file:out.jsonl"

[run]
metrics = {json.dumps(HEADLINE)}
"""


class Unchecked(Contract):
    """GitHub's examples, without checking messages, which would take the job's time."""

    def problems_of_request(self, *_: Any) -> list[str]:
        return []

    def problems_of_reply(self, *_: Any) -> list[str]:
        return []


def change_answers(root: Path, count: int) -> None:
    """Replace the first `count` answers by other sentences of their contexts."""
    rows = [json.loads(line) for line in (root / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    for row in rows[:count]:
        row["answer"] = ". ".join(row["contexts"][1].split(". ")[:5])
    (root / "out.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def run_job(github: FakeGitHub, root: Path, command: str, event: str, run_id: int) -> Finished:
    """One job of `event` in the checkout `root`. Ends the program if it has no verdict."""
    shutil.rmtree(root / "ragstone-run", ignore_errors=True)
    github.add_run(run_id, event="pull_request", branch="topic", status="in_progress")
    files = root.parent / f"runner-{run_id}"
    files.mkdir()
    for name in ("output", "summary"):
        (files / name).touch()
    environ = runner(
        event,
        GITHUB_API_URL=github.api_url,
        GITHUB_WORKSPACE=str(root),
        GITHUB_OUTPUT=str(files / "output"),
        GITHUB_STEP_SUMMARY=str(files / "summary"),
        GITHUB_RUN_ID=str(run_id),
        GITHUB_TOKEN=TOKEN,
        PATH=os.environ["PATH"],
    )
    return run_gate(shlex.split(command.format(workspace=root)), root, with_payload(environ, payload_of(event), files))


def jobs(folder: Path, samples: int, changed: int, rounds: int, command: str) -> Iterator[tuple[str, Finished]]:
    """A job on the main branch, and `rounds` jobs of a pull request that changes `changed` answers."""
    root = folder / "workspace"
    root.mkdir()
    write_world(root, samples)
    write_policy(root, HEADLINE)
    (root / "ragstone.toml").write_text(CONFIG, encoding="utf-8")
    with FakeGitHub(Unchecked(load_contract().document)) as github:
        github.files[BASE_SHA] = {path.name: path.read_bytes() for path in root.iterdir()}
        yield "main", run_job(github, root, command, "push", 900)
        github.runs.clear()
        github.add_run(900, event="push", sha="b" * 40)
        github.add_artifact(900, artifact_of(root / "ragstone-run"))
        change_answers(root, changed)
        for number in range(1, rounds + 1):
            yield "pull request", run_job(github, root, command, "pull_request", 900 + number)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--changed", type=int, default=100, help="answers that the pull request changes")
    parser.add_argument("--rounds", type=int, default=3, help="jobs of the pull request")
    parser.add_argument(
        "--command", default=shlex.join([*RAGSTONE, "gate", "--github"]), help="a job; {workspace} is the checkout"
    )
    options = parser.parse_args()
    print("| job | wall | CPU | peak memory |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="job-") as folder:
        for name, job in jobs(Path(folder), options.samples, options.changed, options.rounds, options.command):
            print(f"| {name} | {job.wall_s:.2f} s | {job.cpu_s:.2f} s | {job.peak_mib:.0f} MiB |", flush=True)


if __name__ == "__main__":
    main()
