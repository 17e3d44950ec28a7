"""How many small faults in the code the tests notice: `python scripts/mutants.py gate github judge/llm golden`.

Draws places in the folders under `src/ragstone`, changes one at a time in a copy of the checkout, and runs the tests of
the mirrored folder. A mutant is killed if they fail, or exceed a limit of processor time or of wall time, which is
counted apart. Gross mutants turn a decision round: a negated branch, a negated comparison, another arithmetic operator.
Subtle ones shift it: one operand of `and` or `or` dropped, `<` for `<=`.
The same seed draws the same places as long as the code stays as it is.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from typing import Literal

import pytest

ROOT = Path(__file__).parents[1]
COPIED = (
    *("src", "tests", "scripts", "docs", "examples", "bench", ".github"),
    *("pyproject.toml", "README.md", "action.yml", "thresholds.example.toml", "CONTRIBUTING.md", "Makefile"),
)
EXCLUDED = shutil.ignore_patterns(".venv", "__pycache__", "ragstone-run*")
DEFAULT_LEVEL = "not process and not heavy and not container and not browser and not integrations"
CPU_LIMIT_S = 900
WALL_LIMIT_S = 3600
Outcome = Literal["pass", "fail", "exceed the limit"]
"""What tests do, with a mutant or without."""

_PYTEST = """
import resource, runpy
resource.setrlimit(resource.RLIMIT_CPU, ({limit}, {limit} + 60))
runpy.run_module("pytest", run_name="__main__", alter_sys=True)
"""
NEGATED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
SHIFTED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change: the text from `start` to `end` (byte offsets in the file) becomes `text`."""

    file: str
    line: int
    kind: str
    is_subtle: bool
    start: int
    end: int
    text: str

    def apply(self, source: bytes) -> bytes:
        """The changed source."""
        return source[: self.start] + self.text.encode() + source[self.end :]

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.kind}: {self.text}"


def mutants_of(file: str, source: bytes) -> list[Mutant]:
    """Every mutant of a module, in the order of its lines."""
    line_starts = [0]
    for line in source.splitlines(keepends=True):
        line_starts.append(line_starts[-1] + len(line))

    def mutant(node: ast.expr, kind: str, changed: ast.expr, *, is_subtle: bool) -> Mutant:
        start = line_starts[node.lineno - 1] + node.col_offset
        end = line_starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or node.col_offset)
        return Mutant(file, node.lineno, kind, is_subtle, start, end, f"({ast.unparse(changed)})")

    mutants = []
    for node in _code(ast.parse(source)):
        if isinstance(node, ast.If | ast.IfExp | ast.While):
            negation = ast.UnaryOp(ast.Not(), node.test)
            mutants.append(mutant(node.test, "negated branch", negation, is_subtle=False))
        elif isinstance(node, ast.comprehension):
            for condition in node.ifs:
                negation = ast.UnaryOp(ast.Not(), condition)
                mutants.append(mutant(condition, "negated filter", negation, is_subtle=False))
        elif isinstance(node, ast.Compare) and len(node.ops) == 1:
            operator = type(node.ops[0])
            negated = ast.Compare(node.left, [NEGATED[operator]()], node.comparators)
            mutants.append(mutant(node, "negated comparison", negated, is_subtle=False))
            if operator in SHIFTED:
                shifted = ast.Compare(node.left, [SHIFTED[operator]()], node.comparators)
                mutants.append(mutant(node, "shifted bound", shifted, is_subtle=True))
        elif isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC and not _is_text(node):
            other = ast.BinOp(node.left, ARITHMETIC[type(node.op)](), node.right)
            mutants.append(mutant(node, "arithmetic", other, is_subtle=False))
        elif isinstance(node, ast.BoolOp):
            for dropped in node.values:
                rest = [value for value in node.values if value is not dropped]
                shorter = rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
                mutants.append(mutant(node, "dropped operand", shorter, is_subtle=True))
    return mutants


def _code(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run: no annotations, nothing for the type checker alone; of an f-string no place is exact."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns"):
            continue
        for node in value if isinstance(value, list) else [value]:
            if not isinstance(node, ast.AST) or isinstance(node, ast.JoinedStr) or _is_for_types(node):
                continue
            yield node
            yield from _code(node)


def _is_for_types(node: ast.AST) -> bool:
    is_checking = isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    return is_checking or (isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr))


