"""`setup` and `requirements`: what they see, how long they may take, and what is shown of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep

import pytest

from ragstone.errors import SystemUnderTestError, TimeLimitReached
from ragstone.github.container.confinement import Confinement, confine, living
from ragstone.github.container.user_environment import Steps, SystemSetup, install_environ
from ragstone.system.child import MAX_LOG_BYTES
from ragstone.system.environment import RunAs
from tests.needs import needs_root

OWNER = 1_000_000 + os.getpid()


@pytest.mark.attack(
    by="pull request", tries="read a package index's password in `setup`", stopped_by="only `system-env` is passed"
)
def test_settings_of_installers_are_not_passed_on_unless_they_are_named(tmp_path: Path) -> None:
    confinement = Confinement(RunAs(1, 1, tmp_path), tmp_path)
    given = {
        "UV_INDEX_PRIVATE_PASSWORD": "s3cret",
        "PIP_INDEX_URL": "https://me:s3cret@packages.example.com",
        "UV_INDEX_URL": "https://packages.example.com",
        "HTTPS_PROXY": "http://me:s3cret@proxy.example.com",
        "HTTP_PROXY": "http://proxy.example.com",
        "PATH": "/bin",
    }
    unnamed = install_environ(given, confinement, ())
    assert "s3cret" not in str(unnamed)
    assert not {"UV_INDEX_URL", "PIP_INDEX_URL"} & unnamed.keys()
    assert unnamed["HTTP_PROXY"] == "http://proxy.example.com"
    named = install_environ(given, confinement, ("UV_INDEX_PRIVATE_PASSWORD", "HTTPS_PROXY"))
    assert (named["UV_INDEX_PRIVATE_PASSWORD"], named["HTTPS_PROXY"]) == ("s3cret", given["HTTPS_PROXY"])
    assert "PIP_INDEX_URL" not in named


def test_a_system_has_an_environment_of_its_own_if_anything_is_set_up() -> None:
    assert not SystemSetup().needs_environment
    for setup in (SystemSetup("make"), SystemSetup(requirements=("r.txt",)), SystemSetup(python_version="3.12")):
        assert setup.needs_environment


@pytest.fixture
def run(open_folder: Path) -> Callable[..., str]:
    """Runs lines of shell as a step, and gives what was shown of them."""
    workspace, temporary = open_folder / "workspace", open_folder / "temporary"
    for folder in (workspace, temporary):
        folder.mkdir()
        os.chown(folder, OWNER, OWNER)
    confinement = confine(workspace, temporary, sockets=())
    assert confinement is not None
    shown: list[str] = []

    def step(
        lines: str, *, sign: Path = Path(os.devnull), limit_s: float = 600.0, deadline: float | None = None
    ) -> str:
        def show(line: str) -> None:
            shown.append(line)
            sign.touch()

        steps = Steps(confinement, {"PATH": os.defpath}, workspace, show, limit_s, deadline)
        steps.run(["/bin/sh", "-c", lines], "the setup script")
        return "".join(shown)

    return step


@needs_root
def test_output_is_shown_while_the_step_goes_on(run: Callable[..., str], open_folder: Path) -> None:
    sign = open_folder / "seen"
    shown = run(f"echo one; while [ ! -e {sign} ]; do sleep 0.01; done; echo two", sign=sign)
    assert shown == "one\ntwo\n"


@pytest.mark.heavy
@needs_root
def test_output_is_bounded_and_its_end_is_still_what_an_error_shows(run: Callable[..., str]) -> None:
    shown = run(f"head -c {2 * MAX_LOG_BYTES} /dev/zero | tr '\\0' x; true")
    assert MAX_LOG_BYTES <= len(shown) < MAX_LOG_BYTES + 100_000
    assert shown.endswith("the rest is left out\n")
    with pytest.raises(SystemUnderTestError, match=r"exit code 3:\n(.|\n)*the very end") as caught:
        run(f"yes | head -c {2 * MAX_LOG_BYTES}; echo the very end; exit 3")
    assert len(caught.value.message) < 1000


@needs_root
def test_a_step_that_takes_too_long_is_ended_with_all_that_it_started(run: Callable[..., str]) -> None:
    with pytest.raises(SystemUnderTestError, match="the setup script took longer than 1 s:\ninstalling") as caught:
        run("echo installing; sleep 600 & sleep 600", limit_s=1.0)
    assert caught.value.exit_code == 4
    # All of them were killed; the kernel may still be ending the one that isn't a child of ours.
    given_up = monotonic() + 30.0
    while living(OWNER) and monotonic() < given_up:
        sleep(0.01)
    assert living(OWNER) == {}


@needs_root
def test_a_step_that_uses_up_the_time_of_the_whole_ends_as_that(run: Callable[..., str]) -> None:
    with pytest.raises(TimeLimitReached, match="the time limit was reached during the setup script") as caught:
        run("sleep 600", deadline=monotonic() + 0.5)
    assert caught.value.exit_code == 124
    assert "--resume" not in str(caught.value), "nothing was evaluated yet"
