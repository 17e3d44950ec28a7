"""The corpus of verdicts: run its cases, and compare what a user relies on with what is stored.

    python -m tests.corpus.compare                   # each difference on a line; exit code 1 if there is any
    python -m tests.corpus.compare --only "fault"    # the cases with this in their names, case by case
    python -m tests.corpus.compare --write           # store the present in expected.json

Each case runs `ragstone gate`, `ragstone compare` or a job on a fake GitHub. What is compared, and read from where:
outcome.py. A difference that is intended is stored in the commit that brings it, and named in its message.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from tests.corpus import cases_agent, cases_answers, cases_gate, cases_job
from tests.corpus.workbench import Steps, Workbench, prepare

EXPECTED = Path(__file__).with_name("expected.json")
PROCESSES = 2
CASES = {**cases_agent.CASES, **cases_answers.CASES, **cases_gate.CASES, **cases_job.CASES}

Corpus = Mapping[str, Steps]
"""The steps of each case, by the case's name."""


def differences(stored: Corpus, present: Corpus) -> Iterator[str]:
    """One line for each value that is not as it is stored, and for each case that only one of them has."""
    for name in sorted(stored.keys() | present.keys()):
        if name not in present:
            yield f"{name}: is stored, and was not run"
        elif name not in stored:
            yield f"{name}: is not stored"
        else:
            yield from _different_values(name, stored[name], present[name])


def _different_values(name: str, stored: Steps, present: Steps) -> Iterator[str]:
    before, after = _flat(stored), _flat(present)
    for what in dict.fromkeys([*before, *after]):
        if before.get(what) != after.get(what):
            yield f"{name}: {what}: {before.get(what, 'nothing')} → {after.get(what, 'nothing')}"


def _flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Each value of a tree by its path. A table without entries has none."""
    values: dict[str, str] = {}
    for key, value in tree.items():
        path = f"{prefix}, {key}" if prefix else key
        if isinstance(value, Mapping):
            values.update(_flat(value, path))
        else:
            values[path] = json.dumps(value, ensure_ascii=False)
    return values


def as_text(corpus: Corpus) -> str:
    """JSON with a block for each case, and a line for each table of an outcome."""
    blocks = [_block(name, corpus[name]) for name in sorted(corpus)]
    return "{\n" + ",\n".join(blocks) + "\n}\n"


def _block(name: str, steps: Steps) -> str:
    lines = [f"  {_json(name)}: {{"]
    for step, outcome in steps.items():
        rows = [f"      {_json(what)}: {_json(value)}" for what, value in outcome.items()]
        lines += [f"    {_json(step)}: {{", ",\n".join(rows), "    },"]
    lines[-1] = "    }"
    return "\n".join([*lines, "  }"])


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def run_case(name: str, shared: Path) -> tuple[str, Steps, float]:
    """The steps of one case, in a folder of its own, and how many seconds it took."""
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="ragstone-corpus-") as folder:
        project = Path(folder) / "project"
        project.mkdir()
        steps = CASES[name](Workbench(project, shared))
    # What is compared is what could be stored.
    return name, json.loads(json.dumps(steps)), time.perf_counter() - begin


def run_cases(names: Sequence[str], processes: int, *, verbose: bool = False) -> dict[str, Steps]:
    with tempfile.TemporaryDirectory(prefix="ragstone-corpus-") as folder:
        shared = Path(folder)
        prepare(shared)
        with ProcessPoolExecutor(processes) as pool:
            results = {}
            for name, steps, seconds in pool.map(run_case, names, [shared] * len(names)):
                results[name] = steps
                if verbose:
                    print(f"{seconds:5.1f} s  {name}", flush=True)
        return results


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-j", "--processes", type=int, default=PROCESSES, help="how many processes run cases")
    parser.add_argument("--only", default="", metavar="TEXT", help="the cases with this in their names")
    parser.add_argument("--write", action="store_true", help="store the present")
    parser.add_argument("--expected", type=Path, default=EXPECTED, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    begin = time.perf_counter()
    left_out = not_runnable()
    names = [name for name in CASES if name not in left_out and chosen.only in name]
    present = run_cases(names, chosen.processes, verbose=bool(chosen.only))
    stored: dict[str, Steps] = (
        json.loads(chosen.expected.read_text(encoding="utf-8")) if chosen.expected.exists() else {}
    )
    if chosen.write:
        kept = {name: steps for name, steps in stored.items() if name in CASES}
        chosen.expected.write_text(as_text({**kept, **present}), encoding="utf-8")
    compared = {name: steps for name, steps in stored.items() if chosen.only in name and name not in left_out}
    lines = list(differences(compared, present))
    print("\n".join([*lines, f"{len(present)} cases, {len(lines)} differences, {time.perf_counter() - begin:.0f} s"]))
    return 1 if lines and not chosen.write else 0


def not_runnable() -> set[str]:
    """The cases that can't be run here, because what they read is not part of the repository; says so."""
    if cases_answers.MODELS_FILE.is_file():
        return set()
    prefix = cases_answers.MODEL_CASES
    names = {name for name in CASES if name.startswith(prefix)}
    print(f"{len(names)} cases are left out ({prefix}…), because there is no {cases_answers.MODELS_FILE}")
    return names


if __name__ == "__main__":
    sys.exit(main())
