"""A repository with a run that passes, one that fails and their baseline, and the decision on any run of it."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from ragstone.errors import RagstoneError
from ragstone.evaluation.directory import MANIFEST, SAMPLES, RunDirectory
from ragstone.evaluation.redact import Redactor
from ragstone.pipeline.decide_again import Decision, decide_again
from ragstone.pipeline.gate_request import decision_terms
from ragstone.settings.load import load_settings
from tests.cli.project import commit, git, make_project, ragstone, read_json, read_rows, write_rows

POLICY = """
[gate]
confirm = false

[metrics.faithfulness]
min = 0.1
max_drop = 0.05

[metrics.context_recall]
min = 0.4
max_drop = 0.1

[slices.even.metrics.faithfulness]
min = 0.1
"""

WORSE = """
import houses
def answer(question):
    found = houses.answer(question)
    found["answer"] += " The mayor of Lisbon sold it in 1921 for 300 ducats."
    return found
"""

TODAY = date(2026, 11, 28)
N = 12


@dataclass(frozen=True)
class World:
    """`good` passes and `bad` fails, both of commit `commit` and compared with `baseline`, of the commit before it."""

    root: Path

    @property
    def good(self) -> Path:
        return self.root / "good"

    @property
    def bad(self) -> Path:
        return self.root / "bad"

    @property
    def baseline(self) -> Path:
        return self.root / "baseline"

    @property
    def commit(self) -> str:
        return git(self.root, "rev-parse", "HEAD")

    def decide(self, run: Path, *, today: date = TODAY, commit: str | None = None, **settings: Any) -> Decision:
        """The decision on `run`; `settings` replace those of the config, as ``gate__baseline``."""
        overrides: dict[str, Any] = {"gate.baseline": str(self.baseline)}
        overrides |= {name.replace("__", "."): value for name, value in settings.items()}
        given = {name: setting for name, setting in overrides.items() if setting is not None}
        with contextlib.chdir(self.root):
            loaded = load_settings(directory=Path(), environ={}, overrides=given)
            terms = decision_terms(loaded, commit or self.commit, today)
            return decide_again(RunDirectory.open(run), terms, Redactor(()))

    def exit_code(self, run: Path, **settings: Any) -> int:
        try:
            return self.decide(run, **settings).verdict.exit_code
        except RagstoneError as error:
            return error.exit_code

    def refusal(self, run: Path, **settings: Any) -> tuple[int, str]:
        """The exit code and the text of the error that `run` ends in."""
        with pytest.raises(RagstoneError) as refused:
            self.decide(run, **settings)
        return refused.value.exit_code, str(refused.value)

    @contextlib.contextmanager
    def copy(self, run: Path) -> Iterator[Path]:
        """A copy of `run` to tamper with."""
        target = self.root / "tampered"
        shutil.copytree(run, target)
        try:
            yield target
        finally:
            shutil.rmtree(target)


def make_world(root: Path) -> World:
    make_project(root, n=N, policy=POLICY)
    (root / "worse.py").write_text(WORSE, encoding="utf-8")
    (root / ".gitignore").write_text("baseline/\ngood/\nbad/\ntampered/\n__pycache__/\n", encoding="utf-8")
    git(root, "init", "-q")
    commit(root)
    run_gate(root, "baseline", code=0)
    (root / "notes.txt").write_text("Nothing that the system reads.\n", encoding="utf-8")
    commit(root)
    run_gate(root, "good", "--baseline", "baseline", code=0)
    run_gate(root, "bad", "--baseline", "baseline", "--entrypoint", "python:worse:answer", code=1)
    return World(root)


def run_gate(root: Path, out: str, *more: str, code: int) -> None:
    done = ragstone(["gate", "--out", out, *more], root)
    assert done.returncode == code, done.stdout + done.stderr


# -- tampering ---------------------------------------------------------------------------------------------------------


def lines_of(run: Path) -> list[Any]:
    return read_rows(run / SAMPLES)


def write_lines(run: Path, lines: list[Any]) -> None:
    """Write the records, and count them in the manifest as they are now."""
    write_rows(run / SAMPLES, lines)
    edit_manifest(run, lambda manifest: manifest["counts"].update(scored=len(lines), partly_failed=0, system_failed=0))


@contextlib.contextmanager
def records_of(run: Path) -> Iterator[list[Any]]:
    """The records of a run, to be changed."""
    lines = lines_of(run)
    yield lines
    write_lines(run, lines)


def edit_manifest(run: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    manifest = read_json(run / MANIFEST)
    edit(manifest)
    (run / MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")


def set_field(run: Path, path: str, value: object) -> None:
    """Set a field of the manifest, such as ``system.commit``."""

    def edit(manifest: dict[str, Any]) -> None:
        *tables, name = path.split(".")
        table = manifest
        for each in tables:
            table = table[each]
        table[name] = value

    edit_manifest(run, edit)
