"""Every exit code of the documentation, reached the way a user would reach it."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from ragstone.cli import main
from tests.cli.project import POLICY, SYSTEM, make_project, ragstone, read_json

INVENTING = SYSTEM.replace(
    '"answer": fact,', '"answer": fact + " The mayor of Lisbon sold it in 1921 for 300 ducats.",'
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path / "repo")


@pytest.fixture
def baseline(project: Path) -> Path:
    ragstone(["run", "--out", "baseline"], project, exit_code=0)
    return project / "baseline"


def test_0_a_good_system_passes(project: Path, baseline: Path) -> None:
    done = ragstone(["gate", "--baseline", "baseline"], project, exit_code=0)
    assert "✔ Nothing is shown to be worse" in done.stdout
    assert read_json(project / "ragstone-run" / "manifest.json")["verdict"] == "pass"
    for name in ("report.md", "report.json", "junit.xml", "report.html"):
        assert (project / "ragstone-run" / name).stat().st_size > 200


@pytest.mark.heavy
def test_1_a_system_that_invents_things_fails_and_the_output_says_where_to_look(project: Path, baseline: Path) -> None:
    (project / "houses.py").write_text(INVENTING)
    done = ragstone(["gate", "--baseline", "baseline"], project, exit_code=1)
    assert "faithfulness" in done.stdout.lower()
    assert "generation" in done.stdout.lower()
    assert "house-" in done.stdout


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    ("system", "code", "closed"),
    [(SYSTEM, 0, "both"), (INVENTING, 1, "both"), (INVENTING, 1, "stdout"), (INVENTING, 1, "stderr")],
    ids=["pass, both", "fail, both", "fail, stdout", "fail, stderr"],
)
def test_the_verdict_counts_although_nobody_reads_it_to_its_end(
    project: Path, system: str, code: int, closed: str
) -> None:
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
    (project / "houses.py").write_text(
        f"def answer(question):\n    return {{'answer': {answer!r}, 'contexts': ['A page.']}}\n"
    )
    if rules is None:
        (project / "thresholds.toml").unlink()
    done = ragstone(["gate"], project, exit_code=1)
    assert "There is no baseline, so no drop was checked." in done.stdout
    assert ("There is no policy file" in done.stdout) is (rules is None)


def test_2_a_setting_that_does_not_exist(project: Path) -> None:
    (project / "ragstone.toml").write_text("[golden]\npath = 'x'\n")
    done = ragstone(["gate"], project, exit_code=2)
    assert "Did you mean 'paths'" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["gate", "--no-such-flag"],
        ["no-such-command"],
        ["run", "--judge", "oracle"],
        ["run", "--metrics", "faithfullness"],
        ["gate", "--thresholds", "unknown.toml"],
    ],
)
def test_2_usage(project: Path, arguments: list[str]) -> None:
    (project / "unknown.toml").write_text("[metrics.faithfullness]\nmin = 0.8\n")
    done = ragstone(arguments, project, exit_code=2)
    assert "Traceback" not in done.stderr
    assert not (project / "ragstone-run").exists()


@pytest.mark.parametrize(("wrong", "right"), [(["gaet"], "gate"), (["history", "ad"], "add")])
def test_2_a_misspelt_command_gets_a_suggestion(project: Path, wrong: list[str], right: str) -> None:
    done = ragstone(wrong, project, exit_code=2)
    assert f"No such command '{wrong[-1]}'. Did you mean '{right}'?" in done.stderr


def test_2_a_rule_by_tag_is_a_slice(project: Path) -> None:
    (project / "thresholds.toml").write_text("[tags.even.metrics.faithfulness]\nmin = 0.5\n")
    done = ragstone(["gate"], project, exit_code=2)
    assert "thresholds.toml:1: unknown key 'tags'" in done.stderr
    assert "[slices.TAG.metrics.NAME]" in done.stderr


def test_a_pipe_that_windows_says_is_closed_ends_no_command_and_nothing_else_is_taken_for_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """There, writing to such a pipe is an invalid argument: as one byte is to a counter of events here."""
    with main._Outliving(os.eventfd(0), "w") as stream, pytest.raises(OSError, match="Invalid argument"):
        stream.write(b"x")
    monkeypatch.setattr(main, "_CLOSED", {*main._CLOSED, errno.EINVAL})
    with main._Outliving(os.eventfd(0), "w") as stream:
        assert stream.write(b"x") == 1
        assert stream.write(b"more") == 4


def commands(group: click.Group, *path: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        assert found is not None
        yield " ".join((*path, name)), found
        if isinstance(found, click.Group):
            yield from commands(found, *path, name)


@pytest.mark.parametrize(("name", "command"), [pytest.param(*one, id=one[0]) for one in commands(main.cli)])
def test_out_is_a_directory_of_runs_and_o_any_other_output(name: str, command: click.Command) -> None:
    for option in command.params:
        if not isinstance(option, click.Option) or option.hidden:
            continue
        if "--out" in option.opts:
            assert (option.opts, option.metavar) == (["--out"], "DIR")
        if {"-o", "--output"} & {*option.opts}:
            assert option.opts == ["-o", "--output"], name


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "no samples"), ('{"question": ""}\n', "the column 'question' has no text"), ("{]\n", "golden.jsonl:1")],
    ids=["empty", "blank question", "not JSON"],
)
def test_3_a_golden_set_that_is_not_valid(project: Path, text: str, message: str) -> None:
    (project / "golden.jsonl").write_text(text)
    done = ragstone(["gate"], project, exit_code=3)
    assert message in done.stderr.lower()
    assert not (project / "ragstone-run").exists()


def test_3_a_golden_set_that_is_not_there(project: Path) -> None:
    assert ragstone(["gate", "--golden", "nowhere.jsonl"], project).returncode == 3


def test_4_an_entrypoint_that_can_not_be_imported_shows_the_users_traceback_once(project: Path) -> None:
    (project / "houses.py").write_text("import a_module_that_is_not_there\n")
    done = ragstone(["gate"], project, exit_code=4)
    assert done.stderr.count("Traceback (most recent call last)") == 1
    assert not (project / "ragstone-run").exists()
    assert "houses.py" in done.stderr


@pytest.mark.heavy
def test_1_a_system_that_fails_on_many_samples(project: Path) -> None:
    failing = SYSTEM.replace("    fact = FACTS", "    if '3' in question: raise ValueError('no')\n    fact = FACTS")
    (project / "houses.py").write_text(failing)
    done = ragstone(["gate"], project, exit_code=1)
    assert "coverage" in done.stdout.lower()


def test_6_a_baseline_that_is_not_there(project: Path) -> None:
    ragstone(["gate", "--baseline", "nowhere"], project, exit_code=6)
    assert not (project / "ragstone-run").exists()


@pytest.mark.heavy
def test_8_inconclusive_where_the_policy_says_that_blocks(tmp_path: Path) -> None:
    blocks = 'min_coverage = 0.98\ninconclusive = "fail"\non_no_baseline = "warn"'
    project = make_project(tmp_path / "repo", n=20, policy=POLICY.replace("min_coverage = 0.98", blocks))
    done = ragstone(["gate"], project, exit_code=8)
    assert "there is no baseline to compare with" in done.stdout.lower()
    assert ragstone(["gate", "--fail-on", "never"], project).returncode == 0


@pytest.mark.heavy
def test_fail_on_never_turns_a_failed_gate_into_zero_and_leaves_errors_alone(project: Path, baseline: Path) -> None:
    (project / "houses.py").write_text(INVENTING)
    assert ragstone(["gate", "--baseline", "baseline", "--fail-on", "never"], project).returncode == 0
    assert ragstone(["gate", "--baseline", "nowhere", "--fail-on", "never"], project).returncode == 6
