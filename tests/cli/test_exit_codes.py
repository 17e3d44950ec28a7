"""Every exit code of the documentation, reached the way a user would reach it."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ragstone.cli import main
from tests.cli.project import POLICY, SYSTEM, make_project, ragstone

INVENTING = SYSTEM.replace(
    '"answer": fact,', '"answer": fact + " The mayor of Lisbon sold it in 1921 for 300 ducats.",'
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path / "repo")


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    ("system", "code", "closed"),
    [(SYSTEM, 0, "both"), (INVENTING, 1, "stdout"), (INVENTING, 1, "stderr")],
    ids=["pass, both", "fail, stdout", "fail, stderr"],
)
def test_the_verdict_counts_although_nobody_reads_all_of_it(project: Path, system: str, code: int, closed: str) -> None:
    """As with ``ragstone gate 2>&1 | head -n 1``."""
    (project / "houses.py").write_text(system)
    reader, writer = os.pipe()
    os.close(reader)
    gone = {name: writer for name in ("stdout", "stderr") if closed in (name, "both")}
    with (project / "read.txt").open("wb") as read:
        done = subprocess.run(
            [sys.executable, "-m", "ragstone", "gate"],
            cwd=project,
            stdin=subprocess.DEVNULL,
            **{"stdout": read, "stderr": read, **gone},  # type: ignore[call-overload]
        )
    os.close(writer)
    assert done.returncode == code
    assert b"Traceback" not in (project / "read.txt").read_bytes()


@pytest.mark.parametrize(("answer", "rules"), [("", POLICY), ("Ask me later.", None)])
def test_1_a_system_that_answers_nothing_fails_a_first_run_with_and_without_a_policy(
    project: Path, answer: str, rules: str | None
) -> None:
    source = f"def answer(question):\n    return {{'answer': {answer!r}, 'contexts': ['A page.']}}\n"
    (project / "houses.py").write_text(source)
    if rules is None:
        (project / "thresholds.toml").unlink()
    done = ragstone(["gate"], project, exit_code=1)
    assert "There is no baseline, so no drop was checked." in done.stdout
    assert ("There is no policy file" in done.stdout) is (rules is None)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["gate", "--no-such-flag"], "--no-such-flag"),
        (["gaet"], "No such command 'gaet'. Did you mean 'gate'?"),
        (["history", "ad"], "No such command 'ad'. Did you mean 'add'?"),
        (["run", "--judge", "oracle"], "oracle"),
        (["run", "--metrics", "faithfullness"], "Did you mean 'faithfulness'?"),
        (["gate", "--thresholds", "unknown.toml"], "unknown.toml:1"),
        (["gate", "--config", "wrong.toml"], "Did you mean 'paths'"),
    ],
)
def test_2_usage(project: Path, arguments: list[str], says: str) -> None:
    (project / "unknown.toml").write_text("[metrics.faithfullness]\nmin = 0.8\n")
    (project / "wrong.toml").write_text("[golden]\npath = 'x'\n")
    done = ragstone(arguments, project, exit_code=2)
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert not (project / "ragstone-run").exists()


def test_a_pipe_that_windows_says_is_closed_ends_no_command_and_nothing_else_is_taken_for_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """There, writing to such a pipe is an invalid argument: as one byte is to a counter of events here."""
    with main._PipeOutput(os.eventfd(0), "w") as stream, pytest.raises(OSError, match="Invalid argument"):
        stream.write(b"x")
    monkeypatch.setattr(main, "_NO_READER_ERRORS", {*main._NO_READER_ERRORS, errno.EINVAL})
    with main._PipeOutput(os.eventfd(0), "w") as stream:
        assert stream.write(b"x") == 1
        assert stream.write(b"more") == 4


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "no samples"), ('{"question": ""}\n', "or none with text in it"), ("{]\n", "golden.jsonl:1")],
    ids=["empty", "blank question", "not JSON"],
)
def test_3_a_golden_set_that_is_not_valid(project: Path, text: str, message: str) -> None:
    (project / "golden.jsonl").write_text(text)
    done = ragstone(["gate"], project, exit_code=3)
    assert message in done.stderr.lower()
    assert not (project / "ragstone-run").exists()


def test_4_an_entrypoint_that_can_not_be_imported_shows_the_users_traceback_once(project: Path) -> None:
    (project / "houses.py").write_text("import a_module_that_is_not_there\n")
    done = ragstone(["gate"], project, exit_code=4)
    assert done.stderr.count("Traceback (most recent call last)") == 1
    assert not (project / "ragstone-run").exists()
    assert "houses.py" in done.stderr
