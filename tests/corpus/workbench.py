"""A folder to run `ragstone` in, as the cases of the corpus do, and the cases by name."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tests.cli.project import ragstone, read_json
from tests.corpus import ferry
from tests.corpus.ferry import Question, Reply
from tests.corpus.outcome import Outcome, of_report

POLICY = "[gate]\nmin_coverage = 0.9\n"
"""What `ragstone init` writes: the default rules."""
BASELINE = "main"
GOLDEN, ANSWERS = "golden.jsonl", "outputs.jsonl"


class Workbench:
    """A user's folder. `shared` has what all cases of a session use, and no case changes."""

    def __init__(self, folder: Path, shared: Path) -> None:
        self.folder = folder
        self.shared = shared

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def write_rows(self, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
        self.write(name, "".join(json.dumps(row) + "\n" for row in rows))

    def policy(self, text: str) -> None:
        self.write("thresholds.toml", text)

    def config(self, text: str) -> None:
        self.write("ragstone.toml", text)

    def questions(self, questions: Iterable[Question], **fields: Any) -> None:
        """Write the golden set; each of `fields` is set in all rows, or a function of the question gives its value."""
        rows = []
        for question in questions:
            values = {name: value(question) if callable(value) else value for name, value in fields.items()}
            rows.append({**question.row(), **{name: value for name, value in values.items() if value is not None}})
        self.write_rows(GOLDEN, rows)

    def replies(self, replies: Iterable[Reply], name: str = ANSWERS) -> None:
        self.write_rows(name, [reply.row() for reply in replies])

    def command(self, *arguments: str, env: Mapping[str, str] | None = None) -> int:
        """Run `ragstone` in this process. What it says is shown by `compare --only` if the exit code is not stored."""
        completed = ragstone(arguments, self.folder, env={"TMPDIR": tempfile.gettempdir(), **(env or {})})
        self.said = f"{completed.stdout}\n{completed.stderr}"
        return completed.returncode

    def gate(
        self,
        *arguments: str,
        out: str = "ragstone-run",
        baseline: str | Path | None = None,
        golden: str | None = GOLDEN,
        entrypoint: str | None = f"file:{ANSWERS}",
        env: Mapping[str, str] | None = None,
    ) -> Outcome:
        report = self.folder / out / "report.json"
        report.unlink(missing_ok=True)
        options = {"--golden": golden, "--entrypoint": entrypoint, "--baseline": baseline, "--out": out}
        words = [word for name, value in options.items() if value is not None for word in (name, str(value))]
        code = self.command("gate", *words, *arguments, env=env)
        return self.outcome(code, report)

    def compare(self, *arguments: str) -> Outcome:
        report = self.folder / "compared.json"
        report.unlink(missing_ok=True)
        code = self.command("compare", *arguments, "--format", "json", "--output", report.name)
        return self.outcome(code, report)

    @staticmethod
    def outcome(exit_code: int, report: Path) -> Outcome:
        """The exit code, and what the report says, if one was written."""
        if not report.is_file():
            return {"exit": exit_code}
        return {"exit": exit_code, **of_report(read_json(report))}

    # -- the ferry's questions -----------------------------------------------------------------------------------------

    @property
    def ferry_baseline(self) -> Path:
        """The run of the healthy system with all questions."""
        return self.shared / "ferry" / BASELINE

    def ferry(self, replies: Sequence[Reply] | None = None, policy: str = POLICY) -> None:
        """The ferry's golden set with these replies; those of the healthy system by default."""
        self.questions(ferry.questions())
        self.replies(ferry.replies() if replies is None else replies)
        self.policy(policy)


Steps = Mapping[str, Outcome]
"""The outcome of each step of a case, by its name, in order."""
Case = Callable[[Workbench], Steps]


class Registry(dict[str, Case]):
    """Cases by name."""

    def add(self, name: str, case: Callable[..., Steps], *arguments: Any) -> None:
        """A case that gets these arguments before its workbench."""
        assert name not in self, f"two cases are called {name!r}"
        self[name] = partial(case, *arguments)

    def table(self, group: str, case: Callable[..., Steps], rows: Mapping[str, Sequence[Any]]) -> None:
        """The cases of a group that differ in their arguments."""
        for name, arguments in rows.items():
            self.add(f"{group}: {name}", case, *arguments)

    def case(self, name: str) -> Callable[[Case], Case]:
        """Register a function that makes one case."""

        def register(function: Case) -> Case:
            self.add(name, function)
            return function

        return register


def prepare(shared: Path) -> None:
    """Evaluate the baseline that most cases share."""
    folder = shared / "ferry"
    folder.mkdir()
    bench = Workbench(folder, shared)
    bench.ferry()
    outcome = bench.gate(out=BASELINE)
    assert outcome["exit"] == 0, bench.said
