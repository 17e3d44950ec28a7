"""The time of one pull-request job from start to comment: `ragstone gate --github`, and a fake GitHub on loopback.

    python bench/job.py
    python bench/job.py --samples 10000 --changed 100 --rounds 1
    python bench/job.py --command "podman run --rm --network=host -v {workspace}:{workspace} IMAGE gate --github"

The answers are recorded (5 contexts of 120 words, 60 of answer, 40 of reference; words as frequent as in docs/), and
the offline judge judges them. First a job on the main branch, whose run is the baseline, then `--rounds` jobs of a pull
request that changes some answers. GitHub is the fake that the tests use. The phases are found from outside:

| phase | until |
|---|---|
| start | its first request to GitHub |
| reads | it looks for earlier runs |
| baseline | "Evaluating" in the log: baseline found, downloaded and verified; judge and system started |
| evaluation | the last sample is done |
| decision | the first report is begun |
| reports | the last report is written |
| comment | GitHub has the comment |
| end | the process has ended |

CPU is that of the process and its children, sampled every 10 ms. Linux only. Prints a line of JSON for each job, and a
table in Markdown.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from scale import HEADLINE

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.github.api.fake import BASE_SHA, TOKEN, FakeGitHub, Reply, Seen  # noqa: E402
from tests.github.api.openapi import Contract, load_contract  # noqa: E402
from tests.github.api.payloads import payload_of, runner, with_payload  # noqa: E402
from tests.github.runs import artifact_of  # noqa: E402

_TICKS = os.sysconf("SC_CLK_TCK")
PHASES = ("start", "reads", "baseline", "evaluation", "decision", "reports", "comment", "end")
_CONFIG = f"""
[golden]
paths = ["golden.jsonl"]

[system]
entrypoint = "file:outputs.jsonl"

[run]
metrics = {json.dumps(HEADLINE)}
"""
_REPORTS = ("page.txt", "verdict.json", "report.html", "report.md", "report.json", "junit.xml")
_COMMAND = f"{shlex.quote(sys.executable)} -m ragstone gate --github"
_EVERY_S = 0.01


@dataclass(frozen=True)
class Phase:
    """One phase of a job: wall time and CPU time of all its processes, in seconds."""

    name: str
    wall_s: float
    cpu_s: float


class _Unchecked(Contract):
    """GitHub's examples, without checking messages, which would take the job's time."""

    def problems_of_request(self, *_: Any) -> list[str]:
        return []

    def problems_of_reply(self, *_: Any) -> list[str]:
        return []


class TimedGitHub(FakeGitHub):
    """The fake, which notes when each request came, and when it was answered."""

    def __init__(self) -> None:
        super().__init__(_Unchecked(load_contract().document))
        self.times: list[tuple[str, str, float, float]] = []

    def __enter__(self) -> TimedGitHub:
        super().__enter__()
        return self

    def _answer(self, seen: Seen) -> Reply:
        came = time.time()
        reply = super()._answer(seen)
        self.times.append((seen.method, seen.path, came, time.time()))
        return reply


def tree_of(pid: int) -> Iterator[int]:
    """A process and its descendants."""
    wanted = [pid]
    while wanted:
        pid = wanted.pop()
        yield pid
        for task in _listed(Path(f"/proc/{pid}/task")):
            wanted += [int(child) for child in _text(task / "children").split()]


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:  # the process has ended
        return ""


def cpu_s(pid: int) -> float:
    """The CPU time of a process, and of its children that have ended."""
    numbers = _text(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return sum(map(int, numbers[11:15])) / _TICKS


class _CpuWatch:
    """The CPU time of a process and its children, as it grows."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._found: list[tuple[float, float]] = [(0.0, 0.0)]

    def __enter__(self) -> _CpuWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(_EVERY_S):
            spent = sum(cpu_s(pid) for pid in tree_of(self._pid))
            self._found.append((time.time(), max(spent, self._found[-1][1])))

    def at(self, when: float) -> float:
        return max(spent for moment, spent in self._found if moment <= when)


