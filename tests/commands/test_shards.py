"""Shards as a user evaluates and merges them: one process each, one of them killed."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

from ragstone.run.directory import RunDirectory
from tests.commands.project import SYSTEM, make_project, ragstone, start, wait_for_lines

OF = 3
SLOW = SYSTEM.replace("def answer(question):", "import time\ndef answer(question):\n    time.sleep(0.02)")


def without_times(path: Path) -> list[Any]:
    rows = [json.loads(line) for line in (path / "samples.jsonl").read_bytes().splitlines()]
    for row in rows:
        row["response"].pop("latency_s")
    return rows


def test_a_shard_that_is_killed_is_named_resumed_and_merged(tmp_path: Path) -> None:
    project = make_project(tmp_path / "repo", n=120, system=SLOW)
    assert ragstone(["gate", "--out", "whole"], project).returncode == 0
    for number in (1, 3):
        done = ragstone(["gate", "--shard", f"{number}/{OF}", "--out", f"shards/{number}"], project)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(f"Shard {number} of {OF}: ")

    second = ["gate", "--shard", f"2/{OF}", "--out", "shards/2"]
    with start(second, project) as process:
        wait_for_lines(project / "shards" / "2" / "samples.jsonl", 5)
        os.kill(process.pid, signal.SIGKILL)

    refused = ragstone(["gate", "--merge", "shards"], project)
    assert refused.returncode == 2
    assert f"shard 2 of {OF} can't be used: shards/2: it was running, not finished." in refused.stderr
    assert f"--shard 2/{OF}" in refused.stderr
    assert not (project / "ragstone-run").exists()

    assert ragstone([*second, "--resume"], project).returncode == 0
    merged = ragstone(["gate", "--merge", "shards"], project)
    assert merged.returncode == 0, merged.stderr
    assert without_times(project / "ragstone-run") == without_times(project / "whole")
    verdicts = [
        json.loads((project / run / "report.json").read_text(encoding="utf-8"))["checks"]
        for run in ("ragstone-run", "whole")
    ]
    assert verdicts[0] == verdicts[1]


def test_merge_only_merges_and_says_what_counts_as_failed(tmp_path: Path) -> None:
    project = make_project(tmp_path / "repo")
    for number in range(1, OF):
        assert ragstone(["run", "--shard", f"{number}/{OF}", "--out", f"s{number}"], project).returncode == 0
    shards = [f"s{number}" for number in range(1, OF)]
    refused = ragstone(["merge", *shards, "--out", "all"], project)
    assert refused.returncode == 2
    assert f"1 shard of {OF} can't be merged.\n  shard 3 of {OF} is missing.\n" in refused.stderr
    merged = ragstone(["merge", *shards, "--out", "all", "--allow-missing"], project)
    assert merged.returncode == 0
    assert f"warning: Shard 3 of {OF} is missing." in merged.stderr
    assert f"{OF} shards merged: " in merged.stdout
    assert RunDirectory.open(project / "all").manifest.counts.total == 40


def test_a_shard_of_nonsense_and_a_shard_in_the_config_are_named(tmp_path: Path) -> None:
    project = make_project(tmp_path / "repo")
    found = ragstone(["run", "--shard", "4/3"], project)
    assert found.returncode == 2
    assert "must be K/N, such as 3/8" in found.stderr
    config = project / "ragstone.toml"
    config.write_text(config.read_text() + '[run]\nshard = "1/3"\n')
    assert "'run.shard' must not be set in a file" in ragstone(["run"], project).stderr
    config.write_text(config.read_text().replace('[run]\nshard = "1/3"\n', ""))
    assert "--allow-missing needs --merge" in ragstone(["gate", "--allow-missing"], project).stderr
    assert "contains no run directory" in ragstone(["gate", "--merge", "."], project).stderr


def test_one_shard_is_not_reported_on_as_if_it_were_the_run(tmp_path: Path) -> None:
    project = make_project(tmp_path / "repo")
    assert ragstone(["run", "--shard", "1/2", "--out", "s1"], project).returncode == 0
    for words in (["report", "s1"], ["compare", "s1", "s1"]):
        found = ragstone(words, project)
        assert found.returncode != 0
        assert "shard 1 of 2, a part of a run" in found.stderr
