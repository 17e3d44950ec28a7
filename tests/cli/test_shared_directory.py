"""Several runs, and disks that refuse, at one run directory."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from ragstone.evaluation.directory import LOCK, RunDirectory
from tests.cli.project import SYSTEM, command, environment, make_project, ragstone, start, wait_for_lines

WAITING = SYSTEM.replace(
    "def answer(question):",
    "import os, time\n"
    "def answer(question):\n"
    "    open('asked', 'a').write('.\\n')\n"
    "    while not os.path.exists('go'): time.sleep(0.01)\n",
)


def refused(argv: Sequence[str], cwd: Path) -> str:
    """What a process that must end with 2 writes to its standard error."""
    done = subprocess.run(argv, cwd=cwd, env=environment(), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.mark.usefixtures("processes")
def test_a_run_beside_a_living_one_is_refused_and_the_living_one_ends_whole(tmp_path: Path) -> None:
    project = make_project(tmp_path / "repo", n=8, system=WAITING)
    first = start(["run"], project)
    wait_for_lines(project / "asked", 1)
    refused = ragstone(["gate", "--resume"], project, exit_code=2)
    assert "another run is writing to this directory." in refused.stderr
    (project / "go").touch()
    _, errors = first.communicate(timeout=60)
    assert first.returncode == 0, errors.decode()
    run = RunDirectory.open(project / "ragstone-run")
    assert run.manifest.state == "finished"
    assert [record.sample.id for record in run.records()] == [f"house-{i}" for i in range(8)]
    assert not (project / "ragstone-run" / LOCK).exists()


def without_rights_of_root(argv: Sequence[str]) -> list[str]:
    """`argv`, so that the modes of files count for it, as for everybody but root."""
    if os.geteuid() != 0:
        return list(argv)
    setpriv = shutil.which("setpriv")
    assert setpriv is not None, "as root this test needs setpriv (util-linux)"
    return [setpriv, "--bounding-set=-dac_override,-dac_read_search", *argv]


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(("verb", "out"), [("run", "shut"), ("gate", "shut/run"), ("run", "golden.jsonl")])
def test_a_place_that_can_not_be_written_to_is_a_clear_error(tmp_path: Path, verb: str, out: str) -> None:
    project = make_project(tmp_path / "repo", n=3)
    (project / "shut").mkdir(mode=0o555)
    said = refused(without_rights_of_root(command(verb, "--out", out)), project)
    assert str(out) in said
    assert "--out" in said


@pytest.mark.usefixtures("processes")
def test_a_finished_run_that_was_made_read_only_is_not_resumed_and_not_touched(tmp_path: Path) -> None:
    project = make_project(tmp_path / "repo", n=3)
    ragstone(["run"], project, exit_code=0)
    run = project / "ragstone-run"
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    run.chmod(0o555)
    for arguments in (["run"], ["run", "--resume"]):
        said = refused(without_rights_of_root(command(*arguments)), project)
        assert "can't be written: Permission denied" in said
    run.chmod(0o755)
    assert {path.name: path.read_bytes() for path in run.iterdir()} == before


@pytest.mark.usefixtures("processes")
def test_a_disk_that_is_full_ends_the_run_with_what_failed_and_it_can_be_resumed(tmp_path: Path) -> None:
    project = make_project(tmp_path / "repo", n=60)
    limited = f"ulimit -f 16; exec {' '.join(command('run'))}"  # no file may grow beyond 8 or 16 KiB
    assert "samples.jsonl: can't be written: File too large" in refused(["sh", "-c", limited], project)
    ragstone(["run", "--resume"], project, exit_code=0)
    assert len(list(RunDirectory.open(project / "ragstone-run").records())) == 60


@pytest.mark.parametrize("entrypoint", ["file:a\udcff.jsonl", "command:./c\udcff", "python:a\udcff.py:answer"])
def test_an_entrypoint_that_is_not_utf_8_is_a_clear_error(tmp_path: Path, entrypoint: str) -> None:
    project = make_project(tmp_path / "repo", n=1)
    answers = os.fsencode(project) + b"/a\xff.jsonl"
    with open(answers, "w") as file:  # noqa: PTH123 - a name that Path would show no better
        file.write('{"id": "house-0", "answer": "red"}\n')
    done = ragstone(["gate", "--entrypoint", entrypoint], project, exit_code=2)
    assert "is not UTF-8" in done.stderr
    assert "Traceback" not in done.stderr