def write_checkout(root: Path, samples: int) -> None:
    """A repository with a golden set, a policy and recorded answers."""
    words = re.findall(r"[a-z]{2,}", " ".join(path.read_text("utf-8") for path in sorted((ROOT / "docs").glob("*.md"))))
    chance = random.Random(7)

    def text(count: int) -> str:
        sentences = [" ".join(chance.choices(words, k=12)).capitalize() + "." for _ in range(max(1, count // 12))]
        return " ".join(sentences)

    with (root / "golden.jsonl").open("w") as golden, (root / "outputs.jsonl").open("w") as outputs:
        for number in range(samples):
            contexts = [text(120) for _ in range(5)]
            question = f"What about {text(12)[:-1]} {number}?"
            reference = contexts[0].split(".")[0] + ". " + text(24)
            golden.write(json.dumps({"id": f"q{number}", "question": question, "reference": reference}) + "\n")
            answer = ". ".join(contexts[0].split(". ")[:4]) + ". " + text(12)
            outputs.write(json.dumps({"id": f"q{number}", "answer": answer, "contexts": contexts}) + "\n")
    policy = "[gate]\nonly_named = true\n" + "".join(
        f"[metrics.{name}]\nmin = 0.01\nmax_drop = 0.05\n" for name in HEADLINE
    )
    (root / "thresholds.toml").write_text(policy, encoding="utf-8")
    (root / "ragstone.toml").write_text(_CONFIG, encoding="utf-8")


def change_answers(root: Path, count: int) -> None:
    """Replace the first `count` answers by other sentences of their contexts."""
    lines = (root / "outputs.jsonl").read_text(encoding="utf-8").splitlines()
    for at in range(min(count, len(lines))):
        record = json.loads(lines[at])
        lines[at] = json.dumps({**record, "answer": ". ".join(record["contexts"][1].split(". ")[:5])})
    (root / "outputs.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def run_job(github: TimedGitHub, root: Path, command: str, event: str, run_id: int) -> list[Phase]:
    """The phases of one job of `event` in the checkout `root`. Raises SystemExit if it ends without a verdict."""
    shutil.rmtree(root / "ragstone-run", ignore_errors=True)
    github.add_run(run_id, event="pull_request", branch="topic", status="in_progress")
    github.times.clear()
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
        PYTHONUNBUFFERED="1",
    )
    environ = with_payload(environ, payload_of(event), files)
    began = time.time()
    process = subprocess.Popen(
        shlex.split(command.format(workspace=root)),
        cwd=root,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    log: list[tuple[float, str]] = []
    with process, _CpuWatch(process.pid) as cpu:
        for line in process.stdout or ():
            log.append((time.time(), line))
        process.wait()
    ended = time.time()
    if process.returncode not in (0, 1):
        raise SystemExit("".join(line for _, line in log))
    marks = [began, *_marks(github, log, root / "ragstone-run", event), ended]
    return [
        Phase(name, round(until - since, 3), round(cpu.at(until) - cpu.at(since), 2))
        for name, (since, until) in zip(PHASES, pairwise(marks), strict=True)
    ]


def _marks(github: TimedGitHub, log: Sequence[tuple[float, str]], run: Path, event: str) -> Iterator[float]:
    """The ends of all phases but the last."""
    yield github.times[0][2]
    yield next(came for method, path, came, _ in github.times if method == "GET" and path.endswith("/runs"))
    yield next(when for when, line in log if line.startswith("Evaluating"))
    yield next(when for when, line in log if " done (" in line and line.split()[0] == line.split()[2])
    reports = [path for name in _REPORTS if (path := run / name).is_file()]
    yield min(map(_birth, reports))
    written = max(path.stat().st_mtime for path in reports)
    yield written
    written_comments = [
        sent for method, path, _, sent in github.times if method in ("POST", "PATCH") and "comments" in path
    ]
    yield max(written_comments) if event == "pull_request" else written


def _birth(path: Path) -> float:
    return float(subprocess.run(["stat", "-c", "%.9W", path], capture_output=True, text=True, check=True).stdout)


def jobs(folder: Path, samples: int, changed: int, rounds: int, command: str = _COMMAND) -> Iterator[list[Phase]]:
    """A job on the main branch, and `rounds` jobs of a pull request that changes `changed` answers."""
    root = folder / "workspace"
    root.mkdir()
    write_checkout(root, samples)
    with TimedGitHub() as github:
        names = ("golden.jsonl", "thresholds.toml", "ragstone.toml", "outputs.jsonl")
        github.files[BASE_SHA] = {name: (root / name).read_bytes() for name in names}
        yield run_job(github, root, command, "push", 900)
        github.runs.clear()
        github.add_run(900, event="push", sha="b" * 40)
        github.add_artifact(900, artifact_of(root / "ragstone-run"))
        change_answers(root, changed)
        for number in range(1, rounds + 1):
            yield run_job(github, root, command, "pull_request", 900 + number)


def table(found: Sequence[Sequence[Phase]]) -> str:
    """The phases of the jobs as a table in Markdown, with what is not evaluation."""
    lines = ["| job | " + " | ".join(PHASES) + " | all but evaluation |", "|---|" + "---|" * (len(PHASES) + 1)]
    for number, phases in enumerate(found):
        name = "pull request" if number else "main"
        cells = [f"{one.wall_s:.2f} s ({one.cpu_s:.2f})" for one in phases]
        rest = [one for one in phases if one.name != "evaluation"]
        cells.append(f"{sum(one.wall_s for one in rest):.2f} s ({sum(one.cpu_s for one in rest):.2f})")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--changed", type=int, default=100, help="answers that the pull request changes")
    parser.add_argument("--rounds", type=int, default=3, help="jobs of the pull request")
    parser.add_argument("--command", default=_COMMAND, help="what a job runs; {workspace} is the checkout")
    given = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory(prefix="job-") as folder:
        for phases in jobs(Path(folder), given.samples, given.changed, given.rounds, given.command):
            seconds = {one.name: [one.wall_s, one.cpu_s] for one in phases}
            print(json.dumps({"samples": given.samples, **seconds, "load": round(os.getloadavg()[0], 1)}), flush=True)
            found.append(phases)
    print(table(found))


if __name__ == "__main__":
    main()
