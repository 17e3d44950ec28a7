from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.image.conftest import CAPABILITIES, Image

pytestmark = pytest.mark.container
ROOT = Path(__file__).parents[2]
COMPILERS = "gcc cc g++ make ld rustc cargo go"


def test_the_image_is_small(image: Image) -> None:
    found = image.shell("du -sxm --apparent-size --exclude=/proc --exclude=/sys --exclude=/dev / | cut -f1")
    megabytes = int(found.stdout.split()[0])
    print(f"{megabytes} MB unpacked on {image.base}")
    assert megabytes < 450


def test_these_tests_run_it_with_the_rights_that_docker_gives(image: Image) -> None:
    status = dict(line.split(":\t") for line in image.shell("cat /proc/self/status").stdout.splitlines())
    assert int(status["CapBnd"], 16) == int(status["CapEff"], 16) == CAPABILITIES
    assert status["Seccomp"] == "2", "system calls are filtered"


def test_no_compiler_is_left_in_it(image: Image) -> None:
    assert image.shell(f"for name in {COMPILERS}; do command -v $name; done").stdout == ""


def test_the_entrypoint_is_exec_form_and_absolute(image: Image) -> None:
    config = json.loads(image.inspect())["OCIv1"]["config"]
    assert config["Entrypoint"] == ["/opt/ragstone/bin/python", "-I", "-m", "ragstone.action"]
    assert not config.get("Cmd")


def test_git_trusts_the_workspace_whatever_home_is(image: Image) -> None:
    assert image.shell("HOME=/nowhere git config --get-all safe.directory").stdout.strip() == "*"


@pytest.mark.attack(by="pull request", tries="shadow a module of the gate", stopped_by="Python runs isolated (`-I`)")
def test_ragstone_is_in_an_environment_of_its_own(image: Image) -> None:
    assert image.shell("/opt/ragstone/bin/python -I -c 'import ragstone'").returncode == 0
    assert image.shell("python3 -c 'import ragstone'").returncode != 0
    assert image.shell("uv --version").returncode == 0


@pytest.mark.attack(by="supply chain", tries="a setuid program in the image", stopped_by="there is none")
def test_no_program_gains_rights(image: Image) -> None:
    assert image.shell("find / -xdev -type f -perm /6000").stdout == ""
    assert image.shell("command -v getcap || true").stdout == ""


@pytest.mark.attack(by="supply chain", tries="replace a package of the image", stopped_by="pinned by hash")
def test_it_holds_what_the_lock_pins_and_nothing_else(image: Image) -> None:
    listing = "import importlib.metadata as m; print(*(f'{d.name}=={d.version}' for d in m.distributions()))"
    found = image.shell(f'/opt/ragstone/bin/python -I -c "{listing}"').stdout.split()
    lock = (ROOT / "requirements/image.txt").read_text(encoding="utf-8")
    pinned = set(re.findall(r"^([\w.-]+==\S+)", lock, re.MULTILINE))
    assert len(found) > 20
    unpinned = {one.lower().replace("_", "-") for one in found} - pinned
    assert {one.partition("==")[0] for one in unpinned} == {"ragstone"}
