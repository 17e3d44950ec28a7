"""Whom the user's code runs as, and what is left of it. What needs a container is in tests/container."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ragstone.errors import ConfigError
from ragstone.github.confinement import (
    NOBODY,
    Confinement,
    confine,
    end_strays,
    hand_over,
    may_write,
    seal_command_files,
)
from ragstone.github.user_environment import container_environ
from ragstone.system.environment import RunAs

as_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can change users")


@pytest.mark.parametrize(
    ("mode", "uid", "gid", "expected"),
    [
        (0o660, 5, 5, False),
        (0o666, 5, 5, True),
        (0o662, 5, 5, True),
        (0o620, 5, "same", True),
        (0o606, 5, "same", False),
        (0o600, "same", 5, True),
        (0o466, "same", 5, False),
    ],
)
def test_whether_a_user_may_write_follows_from_owner_group_and_others(
    tmp_path: Path, mode: int, uid: int | str, gid: int | str, expected: bool
) -> None:
    path = tmp_path / "docker.sock"
    path.touch()
    path.chmod(mode)
    found = path.stat()
    user = found.st_uid if isinstance(uid, str) else uid + found.st_uid
    group = found.st_gid if isinstance(gid, str) else gid + found.st_gid
    assert may_write(path, user, group) is expected
    assert not may_write(tmp_path / "nowhere", user, group)


def test_command_files_are_emptied_and_links_not_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("keep", encoding="utf-8")
    (tmp_path / "output").write_text("verdict=pass\n", encoding="utf-8")
    (tmp_path / "env").symlink_to(precious)
    seal_command_files({"GITHUB_OUTPUT": str(tmp_path / "output"), "GITHUB_ENV": str(tmp_path / "env")})
    assert (tmp_path / "output").read_text(encoding="utf-8") == ""
    assert precious.read_text(encoding="utf-8") == "keep"


def test_what_setup_actions_left_on_the_host_is_not_passed_on(tmp_path: Path) -> None:
    confinement = Confinement(RunAs(1001, 1001, tmp_path / "home"), tmp_path)
    found = container_environ({"LD_LIBRARY_PATH": "/opt/hosted", "PYTHONPATH": "x", "MINE": "1"}, confinement)
    assert "LD_LIBRARY_PATH" not in found
    assert "PYTHONPATH" not in found
    assert found["MINE"] == "1"
    assert found["HOME"] == str(tmp_path / "home")


WIPING = """
import os, sys
from ragstone.github.confinement import wipe_environment
kept = dict(os.environ)
wipe_environment(["INPUT_JUDGE-API-KEY", "EMPTY", "NOT_THERE"])
block = open("/proc/self/environ", "rb").read().decode()
assert "sk-secret-value" not in block, block
assert "MINE=visible" in block
assert "INPUT_JUDGE-API-KEY" not in os.environ
assert kept["INPUT_JUDGE-API-KEY"] == "sk-secret-value"
assert os.environ["MINE"] == "visible"
"""


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
def test_secrets_can_be_wiped_from_what_proc_shows() -> None:
    environ = {"INPUT_JUDGE-API-KEY": "sk-secret-value", "MINE": "visible", "EMPTY": "", "PATH": os.environ["PATH"]}
    done = subprocess.run([sys.executable, "-c", WIPING], env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@as_root
def test_the_owner_of_the_workspace_is_who_user_code_runs_as(tmp_path: Path) -> None:
    workspace, temporary = _folders(tmp_path)
    os.chown(workspace, 1001, 1002)
    found = confine(workspace, temporary, sockets=())
    assert found is not None
    assert (found.run_as.uid, found.run_as.gid) == (1001, 1002)
    assert found.call(["/usr/bin/id", "-u"]).stdout.strip() == b"1001"
    assert found.run_as.home.stat().st_uid == 1001


@as_root
def test_code_in_a_workspace_of_roots_still_does_not_run_as_root(tmp_path: Path) -> None:
    workspace, temporary = _folders(tmp_path)
    found = confine(workspace, temporary, sockets=())
    assert found is not None
    assert found.run_as.uid == NOBODY
    assert "belongs to root" in found.notices[0]
    source = tmp_path / "run"
    source.mkdir()
    (source / "manifest.json").write_text("{}", encoding="utf-8")
    hand_over(found, source, workspace / "ragstone-run")
    assert (workspace / "ragstone-run" / "manifest.json").read_text(encoding="utf-8") == "{}"


@as_root
def test_a_docker_socket_within_reach_is_refused(tmp_path: Path) -> None:
    workspace, temporary = _folders(tmp_path)
    os.chown(workspace, 1001, 1001)
    path = tmp_path / "docker.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        path.chmod(0o660)
        assert confine(workspace, temporary, sockets=[path]) is not None
        path.chmod(0o666)
        with pytest.raises(ConfigError, match=r"docker\.sock may be written to"):
            confine(workspace, temporary, sockets=[path])


@as_root
def test_a_link_in_the_place_of_results_is_replaced(tmp_path: Path) -> None:
    workspace, temporary = _folders(tmp_path)
    os.chown(workspace, 1001, 1001)
    found = confine(workspace, temporary, sockets=())
    assert found is not None
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "keep").touch()
    (workspace / "run").symlink_to(elsewhere)
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    (source / "sub" / "file").write_text("x", encoding="utf-8")
    (source / "link").symlink_to("/etc/shadow")
    hand_over(found, source, workspace / "run")
    assert [path.name for path in elsewhere.iterdir()] == ["keep"]
    assert sorted(path.name for path in (workspace / "run").rglob("*")) == ["file", "sub"]
    assert (workspace / "run" / "sub" / "file").stat().st_uid == 1001


@as_root
def test_a_process_that_got_away_is_ended(tmp_path: Path) -> None:
    workspace, temporary = _folders(tmp_path)
    os.chown(workspace, 1001, 1001)
    found = confine(workspace, temporary, sockets=())
    assert found is not None
    # The shell ends at once, and what it started in a session of its own is nobody's child any more.
    shell = ["/bin/sh", "-c", "setsid sleep 600 >/dev/null 2>&1 & echo $!"]
    pid = int(subprocess.check_output(shell, user=1001, group=1001, extra_groups=[]))
    own = subprocess.Popen(["/bin/sleep", "60"])
    try:
        assert end_strays(found) >= 1
        deadline = time.monotonic() + 5
        while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not Path(f"/proc/{pid}").exists()
        assert own.poll() is None  # what is ours is left alone
    finally:
        own.kill()
        own.wait()


def _folders(tmp_path: Path) -> tuple[Path, Path]:
    for folder in (tmp_path, *tmp_path.parents):
        if folder.name.startswith(("pytest-", "popen-")):
            folder.chmod(0o755)
    tmp_path.chmod(0o755)
    workspace, temporary = tmp_path / "workspace", tmp_path / "temporary"
    workspace.mkdir()
    temporary.mkdir()
    temporary.chmod(0o777)
    return workspace, temporary
