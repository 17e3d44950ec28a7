"""A run's records, read once and replayed as they are read."""

from __future__ import annotations

from pathlib import Path

from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.replay import confirm
from tests.evaluation.opened import opened_for_reading
from tests.github.runs import make_run


def test_scores_fingerprint_and_replay_take_one_reading(tmp_path: Path) -> None:
    made = make_run(tmp_path)
    with opened_for_reading("samples.jsonl") as opened:
        run = confirm(RunDirectory.open(made.path))
        changed = run.with_manifest(run.manifest.model_copy(update={"verdict": "fail"}))
        assert changed.scores().metrics == run.scores().metrics
        assert changed.fingerprint == run.fingerprint
        assert changed.scores().manifest == changed.manifest
    assert len(opened) == 1
    assert run.fingerprint == made.fingerprint
