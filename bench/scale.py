"""How time and memory of a run, a gate and a report grow with the number of samples: recorded answers, offline judge.

    python bench/scale.py --samples 200 --samples 10000 --unjudged

For each size: `ragstone run`, then `gate` on the finished run, with a baseline and without evaluating anything, and
`report --format html`, each in a process of its own. With `--unjudged`, only metrics that need no judgements are
computed: what remains is the cost of everything but judging. Prints a table.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from engine import write_world
from processes import RAGSTONE, Finished, run_gate

from ragstone.evaluation.directory import MANIFEST

HEADLINE = ("faithfulness", "answer_relevancy", "context_recall", "context_precision")
UNJUDGED = ("token_f1", "exact_match")


def write_policy(folder: Path, metrics: Sequence[str]) -> None:
    """A policy with a floor and a rule on drops for each metric."""
    rules = "".join(f"[metrics.{name}]\nmin = 0.01\nmax_drop = 0.05\n" for name in metrics)
    (folder / "thresholds.toml").write_text(f"[gate]\nonly_named = true\n{rules}", encoding="utf-8")


def steps(samples: int, folder: Path, metrics: Sequence[str]) -> Iterator[tuple[str, Finished]]:
    """All steps for so many samples, in an empty folder."""

    def ragstone(*arguments: str) -> Finished:
        return run_gate([*RAGSTONE, *arguments], folder, {**os.environ, "RAGSTONE_WORKERS": "1"})

    write_world(folder, samples)
    write_policy(folder, metrics)
    settings = ["--golden", "golden.jsonl", "--entrypoint", "file:out.jsonl", "--metrics", ",".join(metrics)]
    yield "run", ragstone("run", *settings, "--out", "run")
    shutil.copytree(folder / "run", folder / "baseline")
    manifest = json.loads((folder / "baseline" / MANIFEST).read_text(encoding="utf-8"))
    manifest["created_at"] = "2026-01-01T00:00:00+00:00"
    (folder / "baseline" / MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
    yield "gate", ragstone("gate", *settings, "--out", "run", "--resume", "--baseline", "baseline")
    yield "report", ragstone("report", "run", "--format", "html", "-o", "report.html")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, action="append")
    parser.add_argument("--unjudged", action="store_true", help="only metrics that need no judgements")
    options = parser.parse_args()
    print("| samples | step | wall | CPU | peak memory |\n|---|---|---|---|---|")
    for samples in options.samples or [200, 10_000]:
        with tempfile.TemporaryDirectory(prefix="scale-") as folder:
            for name, step in steps(samples, Path(folder), UNJUDGED if options.unjudged else HEADLINE):
                cells = f"{step.wall_s:.1f} s | {step.cpu_s:.1f} s | {step.peak_mib:,.0f} MiB"
                print(f"| {samples:,} | {name} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
