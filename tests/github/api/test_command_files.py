"""The files that the runner reads are written through no link."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from ragstone.github.api.commands import open_to_append, write_outputs, write_summary

on_posix = pytest.mark.skipif(os.name != "posix", reason="links and pipes of POSIX")
FAKES: dict[str, Callable[[Path, Path], None]] = {
    "link": lambda path, precious: path.symlink_to(precious),
    "dangling link": lambda path, precious: path.symlink_to(precious.with_name("new")),
    "second name": lambda path, precious: path.hardlink_to(precious),
    "pipe": lambda path, _: os.mkfifo(path),
    "folder": lambda path, _: path.mkdir(),
}


@pytest.mark.attack(by="pull request", tries="a link or a pipe for outputs", stopped_by="only regular files")
@on_posix
@pytest.mark.parametrize("fake", FAKES)
def test_outputs_and_summary_are_written_to_regular_files_only(tmp_path: Path, fake: str) -> None:
    precious, path = tmp_path / "precious", tmp_path / "command"
    precious.write_text("keep", encoding="utf-8")
    FAKES[fake](path, precious)
    with pytest.raises(OSError, match=r"."):
        write_outputs(path, {"verdict": "fail"})
    with pytest.raises(OSError, match=r"."):
        write_summary(path, "text")
    assert precious.read_text(encoding="utf-8") == "keep"
    assert not precious.with_name("new").exists()


@on_posix
def test_a_pipe_that_somebody_reads_is_not_written_to(tmp_path: Path) -> None:
    path = tmp_path / "command"
    os.mkfifo(path)
    held: list[bytes] = []
    reader = threading.Thread(target=lambda: held.append(path.read_bytes()))
    reader.start()
    while not held and reader.is_alive():
        try:
            with open_to_append(path) as file:
                file.write(b"verdict=fail\n")
        except OSError as error:
            if error.strerror == "it is not a regular file":
                break
    reader.join()
    assert held == [b""]
