"""What a command costs before and besides its work: its CPU against that of importing OpenAI's SDK, in the same run.

    python bench/startup.py
    python bench/startup.py --runs 15

Runs each command in turn, in processes of their own, on 13 recorded answers of the example with the offline judge. The
first round is not counted: it leaves the bytecode of all that is imported in a folder of this benchmark, as an
installation does. CPU is user and system time; of all runs, the least counts. Prints a table.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

EXAMPLE = Path(__file__).parents[1] / "examples" / "docs-qa"
SAMPLES = 13
REFERENCE = "python -c 'import openai'"
SETTINGS = """\
[golden]
paths = ["golden.jsonl"]

[system]
entrypoint = "file:answers.jsonl"
"""
POLICY = """\
[metrics.faithfulness]
min = 0.1
max_drop = 0.1

[metrics.context_recall]
min = 0.1
"""


def commands(baseline: Path) -> Mapping[str, Sequence[str]]:
    """The words of each command, by the name it has in the table. `gate` writes the run that `report` renders."""
    ragstone = (sys.executable, "-m", "ragstone")
    return {
        "python -c pass": (sys.executable, "-c", "pass"),
        REFERENCE: (sys.executable, "-c", "import openai"),
        "ragstone --version": (*ragstone, "--version"),
        "ragstone --help": (*ragstone, "--help"),
        "ragstone check": (*ragstone, "check"),
        "ragstone run": (*ragstone, "run", "--out", "run"),
        "ragstone gate": (*ragstone, "gate", "--out", "gate"),
        "ragstone gate --baseline": (*ragstone, "gate", "--out", "compared", "--baseline", str(baseline)),
        "ragstone report": (*ragstone, "report", "gate"),
        "ragstone report --format html": (*ragstone, "report", "gate", "--format", "html"),
    }


def write_project(folder: Path) -> None:
    """The first questions of the example, and its answers as they were recorded."""
    questions = (EXAMPLE / "golden.jsonl").read_text(encoding="utf-8").splitlines()[:SAMPLES]
    records = (EXAMPLE / "baseline" / "samples.jsonl").read_text(encoding="utf-8").splitlines()
    responses = {record["sample"]["id"]: record["response"] for record in map(json.loads, records)}
    answers = []
    for question in questions:
        sample_id = json.loads(question)["id"]
        response = responses[sample_id]
        answer = {"id": sample_id, "answer": response["answer"], "contexts": response["contexts"]}
        answers.append(json.dumps(answer))
    write_lines(folder / "golden.jsonl", questions)
    write_lines(folder / "answers.jsonl", answers)
    write_lines(folder / "ragstone.toml", SETTINGS.splitlines())
    write_lines(folder / "thresholds.toml", POLICY.splitlines())


def write_lines(path: Path, lines: Sequence[str]) -> None:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def cpu_s(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> float:
    """The CPU seconds of `command` and its children. Ends the program if it fails; a gate may say no."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 1, 8):
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(runs: int) -> Mapping[str, float]:
    """The least CPU seconds of each command."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_project(folder)
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        environment |= {"PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
        cpu_s((sys.executable, "-m", "ragstone", "gate", "--out", "baseline"), folder, environment)
        least: dict[str, float] = {}
        for counted in (False, *[True] * runs):
            for label, command in commands(folder / "baseline").items():
                seconds = cpu_s(command, folder, environment)
                if counted:
                    least[label] = min(seconds, least.get(label, seconds))
    return least


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
