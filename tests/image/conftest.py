"""The image, built once, and the action run in it as GitHub's runner would."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ragstone.github.api.commands import COMMAND_FILES
from ragstone.github.container.confinement import kill_all_of
from ragstone.github.inputs import INPUTS
from tests.github.api.conftest import contract, github  # noqa: F401 - fixtures
from tests.github.api.fake import TOKEN, FakeGitHub
from tests.github.api.payloads import payload_of, runner, with_payload
from tests.github.builders import Checkout, Outcome

ROOT = Path(__file__).parents[2]
STATE = Path(os.environ.get("RAGSTONE_IMAGE_STATE") or ROOT / ".cache" / "image")
IMAGE = "localhost/ragstone:test"
STORAGE = ["--root", str(STATE / "store"), "--runroot", str(STATE / "run"), "--storage-driver", "vfs"]
OWNER = 2_000_000 + os.getpid()
"""The runner's user: nobody else's on this machine, with whose processes the container's are listed."""
SECRETS = {
    "INPUT_JUDGE-API-KEY": "sk-the-judges-own-key-0123456789",
    "INPUT_GITHUB-TOKEN": TOKEN,
    "ACTIONS_RUNTIME_TOKEN": "runtime-token-0123456789",
    "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "oidc-token-0123456789",
}

RECORDED: dict[str, Any] = {"golden_set": "golden.jsonl", "entrypoint": "file:outputs.jsonl", "metrics": "faithfulness"}
"""Inputs for a system whose answers are recorded."""

NOT_STARTED = "Close_Fd sealing memfd copy: Device or resource busy"
"""What buildah says on a busy machine if it could not make the copy of itself that starts a container."""
RUN = ("run", "--isolation", "chroot", "--cap-add", "CAP_NET_RAW,CAP_MKNOD,CAP_AUDIT_WRITE")
"""As Docker runs a container: buildah filters system calls as Docker does, but gives fewer capabilities."""

CAPABILITIES = 0xA80425FB
"""Docker's default set, as the kernel shows it: 14 of 41."""


def buildah(*arguments: str, check: bool = True, **more: Any) -> subprocess.CompletedProcess[str]:
    command = ["buildah", *STORAGE, *arguments]
    for _ in range(3):
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, **more)
        if not (done.returncode and NOT_STARTED in done.stderr):
            break
    if check:
        done.check_returncode()
    return done


class Image:
    """A working container of the built image."""

    def __init__(self, base: str) -> None:
        self.base = base
        self.name = buildah("from", "--pull-never", IMAGE).stdout.strip()

    def shell(self, line: str) -> subprocess.CompletedProcess[str]:
        """Run a line of shell. What it prints goes through a file: buildah may end before it has copied a pipe."""
        with tempfile.TemporaryDirectory() as folder:
            into = f"({line}) >/printed/out 2>/printed/err"
            mounted = [*RUN, "--volume", f"{folder}:/printed", self.name]
            done = buildah(*mounted, "--", "/bin/sh", "-c", into, check=False)
            printed = [(Path(folder) / name).read_text(encoding="utf-8") for name in ("out", "err")]
        return subprocess.CompletedProcess(done.args, done.returncode, *printed)

    def inspect(self) -> str:
        return buildah("inspect", "--type", "image", IMAGE).stdout

    def remove(self) -> None:
        buildah("rm", self.name, check=False)


@pytest.fixture(scope="session")
def image() -> Iterator[Image]:
    if os.geteuid() != 0 or shutil.which("buildah") is None:
        pytest.fail("building the image needs root and buildah")
    if shutil.which("debootstrap") is None:
        pytest.fail("a stand-in for the base image needs debootstrap")
    said = "base: as built before"
    if not os.environ.get("RAGSTONE_IMAGE_BUILT"):
        command = [str(ROOT / "scripts" / "build-image"), str(STATE), IMAGE]
        built = subprocess.run(command, capture_output=True, text=True, check=False)
        assert built.returncode == 0, built.stdout + built.stderr
        said = built.stdout
    print(said)
    found = Image(said.partition("\n")[0])
    yield found
    found.remove()


