"""In the built container: files of a pull request that try to steal the key, or to say what the verdict is."""

from __future__ import annotations

import os
import re
import shutil

import pytest

from ragstone.evaluation.directory import SAMPLES
from tests.github.api.fake import FakeGitHub
from tests.github.test_hostile_checkout import FORGED, HOSTILE
from tests.github.test_trusted_config import Listener, listener
from tests.image.conftest import RECORDED, Runner

__all__ = ["listener"]

pytestmark = pytest.mark.container


def test_the_judges_key_does_not_go_where_the_checkout_says(step: Runner, listener: Listener) -> None:
    step.checkout.write("ragstone.toml", f'[judge]\nname = "openai:gpt-5.4-mini"\nbase_url = "{listener.url}"\n')
    found = step.run(**RECORDED)
    assert found.code == 2, found.log
    assert "judge.base_url" in found.log
    assert listener.heard == []


def test_a_committed_baseline_is_refused(step: Runner) -> None:
    assert step.run("push", **RECORDED).code == 0
    forged = step.checkout.root / "fb"
    shutil.copytree(step.checkout.root / "ragstone-run", forged)
    recorded = (forged / SAMPLES).read_text()
    changed = re.sub(r'("faithfulness":\{[^{}]*"value":)[0-9.e-]+', r"\g<1>0.1", recorded)
    assert changed != recorded
    (forged / SAMPLES).write_text(changed)
    step.checkout.write("ragstone.toml", '[gate]\nbaseline = "fb"\n')
    found = step.run(**RECORDED)
    assert found.code == 2, found.log
    assert "gate.baseline" in found.log
    (step.checkout.root / "ragstone.toml").unlink()
    assert step.run(baseline="fb", **RECORDED).code == 6


def test_what_the_system_writes_while_it_runs_says_nothing(step: Runner, github: FakeGitHub) -> None:
    (step.checkout.root / "rag.sh").write_text(HOSTILE.format(forged=FORGED), encoding="utf-8")
    (step.checkout.root / "rag.sh").chmod(0o755)
    found = step.run(**{**RECORDED, "entrypoint": "command:./rag.sh"})
    assert (step.checkout.root / "templates" / "report.md.j2").is_file()
    assert (found.code, found.outputs["verdict"]) == (1, "fail"), found.log
    [comment] = github.bodies()
    for text in (comment.partition("\n")[2], found.summary):
        assert text.startswith("## ❌ Blocked: ")
        assert "evil.example" not in text


@pytest.mark.parametrize(("name", "code"), [("thresholds.toml", 2), ("golden.jsonl", 3), ("outputs.jsonl", 4)])
def test_a_pipe_in_place_of_a_file_ends_with_its_code(step: Runner, name: str, code: int) -> None:
    (step.checkout.root / name).unlink()
    os.mkfifo(step.checkout.root / name)
    found = step.run(**RECORDED)
    assert found.code == code, found.log


def test_a_policy_that_leads_nowhere_is_not_taken_for_none(step: Runner) -> None:
    (step.checkout.root / "thresholds.toml").unlink()
    (step.checkout.root / "thresholds.toml").symlink_to("nowhere.toml")
    assert step.run(**RECORDED).code == 2
