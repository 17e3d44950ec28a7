"""Whom the user's code runs as. What needs a container is in tests/image."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ragstone.errors import ConfigError, RunDirectoryError
from ragstone.github.container.confinement import NOBODY, Confinement, confine, hand_over, may_write
from ragstone.github.container.user_environment import container_environ
from ragstone.system.environment import RunAs
from tests.container.sleeping import sleeping
from tests.needs import needs_root

OWNER = 1_000_000 + os.getpid()
"""Nobody else's, so that what is done to all processes of a user hits none but ours."""


@pytest.mark.parametrize(
    ("mode", "uid", "gid", "expected"),
    [
        *((0o660, 5, 5, False), (0o662, 5, 5, True)),
        *((0o620, 5, 0, True), (0o606, 5, 0, False)),
        *((0o600, 0, 5, True), (0o466, 0, 5, False)),
    ],
)
def test_whether_a_user_may_write_follows_from_owner_group_and_others(
    tmp_path: Path, mode: int, uid: int, gid: int, expected: bool
) -> None:
    path = tmp_path / "docker.sock"
    path.touch()
    path.chmod(mode)
    found = path.stat()
    assert may_write(path, found.st_uid + uid, found.st_gid + gid) is expected


def test_what_setup_actions_left_on_the_host_is_not_passed_on(tmp_path: Path) -> None:
    confinement = Confinement(RunAs(1001, 1001, tmp_path / "home"), tmp_path)
    found = container_environ({"LD_LIBRARY_PATH": "/opt/hosted", "PYTHONPATH": "x", "MINE": "1"}, confinement)
    assert not {"LD_LIBRARY_PATH", "PYTHONPATH"} & found.keys()
    assert (found["MINE"], found["HOME"]) == ("1", str(tmp_path / "home"))


WIPING = """
import os, sys
from ragstone.github.container.confinement import wipe_environment
kept = dict(os.environ)
wipe_environment(["INPUT_JUDGE-API-KEY", "EMPTY", "NOT_THERE"])
block = open("/proc/self/environ", "rb").read().decode()
assert "sk-secret-value" not in block, block
assert "MINE=visible" in block
assert "INPUT_JUDGE-API-KEY" not in os.environ
assert kept["INPUT_JUDGE-API-KEY"] == "sk-secret-value"
assert os.environ["MINE"] == "visible"
"""


