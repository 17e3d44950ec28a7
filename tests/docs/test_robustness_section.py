"""docs/generate.md, robustness: its commands write rows that its slices gate."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from tests.cli.project import SYSTEM, make_project, ragstone
from tests.docs.page import blocks, page

PAGE = page("generate", "Robustness")


def test_the_commands_of_the_page_fail_a_system_that_looks_questions_up_word_for_word(tmp_path: Path) -> None:
    policy = f"[gate]\nonly_named = true\n{blocks(PAGE, 'toml')[0]}"
    project = make_project(tmp_path / "repo", n=60, system=SYSTEM, policy=policy)
    generate, gate = (shlex.split(line.removeprefix("$ ragstone ")) for line in blocks(PAGE, "console")[0].splitlines())
    ragstone(generate, project, exit_code=0)
    done = ragstone([*gate, "--format", "json"], project, exit_code=1)
    checks = {check["name"]: check["status"] for check in json.loads(done.stdout)["checks"]}
    assert checks["perturbed:typos/answer_correctness.floor"] == "fail"
    assert checks["perturbed:injection/assertions.floor"] == "pass"