class Runner:
    """GitHub's runner: its folders, its variables, its mounts."""

    def __init__(self, image: Image, checkout: Checkout, folder: Path) -> None:
        self.image = image
        self.checkout = checkout
        self.github = checkout.github
        self.folder = folder
        # As hosted runners lay it out: all below RUNNER_TEMP, which is in the container a second time.
        self.temporary = folder / "runner_temp"
        self.commands = self.temporary / "_runner_file_commands"
        self.home = self.temporary / "_github_home"
        self.workflow = self.temporary / "_github_workflow"
        for name in (self.temporary, self.commands, self.home, self.workflow):
            name.mkdir()
            name.chmod(0o755)
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket_path = folder / "docker.sock"
        self.socket.bind(str(self.socket_path))
        self.socket.listen()
        self.socket_path.chmod(0o660)

    def run(self, event: str = "pull_request", /, *, environ: dict[str, str] | None = None, **inputs: str) -> Outcome:
        """One step with the action. `inputs` have underscores for dashes."""
        done = self.execute(event, environ=environ, **inputs)
        for name in ("output", "step_summary"):
            content = self.command_file(f"GITHUB_{name.upper()}").encode("utf-8")
            (self.checkout.files / name.replace("step_", "")).write_bytes(content)
        outcome = self.checkout.outcome(done.returncode, done.stdout + done.stderr)
        for text in (outcome.log, outcome.summary, *self.github.bodies()):
            assert "ragstone-private-" not in text, "a path that nobody outside the container can open"
        return outcome

    def execute(
        self, event: str, /, *, environ: dict[str, str] | None = None, **inputs: str
    ) -> subprocess.CompletedProcess[str]:
        """The same, with nothing read afterwards."""
        given = {name.replace("_", "-"): value for name, value in inputs.items()}
        for old in self.commands.iterdir():
            old.unlink()
        files = {name: f"/github/file_commands/{name.lower()}_1" for name in COMMAND_FILES}
        for path in files.values():
            (self.commands / Path(path).name).touch()
        variables = {
            **runner(event),
            **files,
            "GITHUB_API_URL": self.github.api_url,
            "GITHUB_WORKSPACE": "/github/workspace",
            "HOME": "/github/home",
            "RUNNER_TEMP": "/github/runner_temp",
            "pythonLocation": "/opt/hostedtoolcache/Python/3.12.0/x64",
            "LD_LIBRARY_PATH": "/opt/hostedtoolcache/Python/3.12.0/x64/lib",
            **{spec.runner_variable: given.get(spec.name, spec.default) for spec in INPUTS},
            **SECRETS,
            **(environ or {}),
        }
        with_payload({}, payload_of(event), self.workflow)
        variables["GITHUB_EVENT_PATH"] = "/github/workflow/event.json"
        self.give_to_owner()
        mounts = {
            self.checkout.root: "/github/workspace",
            self.home: "/github/home",
            self.workflow: "/github/workflow",
            self.commands: "/github/file_commands",
            self.temporary: "/github/runner_temp",
            # Through the image's link this is /var/run/docker.sock; buildah would follow the link out of the image.
            self.socket_path: "/run/docker.sock",
        }
        arguments = [*RUN, "--workingdir", "/github/workspace"]
        for name, value in variables.items():
            arguments += ["--env", f"{name}={value}"]
        for source, target in mounts.items():
            arguments += ["--volume", f"{source}:{target}"]
        entrypoint = ["/opt/ragstone/bin/python", "-I", "-m", "ragstone.action"]
        return buildah(*arguments, self.image.name, "--", *entrypoint, check=False)

    def give_to_owner(self) -> None:
        for top in (self.checkout.root, self.temporary):
            for path in (top, *top.rglob("*")):
                os.chown(path, OWNER, OWNER, follow_symlinks=False)

    def command_file(self, name: str) -> str:
        """What the runner reads, by the path that it knows."""
        path = self.commands / f"{name.lower()}_1"
        assert stat.S_ISREG(path.lstat().st_mode), path
        return path.read_text(encoding="utf-8")


def make_checkout(fake: FakeGitHub, folder: Path) -> Checkout:
    found = Checkout(fake, folder)
    # pytest's folders are closed to others; the owner of the workspace has to get through.
    for above in (folder, *folder.parents):
        if above.name.startswith("pytest-"):
            above.chmod(0o755)
    folder.chmod(0o755)
    return found


@contextmanager
def runner_of(image: Image, checkout: Checkout) -> Iterator[Runner]:
    folder = checkout.root.parent / "host"
    folder.mkdir()
    checkout.github.add_run(900, event="pull_request", branch="topic", status="in_progress", conclusion="neutral")
    found = Runner(image, checkout, folder)
    try:
        yield found
    finally:
        kill_all_of(OWNER)
        found.socket.close()


@pytest.fixture
def checkout(github: FakeGitHub, tmp_path: Path) -> Checkout:  # noqa: F811
    return make_checkout(github, tmp_path)


@pytest.fixture
def step(image: Image, checkout: Checkout) -> Iterator[Runner]:
    with runner_of(image, checkout) as found:
        yield found