def _is_text(node: ast.BinOp) -> bool:
    return any(
        isinstance(side, ast.JoinedStr | ast.List | ast.Tuple) or _is_string(side) for side in (node.left, node.right)
    )


def _is_string(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def drawn(folder: str, count: int, seed: int) -> list[Mutant]:
    """`count` mutants of a folder, half of them gross and half subtle, fewer if it has fewer."""
    everything = [
        mutant
        for path in sorted((ROOT / "src" / "ragstone" / folder).rglob("*.py"))
        for mutant in mutants_of(path.relative_to(ROOT).as_posix(), path.read_bytes())
    ]
    generator = random.Random(f"{seed} {folder}")  # noqa: S311 - a sample, no secret
    chosen = []
    for is_subtle in (False, True):
        group = [mutant for mutant in everything if mutant.is_subtle is is_subtle]
        chosen += generator.sample(group, min(count // 2, len(group)))
    return chosen


def outcome_with(mutant: Mutant, copy: Path, tests: Sequence[str], limit: int = CPU_LIMIT_S) -> Outcome:
    """What the tests do when the mutant is in the copy of the checkout."""
    path = copy / mutant.file
    source = path.read_bytes()
    path.write_bytes(mutant.apply(source))
    try:
        return outcome(copy, tests, limit)
    finally:
        path.write_bytes(source)


def outcome(copy: Path, tests: Sequence[str], limit: int = CPU_LIMIT_S) -> Outcome:
    """What the tests do in the copy of the checkout as it is. Raises SystemExit if there are none."""
    limited = [sys.executable, "-c", _PYTEST.format(limit=limit)]
    command = [*limited, "-x", "-q", "-p", "no:cacheprovider", "-m", DEFAULT_LEVEL, *tests]
    environment = os.environ | {"PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, text=True, timeout=WALL_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return "exceed the limit"
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return "exceed the limit"
    if done.returncode in (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise SystemExit(f"pytest ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return "pass" if done.returncode == pytest.ExitCode.OK else "fail"


def _copy_checkout(target: Path) -> Path:
    target.mkdir()
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=EXCLUDED)
        else:
            shutil.copy2(source, target / name)
    return target


def main() -> None:
    """Try the mutants of each folder, print those that survive, and the shares that die."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", metavar="FOLDER", help="under src/ragstone, such as gate or judge/llm")
    parser.add_argument("--count", type=int, default=20, help="mutants a folder  [default: 20]")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time  [default: 2]")
    parser.add_argument("--tests", nargs="*", help="tests to run  [default: tests/FOLDER]")
    options = parser.parse_args()
    outcomes: list[tuple[Mutant, Outcome]] = []
    with tempfile.TemporaryDirectory() as folder:
        copies: Queue[Path] = Queue()
        for number in range(options.jobs):
            copies.put(_copy_checkout(Path(folder) / str(number)))
        for room in options.folders:
            tests = options.tests or [f"tests/{room}"]

            def attempt(mutant: Mutant, tests: Sequence[str] = tests) -> Outcome:
                copy = copies.get()
                try:
                    return outcome_with(mutant, copy, tests)
                finally:
                    copies.put(copy)

            if (without := outcome(Path(folder) / "0", tests)) != "pass":
                sys.exit(f"{tests} {without} without any mutant; the limit is {CPU_LIMIT_S} s of processor time.")
            mutants = drawn(room, options.count, options.seed)
            with ThreadPoolExecutor(options.jobs) as executor:
                of_room = list(zip(mutants, executor.map(attempt, mutants), strict=True))
            for mutant, ending in of_room:
                if ending != "fail":
                    print(f"{'survives' if ending == 'pass' else 'exceeds the limit'}: {mutant}", flush=True)
            print(*_summary(room, of_room), sep="\n", flush=True)
            outcomes += of_room
    print(*_summary("all", outcomes), sep="\n")


def _summary(name: str, outcomes: Sequence[tuple[Mutant, Outcome]]) -> Iterator[str]:
    """How many mutants of each kind die, and by what."""
    for kind, is_subtle in (("gross", False), ("subtle", True)):
        endings = [ending for mutant, ending in outcomes if mutant.is_subtle is is_subtle]
        killed = len(endings) - endings.count("pass")
        by_limit = endings.count("exceed the limit")
        yield (
            f"{name}: {killed} of {len(endings)} {kind} mutants die ({killed / max(len(endings), 1):.0%}), "
            f"{killed - by_limit} by a failed test and {by_limit} by the limit of time"
        )


if __name__ == "__main__":
    main()
