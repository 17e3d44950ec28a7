"""A git repository with jobs in it: a bare repository, a clone to write commits in, and fresh clones."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.cli.project import git, write_rows

COLOURS = ("red", "green", "blue")
HOUSES = {f"What is the colour of house {i}?": f"House {i} is painted {COLOURS[i % 3]}." for i in range(30)}
WORSE = "Nobody knows that of this building."


@dataclass(frozen=True)
class Repository:
    """A bare repository, a clone to write commits in, and fresh clones for jobs."""

    root: Path

    @classmethod
    def make(cls, root: Path) -> Repository:
        root.mkdir(parents=True, exist_ok=True)
        git(root, "init", "-q", "--bare", "remote.git")
        git(root, "clone", "-q", "remote.git", "work")
        work = root / "work"
        git(work, "symbolic-ref", "HEAD", "refs/heads/main")
        facts = enumerate(HOUSES.items())
        rows = [{"id": f"h{i}", "question": question, "reference": fact} for i, (question, fact) in facts]
        write_rows(work / "golden.jsonl", rows)
        (work / "thresholds.toml").write_text(
            "[metrics.faithfulness]\nmax_drop = 0.02\n[metrics.context_recall]\nmax_drop = 0.02\n"
        )
        (work / "ragstone.toml").write_text(
            '[golden]\npaths = ["golden.jsonl"]\n[system]\nentrypoint = "file:outputs.jsonl"\n'
        )
        (work / ".gitignore").write_text("ragstone-run/\nragstone-baselines/\n")
        return cls(root)

    def commit(self, message: str, answer: str | None = None, *, branch: str = "main") -> str:
        """A commit of recorded answers, all right or all `answer`, at the tip of `branch`, which starts at main."""
        work = self.root / "work"
        if branch != "main" and branch not in git(work, "branch", "--format=%(refname:short)").split():
            git(work, "branch", branch, "main")
        if git(work, "symbolic-ref", "--short", "HEAD") != branch:
            git(work, "checkout", "-q", branch)
        rows = [
            {"question": question, "answer": answer or fact, "contexts": [f"{fact} It has a door."]}
            for question, fact in HOUSES.items()
        ]
        write_rows(work / "outputs.jsonl", rows)
        (work / "notes.txt").write_text(f"{message}\n")
        git(work, "add", "-A")
        git(work, "commit", "-q", "-m", message)
        git(work, "push", "-q", "origin", branch)
        return git(work, "rev-parse", "HEAD")

    def job(self, name: str, commit: str, *options: str) -> Path:
        """A fresh clone for a job, with `commit` checked out and no branch, as CI systems do."""
        folder = self.root / "jobs" / name
        folder.parent.mkdir(exist_ok=True)
        remote = (self.root / "remote.git").as_uri()
        git(self.root, "clone", "-q", *options, remote, str(folder))
        if not options:
            git(folder, "checkout", "-q", "--detach", commit)
        return folder
