"""What a command costs before and besides its work: its CPU against that of importing OpenAI's SDK, in the same run.

    python bench/startup.py --runs 10

Runs each command in turn, in processes of their own, on 13 recorded answers of the example with the offline judge. The
first round is not counted: it leaves the bytecode of all that is imported in a folder of this benchmark, as an
installation does. CPU is user and system time; of all runs, the least counts. Prints a table.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from processes import RAGSTONE, run_gate
from scale import write_policy

EXAMPLE = Path(__file__).parents[1] / "examples" / "docs-qa"
SAMPLES = 13
REFERENCE = "python -c 'import openai'"
SETTINGS = """\
[golden]
paths = ["golden.jsonl"]

[system]
entrypoint = "file:answers.jsonl"
"""


def commands(baseline: Path) -> Mapping[str, Sequence[str]]:
    """The words of each command, by the name it has in the table. `gate` writes the run that `report` renders."""
    return {
        "python -c pass": (sys.executable, "-c", "pass"),
        REFERENCE: (sys.executable, "-c", "import openai"),
        "ragstone --version": (*RAGSTONE, "--version"),
        "ragstone --help": (*RAGSTONE, "--help"),
        "ragstone check": (*RAGSTONE, "check"),
        "ragstone run": (*RAGSTONE, "run", "--out", "run"),
        "ragstone gate": (*RAGSTONE, "gate", "--out", "gate"),
        "ragstone gate --baseline": (*RAGSTONE, "gate", "--out", "compared", "--baseline", str(baseline)),
        "ragstone report": (*RAGSTONE, "report", "gate"),
        "ragstone report --format html": (*RAGSTONE, "report", "gate", "--format", "html"),
    }


def measure(runs: int) -> Mapping[str, float]:
    """The least CPU seconds of each command."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        golden = (EXAMPLE / "golden.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
        (folder / "golden.jsonl").write_text("".join(golden[:SAMPLES]), encoding="utf-8")
        records = (EXAMPLE / "baseline/samples.jsonl").read_text(encoding="utf-8").splitlines()[:SAMPLES]
        rows = map(json.loads, records)
        answers = [{"id": row["sample"]["id"], **row["answers"][0]["response"]} for row in rows]
        (folder / "answers.jsonl").write_text("\n".join(map(json.dumps, answers)), encoding="utf-8")
        write_policy(folder, ("faithfulness", "context_recall"))
        (folder / "ragstone.toml").write_text(SETTINGS, encoding="utf-8")
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        environment |= {"PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
        run_gate([*RAGSTONE, "gate", "--out", "baseline"], folder, environment)
        seconds: dict[str, list[float]] = {}
        for _ in range(1 + runs):
            for label, command in commands(folder / "baseline").items():
                seconds.setdefault(label, []).append(run_gate(command, folder, environment).cpu_s)
    return {label: min(each[1:]) for label, each in seconds.items()}


def table(least: Mapping[str, float]) -> str:
    lines = ["| command | CPU | ÷ import openai |", "|---|---|---|"]
    for label, seconds in least.items():
        lines.append(f"| `{label}` | {seconds:.2f} s | {seconds / least[REFERENCE]:.2f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=7)
    print(table(measure(parser.parse_args().runs)))


if __name__ == "__main__":
    main()
