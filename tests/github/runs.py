"""Real run directories to serve as artifacts."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ragstone.evaluation.directory import MANIFEST, SAMPLES, RunDirectory
from ragstone.evaluation.lineage import carry, describe_baseline
from ragstone.evaluation.manifest import BaselineFact
from ragstone.evaluation.rounds.context import RunContext
from ragstone.evaluation.writer import write_manifest
from ragstone.settings.settings import RunSettings, Settings
from tests.evaluation.builders import Answering, judge, samples
from tests.pipeline.asked import evaluate_golden_set


def make_run(
    folder: Path, *, verdict: str | None = "pass", n: int = 6, system: Answering | None = None
) -> RunDirectory:
    golden = samples(n)
    settings = Settings(root=folder, run=RunSettings(out="run", metrics=("faithfulness",)))
    context = RunContext(environ={"GITHUB_SHA": "d" * 40})
    run = asyncio.run(evaluate_golden_set(golden, system or Answering(), judge(golden), settings, context))
    manifest = run.manifest.model_copy(update={"verdict": verdict})
    write_manifest(run.path, manifest)
    return RunDirectory(run.path, manifest)


def files_of(run: RunDirectory) -> dict[str, bytes]:
    return {name: (run.path / name).read_bytes() for name in (MANIFEST, SAMPLES)}


def artifact_of(folder: Path) -> dict[str, bytes]:
    """What actions/upload-artifact makes of a run directory: everything but hidden files, with the folders below it."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    }


def failed_with(folder: Path, baseline: RunDirectory, *, run_id: int | None = 1) -> dict[str, bytes]:
    """The artifact of a run that failed against `baseline`, which it carries."""
    run = make_run(folder, verdict="fail", n=5)
    fact = BaselineFact(eligible=False, reason="it failed", used=describe_baseline(baseline, run_id=run_id))
    write_manifest(run.path, run.manifest.model_copy(update={"baseline": fact}))
    carry(baseline, run.path)
    return artifact_of(run.path)
