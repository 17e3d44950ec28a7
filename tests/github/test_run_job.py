"""A whole job, from the event to the exit code, against a fake GitHub."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from ragstone.evaluation.directory import RunDirectory
from ragstone.github.api.posts import marker
from ragstone.judge.cache import JudgementCache
from tests.cli.project import ragstone
from tests.github.api.fake import TOKEN, Actor
from tests.github.api.payloads import HEAD_SHA
from tests.github.builders import CONFIG, FACTS, Checkout, pull_request
from tests.pipeline.receiver import Receiver, receiver

__all__ = ["receiver"]

MARK = marker("default")


def test_a_good_pull_request_passes_and_tells_so_everywhere(checkout: Checkout) -> None:
    checkout.reports_again = True
    found = checkout.gate()
    assert found.code == 0, found.log
    assert (found.verdict, found.outputs["passed"], found.baseline) == ("pass", "true", "")
    assert float(found.outputs["faithfulness"]) > 0.9
    assert float(found.outputs["coverage"]) == 1.0
    assert found.outputs["run-directory"] == "ragstone-run"
    assert (checkout.root / found.outputs["report-json"]).is_file()
    assert (checkout.root / found.outputs["report-markdown"]).is_file()
    assert "First run" in found.summary
    [comment] = checkout.comments
    assert comment.startswith(MARK + "\n")
    assert "Faithfulness" in comment
    assert found.outputs["comment-url"].startswith("https://github.com/acme/rag/pull/7#issuecomment-")


def test_a_bad_one_fails_after_everything_was_told(checkout: Checkout) -> None:
    checkout.reports_again = True
    checkout.answer_badly()
    found = checkout.gate()
    assert (found.code, found.verdict, found.outputs["passed"]) == (1, "fail", "false")
    assert f"https://github.com/acme/rag/blob/{HEAD_SHA}/golden.jsonl#L1" in checkout.comments[0]
    assert found.summary
    assert any(line.startswith("::error file=thresholds.toml,line=7") for line in found.annotations)
    assert any(line.startswith("::warning file=golden.jsonl,line=1") for line in found.annotations)
    silent = checkout.gate(RAGSTONE_ANNOTATIONS="false")
    assert not any(line.startswith(("::error", "::warning")) for line in silent.annotations)
    never = checkout.gate(RAGSTONE_FAIL_ON="never")
    assert (never.code, never.verdict, never.outputs["passed"]) == (0, "fail", "false")


@pytest.mark.parametrize("quiet", [False, True])
def test_a_green_job_does_not_hide_the_red_one_of_the_same_run(checkout: Checkout, quiet: bool) -> None:
    checkout.is_base()
    checkout.answer_badly()
    assert checkout.gate(GITHUB_JOB="search", GITHUB_RUN_ATTEMPT="1").code == 1
    checkout.answer_well()
    mode = "failures" if quiet else "always"
    found = checkout.gate(GITHUB_JOB="billing", GITHUB_RUN_ATTEMPT="1", RAGSTONE_COMMENT=mode)
    assert found.code == 0
    assert any("Give each its own `comment-id`" in line for line in found.annotations)
    [comment] = checkout.comments
    assert "❌ Blocked" in comment
    checkout.github.fail("GET", "/actions/workflows/", 403, times=99)
    found = checkout.gate(GITHUB_JOB="billing", GITHUB_RUN_ATTEMPT="2", RAGSTONE_COMMENT=mode)
    assert (found.code, found.verdict) == (0, "inconclusive")
    assert "❌ Blocked" in checkout.comments[0]


def test_a_red_job_is_shown_in_place_of_a_green_one_until_there_is_a_new_commit(checkout: Checkout) -> None:
    checkout.is_base()
    assert checkout.gate(GITHUB_JOB="billing").code == 0
    checkout.answer_badly()
    for _ in range(2):
        assert checkout.gate(GITHUB_JOB="search").code == 1
        [comment] = checkout.comments
        assert "❌ Blocked" in comment
        assert "Give each its own `comment-id`" in comment
    checkout.answer_well()
    assert checkout.gate(GITHUB_JOB="search").code == 0
    assert "❌ Blocked" in checkout.comments[0], "whether the other one is green is not known"
    pushed = pull_request()
    pushed["pull_request"]["head"]["sha"] = "d" * 40
    assert checkout.gate("pull_request", pushed, GITHUB_JOB="billing").code == 0
    [comment] = checkout.comments
    assert "Blocked" not in comment
    assert "`comment-id`" not in comment


@pytest.mark.parametrize("variable", ["RAGSTONE_ONLY", "RAGSTONE_TAG"])
def test_a_job_evaluates_no_choice_of_questions(checkout: Checkout, variable: str) -> None:
    found = checkout.gate(**{variable: FACTS[0][0]})
    assert found.code == 2
    assert any("evaluates the whole golden set" in line for line in found.annotations)


def test_a_red_main_is_told_to_the_webhook_by_line_one_and_its_address_to_nobody(
    checkout: Checkout, receiver: Receiver
) -> None:
    told = {"RAGSTONE_NOTIFY": receiver.url}
    assert checkout.gate("push", **told).code == 0
    checkout.answer_badly()
    assert checkout.gate("pull_request", None, **told).code == 1
    assert receiver.got == []
    found = checkout.gate("push", **told)
    ((_, _, body),) = receiver.got
    headline, link = json.loads(body)["text"].splitlines()
    assert headline == checkout.read("report.json")["verdict"]["headline"]
    assert "/actions/runs/" in link
    assert "T-secret-path" not in found.log + found.summary
    receiver.statuses = [(404, {})]
    found = checkout.gate("schedule", **told)
    assert (found.code, "it answered 404" in found.log) == (1, True)


def test_a_golden_set_that_is_wrong_is_annotated_at_its_line(checkout: Checkout) -> None:
    checkout.write("golden.jsonl", '{"id": "a", "question": "Why?"}\n{"id": "b", "question": }\n')
    found = checkout.gate()
    assert (found.code, found.verdict) == (3, "error")
    assert any("file=golden.jsonl,line=2" in line for line in found.annotations)
    assert "no verdict" in checkout.comments[0]
    assert "no verdict" in found.summary


def test_a_run_directory_outside_of_the_checkout_is_named_in_full(checkout: Checkout, tmp_path: Path) -> None:
    checkout.write("ragstone.toml", f'{CONFIG}out = "../elsewhere"\n')
    found = checkout.gate("push")
    assert Path(found.outputs["run-directory"]).resolve() == tmp_path / "elsewhere"


@pytest.mark.parametrize(("mode", "on_pass", "on_failure"), [("always", 1, 1), ("failures", 0, 1), ("off", 0, 0)])
def test_the_comment_mode_decides_on_an_unchanged_pass_and_on_a_failure(
    checkout: Checkout, mode: str, on_pass: int, on_failure: int
) -> None:
    checkout.is_base()
    checkout.gate(RAGSTONE_COMMENT=mode)
    assert len(checkout.comments) == on_pass
    checkout.answer_badly()
    checkout.gate(RAGSTONE_COMMENT=mode)
    assert len(checkout.comments) == on_failure
    checkout.answer_well()
    checkout.gate(RAGSTONE_COMMENT=mode)
    assert not any("fail" in comment.split("\n")[1].lower() for comment in checkout.comments)


# -- hostile text ------------------------------------------------------------------------------------------------------


def test_secrets_are_taken_out_of_comment_summary_and_artifact(checkout: Checkout) -> None:
    """The policy's own words reach the report through the view, not through the redacted records."""
    key = "sk-very-secret-0123456789"
    checkout.answer_badly(f"The key is {key} and bananas were purple in 1834.")
    policy = (checkout.root / "thresholds.toml").read_text(encoding="utf-8")
    checkout.write("thresholds.toml", f'{policy}\n[slices."{key}".metrics.faithfulness]\nmin = 0.5\n')
    found = checkout.gate(RAGSTONE_JUDGE_API_KEY=key)
    assert "rules for the tag" in found.summary
    shown = [line for line in found.log.splitlines() if not line.startswith("::add-mask::")]
    assert key not in f"{found.summary}{checkout.comments}{shown}{found.outputs}"
    for path in checkout.out.iterdir():
        assert key.encode() not in path.read_bytes(), path.name


