"""A repository with many gates: one comment, one error rate, and gates that a change doesn't affect pass unrun."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ragstone.ci.github.posts import marker
from ragstone.report.gates import GateRow, read_rows
from ragstone.run.directory import RunDirectory
from tests.ci.github.fake import ALL_RIGHTS, BASE_SHA, FORK_ID, TOKEN, Actor, FakeGitHub
from tests.ci.github.payloads import HEAD_SHA, MERGE_SHA, pull_request, with_payload, workflow_run
from tests.job.builders import FACTS, POLICY, Checkout, Outcome
from tests.job.runs import artifact_of
from tests.run.opened import opened_for_reading

BOT = "github-actions[bot]"
OWN = '"golden.jsonl", "thresholds.toml", ".github/workflows/gate.yml"'
GATES = f"""
paths = [{OWN}]
[gates.search]
paths = ["services/search/**"]
[gates.billing]
paths = ["services/billing/**", "!**/*.md"]
[gates.docs]
"""
SEARCH = {"RAGSTONE_GATES_FILE": "gates.toml", "RAGSTONE_COMMENT_ID": "search"}
READS = """
[golden]
paths = "golden.jsonl"
[system]
entrypoint = "file:outputs.jsonl"
[run]
metrics = ["faithfulness"]
"""
BILLING = {**SEARCH, "RAGSTONE_COMMENT_ID": "billing"}
DOCS = {**SEARCH, "RAGSTONE_COMMENT_ID": "docs"}


@pytest.fixture
def checkout(github: FakeGitHub, tmp_path: Path) -> Checkout:
    github.add_run(900, event="pull_request", branch="topic", status="in_progress", conclusion="neutral")
    found = Checkout(tmp_path)
    found.write("gates.toml", GATES)
    on_base(github, GATES)
    changes(github, "services/search/index.py")
    return found


def on_base(github: FakeGitHub, text: str | None) -> None:
    if text is None:
        github.files[BASE_SHA].pop("gates.toml", None)
    else:
        github.files[BASE_SHA]["gates.toml"] = text.encode()


def changes(github: FakeGitHub, *files: str) -> None:
    github.changes[BASE_SHA, HEAD_SHA] = list(files)


def comment(github: FakeGitHub, number: int = 7) -> str:
    """The one comment, without its hidden lines."""
    (body,) = github.bodies(number)
    return body.split("\n", 2)[2]


def rows(github: FakeGitHub, number: int = 7) -> dict[str, GateRow]:
    (body,) = github.bodies(number)
    return {row.gate: row for row in read_rows(body.partition("\n")[2])}


def good_main(github: FakeGitHub, checkout: Checkout, *, verdict: int = 0) -> None:
    """A run of the main branch, with its artifact."""
    assert checkout.gate(github, "push").code == verdict
    github.add_run(1)
    github.add_artifact(1, artifact_of(checkout.root / "ragstone-run"))


# -- one comment -------------------------------------------------------------------------------------------------------


def test_each_gate_is_a_row_of_one_comment(github: FakeGitHub, checkout: Checkout) -> None:
    changes(github, "services/search/index.py", "services/billing/pay.py")
    checkout.write("thresholds.toml", POLICY + '[must_pass]\nsamples = ["moon"]\n')
    first = checkout.gate(github, "pull_request", None, **SEARCH)
    assert (first.code, first.outputs["verdict"]) == (0, "pass"), first.log
    assert comment(github).startswith("## ⏳ Ragstone: waiting for 2 of 3 gates\n")
    checkout.answer_badly()
    assert checkout.gate(github, "pull_request", None, **BILLING).code == 1
    assert comment(github).startswith("## ❌ Blocked: 1 of 3 gates fails (`billing`), waiting for 1\n")
    checkout.answer({name: fact for name, _, fact in FACTS})
    third = checkout.gate(github, "pull_request", None, **DOCS)
    assert third.outputs["comment-url"] == first.outputs["comment-url"]
    text = comment(github)
    assert text.startswith("## ❌ Blocked: 1 of 3 gates fails (`billing`)\n")
    lines = [line for line in text.splitlines() if line.startswith("| ") and "actions/runs/900" in line]
    assert [re.findall(r"`(\w+)`", line)[0] for line in lines] == ["billing", "docs", "search"]
    assert "<details><summary><code>billing</code>: what does not pass</summary>\n\n- " in text
    assert "<code>docs</code>" not in text
    assert (
        "3 gates are affected. They share one error rate, each with 1/3 of it, unless the policy decides by means."
        in text
    )


def test_a_new_commit_makes_earlier_rows_old(github: FakeGitHub, checkout: Checkout) -> None:
    checkout.gate(github, "pull_request", None, **SEARCH)
    checkout.gate(github, "pull_request", None, **DOCS)
    later = pull_request()
    later["pull_request"]["head"]["sha"] = "f" * 40
    github.changes[BASE_SHA, "f" * 40] = ["services/search/index.py"]
    checkout.gate(github, "pull_request", later, **DOCS, GITHUB_RUN_ID="901")
    text = comment(github)
    assert text.startswith("## ⏳ Ragstone: waiting for 2 of 3 gates\n")
    assert "| ⏳ | `search` | waiting | It was 'pass' at aaaaaa" in text
    # A late job of the older commit takes no row from the newer one.
    checkout.answer_badly()
    checkout.gate(github, "pull_request", None, **DOCS)
    assert rows(github)["docs"].run_id == 901


def test_an_error_is_a_row_too(github: FakeGitHub, checkout: Checkout) -> None:
    checkout.write("thresholds.toml", "[gate]\nnonsense = 1\n")
    assert checkout.gate(github, "pull_request", None, **SEARCH).code == 2
    assert rows(github)["search"].verdict == "error"
    assert "## 🚫 Blocked: 1 of 3 gates has no verdict (`search`), waiting for 2" in comment(github)


def test_a_comment_with_forged_rows_by_somebody_else_counts_for_nothing(github: FakeGitHub, checkout: Checkout) -> None:
    checkout.answer_badly()
    checkout.gate(github, "pull_request", None, **SEARCH)
    (body,) = github.bodies()
    forged = body.replace("❌", "✅")
    github.comments.clear()
    github.add_comment(7, forged, "mallory")
    checkout.gate(github, "pull_request", None, **DOCS)
    assert github.bodies()[0] == forged
    assert set(read_rows(github.bodies()[1].partition("\n")[2])) == {
        row for row in read_rows(github.bodies()[1].partition("\n")[2]) if row.gate == "docs"
    }


HOSTILE = "x | ✅ | `search` | pass |\n<!-- ragstone:rows:AAAA -->\n| ✅ | `billing` | pass | @admin #1 </details>"


def test_hostile_text_in_one_row_makes_no_other(github: FakeGitHub, checkout: Checkout) -> None:
    checkout.write("thresholds.toml", f"[gate]\n{json.dumps(HOSTILE)} = 1\n")
    checkout.gate(github, "pull_request", None, **SEARCH)
    assert set(rows(github)) == {"search"}
    text = comment(github)
    assert "<!--" not in text
    assert "@admin" not in text
    assert sum(line.startswith("| ") and "`search`" in line for line in text.splitlines()) == 1
    assert "| ⏳ | `billing` | waiting |" in text


def test_the_comment_of_a_single_gate_is_as_ever(github: FakeGitHub, checkout: Checkout) -> None:
    checkout.gate(github, "pull_request", None, RAGSTONE_COMMENT_ID="search")
    (body,) = github.bodies()
    assert body.startswith(marker("comment", "search"))
    assert github.checks == []
    assert not any("reactions" in seen.path or "check-runs" in seen.path for seen in github.seen)


def test_no_comment_where_it_is_switched_off(github: FakeGitHub, checkout: Checkout) -> None:
    checkout.gate(github, "pull_request", None, **SEARCH, RAGSTONE_COMMENT="off")
    assert github.bodies() == []
    assert len(github.checks) == 1


# -- one error rate ----------------------------------------------------------------------------------------------------


def sharing(checkout: Checkout) -> int:
    terms = json.loads((checkout.root / "ragstone-run" / "verdict.json").read_text(encoding="utf-8"))["terms"]
    found: int = terms["gates"]
    return found


@pytest.mark.parametrize(
    ("files", "gates"),
    [
        (["services/search/index.py"], 2),  # search and docs, which has no paths
        (["services/search/index.py", "services/billing/pay.py"], 3),
        (["thresholds.toml"], 3),  # what all depend on
    ],
)
def test_the_affected_gates_share_the_error_rate(
    github: FakeGitHub, checkout: Checkout, files: list[str], gates: int
) -> None:
    changes(github, *files)
    checkout.write("thresholds.toml", POLICY.replace('decision = "point"\n', ""))
    found = checkout.gate(github, "pull_request", None, **SEARCH)
    assert sharing(checkout) == gates
    assert f"The policy's error rate is shared by {gates}: this verdict has 1/{gates} of it." in found.summary


def test_a_gate_that_compares_plain_means_has_no_error_rate_to_share(github: FakeGitHub, checkout: Checkout) -> None:
    found = checkout.gate(github, "pull_request", None, **SEARCH)
    assert "compares plain means" in found.summary
    assert "The policy's error rate is shared" not in found.summary


def test_on_the_branch_itself_all_gates_share_it(github: FakeGitHub, checkout: Checkout) -> None:
    assert checkout.gate(github, "push", None, **SEARCH).outputs["verdict"] == "pass"
    assert sharing(checkout) == 3


def test_a_pull_request_can_not_water_the_error_rate_down(github: FakeGitHub, checkout: Checkout) -> None:
    more = "".join(f"[gates.g{n}]\n" for n in range(100))
    checkout.write("gates.toml", GATES.replace("services/billing/**", "**") + more)
    changes(github, "services/search/index.py", "gates.toml")
    checkout.gate(github, "pull_request", None, **SEARCH)
    assert sharing(checkout) == 2


def test_a_pull_requests_config_can_not_either(github: FakeGitHub, checkout: Checkout) -> None:
    config = '[golden]\npaths = ["golden.jsonl"]\n[system]\nentrypoint = "file:outputs.jsonl"\n'
    config += '[run]\nmetrics = ["faithfulness"]\n'
    github.files[BASE_SHA]["ragstone.toml"] = config.encode()
    checkout.write("ragstone.toml", config + "[gate]\ngates = 400\n")
    found = checkout.gate(github)
    assert sharing(checkout) == 1
    assert "the value in ragstone.toml of this checkout, 400, does not count" in found.summary


# -- not affected ------------------------------------------------------------------------------------------------------


def test_a_gate_that_is_not_affected_passes_with_the_last_verdict(github: FakeGitHub, checkout: Checkout) -> None:
    good_main(github, checkout)
    github.comments.clear()
    with opened_for_reading("outputs.jsonl") as opened:
        found = checkout.gate(github, "pull_request", None, **BILLING)
    assert found.code == 0, found.log
    assert opened == []
    assert (found.outputs["verdict"], found.outputs["passed"]) == ("not-affected", "true")
    assert found.outputs["run-directory"] == ""
    assert "not affected" in found.summary
    assert re.search(r"Last on main: pass \(commit .{3,12}, 20\d\d-\d\d-\d\d\)", found.summary), found.summary
    row = rows(github)["billing"]
    assert row.verdict == "not affected"
    assert row.reason.startswith("Last on main: pass")
    assert [(check["name"], check["conclusion"]) for check in github.checks] == [("Ragstone: billing", "success")]


def test_the_last_verdict_may_be_a_failure(github: FakeGitHub, checkout: Checkout) -> None:
    checkout.answer_badly()
    good_main(github, checkout, verdict=1)
    found = checkout.gate(github, "pull_request", None, **BILLING)
    assert found.code == 0
    assert rows(github)["billing"].reason.startswith("Last on main: fail")


def test_without_an_earlier_run_it_passes_too(github: FakeGitHub, checkout: Checkout) -> None:
    assert checkout.gate(github, "pull_request", None, **BILLING).code == 0
    assert rows(github)["billing"].reason == "No earlier run on main."


@pytest.mark.parametrize("gate", [BILLING, SEARCH])
def test_a_merge_queue_gets_a_status_from_every_gate(
    github: FakeGitHub, checkout: Checkout, gate: dict[str, str]
) -> None:
    payload = {
        "merge_group": {"base_ref": "refs/heads/main", "base_sha": BASE_SHA, "head_sha": MERGE_SHA},
        "repository": pull_request()["repository"],
    }
    github.changes[BASE_SHA, MERGE_SHA] = ["services/search/index.py"]
    found = checkout.gate(github, "merge_group", payload, **gate)
    assert found.code == 0, found.log
    assert found.outputs["verdict"] == ("pass" if gate is SEARCH else "not-affected")
    assert [(check["head_sha"], check["conclusion"]) for check in github.checks] == [(MERGE_SHA, "success")]
    assert github.bodies() == []


def test_exclusions_count(github: FakeGitHub, checkout: Checkout) -> None:
    changes(github, "services/billing/README.md")
    assert checkout.gate(github, "pull_request", None, **BILLING).outputs["verdict"] == "not-affected"


def test_a_pull_request_can_not_silence_a_gate_through_its_paths(github: FakeGitHub, checkout: Checkout) -> None:
    checkout.answer_badly()
    checkout.write("gates.toml", GATES.replace("services/search/**", "nothing/**"))
    changes(github, "services/search/index.py", "gates.toml")
    found = checkout.gate(github, "pull_request", None, **SEARCH)
    assert (found.code, found.outputs["verdict"]) == (1, "fail"), found.log


def test_a_pull_request_that_only_narrows_its_paths_is_not_silent(github: FakeGitHub, checkout: Checkout) -> None:
    checkout.answer_badly()
    checkout.write("gates.toml", GATES.replace("services/search/**", "nothing/**"))
    changes(github, "gates.toml")
    found = checkout.gate(github, "pull_request", None, **SEARCH)
    assert (found.code, found.outputs["verdict"]) == (1, "fail"), found.log
    assert "This change edits which paths affect this gate in gates.toml." in found.summary


@pytest.mark.parametrize("mode", ["120000", "160000"])
def test_a_link_or_submodule_that_moved_affects_the_gates_below_it(
    github: FakeGitHub, checkout: Checkout, mode: str
) -> None:
    changes(github, "services/billing")
    if mode == "120000":
        github.files[BASE_SHA]["services/billing"] = "../elsewhere"
    else:
        (checkout.root / "services" / "billing").mkdir(parents=True)
    assert checkout.gate(github, "pull_request", None, **BILLING).outputs["verdict"] == "pass"
    assert checkout.gate(github, "pull_request", None, **SEARCH).outputs["verdict"] == "not-affected"


def test_what_a_link_in_its_paths_leads_to_affects_a_gate(github: FakeGitHub, checkout: Checkout) -> None:
    checkout.write("shared/prompts/a.txt", "Be brief.")
    (checkout.root / "services" / "billing").mkdir(parents=True)
    (checkout.root / "services" / "billing" / "prompts").symlink_to("../../shared/prompts")
    changes(github, "shared/prompts/a.txt")
    assert checkout.gate(github, "pull_request", None, **BILLING).outputs["verdict"] == "pass"
    assert checkout.gate(github, "pull_request", None, **SEARCH).outputs["verdict"] == "not-affected"


@pytest.mark.parametrize(
    ("file", "config"),
    [
        ("outputs.jsonl", ""),
        ("lib/tone.py", '[metrics.tone]\npython = "lib.tone:tone"\n'),
        ("lib/tone/__init__.py", '[metrics.tone]\npython = "lib.tone:tone"\n'),
        ("templates/report.md.j2", ""),
    ],
)
def test_what_a_gate_reads_affects_it(github: FakeGitHub, checkout: Checkout, file: str, config: str) -> None:
    own = GATES.replace('"golden.jsonl"', '"golden.jsonl", "ragstone.toml"')
    checkout.write("gates.toml", own)
    on_base(github, own)
    checkout.write("ragstone.toml", READS + config)
    checkout.write("lib/tone.py", "def tone(answer): return 1.0")
    changes(github, file)
    assert checkout.gate(github, "pull_request", None, **BILLING).outputs["verdict"] != "not-affected"
    changes(github, f"other/{file}")
    assert checkout.gate(github, "pull_request", None, **BILLING).outputs["verdict"] == "not-affected"


def test_nor_by_removing_it(github: FakeGitHub, checkout: Checkout) -> None:
    checkout.write("gates.toml", GATES.replace('[gates.billing]\npaths = ["services/billing/**", "!**/*.md"]\n', ""))
    checkout.gate(github, "pull_request", None, **SEARCH)
    assert "| ⚠️ | `billing` | removed | This change removes the gate. |" in comment(github)


def test_paths_that_a_pull_request_adds_count(github: FakeGitHub, checkout: Checkout) -> None:
    checkout.write("gates.toml", GATES.replace('"services/billing/**"', '"services/billing/**", "libs/**"'))
    changes(github, "libs/money.py", "gates.toml")
    assert checkout.gate(github, "pull_request", None, **BILLING).outputs["verdict"] == "pass"
    assert sharing(checkout) == 2  # docs, and this one


def test_a_new_gate_is_run(github: FakeGitHub, checkout: Checkout) -> None:
    on_base(github, GATES.replace("[gates.docs]", ""))
    assert checkout.gate(github, "pull_request", None, **DOCS).outputs["verdict"] == "pass"


def test_where_the_base_has_no_such_file_the_checkouts_counts(github: FakeGitHub, checkout: Checkout) -> None:
    on_base(github, None)
    assert checkout.gate(github, "pull_request", None, **BILLING).outputs["verdict"] == "not-affected"


@pytest.mark.parametrize("fault", ["/compare/", "/contents/"])
def test_what_can_not_be_known_is_affected(github: FakeGitHub, checkout: Checkout, fault: str) -> None:
    github.fail("GET", fault, 403, times=1)
    found = checkout.gate(github, "pull_request", None, **BILLING)
    assert found.outputs["verdict"] == "pass"
    assert "Every gate counts as affected by this change" in found.summary


def test_a_change_of_more_files_than_github_lists_affects_every_gate(github: FakeGitHub, checkout: Checkout) -> None:
    changes(github, *(f"other/{n}.py" for n in range(301)))
    found = checkout.gate(github, "pull_request", None, **BILLING)
    assert found.outputs["verdict"] == "pass"
    assert "it has 300 files or more" in found.summary


def test_what_a_gate_consists_of_must_be_among_its_paths(github: FakeGitHub, checkout: Checkout) -> None:
    checkout.write("gates.toml", GATES.replace('"golden.jsonl", ', ""))
    for event in ("push", "pull_request"):
        found = checkout.gate(github, event, None, **BILLING)
        assert found.code == 2
        assert "the gate 'billing' depends on golden.jsonl, but its paths don't include it" in found.log


@pytest.mark.parametrize(
    ("text", "more", "says"),
    [
        ("[gates.docs]\n", {}, "'search' is not one of the gates in gates.toml"),
        ("[gates.search]\npath = ['a']\n", {}, "'gates.search.path'"),
        ("paths = ['a']\n", {}, "'gates' is missing"),
        ("[gates.search]\npaths = ['a[bc]']\n", {}, "'a[bc]' is not a path that can be matched"),
        ("[gates", {}, "not valid TOML"),
        (GATES, {"RAGSTONE_GATES_FILE": "../gates.toml"}, "can't be read"),
        (GATES, {"RAGSTONE_COMMENT": "failures"}, "the gates share one comment"),
    ],
)
def test_a_wrong_file_is_an_error_that_says_what_is_wrong(
    github: FakeGitHub, checkout: Checkout, text: str, more: dict[str, str], says: str
) -> None:
    checkout.write("gates.toml", text)
    found = checkout.gate(github, "pull_request", None, **{**SEARCH, **more})
    assert found.code == 2
    assert says in found.log


# -- check runs --------------------------------------------------------------------------------------------------------


def test_each_gate_has_a_check_run_of_its_own(github: FakeGitHub, checkout: Checkout) -> None:
    checkout.gate(github, "pull_request", None, **SEARCH)
    checkout.answer_badly()
    checkout.gate(github, "pull_request", None, **DOCS)
    checkout.gate(github, "pull_request", None, **DOCS, RAGSTONE_FAIL_ON="never")
    assert [(check["name"], check["conclusion"], check["head_sha"]) for check in github.checks] == [
        ("Ragstone: search", "success", HEAD_SHA),
        ("Ragstone: docs", "failure", HEAD_SHA),
        ("Ragstone: docs", "neutral", HEAD_SHA),
    ]
    assert "Faithfulness" in github.checks[1]["output"]["summary"]
    report = json.loads((checkout.root / "ragstone-run" / "report.json").read_text(encoding="utf-8"))
    assert github.checks[2]["output"]["title"] == report["headline"]


def test_the_title_of_a_gate_without_a_verdict_says_why(github: FakeGitHub, checkout: Checkout) -> None:
    checkout.write("golden.jsonl", "{not json}\n")
    found = checkout.gate(github, "pull_request", None, **SEARCH)
    assert found.code == 3
    title = github.checks[0]["output"]["title"]
    assert title.startswith("No verdict. ")
    assert "golden.jsonl:1" in title


def test_a_token_that_can_not_write_checks_is_a_notice(github: FakeGitHub, checkout: Checkout) -> None:
    github.actors[TOKEN] = Actor(BOT, writes=ALL_RIGHTS - {"checks"})
    found = checkout.gate(github, "pull_request", None, **SEARCH)
    assert found.code == 0
    assert any(line.startswith("::notice") and "checks: write" in line for line in found.annotations)
    assert set(rows(github)) == {"search"}


# -- forks -------------------------------------------------------------------------------------------------------------


def test_a_fork_can_write_nothing_and_its_job_ends_as_it_should(github: FakeGitHub, checkout: Checkout) -> None:
    github.actors[TOKEN] = Actor(BOT, writes=frozenset())
    fork = pull_request(fork=True)
    for gate, verdict in ((SEARCH, "pass"), (BILLING, "not-affected")):
        found = checkout.gate(github, "pull_request", fork, **gate)
        assert (found.code, found.outputs["verdict"]) == (0, verdict), found.log
        assert sum("::notice" in line and "No comment" in line for line in found.annotations) == 1
    assert github.bodies() == []


def reported(github: FakeGitHub, checkout: Checkout, gate: dict[str, str]) -> Outcome:
    github.add_run(555, event="pull_request", branch="main", head_repository_id=FORK_ID, sha=HEAD_SHA)
    github.add_pull(7, owner="mallory", branch="main", sha=HEAD_SHA, head_id=FORK_ID)
    github.pulls[-1]["base"].update(sha=BASE_SHA)
    return checkout.gate(github, "workflow_run", workflow_run(), **gate)


def test_the_trusted_job_gives_a_fork_its_row_but_no_check_run(github: FakeGitHub, checkout: Checkout) -> None:
    checkout.answer_badly()
    assert checkout.gate(github, "pull_request", pull_request(fork=True), **SEARCH).code == 1
    files = artifact_of(checkout.root / "ragstone-run")
    github.comments.clear()
    github.checks.clear()
    github.add_run(555, event="pull_request", branch="main", head_repository_id=FORK_ID, sha=HEAD_SHA)
    github.add_artifact(555, files)
    found = reported(github, checkout, SEARCH)
    assert found.code == 0, found.log
    row = rows(github)["search"]
    assert (row.verdict, row.run_id, row.sha, row.sharing) == ("fail", 555, HEAD_SHA, 2)
    assert row.reason.startswith("In the fork's own run: ")
    assert github.checks == []


def test_for_a_fork_too_a_gate_may_be_not_affected(github: FakeGitHub, checkout: Checkout) -> None:
    assert reported(github, checkout, BILLING).code == 0
    assert rows(github)["billing"].verdict == "not affected"


# -- twenty gates at once ----------------------------------------------------------------------------------------------


def start(checkout: Checkout, github: FakeGitHub, folder: Path, name: str) -> subprocess.Popen[str]:
    folder.mkdir()
    environ: dict[str, Any] = checkout.environ(github, "pull_request")
    environ = with_payload(environ, pull_request(), folder) | {
        "GITHUB_OUTPUT": str(folder / "output"),
        "GITHUB_STEP_SUMMARY": str(folder / "summary"),
        "RAGSTONE_GATES_FILE": "gates.toml",
        "RAGSTONE_COMMENT_ID": name,
        "RAGSTONE_ARTIFACT_NAME": f"run-{name}",
        "RAGSTONE_OUT": f"runs/{name}",
        "RAGSTONE_GOLDEN": "golden.jsonl",
        "RAGSTONE_ENTRYPOINT": f"file:{name}.jsonl",
        "RAGSTONE_METRICS": "faithfulness",
        "PATH": os.environ["PATH"],
    }
    for file in ("output", "summary"):
        (folder / file).touch()
    return subprocess.Popen(
        [sys.executable, "-m", "ragstone", "gate", "--github"],
        cwd=checkout.root,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_twenty_gates_in_parallel_processes_speak_with_one_voice(
    github: FakeGitHub, checkout: Checkout, tmp_path: Path
) -> None:
    names = [f"gate-{n:02d}" for n in range(20)]
    touched, failing = names[:4], names[2:4]
    text = f"paths = [{OWN}]\n" + "".join(f'[gates.{name}]\npaths = ["services/{name}/**"]\n' for name in names)
    checkout.write("gates.toml", text)
    on_base(github, text)
    changes(github, *(f"services/{name}/rag.py" for name in touched))
    good = (checkout.root / "outputs.jsonl").read_text(encoding="utf-8")
    checkout.answer_badly()
    bad = (checkout.root / "outputs.jsonl").read_text(encoding="utf-8")
    for name in names:
        checkout.write(f"{name}.jsonl", bad if name in failing else good)
    started = {name: start(checkout, github, tmp_path / name, name) for name in names}
    ended = {name: (process.communicate(timeout=300)[0], process.returncode) for name, process in started.items()}
    assert {name: code for name, (_, code) in ended.items()} == {name: 1 if name in failing else 0 for name in names}, (
        ended
    )
    found = rows(github)
    assert sorted(found) == names
    expected = {name: "fail" if name in failing else "pass" if name in touched else "not affected" for name in names}
    assert {name: row.verdict for name, row in found.items()} == expected
    assert {row.sharing for name, row in found.items() if name in touched} == {4}
    assert comment(github).startswith("## ❌ Blocked: 2 of 20 gates fail (`gate-02`, `gate-03`)\n")
    assert github.reactions == []
    conclusions = {check["name"].removeprefix("Ragstone: "): check["conclusion"] for check in github.checks}
    assert conclusions == {name: "failure" if name in failing else "success" for name in names}
    run = RunDirectory.open(checkout.root / "runs" / touched[0])
    assert run.manifest.verdict == "pass"
