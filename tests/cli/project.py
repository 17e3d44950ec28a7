"""A user's repository, made small, and the command line run on it as a user would run it."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

import ragstone as ragstone_package
from ragstone.cli.main import main
from ragstone.errors import ENDING_SIGNALS

Completed = subprocess.CompletedProcess[str]
COLOURS = ("red", "green", "blue", "white", "yellow")

SYSTEM = '''
"""A system that looks the answer up in its own small set of facts."""
FACTS = {f"What is the colour of house number {i}?": f"House number {i} is painted {c}."
         for i, c in ((i, ["red", "green", "blue", "white", "yellow"][i % 5]) for i in range(1000))}


def answer(question):
    fact = FACTS.get(question)
    if fact is None:
        return {"answer": "I don't know.", "contexts": []}
    return {"answer": fact, "contexts": [{"id": "d" + question.split()[-1], "text": fact + " It has a door."}]}
'''

POLICY = """
[gate]
min_coverage = 0.98

[metrics.faithfulness]
min = 0.80
max_drop = 0.05

[metrics.context_recall]
min = 0.80
max_drop = 0.05
"""

LINES_OFF = """
[system]
max_broken = 1.0
max_fruitless = 1.0
max_misranked = 1.0

[metrics.answer_relevancy]
min = 0.0

[metrics.answer_correctness]
min = 0.0
"""
"""Takes out of a policy the lines below which any policy fails the answers of a system that is broken on purpose."""

ONE_DROP = """
[gate]
only_named = true
[metrics.faithfulness]
min = 0.0
max_drop = 0.05
"""
"""A policy that looks at nothing but the faithfulness that was lost."""


def golden_lines(n: int) -> str:
    rows = [
        {
            "id": f"house-{i}",
            "question": f"What is the colour of house number {i}?",
            "reference": f"House number {i} is painted {COLOURS[i % 5]}.",
            "tags": ["odd" if i % 2 else "even"],
        }
        for i in range(n)
    ]
    return "".join(json.dumps(row) + "\n" for row in rows)


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write JSON Lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def read_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def words(*texts: str) -> str:
    """Printed texts as one line, wherever they were broken."""
    return " ".join(" ".join(texts).split())


def make_project(path: Path, *, n: int = 40, system: str = SYSTEM, policy: str = POLICY) -> Path:
    """A repository with a golden set of `n` samples, a python system, config and policy."""
    path.mkdir(parents=True, exist_ok=True)
    (path / "golden.jsonl").write_text(golden_lines(n), encoding="utf-8")
    (path / "houses.py").write_text(system, encoding="utf-8")
    (path / "thresholds.toml").write_text(policy, encoding="utf-8")
    (path / "ragstone.toml").write_text(
        '[golden]\npaths = ["golden.jsonl"]\n[system]\nentrypoint = "python:houses:answer"\nconcurrency = 1\n',
        encoding="utf-8",
    )
    return path


BROKEN = SYSTEM.replace('"answer": fact,', '"answer": "Bananas were invented in 18" + question.split()[-1],')
"""The system, whose answers have nothing to do with their contexts."""
IDENTITY = (
    *("-c", "user.name=dev", "-c", "user.email=dev@example.com"),
    *("-c", "protocol.file.allow=always", "-c", "init.defaultBranch=main"),
)


def git(folder: Path, *arguments: str) -> str:
    variables = {name: value for name, value in environment().items() if not name.startswith("GIT_")}
    done = subprocess.run(
        ["git", *IDENTITY, *arguments],
        cwd=folder,
        env={**variables, "GIT_CONFIG_GLOBAL": os.devnull},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def commit(folder: Path, message: str = "change", *, system: str | None = None) -> str:
    """Commit all changes, among them the source of the system, and return the id of the commit."""
    if system is not None:
        (folder / "houses.py").write_text(system, encoding="utf-8")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", message)
    return git(folder, "rev-parse", "HEAD")


def change_rows(project: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Rewrite each row of the golden set."""
    write_rows(project / "golden.jsonl", [change(row) for row in read_rows(project / "golden.jsonl")])