CHATTY = """
import sys

def answer(question):
    print("::set-output name=verdict::pass")
    print("text ##[error]forged", file=sys.stderr)
    return {"answer": "Bananas were purple in 1834.", "contexts": ["The Moon is far away."]}
"""


def test_the_command_line_is_the_second_door_and_what_the_system_prints_does_not_act(checkout: Checkout) -> None:
    checkout.write("rag.py", CHATTY)
    environ = {**checkout.environ("pull_request"), "PATH": os.environ["PATH"], "RAGSTONE_COMMENT_ID": "cli"}
    command = ["gate", "--github", "--golden", "golden.jsonl", "--entrypoint", "python:rag:answer"]
    done = ragstone(
        [*command, "--metrics", "faithfulness"], checkout.root, env={**environ, "RAGSTONE_PYTHON": sys.executable}
    )
    found = checkout.outcome(done.returncode, done.stdout + done.stderr)
    assert (found.code, found.verdict) == (1, "fail"), found.log
    assert checkout.comments[0].startswith(marker("cli"))
    assert "forged" in found.log
    assert not any("forged" in line or "set-output" in line for line in found.annotations)


# -- the ladder of rights ----------------------------------------------------------------------------------------------

FORK = pull_request(fork=True)
NOT_JUDGED = "Not judged: no key on pull requests from forks"


