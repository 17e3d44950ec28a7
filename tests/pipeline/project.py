"""A user's folder whose answers are recorded and whose judge is a loopback server, gated as an entry point gates it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.rounds.context import RunContext
from ragstone.gate.verdict import Check, CheckKind
from ragstone.pipeline.gate import GatedRun
from ragstone.settings.load import load_settings
from ragstone.settings.settings import Settings
from ragstone.system.response import System
from tests.judge.conftest import FakeLlm, fill_in
from tests.pipeline.asked import evaluate_run, gate, rescore
from tests.pipeline.reported import again

KEY = {"OPENAI_API_KEY": "sk-0123456789"}
MODEL = "openai:gpt-4o-mini"


class Project:
    """Settings that a test does not name are in `defaults`, as ``run__metrics``; what the gate says is in `said`."""

    def __init__(self, root: Path, fake: FakeLlm) -> None:
        self.root = root
        self.fake = fake
        self.said: list[str] = []
        self.judge = MODEL
        self.defaults: dict[str, Any] = {}

    def write(self, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
        (self.root / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")

    def write_golden(self, n: int, *, references: bool = True) -> None:
        """Questions `q0` to `qn`: which number is meant."""
        rows: list[dict[str, Any]] = [{"id": f"q{i}", "question": f"What is {i}?"} for i in range(n)]
        if references:
            rows = [row | {"reference": f"It is {i}."} for i, row in enumerate(rows)]
        self.write("golden.jsonl", rows)

    def policy(self, text: str) -> None:
        (self.root / "thresholds.toml").write_text(text, encoding="utf-8")

    def settings(self, out: str, baseline: str | None = None, *, judge: str | None = None, **more: Any) -> Settings:
        judge = judge or self.judge
        overrides = {
            "golden.paths": ("golden.jsonl",),
            "system.entrypoint": "file:outputs.jsonl",
            "judge.name": judge,
            "judge.base_url": None if judge == "offline" else f"{self.fake.url}/v1",
            "run.out": out,
            "gate.baseline": baseline,
        }
        overrides |= {name.replace("__", "."): value for name, value in (self.defaults | more).items()}
        return load_settings(directory=self.root, environ=KEY, overrides=overrides)

    def context(self, system: System | None = None) -> RunContext:
        if system is None:
            return RunContext(environ=KEY, say=self.said.append)
        return RunContext(environ=KEY, say=self.said.append, system_factory=lambda *_: system)

    def run(self, out: str, *, system: System | None = None, **more: Any) -> RunDirectory:
        return asyncio.run(evaluate_run(self.settings(out, **more), self.context(system)))

    def gate(
        self,
        out: str,
        baseline: str | None = None,
        *,
        system: System | None = None,
        reported_again: bool = False,
        **more: Any,
    ) -> GatedRun:
        """With `reported_again`, the reports must be the same from the stored run alone."""
        settings = self.settings(out, baseline, **more)
        outcome = asyncio.run(gate(settings, self.context(system)))
        if reported_again:
            again(self.root / out, settings, outcome)
        return outcome

    def rescore(self, source: str, out: str, *, golden_paths: Sequence[str] = (), **more: Any) -> RunDirectory:
        settings = self.settings(out, **more)
        return asyncio.run(rescore(self.root / source, settings, self.context(), golden_paths=golden_paths))

    def opened(self, name: str) -> RunDirectory:
        return RunDirectory.open(self.root / name)

    def report(self, out: str) -> str:
        return (self.root / out / "report.md").read_text(encoding="utf-8")

    @property
    def calls(self) -> int:
        return len(self.fake.seen)


def doubting(fake: FakeLlm, *texts: str) -> None:
    """From now on the judge finds no support where one of `texts` is in what it is asked."""

    def fill(schema: Any, prompt: str) -> Any:
        filled = fill_in(schema, prompt)
        if any(text in prompt for text in texts):
            for verdict in filled.get("verdicts", ()):
                verdict |= {"verdict": "unsupported", "evidence": []}
        return filled

    fake.fill = fill


def drop(outcome: GatedRun, metric: str = "faithfulness") -> Check:
    (check,) = [check for check in outcome.verdict.checks if (check.kind, check.metric) == (CheckKind.DROP, metric)]
    return check