@pytest.mark.usefixtures("processes")
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
def test_secrets_can_be_wiped_from_what_proc_shows() -> None:
    environ = {"INPUT_JUDGE-API-KEY": "sk-secret-value", "MINE": "visible", "EMPTY": "", "PATH": os.environ["PATH"]}
    done = subprocess.run([sys.executable, "-c", WIPING], env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


Confine = Callable[..., Confinement]


@pytest.fixture
def workspace(open_folder: Path) -> Path:
    """A workspace of `OWNER`, beside a folder for what is temporary."""
    for name in ("workspace", "temporary"):
        (open_folder / name).mkdir()
    (open_folder / "temporary").chmod(0o777)
    return _owned(open_folder / "workspace")


@pytest.fixture
def confined(workspace: Path) -> Confine:
    def confining(*sockets: Path) -> Confinement:
        found = confine(workspace, workspace.parent / "temporary", sockets=sockets)
        assert found is not None
        return found

    return confining


def _owned(folder: Path) -> Path:
    for path in (folder, *folder.rglob("*")):
        os.chown(path, OWNER, OWNER + 1, follow_symlinks=False)
    return folder


@contextmanager
def docker_socket(folder: Path, mode: int, gid: int = 0) -> Iterator[Path]:
    path = folder / "docker.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        os.chown(path, 0, gid)
        path.chmod(mode)
        yield path


@needs_root
def test_the_owner_of_the_workspace_is_who_user_code_runs_as_and_gains_no_rights(confined: Confine) -> None:
    found = confined()
    assert found.run_as.uid == OWNER
    assert found.run_as.gid not in (0, OWNER, OWNER + 1), "no group that owns anything here"
    assert found.call(["/usr/bin/id", "-u"]).stdout.strip() == str(OWNER).encode()
    assert found.run_as.home.stat().st_uid == OWNER
    assert b"NoNewPrivs:\t1" in found.call(["/bin/cat", "/proc/self/status"]).stdout


@needs_root
def test_code_in_a_workspace_of_roots_still_does_not_run_as_root(workspace: Path, confined: Confine) -> None:
    os.chown(workspace, 0, 0)
    found = confined()
    assert found.run_as.uid == NOBODY
    source = workspace.parent / "run"
    source.mkdir()
    (source / "manifest.json").write_text("{}", encoding="utf-8")
    hand_over(found, source, workspace / "ragstone-run")
    assert (workspace / "ragstone-run" / "manifest.json").read_text(encoding="utf-8") == "{}"


@needs_root
def test_a_docker_socket_within_reach_is_refused(workspace: Path, confined: Confine) -> None:
    with docker_socket(workspace.parent, 0o660) as path:
        confined(path)
        path.chmod(0o666)
        with pytest.raises(ConfigError, match=r"can write to .*docker\.sock"):
            confined(path)


@needs_root
def test_a_group_that_may_use_dockers_socket_is_not_the_one_that_user_code_runs_in(
    workspace: Path, confined: Confine
) -> None:
    os.chown(workspace, OWNER, NOBODY + 1)
    with docker_socket(workspace.parent, 0o660, NOBODY) as path:
        found = confined(path)
        assert found.run_as.gid not in (NOBODY, NOBODY + 1, 0)
        assert found.call(["/usr/bin/id", "-G"]).stdout.split() == [str(found.run_as.gid).encode()]
        assert found.call(["/usr/bin/test", "-w", str(path)]).returncode == 1


@pytest.mark.attack(
    by="pull request",
    tries="overwrite files through `[run] out` or a link",
    stopped_by="only a new folder, or the files of a run",
)
@needs_root
def test_results_replace_a_run_and_nothing_else_and_follow_no_link(workspace: Path, confined: Confine) -> None:
    elsewhere, run, source = workspace.parent / "elsewhere", workspace / "run", workspace.parent / "source"
    for folder in (elsewhere, run, source, source / "baseline"):
        folder.mkdir()
    (elsewhere / "keep").touch()
    (run / "samples.jsonl").symlink_to(elsewhere / "keep")
    (run / "baseline").symlink_to(elsewhere)
    (run / "judgements.sqlite-wal").touch()
    (run / "notes.txt").touch()
    _owned(run)
    (source / "baseline" / "manifest.json").write_text("x", encoding="utf-8")
    (source / "samples.jsonl").write_text("y", encoding="utf-8")
    (source / "link").symlink_to("/etc/shadow")
    hand_over(confined(), source, run)
    assert [path.name for path in elsewhere.iterdir()] == ["keep"]
    assert (elsewhere / "keep").read_text(encoding="utf-8") == ""
    assert sorted(path.name for path in run.rglob("*")) == ["baseline", "manifest.json", "notes.txt", "samples.jsonl"]
    assert (run / "baseline" / "manifest.json").stat().st_uid == OWNER
    assert (os.geteuid(), os.getegid()) == (0, 0)


@needs_root
def test_results_go_nowhere_that_their_owner_may_not_write_to(workspace: Path, confined: Confine) -> None:
    found = confined()
    (workspace / "run").mkdir(mode=0o755)
    with pytest.raises(RunDirectoryError, match="can't be written"):
        hand_over(found, workspace.parent / "temporary", workspace / "run" / "inner")
    assert list((workspace / "run").iterdir()) == []


@pytest.mark.attack(by="pull request", tries="read other processes' memory (`--pid=host`)", stopped_by="stops the job")
@pytest.mark.usefixtures("processes")
@needs_root
def test_a_process_of_that_users_which_is_not_ours_is_an_error(confined: Confine) -> None:
    with sleeping(OWNER, OWNER), pytest.raises(ConfigError, match=r"another process runs as the user.*sleep"):
        confined()
