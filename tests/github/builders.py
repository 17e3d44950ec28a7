"""A checkout with a golden set, a policy and a system, and the runner's files around it."""

from __future__ import annotations

import asyncio
import io
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragstone.evaluation.directory import REPORT, read_manifest
from ragstone.github.api.client import RetryPolicy
from ragstone.github.run_job import run_on_github
from ragstone.settings.load import load_settings
from tests.cli.project import read_json, read_rows, write_rows
from tests.github.api.fake import BASE_SHA, TOKEN, FakeGitHub
from tests.github.api.payloads import payload_of, pull_request, runner, with_payload, workflow_run
from tests.github.api.test_text_channels import acting, parse_outputs
from tests.github.runs import artifact_of
from tests.pipeline.reported import again

QUICK = RetryPolicy(timeout_s=5, first_pause_s=0.0, max_pause_s=0.01, total_pause_s=1.0, settle_s=0.0)
FACTS = [
    ("moon", "How far away is the Moon?", "The Moon is 384400 kilometres away from the Earth."),
    ("sun", "How hot is the surface of the Sun?", "The surface of the Sun has a temperature of 5500 degrees Celsius."),
    ("mars", "How many moons does Mars have?", "Mars has two moons, which are called Phobos and Deimos."),
    ("earth", "How long does the Earth take around the Sun?", "The Earth takes 365 days to travel around the Sun."),
]
POLICY = """
[gate]
min_coverage = 0.5
confirm = false

[metrics.faithfulness]
min = 0.5
"""


CONFIG = """
[golden]
paths = "golden.jsonl"
[system]
entrypoint = "file:outputs.jsonl"
[run]
metrics = ["faithfulness"]
"""
"""What a job goes by that has no other config."""


@dataclass
class Outcome:
    code: int
    log: str
    summary: str
    outputs: dict[str, str]
    annotations: list[str] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        return self.outputs["verdict"]

    @property
    def baseline(self) -> str:
        """The id of the run that was compared with."""
        return self.outputs["baseline-run-id"]


class Checkout:
    """A workspace in `folder`. `answers` maps a sample to its answer; the context is always the fact.

    With `reports_again`, `ragstone report` renders the reports of each job again.
    """

    def __init__(self, github: FakeGitHub, folder: Path) -> None:
        self.github = github
        self.reports_again = False
        self.attempts = 0
        self.root = folder / "workspace"
        self.files = folder / "runner"
        self.root.mkdir()
        self.files.mkdir()
        self.write_golden({"id": name, "question": question, "reference": fact} for name, question, fact in FACTS)
        self.write("thresholds.toml", POLICY)
        self.answer_well()

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")

    def program(self, name: str, text: str) -> None:
        self.write(name, text)
        (self.root / name).chmod(0o755)

    def golden_rows(self) -> list[dict[str, Any]]:
        return read_rows(self.root / "golden.jsonl")

    def write_golden(self, rows: Iterable[dict[str, Any]]) -> None:
        write_rows(self.root / "golden.jsonl", rows)

    def read(self, name: str) -> Any:
        """A document of the run, such as ``report.json``."""
        return read_json(self.out / name)

    def answer(self, answers: dict[str, str]) -> None:
        rows = ({"id": name, "answer": answers[name], "contexts": [fact]} for name, _, fact in FACTS)
        write_rows(self.root / "outputs.jsonl", rows)

    def answer_badly(self, text: str = "Bananas are purple and were invented in 1834 by a committee.") -> None:
        # Never quite the same twice: one answer to everything fails by itself.
        self.answer({name: text + "!" * index for index, (name, _, _) in enumerate(FACTS)})

    @property
    def out(self) -> Path:
        return self.root / "ragstone-run"

    @property
    def comments(self) -> list[str]:
        return self.github.bodies()

    def answer_well(self) -> None:
        self.answer({name: fact for name, _, fact in FACTS})

    def uploaded(self, run_id: int = 1) -> None:
        """What the run directory is now becomes the artifact of a push to main."""
        self.github.add_run(run_id, artifact=artifact_of(self.out))

    def is_base(self) -> None:
        """Make the checkout as it is the base of pull requests."""
        self.is_commit(BASE_SHA)

    def is_commit(self, sha: str) -> None:
        """Make the checkout as it is the commit `sha`, as far as GitHub knows."""
        files = [path for path in self.root.rglob("*") if path.suffix in (".toml", ".jsonl", ".j2")]
        self.github.files[sha] = {path.relative_to(self.root).as_posix(): path.read_bytes() for path in files}

    def environ(self, event: str, payload: Any = None, **more: str) -> dict[str, str]:
        for name in ("output", "summary"):
            (self.files / name).write_text("", encoding="utf-8")
        environ = runner(
            event,
            GITHUB_API_URL=self.github.api_url,
            GITHUB_WORKSPACE=str(self.root),
            GITHUB_OUTPUT=str(self.files / "output"),
            GITHUB_STEP_SUMMARY=str(self.files / "summary"),
            **{"GITHUB_TOKEN": TOKEN, "PATH": "/usr/bin:/bin", **more},
        )
        return with_payload(environ, payload_of(event) if payload is None else payload, self.files)

    def gate(self, event: str = "pull_request", payload: Any = None, /, **more: str) -> Outcome:
        """What `ragstone gate --github` does in a job of this event, each time a new attempt. `more` are variables."""
        self.attempts += 1
        environ = self.environ(event, payload, **{"GITHUB_RUN_ATTEMPT": str(self.attempts), **more})
        given = {
            "golden.paths": ("golden.jsonl",),
            "system.entrypoint": "file:outputs.jsonl",
            "run.metrics": ("faithfulness",),
        }
        overrides = given if not (self.root / "ragstone.toml").exists() else {}
        settings = load_settings(directory=self.root, environ=environ, overrides=overrides, within=self.root)
        out = io.StringIO()
        code = asyncio.run(run_on_github(settings, environ=environ, out=out, retry_policy=QUICK))
        run = settings.path(settings.run.out)
        found = read_manifest(run) if self.reports_again and (run / REPORT).is_file() else None
        if found is not None and found.state == "finished":
            again(run, settings)
        return self.outcome(code, out.getvalue())

    def outcome(self, code: int, log: str) -> Outcome:
        acted = [line for line in acting(log) if not line.startswith(("::group", "::endgroup", "::add-mask"))]
        return Outcome(
            code,
            log,
            (self.files / "summary").read_text(encoding="utf-8"),
            parse_outputs((self.files / "output").read_text(encoding="utf-8")),
            acted,
        )


__all__ = ["Checkout", "Outcome", "pull_request", "workflow_run"]
