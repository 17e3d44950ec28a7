"""A system that answers nothing: one sentence, exit code 4, and the right advice."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.cli.project import append, make_project, ragstone, read_json

BROKEN = 'def answer(question):\n    raise RuntimeError("no database")\n'
UNFLUSHED = 'import sys\nfor line in sys.stdin:\n    print(\'{"answer": "x"}\')\n'
HANGING = "import sys, time\nfor line in sys.stdin:\n    time.sleep(600)\n"


def test_gate_run_and_docs_agree_on_the_exit_code_and_there_is_one_sentence(tmp_path: Path) -> None:
    project = make_project(tmp_path, n=6, system=BROKEN)
    assert "6 without an answer" in ragstone(["run"], project, exit_code=4).stdout
    checked = ragstone(["check"], project, exit_code=4)
    assert "no database" in checked.stderr
    assert "timeout_s" not in checked.stderr, "it is only raised after a timeout"
    found = ragstone(["gate", "--verbose"], project, exit_code=4)
    first, *others = found.stdout.splitlines()
    assert first.startswith("✘ Blocked: ")
    assert "failed on all of 6 samples: raised: RuntimeError: no database" in first
    assert first in others
    shown = found.stdout.partition("To reproduce")[0]
    for noise in ("coverage", "Coverage", "Faithfulness", "offline judge", "applies to no sample", "no baseline"):
        assert noise not in shown
    report = read_json(project / "ragstone-run/report.json")
    assert [check["name"] for check in report["checks"]] == ["system.answers"]
    for name in ("report.html", "report.md"):
        text = (project / "ragstone-run" / name).read_text(encoding="utf-8")
        assert "failed on all of 6 samples" in text
        assert "Trust its changes" not in text


def test_a_command_that_keeps_its_answers_in_a_buffer_is_told_so(tmp_path: Path) -> None:
    project = make_project(tmp_path, n=1)
    (project / "rag.py").write_text(UNFLUSHED, encoding="utf-8")
    append(project / "ragstone.toml", "startup_timeout_s = 0.5\ntimeout_s = 0.5\nretries = 0\n")
    command = ["--entrypoint", f"command:{sys.executable} rag.py"]
    checked = ragstone(["check", *command], project, exit_code=4)
    assert "print(line, flush=True)" in checked.stderr
    found = ragstone(["gate", *command, "--verbose"], project, exit_code=4)
    assert "it must flush each line" in " ".join(found.stdout.split())
    (project / "rag.py").write_text(HANGING, encoding="utf-8")
    hanging = ragstone(["check", *command], project)
    assert "raise timeout_s in [system]" in hanging.stderr