def hosted(checkout: Checkout, inconclusive: str) -> None:
    gate = f'[gate]\ninconclusive = "{inconclusive}"\nconfirm = false\n'
    checkout.write("thresholds.toml", f"{gate}[metrics.faithfulness]\nmin = 0.5\n")
    checkout.write("ragstone.toml", f'{CONFIG}[judge]\nname = "openai:gpt-x"\n[gate]\nwithout_key = "skip"\n')


@pytest.mark.parametrize(("inconclusive", "code"), [("warn", 0), ("fail", 8)])
def test_a_fork_without_secrets_is_not_judged_and_ends_as_the_policy_says(
    checkout: Checkout, inconclusive: str, code: int
) -> None:
    hosted(checkout, inconclusive)
    found = checkout.gate("pull_request", FORK)
    assert (found.code, found.verdict) == (code, "inconclusive")
    assert NOT_JUDGED in found.summary
    assert not checkout.out.exists()
    assert checkout.gate("pull_request", FORK, RAGSTONE_FAIL_ON="never").code == 0
    assert checkout.gate().code == 2, "with secrets, a missing key is an error"
    checkout.write("golden.jsonl", "{}\n")
    assert checkout.gate("pull_request", FORK).code == 3


def test_a_read_only_token_costs_the_comment_and_nothing_else(checkout: Checkout) -> None:
    checkout.github.actors[TOKEN] = Actor("github-actions[bot]", writes=frozenset())
    checkout.answer_badly()
    found = checkout.gate("pull_request", FORK)
    assert found.code == 1
    assert found.summary
    assert any("No comment" in line and line.startswith("::notice") for line in found.annotations)
    assert (checkout.out / "manifest.json").is_file()
    assert checkout.comments == []


def test_without_a_token_or_its_rights_the_gate_still_decides(checkout: Checkout) -> None:
    found = checkout.gate(GITHUB_TOKEN="")
    assert (found.code, checkout.github.seen) == (0, [])
    assert "no GitHub token" in found.summary
    checkout.github.actors[TOKEN] = Actor("github-actions[bot]", reads=frozenset(), writes=frozenset())
    found = checkout.gate()
    assert found.code == 0
    assert "actions: read" in found.summary


# -- GitHub is unwell --------------------------------------------------------------------------------------------------

FAULTS: list[dict[str, Any]] = [
    {"status": 401},
    {"status": 403},
    {"status": 422},
    {"status": 429, "headers": {"Retry-After": "3600"}},
    {"status": 500},
    {"status": 502, "after_write": True},
    {"how": "reset"},
    {"how": "garbage"},
]


@pytest.mark.attack(
    by="network", tries="a fault that turns into a pass", stopped_by="decided before anything is published"
)
@pytest.mark.parametrize(
    ("fault", "bad"),
    [*((fault, True) for fault in FAULTS), (FAULTS[1], False), (FAULTS[4], False)],
    ids=lambda value: str(value.get("how") or value["status"]) if isinstance(value, dict) else None,
)
def test_a_fault_of_github_makes_no_pass_and_no_failure(checkout: Checkout, fault: dict[str, Any], bad: bool) -> None:
    if bad:
        checkout.answer_badly()
    for method in ("GET", "POST", "PATCH"):
        checkout.github.fail(method, ".", times=10_000, **fault)
    found = checkout.gate()
    assert found.code == int(bad)
    # A baseline that could not be read is no pass.
    assert found.verdict == ("fail" if bad else "inconclusive")
    assert found.summary


