"""Real run directories to serve as artifacts."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ragstone.config import RunSettings, Settings
from ragstone.run.directory import MANIFEST, SAMPLES, RunDirectory, write_manifest
from ragstone.usecases.run import Surroundings, evaluate_golden_set
from tests.run.worlds import Answering, judge, samples


def make_run(folder: Path, *, verdict: str | None = "pass", n: int = 6) -> RunDirectory:
    golden = samples(n)
    settings = Settings(root=folder, run=RunSettings(out="run", metrics=("faithfulness",)))
    run = asyncio.run(
        evaluate_golden_set(
            golden, Answering(), judge(golden), settings, Surroundings(environ={"GITHUB_SHA": "d" * 40})
        )
    )
    manifest = run.manifest.model_copy(update={"verdict": verdict})
    write_manifest(run.path, manifest)
    return RunDirectory(run.path, manifest)


def files_of(run: RunDirectory) -> dict[str, bytes]:
    return {name: (run.path / name).read_bytes() for name in (MANIFEST, SAMPLES)}
