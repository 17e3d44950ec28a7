"""What a pull request commits, or its code writes while it runs, to be believed: whole jobs against a fake GitHub."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from ragstone.errors import ConfigError
from ragstone.evaluation.directory import MANIFEST, SAMPLES
from ragstone.settings.load import load_settings
from tests.github.api.fake import BASE_SHA, FakeGitHub
from tests.github.builders import CONFIG, FACTS, Checkout
from tests.github.test_run_job import publish

DROP = '[gate]\ndecision = "point"\n[metrics.faithfulness]\nmin = 0.01\nmax_drop = 0.05\n'


# -- baselines ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def falling(github: FakeGitHub, checkout: Checkout) -> Checkout:
    """A checkout whose answers fall against the baseline on main, and a forged run ``fb`` that scored no better."""
    checkout.write("thresholds.toml", DROP)
    github.files[BASE_SHA]["thresholds.toml"] = DROP.encode()
    assert checkout.gate("push").code == 0
    publish(github, checkout)
    shutil.copytree(checkout.root / "ragstone-run", checkout.root / "good")
    forge(checkout.root / "ragstone-run", checkout.root / "fb")
    checkout.answer({name: f"{fact} Bananas are purple." for name, _, fact in FACTS})
    return checkout


def forge(source: Path, target: Path) -> None:
    """A run whose scores do not follow from its judgements."""
    shutil.copytree(source, target)
    lines = (target / SAMPLES).read_text(encoding="utf-8").splitlines()
    forged = []
    for line in lines:
        record = json.loads(line)
        for score in record["scores"].values():
            score["value"] = 0.01
        forged.append(json.dumps(record))
    (target / SAMPLES).write_text("\n".join(forged) + "\n", encoding="utf-8")


@pytest.mark.attack(
    by="pull request",
    tries="name a forged run, `none` or a path outside as `[gate] baseline`",
    stopped_by="refused on GitHub; a baseline that the workflow names is recomputed",
)
@pytest.mark.parametrize("named", ["fb", "none", "ragstone-run", "/etc"])
def test_a_baseline_that_the_checkouts_config_names_is_refused(falling: Checkout, named: str) -> None:
    falling.write("ragstone.toml", f'{CONFIG}[gate]\nbaseline = "{named}"\n')
    found = falling.gate()
    assert found.code == 2
    assert found.outputs["verdict"] == "error"
    assert "the workflow chooses the baseline" in found.log


@pytest.mark.heavy
def test_the_input_wins_over_the_checkouts_config(falling: Checkout) -> None:
    falling.write("ragstone.toml", f'{CONFIG}[gate]\nbaseline = "fb"\n')
    assert falling.gate(RAGSTONE_BASELINE="good").code == 1
    assert falling.gate(RAGSTONE_BASELINE="artifact").code == 1
    assert falling.gate(RAGSTONE_BASELINE="none").code == 0


def test_artifact_may_stand_in_the_config(falling: Checkout) -> None:
    falling.write("ragstone.toml", f'{CONFIG}[gate]\nbaseline = "artifact"\n')
    found = falling.gate()
    assert (found.code, found.outputs["verdict"]) == (1, "fail")


def test_the_scores_of_a_baseline_that_the_workflow_names_are_replayed(falling: Checkout) -> None:
    found = falling.gate(RAGSTONE_BASELINE="fb")
    assert found.code == 6
    assert "does not follow from the recorded judgements" in found.log


@pytest.mark.parametrize("name", [MANIFEST, SAMPLES])
def test_a_baseline_that_leads_out_of_the_workspace_is_not_read(falling: Checkout, name: str) -> None:
    outside = falling.files / name
    shutil.move(falling.root / "good" / name, outside)
    (falling.root / "good" / name).symlink_to(outside)
    found = falling.gate(RAGSTONE_BASELINE="good")
    assert found.code == 6
    assert "outside the workspace" in found.log
    shutil.copytree(falling.root / "fb", falling.files / "run")
    assert falling.gate(RAGSTONE_BASELINE=str(falling.files / "run")).code == 6


# -- read once ---------------------------------------------------------------------------------------------------------

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
    by="pull request",
    tries="write templates, policy, config or golden set while the gate runs",
    stopped_by="each is read once, before that code runs",
)
@pytest.mark.parametrize("committed", [False, True])
def test_what_the_system_writes_while_it_runs_says_nothing(
    github: FakeGitHub, checkout: Checkout, committed: bool
) -> None:
    checkout.write("ragstone.toml", CONFIG.replace("file:outputs.jsonl", "command:./rag.sh"))
    (checkout.root / "rag.sh").write_text(HOSTILE.format(forged=FORGED), encoding="utf-8")
    (checkout.root / "rag.sh").chmod(0o755)
    if committed:
        checkout.write("templates/report.md.j2", "Our own words.")
        checkout.is_base()
    found = checkout.gate()
    assert (checkout.root / "templates" / "report.md.j2").read_text(encoding="utf-8").startswith("## ✅")
    assert (found.code, found.outputs["verdict"]) == (1, "fail")
    [comment] = github.bodies()
    for text in (comment.partition("\n")[2], found.summary, (checkout.root / "ragstone-run/report.md").read_text()):
        assert text.startswith("## ❌ Blocked: ")
        assert "evil.example" not in text
        assert "✅ Nothing" not in text
        assert ("Our own words." in text) is committed
    report = json.loads((checkout.root / "ragstone-run" / "report.json").read_text(encoding="utf-8"))
    assert report["run"]["samples"] == len(FACTS)


@pytest.mark.attack(
    by="pull request", tries='say "pass" through a template', stopped_by="the heading is not part of it"
)
def test_a_committed_template_can_not_say_how_it_ended(github: FakeGitHub, checkout: Checkout) -> None:
    checkout.write("templates/report.md.j2", FORGED)
    checkout.is_base()
    checkout.answer_badly()
    found = checkout.gate()
    assert found.code == 1
    for text in (github.bodies()[0].partition("\n")[2], found.summary):
        assert text.startswith("## ❌ Blocked: ")
        assert not [line for line in text.splitlines() if line.lstrip().startswith("::")]


# -- a policy that is not there ----------------------------------------------------------------------------------------


@pytest.mark.attack(
    by="pull request", tries="replace policy or config with a dangling link or a folder", stopped_by="an error"
)
@pytest.mark.parametrize("how", ["dangling", "folder"])
def test_a_policy_that_can_not_be_read_is_not_taken_for_none(checkout: Checkout, how: str) -> None:
    path = checkout.root / "thresholds.toml"
    path.unlink()
    if how == "dangling":
        path.symlink_to("gone.toml")
    else:
        path.mkdir()
    found = checkout.gate()
    assert found.code == 2
    assert "thresholds.toml" in found.log


@pytest.mark.parametrize("how", ["dangling", "folder"])
def test_neither_is_a_config(checkout: Checkout, how: str) -> None:
    path = checkout.root / "ragstone.toml"
    if how == "dangling":
        path.symlink_to("gone.toml")
    else:
        path.mkdir()
    with pytest.raises(ConfigError, match="can't be read"):
        load_settings(directory=checkout.root, environ={})


def test_a_policy_that_is_not_the_baselines_is_named(falling: Checkout) -> None:
    falling.write("thresholds.toml", DROP.replace("0.05", "0.9"))
    found = falling.gate()
    assert found.code == 0
    assert "policy has changed since the baseline" in found.summary
