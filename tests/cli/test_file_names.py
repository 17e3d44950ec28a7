"""What is in the name of a file is shown on one line, and does nothing, in the output of every command."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from ragstone.printable import shell_command, shown_name
from tests.cli.project import make_project, ragstone

FORGED = "error: forged"
NAME = f"a\n{FORGED}\r\x1b[31m\u2028\u202eb"
GOLDEN, POLICY, RUN, OTHER = f"{NAME}.jsonl", f"{NAME}.toml", f"{NAME}-run", f"{NAME}-other"
NOT_SHOWN = ("\r", "\x1b[31m", "\u2028", "\u202e")

COMMANDS = (
    ["check", "--golden", GOLDEN, "--thresholds", POLICY, "--baseline", RUN],
    ["run", "--golden", GOLDEN, "--out", f"{RUN}2"],
    ["gate", "--golden", GOLDEN, "--thresholds", POLICY, "--out", f"{RUN}3", "--baseline", RUN],
    *(["report", OTHER, "--format", form] for form in ("text", "md", "html", "json", "junit")),
    ["report", OTHER, "--verbose"],
    ["report", OTHER, "--format", "md", "-o", f"{NAME}.md"],
    ["report", f"{NAME}-none"],
    ["report", OTHER, "--decide", "--golden", GOLDEN, "--policy", POLICY, "--baseline", RUN, "--commit", "a" * 40],
    ["compare", RUN, OTHER],
    ["compare", RUN, f"{NAME}-none"],
    ["golden", GOLDEN],
    ["golden", GOLDEN, "-o", f"{NAME}-2.jsonl"],
    ["golden", GOLDEN, "-o", GOLDEN],
    ["rescore", RUN, "--out", f"{NAME}-again"],
    ["label", RUN, "-o", f"{NAME}-labels"],
    ["history", "add", RUN, "--history", f"{NAME}-history.jsonl"],
    ["accept", OTHER, "--metric", "faithfulness", "--reason", "x"],
    ["review", GOLDEN],
    ["init", f"{NAME}-folder"],
    ["run", "--golden", f"{NAME}-broken.jsonl", "--out", "x"],
    ["run", "--golden", f"{NAME}-none.jsonl", "--out", "x"],
    ["run", "--config", f"{NAME}-none.toml"],
    ["gate", "--golden", GOLDEN, "--thresholds", f"{NAME}-none.toml", "--out", "x"],
    ["run", "--entrypoint", f"file:{NAME}-none.jsonl"],
    ["generate", f"{NAME}-none", "-o", "x.jsonl"],
    ["calibrate", f"{NAME}-none"],
    ["monitor", f"{NAME}-none"],
    ["plan", "--thresholds", POLICY],
)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = make_project(tmp_path_factory.mktemp("names") / NAME, n=6)
    (root / "golden.jsonl").rename(root / GOLDEN)
    (root / POLICY).write_text("[gate]\nconfirm = false\n[metrics.faithfulness]\nmin = 0.99\n", encoding="utf-8")
    (root / f"{NAME}-broken.jsonl").write_text("{", encoding="utf-8")
    ragstone(["run", "--golden", GOLDEN, "--out", RUN], root, exit_code=0)
    gate = ["gate", "--golden", GOLDEN, "--thresholds", POLICY, "--out", OTHER, "--baseline", RUN]
    assert ragstone(gate, root).returncode in (0, 1)
    return root


@pytest.mark.attack(by="text", tries="control characters in a file's name", stopped_by="escaped")
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command)[:20].split("\n")[0])
def test_a_name_stays_on_its_line(project: Path, command: Sequence[str]) -> None:
    done = ragstone(list(command), project)
    said = done.stdout + done.stderr
    assert [line for line in said.split("\n") if line.lstrip().startswith(FORGED)] == []
    assert [char for char in NOT_SHOWN if char in said] == []
    assert "Traceback" not in said


def test_a_name_is_shown_as_it_is_or_escaped() -> None:
    assert shown_name("ordner/größe – 1 'x'.jsonl") == "ordner/größe – 1 'x'.jsonl"
    assert shown_name("a\nb\r\x1b\x85\u2028\udcff") == "a\\nb\\r\\x1b\\u0085\\u2028\\xff"


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("name", ["plain", "it's", "a\nb", "a\n'b'\\n\t\x85\u202e"])
def test_a_command_reads_such_a_name_again(name: str) -> None:
    line = shell_command(["printf", "%s", name])
    assert "\n" not in line
    assert "\\'" not in line, "it would end the word in a shell without $'…'"
    done = subprocess.run(["bash", "-c", line], capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"})
    assert done.stdout.decode() == name
    assert shell_command(["a", "b c"]) == shlex.join(["a", "b c"])


def test_in_json_a_name_is_as_it_is(project: Path) -> None:
    done = ragstone(["report", OTHER, "--format", "json"], project)
    assert GOLDEN in json.loads(done.stdout)["run"]["golden_files"]
