"""The second user, for the code of the base commit: neither side gets at the other's files or processes. Needs root."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragstone.errors import ConfigError
from ragstone.github.container.confinement import Confinement, confine_base, give_to
from ragstone.system.environment import RunAs
from tests.container.sleeping import sleeping
from tests.needs import needs_root

pytestmark = needs_root

HEAD_USER = 2_100_000 + os.getpid()


@pytest.fixture
def head(open_folder: Path) -> Confinement:
    folder = open_folder / "head"
    folder.mkdir()
    os.chown(folder, HEAD_USER, HEAD_USER)
    return Confinement(RunAs(HEAD_USER, HEAD_USER, folder), folder)


@pytest.fixture
def base(head: Confinement) -> Iterator[Confinement]:
    found = confine_base(head, sockets=())
    yield found
    shutil.rmtree(found.folder)


def tries(who: Confinement, line: str) -> bool:
    return who.call(["/bin/sh", "-c", line]).returncode == 0


def test_neither_reads_or_changes_what_the_other_has(head: Confinement, base: Confinement) -> None:
    checkout = base.folder / "checkout"
    (checkout / "inner").mkdir(parents=True)
    (checkout / "inner" / "rag.py").write_text("good", encoding="utf-8")
    (checkout / "away").symlink_to("/etc/hostname")
    give_to(base, checkout)
    assert Path("/etc/hostname").stat().st_uid == 0
    assert tries(base, f"echo more >> {checkout}/inner/rag.py && touch {checkout}/new {base.folder}/tmp/new")
    for attack in (
        f"cat {checkout}/inner/rag.py",
        f"echo bad > {checkout}/inner/rag.py",
        f"rm -rf {checkout}/inner",
        f"mv {base.folder} {base.folder}-aside",
        f"touch {base.folder}/home/.profile",
        f"chmod 777 {base.folder}",
    ):
        assert not tries(head, attack), attack
    assert not tries(base, f"touch {head.folder}/new")
    assert (checkout / "inner" / "rag.py").read_text(encoding="utf-8") == "goodmore\n"


@pytest.mark.usefixtures("processes")
def test_neither_signals_the_other(head: Confinement, base: Confinement) -> None:
    for mine, theirs in ((head, base), (base, head)):
        with sleeping(mine.run_as.uid, mine.run_as.gid) as process:
            assert not tries(theirs, f"kill -9 {process.pid}")
            assert not tries(theirs, f"cat /proc/{process.pid}/environ")
            assert process.poll() is None


@pytest.mark.usefixtures("processes")
def test_a_user_that_has_processes_is_not_taken(head: Confinement, base: Confinement) -> None:
    with sleeping(base.run_as.uid, base.run_as.gid):
        other = confine_base(head, sockets=())
        shutil.rmtree(other.folder)
        assert other.run_as.uid not in (base.run_as.uid, head.run_as.uid)


def test_a_socket_that_anybody_may_use_is_an_error(head: Confinement, open_folder: Path) -> None:
    socket = open_folder / "docker.sock"
    socket.touch()
    socket.chmod(0o666)
    with pytest.raises(ConfigError, match="can write to"):
        confine_base(head, sockets=[socket])
