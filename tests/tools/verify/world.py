"""A run that passed, with a baseline, a history and an accepted drop, and all that its verifier has."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from ragstone.gate.policy import load_policy
from ragstone.golden.load import load_golden_set
from ragstone.tools.verify.verify import Own, Part, verify
from tests.commands.project import make_project, ragstone

POLICY = """
[metrics.faithfulness]
min = 0.1
max_drop = 0.05

[metrics.context_recall]
min = 0.4

[system]
max_error_rate = 0.1

[slices.even.metrics.faithfulness]
min = 0.1
"""

WORSE = """
import houses
def answer(question):
    found = houses.answer(question)
    if not question.endswith("4?"):
        found["answer"] += " The mayor of Lisbon sold it in 1921 for 300 ducats."
    return found
"""


@dataclass(frozen=True)
class World:
    """A repository with the run `run`, made by `ragstone gate`, and another run of other answers, `other`."""

    root: Path

    @property
    def run(self) -> Path:
        return self.root / "ragstone-run"

    @property
    def other(self) -> Path:
        return self.root / "other"

    @property
    def commit(self) -> str:
        return git(self.root, "rev-parse", "HEAD")

    def own(self, **changed: object) -> Own:
        """All that is needed to verify everything."""
        given: dict[str, object] = {
            "policy": load_policy(self.root / "thresholds.toml", known_metrics=None),
            "golden": load_golden_set(["golden.jsonl"], root=self.root),
            "baseline": self.root / "baseline",
            "history": self.root / "before.jsonl",
            "commit": self.commit,
        }
        return Own(**{**given, **changed})  # type: ignore[arg-type]

    def verified(self, **changed: object) -> dict[str, Part]:
        return {part.name: part for part in verify(self.run, self.own(**changed))}


def git(root: Path, *arguments: str) -> str:
    identity = ["-c", "user.email=a@example.com", "-c", "user.name=A", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *identity, *arguments], cwd=root, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def make_world(root: Path, *, n: int = 10) -> World:
    make_project(root, n=n, policy=POLICY)
    (root / "worse.py").write_text(WORSE)
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "A system")

    def made(*arguments: str) -> None:
        done = ragstone([*arguments], root)
        assert done.returncode in (0, 1), done.stdout + done.stderr

    made("run", "--out", "baseline")
    made("gate", "--out", "earlier", "--baseline", "baseline", "--history", "history.jsonl")
    made("gate", "--out", "other", "--entrypoint", "python:worse:answer", "--baseline", "baseline")
    made("accept", "other", "--metric", "faithfulness", "--reason", "A trade-off")
    shutil.copy(root / "history.jsonl", root / "before.jsonl")
    made(*("gate", "--entrypoint", "python:worse:answer", "--baseline", "baseline", "--history", "history.jsonl"))
    return World(root)
