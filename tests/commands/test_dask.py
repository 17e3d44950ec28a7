"""A Dask cluster from the user's side: kills, signals, resuming, and every command that judges."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands.project import LINES_OFF, POLICY, ragstone, start, wait_for_lines
from tests.judge.local.entailment import write_entailment
from tests.run.dask_cluster import Cluster, certificates, cluster

SAMPLES = 1200


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recorded answers of some length, so that judging takes a while, and the run `one` of one process."""
    root = tmp_path_factory.mktemp("repo")
    with (root / "golden.jsonl").open("w") as golden, (root / "out.jsonl").open("w") as out:
        for number in range(SAMPLES):
            fact = f"Mill {number} was built in {1000 + number} on hill {number % 7}."
            row = {"id": f"m{number}", "question": f"When was mill {number} built?", "reference": fact}
            golden.write(json.dumps(row) + "\n")
            contexts = [fact + " It has a door and two floors." * 20, "Nothing of the kind."]
            out.write(json.dumps({"id": row["id"], "answer": (fact + " ") * 10, "contexts": contexts}) + "\n")
    (root / "ragstone.toml").write_text(
        '[golden]\npaths = ["golden.jsonl"]\n[system]\nentrypoint = "file:out.jsonl"\n[run]\nworkers = 1\n'
    )
    (root / "thresholds.toml").write_text(POLICY + LINES_OFF)  # it repeats itself
    assert ragstone(["run", "--out", "one"], root).returncode == 0
    return root


@pytest.fixture
def project(tmp_path: Path, evaluated: Path) -> Path:
    return shutil.copytree(evaluated, tmp_path / "repo")


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Cluster]:
    with cluster(tmp_path / "cluster", workers=2) as found:
        yield found


def records(run: Path) -> bytes:
    return (run / "samples.jsonl").read_bytes()


def manifest(run: Path) -> dict[str, object]:
    found = json.loads((run / "manifest.json").read_text())
    return {name: value for name, value in found.items() if name not in ("created_at", "wall_s", "invocation")}


def test_a_run_whose_worker_is_killed_in_the_middle_is_the_run_of_one_process(project: Path, two: Cluster) -> None:
    process = start(["run", "--dask", two.address], project)
    wait_for_lines(project / "ragstone-run" / "samples.jsonl", 100)
    os.kill(two.workers[0].pid, signal.SIGKILL)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors.decode()
    assert f"at {two.address}." in errors.decode()
    assert two.workers[0].wait() == -signal.SIGKILL
    assert records(project / "ragstone-run") == records(project / "one")
    assert manifest(project / "ragstone-run") == manifest(project / "one")
    assert two.address not in (project / "ragstone-run" / "manifest.json").read_text()


def test_a_run_whose_scheduler_is_killed_is_resumed_on_another_cluster(
    project: Path, two: Cluster, tmp_path: Path
) -> None:
    process = start(["run", "--dask", two.address], project)
    wait_for_lines(project / "ragstone-run" / "samples.jsonl", 100)
    assert two.scheduler is not None
    two.scheduler.kill()
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 5, errors.decode()
    *_, saved, error, hint = errors.decode().splitlines()
    assert "samples are saved in ragstone-run; continue with --resume." in saved
    assert error == f"error: {two.address}: the connection with the Dask scheduler was lost."
    assert hint == "  Finished samples are saved: continue with --resume."
    with cluster(tmp_path / "another", workers=1) as another:
        resumed = ragstone(["run", "--resume", "--dask", another.address], project)
    assert resumed.returncode == 0, resumed.stderr
    assert records(project / "ragstone-run") == records(project / "one")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_a_run_that_is_stopped_leaves_nothing_to_do_and_is_resumed(
    project: Path, two: Cluster, number: int, code: int
) -> None:
    from distributed import Client

    process = start(["run", "--dask", two.address], project)
    wait_for_lines(project / "ragstone-run" / "samples.jsonl", 100)
    process.send_signal(number)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == code, errors.decode()
    assert b"Traceback" not in errors
    with Client(two.address, set_as_default=False) as client:
        client.submit(os.getpid, pure=False).result(timeout=60)  # not queued behind what nobody waits for
    resumed = ragstone(["run", "--resume", "--dask", two.address], project)
    assert resumed.returncode == 0, resumed.stderr
    assert records(project / "ragstone-run") == records(project / "one")


def test_gate_and_rescore_judge_there_too(project: Path, two: Cluster) -> None:
    for name, more in (("there", ["--dask", two.address]), ("here", [])):
        gate = ragstone(["gate", "--limit", "100", "--out", name, *more], project)
        assert gate.returncode == 0, gate.stderr
        assert ("Judging with" in gate.stderr) is (name == "there")
        rescored = ragstone(["rescore", name, "--metrics", "faithfulness", "--out", f"{name}-again", *more], project)
        assert rescored.returncode == 0, rescored.stderr
        assert ("Judging with" in rescored.stderr) is (name == "there")
    assert records(project / "there") == records(project / "here")
    assert records(project / "there-again") == records(project / "here-again")


def test_a_local_model_judges_there_as_here(project: Path, two: Cluster) -> None:
    write_entailment(project / "models" / "nli", more=["mill built hill door floors"])
    given = ["run", "--judge", "local:models/nli", "--limit", "40"]
    for name, more in (("there", ["--dask", two.address]), ("here", [])):
        done = ragstone([*given, "--out", name, *more], project)
        assert done.returncode == 0, done.stderr
    assert records(project / "there") == records(project / "here")
    assert manifest(project / "there") == manifest(project / "here")


def test_a_cluster_with_tls_is_reached_as_dask_is_configured(project: Path, tmp_path: Path) -> None:
    mine, other = (certificates(tmp_path / name) for name in ("mine", "other"))
    found = Cluster(tmp_path)
    try:
        found.start_scheduler(mine, "--protocol", "tls")
        found.start_worker("--protocol", "tls", environ=mine)
        assert found.address.startswith("tls://")
        given = ["run", "--limit", "40", "--dask", found.address]
        assert ragstone(["run", "--limit", "40", "--out", "here"], project).returncode == 0
        there = ragstone([*given, "--out", "there"], project, env=mine)
        assert there.returncode == 0, there.stderr
        assert records(project / "there") == records(project / "here")
        refused = ragstone(given, project, env={**other, "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "2s"})
        assert refused.returncode == 5
        assert f"error: {found.address}: no connection with the Dask scheduler: " in refused.stderr
    finally:
        found.close()


def test_a_scheduler_that_is_not_there_is_named(project: Path) -> None:
    environ = {"DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "1s"}
    for address in ("tcp://127.0.0.1:1", "tls://127.0.0.1:1"):
        done = ragstone(["run", "--dask", address], project, env=environ)
        assert done.returncode == 5
        assert f"error: {address}: no connection with the Dask scheduler: " in done.stderr
        assert "Traceback" not in done.stderr
        assert "Warning" not in done.stderr
    done = ragstone(["run", "--dask", "scheduler"], project)
    assert done.returncode == 2
    assert "must be the address of a scheduler, such as tcp://scheduler:8786" in done.stderr
