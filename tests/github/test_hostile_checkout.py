"""What a pull request commits, or its code writes while it runs, to be believed: whole jobs against a fake GitHub."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ragstone.errors import ConfigError
from ragstone.evaluation.directory import MANIFEST, SAMPLES
from ragstone.settings.load import load_settings
from tests.cli.project import read_rows, write_rows
from tests.github.api.fake import BASE_SHA
from tests.github.builders import CONFIG, FACTS, Checkout

DROP = "[gate]\nconfirm = false\n[metrics.faithfulness]\nmin = 0.01\nmax_drop = 0.05\n"


@pytest.fixture
def falling(checkout: Checkout) -> Checkout:
    """A checkout whose answers fall against the baseline on main, and a forged run ``fb`` that scored no better."""
    checkout.write("thresholds.toml", DROP)
    checkout.github.files[BASE_SHA]["thresholds.toml"] = DROP.encode()
    assert checkout.gate("push").code == 0
    checkout.uploaded()
    shutil.copytree(checkout.out, checkout.root / "good")
    forge(checkout.out, checkout.root / "fb")
    checkout.answer({name: f"{fact} Bananas are purple." for name, _, fact in FACTS})
    return checkout


def forge(source: Path, target: Path) -> None:
    """A run whose scores do not follow from its judgements."""
    shutil.copytree(source, target)
    records = read_rows(target / SAMPLES)
    for record in records:
        for score in record["scores"].values():
            score["value"] = 0.01
    write_rows(target / SAMPLES, records)


@pytest.mark.attack(by="pull request", tries="a forged run as `[gate] baseline`", stopped_by="refused on GitHub")
@pytest.mark.parametrize(
    ("in_config", "by_input", "code"),
    [
        *((named, "", 2) for named in ("fb", "none", "artifact", "ragstone-run", "/etc")),
        ("fb", "good", 1),
        ("fb", "none", 0),
        ("", "fb", 6),
        ("", "../runner/run", 6),
    ],
)
def test_the_workflow_names_the_baseline_and_its_scores_are_replayed(
    falling: Checkout, in_config: str, by_input: str, code: int
) -> None:
    shutil.copytree(falling.root / "fb", falling.files / "run")
    falling.write("ragstone.toml", f'{CONFIG}[gate]\nbaseline = "{in_config}"\n' if in_config else CONFIG)
    found = falling.gate(**{"RAGSTONE_BASELINE": by_input} if by_input else {})
    assert found.code == code, found.log
    assert (found.verdict == "error") is (code in (2, 6))
    assert code != 2 or "the workflow chooses the baseline" in found.log
    assert by_input != "fb" or in_config or "does not follow from the recorded judgements" in found.log


@pytest.mark.parametrize("name", [MANIFEST, SAMPLES])
def test_a_baseline_that_leads_out_of_the_workspace_is_not_read(falling: Checkout, name: str) -> None:
    shutil.move(falling.root / "good" / name, falling.files / name)
    (falling.root / "good" / name).symlink_to(falling.files / name)
    found = falling.gate(RAGSTONE_BASELINE="good")
    assert (found.code, "outside the workspace" in found.log) == (6, True)


FORGED = """## ✅ Nothing is shown to be worse.

@everyone look: ![x](https://evil.example/x.png)
::set-output name=verdict::pass
"""
HOSTILE = """#!/bin/sh
mkdir -p templates
cat > templates/report.md.j2 <<'END'
{forged}
END
printf '[gate]\\nmin_coverage = 0.0\\n[metrics.faithfulness]\\nmin = 0.0\\n' > thresholds.toml
printf '{{"id": "moon", "question": "Is it?", "reference": "Yes."}}\\n' > golden.jsonl
printf '[gate]\\nfail_on = "never"\\n' > ragstone.toml
while read -r line; do
  id=$(printf '%s' "$line" | sed 's/.*"id": *"\\([a-z]*\\)".*/\\1/')
  printf '{{"id": "%s", "answer": "Bananas are purple on the %s.", "contexts": ["It is far."]}}\\n' "$id" "$id"
done
"""


@pytest.mark.attack(
    by="pull request", tries="write policy or golden set during the run", stopped_by="read before that code runs"
)
@pytest.mark.parametrize("committed", [False, True])
def test_what_the_system_writes_while_it_runs_says_nothing(checkout: Checkout, committed: bool) -> None:
    checkout.write("ragstone.toml", CONFIG.replace("file:outputs.jsonl", "command:./rag.sh"))
    checkout.program("rag.sh", HOSTILE.format(forged=FORGED))
    if committed:
        checkout.write("templates/report.md.j2", "Our own words.")
        checkout.is_base()
    found = checkout.gate()
    assert (checkout.root / "templates" / "report.md.j2").read_text(encoding="utf-8").startswith("## ✅")
    assert (found.code, found.verdict) == (1, "fail")
    [comment] = checkout.comments
    for text in (comment.split("\n", 2)[2], found.summary, (checkout.out / "report.md").read_text(encoding="utf-8")):
        assert text.startswith("## ❌ Blocked: ")
        assert "evil.example" not in text
        assert "✅ Nothing" not in text
        assert ("Our own words." in text) is committed
    report = checkout.read("report.json")
    assert report["run"]["samples"] == len(FACTS)


@pytest.mark.attack(
    by="pull request", tries='say "pass" through a template', stopped_by="the heading is not part of it"
)
def test_a_committed_template_can_not_say_how_it_ended(checkout: Checkout) -> None:
    checkout.write("templates/report.md.j2", FORGED)
    checkout.is_base()
    checkout.answer_badly()
    found = checkout.gate()
    assert found.code == 1
    for text in (checkout.comments[0].split("\n", 2)[2], found.summary):
        assert text.startswith("## ❌ Blocked: ")
        assert not [line for line in text.splitlines() if line.lstrip().startswith("::")]


@pytest.mark.attack(by="pull request", tries="replace the policy with a dangling link", stopped_by="an error")
@pytest.mark.parametrize("name", ["thresholds.toml", "ragstone.toml"])
@pytest.mark.parametrize("how", ["dangling", "folder"])
def test_a_policy_or_config_that_can_not_be_read_is_not_taken_for_none(checkout: Checkout, name: str, how: str) -> None:
    path = checkout.root / name
    path.unlink(missing_ok=True)
    if how == "dangling":
        path.symlink_to("gone.toml")
    else:
        path.mkdir()
    if name == "ragstone.toml":
        with pytest.raises(ConfigError, match="can't be read"):
            load_settings(directory=checkout.root, environ={})
    else:
        found = checkout.gate()
        assert (found.code, name in found.log) == (2, True)
