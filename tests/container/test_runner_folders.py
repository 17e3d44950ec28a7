"""The folders of the runner: closed to the user's code, and given back."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ragstone.errors import ConfigError
from ragstone.github.api.commands import open_to_append
from ragstone.github.container.confinement import Confinement, confine
from ragstone.github.container.runner_folders import RunnerFolders
from tests.github.api.test_command_files import FAKES
from tests.needs import needs_root


class Host:
    """A runner's working folder, as hosted runners lay it out: everything below RUNNER_TEMP, all the same owner's."""

    def __init__(self, folder: Path) -> None:
        self.uid = 1_000_000 + os.getpid()
        self.workspace, self.temporary = folder / "workspace", folder / "_temp"
        commands, workflow, home = (
            self.temporary / name for name in ("_runner_file_commands", "_github_workflow", "_github_home")
        )
        for one in (self.workspace, self.temporary, commands, workflow, home):
            one.mkdir()
            one.chmod(0o755)
        self.output = commands / "set_output_1"
        self.output.write_text("", encoding="utf-8")
        (workflow / "event.json").write_text("{}", encoding="utf-8")
        for one in (folder / "workspace", self.temporary, *self.temporary.rglob("*")):
            os.chown(one, self.uid, self.uid)
        self.environ = {
            "GITHUB_OUTPUT": str(self.output),
            "GITHUB_EVENT_PATH": str(workflow / "event.json"),
            "HOME": str(home),
            "RUNNER_TEMP": str(self.temporary),
        }
        found = confine(self.workspace, self.temporary, sockets=())
        assert found is not None
        self.confinement: Confinement = found
        self.folders = RunnerFolders(self.environ, self.workspace)

    def system(self, line: str) -> bool:
        """Whether the user's code gets away with `line`."""
        return self.confinement.call(["/bin/sh", "-c", f"cd {self.temporary} && {line}"]).returncode == 0

    def runner(self, line: str) -> bool:
        """Whether the runner itself may do `line`."""
        user: dict[str, Any] = {"user": self.uid, "group": self.uid, "extra_groups": [], "cwd": self.temporary}
        return subprocess.run(["/bin/sh", "-c", line], check=False, **user).returncode == 0

    def rights(self) -> list[tuple[int, int, int]]:
        found = (one.lstat() for one in (self.temporary, *sorted(self.temporary.glob("_*"))))
        return [(one.st_uid, one.st_gid, stat.S_IMODE(one.st_mode)) for one in found]


@pytest.fixture
def host(open_folder: Path) -> Host:
    return Host(open_folder)


ATTEMPTS = [
    "echo verdict=pass >> _runner_file_commands/set_output_1",
    "rm -f _runner_file_commands/set_output_1",
    "ln -sf /etc/passwd _runner_file_commands/set_output_1",
    "mkfifo _runner_file_commands/other",
    "mv _runner_file_commands elsewhere",
    "ls _runner_file_commands",
    "echo '{}' > _github_workflow/event.json",
    "mv _github_workflow elsewhere",
    "touch _github_home/.gitconfig",
    "touch new",
    "chmod 777 _runner_file_commands",
]


@needs_root
@pytest.mark.parametrize("line", ATTEMPTS)
def test_the_users_code_does_not_get_at_the_runners_folders(host: Host, line: str) -> None:
    before = host.rights()
    host.folders.close(host.confinement)
    assert not host.system(line)
    own = host.confinement.call(["/bin/touch", f"{host.confinement.folder}/tmp/own"])
    assert own.returncode == 0, "its own folder stays its own"
    host.folders.give_back()
    assert host.rights() == before
    assert host.system(line), "it would have got away with it"


@pytest.mark.usefixtures("processes")
@needs_root
def test_if_the_gate_is_killed_the_runner_goes_on_and_finds_what_is_ours(host: Host) -> None:
    host.folders.close(host.confinement)
    with open_to_append(host.output) as file:
        file.write(b"verdict=error\n")  # and nothing after it
    assert host.runner("grep -q verdict=error _runner_file_commands/set_output_1")
    assert host.runner("touch _runner_file_commands/set_output_2 _github_workflow/event.json _github_home/x script.sh")
    host.folders.give_back()
    assert host.output.stat().st_uid == host.uid
    assert host.runner("grep -q verdict=error _runner_file_commands/set_output_1")


@needs_root
@pytest.mark.parametrize("fake", FAKES)
def test_whatever_stands_in_place_of_a_command_file_is_replaced_unless_it_is_a_folder(
    host: Host, tmp_path: Path, fake: str
) -> None:
    precious = tmp_path / "precious"
    precious.write_text("keep", encoding="utf-8")
    host.output.unlink()
    FAKES[fake](host.output, precious)
    if fake == "folder":
        with pytest.raises(ConfigError, match="can't be protected"):
            host.folders.renew()
        return
    host.folders.renew()
    assert stat.S_ISREG(host.output.lstat().st_mode)
    assert host.output.read_text(encoding="utf-8") == ""
    assert precious.read_text(encoding="utf-8") == "keep"


@needs_root
@pytest.mark.parametrize(
    ("mode", "uid", "is_refused"),
    [(0o755, None, True), (0o755, 0, False), (0o777, 0, True), (0o1777, 0, False)],
    ids=["the user's", "root's", "open to all", "open to all, but only for own files"],
)
def test_command_files_are_out_of_reach_below_folders_that_only_root_can_replace(
    host: Host, mode: int, uid: int | None, is_refused: bool
) -> None:
    # RUNNER_TEMP is not told, so it is not taken over, and the folder could be moved away whole.
    os.chown(host.temporary, host.uid if uid is None else uid, host.uid)
    host.temporary.chmod(mode)
    folders = RunnerFolders({"GITHUB_OUTPUT": str(host.output)}, host.workspace)
    if is_refused:
        with pytest.raises(ConfigError, match="may replace what is in it"):
            folders.close(host.confinement)
    else:
        folders.close(host.confinement)