def append(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as stream:
        stream.write(text)


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("RAGSTONE_", "GITHUB_", "INPUT_"))
    }
    return {**kept, "NO_COLOR": "1", "COLUMNS": "120", **(extra or {})}


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "ragstone", *arguments]


def ragstone(
    arguments: Sequence[str],
    cwd: Path,
    *,
    env: Mapping[str, str] | None = None,
    columns: int | None = None,
    exit_code: int | None = None,
) -> Completed:
    """Run the command line in this process, without standard input; `start` runs it in a process of its own.

    With `columns`, its output is a terminal of that width, as far as the command line can see. With `exit_code`, it
    must end with that.
    """
    variables = environment(env)
    if columns is not None:
        del variables["NO_COLOR"]
        variables |= {"COLUMNS": str(columns), "TERM": "xterm-256color"}
    with _as_a_process(cwd, variables, io.TextIOWrapper if columns is None else _Terminal) as (stdout, stderr):
        try:
            main(arguments)
        except SystemExit as error:
            code = error.code
    assert isinstance(code, int)
    done = subprocess.CompletedProcess(command(*arguments), code, _text(stdout), _text(stderr))
    assert exit_code in (None, code), f"exit code {code}\n{done.stdout}\n{done.stderr}"
    return done


class _Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


@contextmanager
def _as_a_process(
    cwd: Path, variables: Mapping[str, str], stream: type[io.TextIOWrapper]
) -> Iterator[tuple[io.TextIOWrapper, io.TextIOWrapper]]:
    """Give what runs inside the folder, environment and streams of a new process; undo afterwards what it leaves."""
    stdout = stream(io.BytesIO(), encoding="utf-8")
    stderr = stream(io.BytesIO(), encoding="utf-8")
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, *ENDING_SIGNALS)}
    path, modules = list(sys.path), set(sys.modules)
    with (
        pytest.MonkeyPatch.context() as patch,
        Path(os.devnull).open(encoding="utf-8") as stdin,
        redirect_stdout(stdout),
        redirect_stderr(stderr),
    ):
        patch.chdir(cwd)
        for name in set(os.environ) - set(variables):
            patch.delenv(name)
        for name, value in variables.items():
            patch.setenv(name, value)
        patch.setattr(sys, "stdin", stdin)
        try:
            yield stdout, stderr
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
            sys.path[:] = path
            _forget_user_modules(set(sys.modules) - modules, cwd)


def _forget_user_modules(names: set[str], cwd: Path) -> None:
    """Forget modules imported from the user's repository, so that another test's module of the same name is its own."""
    for name in names:
        file = getattr(sys.modules[name], "__file__", None)
        if file is not None and Path(file).is_relative_to(cwd) and not _is_installed(Path(file)):
            del sys.modules[name]


def _is_installed(file: Path) -> bool:
    """Whether a module is Ragstone's own or of its environment, which may lie inside the folder of a command."""
    return file.is_relative_to(sys.prefix) or file.is_relative_to(Path(ragstone_package.__file__).parent)


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode("utf-8")


def start(
    arguments: Sequence[str], cwd: Path, *, env: Mapping[str, str] | None = None, through: Sequence[str] = ()
) -> subprocess.Popen[bytes]:
    """Start the command line as `ragstone` does, by the command `through`, to be interrupted or killed."""
    return subprocess.Popen(
        [*through, *command(*arguments)],
        cwd=cwd,
        env=environment(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=_with_default_signals,
    )


def _with_default_signals() -> None:
    """A shell starts its background jobs with SIGINT ignored, nohup with SIGHUP, and children inherit that."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def wait_for_lines(path: Path, n: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if path.exists() and path.read_bytes().count(b"\n") >= n:
            return
        time.sleep(0.01)
    raise AssertionError(f"{path} never had {n} lines")
