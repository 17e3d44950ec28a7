"""Time and memory of loading a golden set: `python bench/golden_sets.py [SAMPLES]`.

Writes a golden set of SAMPLES samples (100,000 by default) in each format into a temporary folder and loads it in a
fresh process. Memory is the peak above the process's memory before loading. The files are written row by row, since a
child's peak starts at its parent's memory.
"""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import yaml

LOAD = """
import resource, sys, time
from ragstone.golden.load import load_golden_set
unit = 1024 if sys.platform == "darwin" else 1
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
started = time.perf_counter()
golden = load_golden_set(sys.argv[1])
seconds = time.perf_counter() - started
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(len(golden), f"{seconds:.2f}", f"{(peak - before) / 1024 / unit:.0f}")
"""


def rows(count: int) -> Iterator[dict[str, object]]:
    for index in range(count):
        yield {
            "id": f"sample-{index}",
            "question": f"What is the allowance number {index} for employees who travel by train on business?",
            "reference": f"The allowance number {index} is {index * 3} euros a day, paid with the salary of the "
            "following month once the receipts are in.",
            "relevant_ids": {f"doc-{index % 500}": 1},
            "tags": ["travel", "money"],
            "group": f"page-{index % 500}",
        }


def write(folder: Path, count: int) -> Iterator[Path]:
    lines = folder / "golden.jsonl"
    with lines.open("w", encoding="utf-8") as stream:
        stream.writelines(json.dumps(row) + "\n" for row in rows(count))
    yield lines
    document = folder / "golden.json"
    with document.open("w", encoding="utf-8") as stream:
        stream.write("[\n")
        stream.writelines((",\n" if index else "") + json.dumps(row, indent=1) for index, row in enumerate(rows(count)))
        stream.write("\n]\n")
    yield document
    table = folder / "golden.csv"
    with table.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, ["id", "question", "reference", "group"], extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows(count))
    yield table
    tree = folder / "golden.yaml"
    with tree.open("w", encoding="utf-8") as stream:
        for row in rows(count):
            yaml.safe_dump([row], stream)
    yield tree


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    print("| file | samples | MB on disk | s | MB in memory |\n|---|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as folder:
        for path in write(Path(folder), count):
            done = subprocess.run(
                [sys.executable, "-c", LOAD, str(path)], check=True, capture_output=True, text=True
            ).stdout.split()
            print(f"| {path.name} | {done[0]} | {path.stat().st_size / 1e6:.0f} | {done[1]} | {done[2]} |")


if __name__ == "__main__":
    main()