# -- what lies in the checkout -----------------------------------------------------------------------------------------


def plant_cache(path: Path) -> None:
    """A cache as Ragstone writes it, with a judgement in it that nobody made."""
    cache = JudgementCache(path)
    cache.put(b"key", {"forged": True})
    cache.close()


@pytest.mark.attack(
    by="pull request", tries="commit a run with forged records", stopped_by="none is read from the checkout"
)
def test_records_and_judgements_that_lie_in_the_checkout_are_not_read_and_not_passed_on(checkout: Checkout) -> None:
    assert checkout.gate("push").code == 0
    plant_cache(checkout.out / "judgements.sqlite")
    assert checkout.gate("push").code == 0
    assert not list(checkout.out.glob("judgements.sqlite*"))
    checkout.out.rename(checkout.root / "planted")
    plant_cache(checkout.root / "planted" / "judgements.sqlite")
    assert checkout.gate(RAGSTONE_BASELINE="planted").code == 0
    assert not list(checkout.out.glob("judgements.sqlite*"))
    checkout.answer_badly()
    assert checkout.gate(RAGSTONE_RESUME="true").code == 1


HANGING = """
import sys, time
FACTS = {facts!r}

def answer(question):
    if "Moon" not in question:
        time.sleep(600)
    return {{"answer": FACTS[question], "contexts": [FACTS[question]]}}
"""


@pytest.mark.attack(by="pull request", tries="keep the job busy in `setup`", stopped_by="limits of time and output")
@pytest.mark.heavy
def test_a_time_limit_ends_the_job_with_what_is_there(checkout: Checkout) -> None:
    checkout.write("rag.py", HANGING.format(facts={question: fact for _, question, fact in FACTS}))
    system = f'python:rag:answer"\npython = "{sys.executable}"\ntimeout_s = 600\n#'
    checkout.write("ragstone.toml", CONFIG.replace("file:outputs.jsonl", system) + "time_limit_s = 10\n")
    found = checkout.gate()
    assert (found.code, found.verdict) == (124, "error"), found.log
    assert found.outputs["run-directory"] == "ragstone-run", "it can be looked at, and resumed"
    run = RunDirectory.open(checkout.out)
    assert run.manifest.state == "stopped"
    assert [record.sample.id for record in run.records()] == ["moon"]
    assert "time limit" in found.summary


def test_a_run_that_was_stopped_before_this_job_is_not_taken_for_its_own(checkout: Checkout) -> None:
    checkout.gate()
    manifest = checkout.out / "manifest.json"
    text = manifest.read_text(encoding="utf-8")
    manifest.write_text(re.sub(r'"created_at": "[0-9]{4}', '"created_at": "2001', text).replace("finished", "stopped"))
    (checkout.root / "golden.jsonl").write_text("no JSON", encoding="utf-8")
    found = checkout.gate()
    assert (found.code, found.outputs["run-directory"]) == (3, "")


KEPT = {
    "as a header": '[http "https://github.com/"]\n\textraheader = AUTHORIZATION: basic eDp5\n',
    "in a file beside": '[includeIf "gitdir:/github/workspace/.git"]\n\tpath = /x/git-credentials-1f.config\n',
    "in an address": '[remote "origin"]\n\turl = https://x-access-token:ghs_0123@github.com/acme/rag\n',
}
PLAIN = '[core]\n\tbare = false\n[remote "origin"]\n\turl = https://github.com/acme/rag\n'


@pytest.mark.attack(
    by="pull request", tries="read the token that actions/checkout left", stopped_by="**not prevented**: Ragstone warns"
)
@pytest.mark.parametrize(
    ("kept", "place", "warnings"),
    [
        *((kept, ".git/config", 1) for kept in KEPT.values()),
        (KEPT["as a header"], "service/.git/config", 1),
        (KEPT["as a header"], "../runner/git-credentials-1f.config", 1),
        (PLAIN, ".git/config", 0),
    ],
    ids=[*KEPT, "below a folder", "in the runner's folder", "none"],
)
def test_a_token_that_the_checkout_left_is_warned_of(checkout: Checkout, kept: str, place: str, warnings: int) -> None:
    checkout.write(place, kept)
    found = checkout.gate(RUNNER_TEMP=str(checkout.files))
    assert "eDp5" not in found.log
    warned = [line for line in found.annotations if "persist-credentials: false" in line]
    assert [line.startswith("::warning") for line in warned] == [True] * warnings
