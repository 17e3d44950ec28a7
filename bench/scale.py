"""How time and memory of a run, a gate and a report grow with the number of samples: recorded answers, offline judge.

    python bench/scale.py --samples 200 --samples 10000
    python bench/scale.py --samples 100000 --unjudged

For each size: `ragstone run`, then `gate` on the finished run, with a baseline and without evaluating anything, and
`report --format html`, each in a process of its own. With `--unjudged`, only metrics that need no judgements are
computed: what remains is the cost of everything but judging. Prints a line of JSON for each step, and a table in
Markdown. CPU is user and system time; memory is the largest resident set. Ratios are to the same step at the first
size. Linux only.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from engine import write_world

from ragstone.evaluation.directory import MANIFEST

HEADLINE = ("faithfulness", "answer_relevancy", "context_recall", "context_precision")
UNJUDGED = ("token_f1", "exact_match")


@dataclass(frozen=True)
class Step:
    """What one step of a size has cost."""

    samples: int
    step: str
    wall_s: float
    cpu_s: float
    peak_mib: float


def measured(samples: int, step: str, folder: Path, arguments: Sequence[str]) -> Step:
    """Run `ragstone` with `arguments`, in one process. Raises SystemExit if it fails."""
    started = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "ragstone", *arguments],
        cwd=folder,
        env={**os.environ, "RAGSTONE_WORKERS": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    with process.stderr as stream:
        errors = stream.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):  # 1: the gate fails
        raise SystemExit(f"{' '.join(arguments)}: {errors.decode(errors='replace')}")
    wall_s, cpu_s = time.perf_counter() - started, usage.ru_utime + usage.ru_stime
    return Step(samples, step, round(wall_s, 2), round(cpu_s, 2), round(usage.ru_maxrss / 1024))


def steps(samples: int, folder: Path, metrics: Sequence[str]) -> Iterator[Step]:
    """All steps for so many samples, in an empty folder."""
    write_world(folder, samples)
    rules = "".join(f"[metrics.{name}]\nmin = 0.01\nmax_drop = 0.05\n" for name in metrics)
    (folder / "thresholds.toml").write_text(f"[gate]\nonly_named = true\n{rules}", encoding="utf-8")
    settings = ["--golden", "golden.jsonl", "--entrypoint", "file:out.jsonl", "--metrics", ",".join(metrics)]
    yield measured(samples, "run", folder, ["run", *settings, "--out", "run"])
    shutil.copytree(folder / "run", folder / "baseline")
    manifest = json.loads((folder / "baseline" / MANIFEST).read_text(encoding="utf-8"))
    manifest["created_at"] = "2026-01-01T00:00:00+00:00"
    (folder / "baseline" / MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
    yield measured(samples, "gate", folder, ["gate", *settings, "--out", "run", "--resume", "--baseline", "baseline"])
    yield measured(samples, "report", folder, ["report", "run", "--format", "html", "-o", "report.html"])


def table(measurements: Sequence[Step]) -> str:
    """The steps in Markdown, with ratios to the same step at the first size."""
    lines = [
        "| samples | step | wall | CPU | CPU per sample | ratio of CPU | peak memory | ratio of memory |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for step in measurements:
        first = next(other for other in measurements if other.step == step.step)
        lines.append(
            f"| {step.samples:,} | {step.step} | {step.wall_s:,.1f} s | {step.cpu_s:,.1f} s | "
            f"{1000 * step.cpu_s / step.samples:.2f} ms | {step.cpu_s / first.cpu_s:.2f} | "
            f"{step.peak_mib:,.0f} MiB | {step.peak_mib / first.peak_mib:.2f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, action="append")
    parser.add_argument("--unjudged", action="store_true", help="only metrics that need no judgements")
    options = parser.parse_args()
    measurements: list[Step] = []
    for samples in options.samples or [200, 10_000]:
        with tempfile.TemporaryDirectory(prefix="scale-") as folder:
            for step in steps(samples, Path(folder), UNJUDGED if options.unjudged else HEADLINE):
                print(json.dumps(asdict(step)), flush=True)
                measurements.append(step)
    print(table(measurements))


if __name__ == "__main__":
    main()
