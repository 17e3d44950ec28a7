"""What a pull request changes about the gate stands in the first lines of its report."""

from __future__ import annotations

import datetime
import json

import pytest

from ragstone.gate.accepted import AcceptedEntry, entry_id, entry_text
from ragstone.github.policy_changes import in_turns
from tests.github.api.fake import ALL_RIGHTS, BASE_SHA, TOKEN, Actor, FakeGitHub
from tests.github.api.payloads import HEAD_SHA, MERGE_SHA
from tests.github.builders import CONFIG as ANY_CONFIG
from tests.github.builders import POLICY, Checkout, pull_request, workflow_run
from tests.github.runs import artifact_of

CONFIG = ANY_CONFIG.replace("golden.jsonl", "golden*.jsonl")
NEVER = '[gate]\nfail_on = "never"\n'


def entry(reason: str = "half the latency", run: str = "a" * 16) -> str:
    found = AcceptedEntry(
        id=entry_id("faithfulness", None, run, "b" * 16),
        metric="faithfulness",
        drop=0.05,
        reason=reason,
        run=run,
        baseline="b" * 16,
        date=datetime.date(2026, 11, 21),
    )
    return entry_text(found)


ENTRY = entry()


@pytest.fixture
def checkout(checkout: Checkout) -> Checkout:
    """A checkout that is as its base."""
    checkout.write("ragstone.toml", CONFIG)
    checkout.is_base()
    return checkout


def top(comment: str) -> str:
    """What stands above the table, without the signs that keep text from acting."""
    return comment.split("|", 1)[0].replace("\u200b", "")


def test_nothing_is_said_where_nothing_is_changed_nor_of_a_push(github: FakeGitHub, checkout: Checkout) -> None:
    assert checkout.gate().code == 0
    assert "This pull request" not in github.bodies()[0]
    assert "Can't compare" not in github.bodies()[0]
    github.files[BASE_SHA] = {}
    assert "This pull request" not in checkout.gate("push").summary


@pytest.mark.attack(
    by="pull request",
    tries="weaken policy or settings, accept a drop, remove samples, change the judge",
    stopped_by="the first lines of the report say so, commented in every mode but `off`",
)
def test_what_weakens_the_gate_is_said_at_the_top(github: FakeGitHub, checkout: Checkout) -> None:
    lines = (checkout.root / "golden.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    checkout.write("golden.jsonl", "".join(lines[1:]))
    checkout.write("thresholds.toml", POLICY.replace("min = 0.5", 'min = 0.1\naction = "warn"'))
    checkout.write("accepted.toml", ENTRY)
    found = checkout.gate()
    for text in (github.bodies()[0], found.summary):
        said = top(text)
        assert "This pull request accepts a drop of faithfulness of up to 0.05" in said
        assert "; lowers metrics.faithfulness.min from 0.5 to 0.1" in said
        assert "; changes metrics.faithfulness from block to warn" in said
        assert "; removes 1 sample from the golden set (moon)" in said
        assert said.index("accepts") < said.index("lowers")


def test_what_is_measured_otherwise_and_by_whom_is_said_at_the_top(github: FakeGitHub, checkout: Checkout) -> None:
    base = github.files[BASE_SHA]
    base["strict.toml"] = POLICY.replace("0.5\n", "0.9\n").encode()
    theirs = '[judge]\nname = "openai:gpt-x"\n[gate]\nthresholds = "strict.toml"\n'
    base["ragstone.toml"] = f"{CONFIG}{theirs}[system.price]\ninput = 2.5\noutput = 10\n".encode()
    changed = CONFIG.replace("outputs.jsonl", "perfect.jsonl") + "repeats = 2\nworkers = 1\n"
    changed = changed.replace("[run]", 'answer_field = "contexts.0"\n[run]')
    (checkout.root / "outputs.jsonl").rename(checkout.root / "perfect.jsonl")
    checkout.write("ragstone.toml", f"{changed}[system.price]\ninput = 0.5\noutput = 1\n")
    checkout.gate(RAGSTONE_COMMENT="failures")
    said = " ".join(top(github.bodies()[0]).replace("\\", "").split())
    for change in (
        "changes system.entrypoint from file:outputs.jsonl to file:perfect.jsonl",
        "system.answer_field from nothing to contexts.0",
        "run.repeats from 1 to 2",
        "changes the judge from openai:gpt-x to offline",
        "lowers metrics.faithfulness.min from 0.9 to 0.5",
        "changes the price of the system's tokens ([system.price]) from 2.5 and 10 to 0.5 and 1",
    ):
        assert change in said
    assert "workers" not in said, "which is no change of what is measured"


def test_many_changes_of_one_kind_hide_no_other_kind(github: FakeGitHub, checkout: Checkout) -> None:
    (checkout.root / "outputs.jsonl").rename(checkout.root / "perfect.jsonl")
    changed = CONFIG.replace("outputs.jsonl", "perfect.jsonl").replace("[golden]", "[golden]\nlimit = 50")
    checkout.write("ragstone.toml", changed + "repeats = 2\n")
    entries = (entry(f"reason {number} {'and so on ' * 20}", f"{number:016x}") for number in range(9))
    checkout.write("accepted.toml", "\n".join(entries))
    tags = "".join(f"[slices.tag{number}.metrics.faithfulness]\nmin = 0.1\n" for number in range(20))
    checkout.write("thresholds.toml", POLICY.replace("min = 0.5", "min = 0.1") + tags)
    checkout.gate()
    said = top(github.bodies()[0])
    assert "accepts a drop of faithfulness" in said
    assert "changes system.entrypoint from file:outputs.jsonl to file:perfect.jsonl" in said
    assert "lowers metrics.faithfulness.min from 0.5 to 0.1" in said
    assert "more changes" in said


@pytest.mark.parametrize("count", [0, 1, 3])
def test_each_kind_has_its_turn(count: int) -> None:
    assert in_turns(["a1", "a2"][:count], ["b1"], []) == [["b1"], ["a1", "b1"], ["a1", "b1", "a2"]][min(count, 2)]


@pytest.mark.parametrize(("mode", "comments"), [("changes", 1), ("failures", 1), ("off", 0)])
def test_what_a_pull_request_changes_is_commented_in_every_mode_but_off(
    github: FakeGitHub, checkout: Checkout, mode: str, comments: int
) -> None:
    checkout.write("thresholds.toml", POLICY.replace("min = 0.5", "min = 0.1"))
    assert checkout.gate(RAGSTONE_COMMENT=mode).code == 0
    assert len(github.bodies()) == comments
    assert all("lowers metrics.faithfulness.min from 0.5 to 0.1" in top(body) for body in github.bodies())


@pytest.mark.parametrize("mode", ["always", "failures", "changes"])
@pytest.mark.parametrize("config", [CONFIG + NEVER, CONFIG.replace("[golden]\n", "[golden]\nlimit = 2\n")])
def test_a_setting_that_is_taken_back_is_commented_since_it_counts_after_the_merge(
    github: FakeGitHub, checkout: Checkout, mode: str, config: str
) -> None:
    checkout.write("ragstone.toml", config)
    assert checkout.gate(RAGSTONE_COMMENT=mode).code == 0
    [body] = github.bodies()
    assert "does not count" in top(body)


@pytest.mark.attack(
    by="pull request", tries="pass unseen through a base whose `fail_on` is `never`", stopped_by="line one says so"
)
@pytest.mark.parametrize("base_says", [True, False], ids=["of the base", "of the workflow"])
def test_line_one_says_that_no_verdict_blocks(github: FakeGitHub, checkout: Checkout, base_says: bool) -> None:
    if base_says:
        checkout.write("ragstone.toml", CONFIG + NEVER)
        checkout.is_base()
    more = {} if base_says else {"RAGSTONE_FAIL_ON": "never"}
    assert "fail_on is 'never'" in line_one(checkout.gate(**more).summary)
    checkout.answer_badly()
    found = checkout.gate(**more)
    assert (found.code, "fail_on is 'never'" in line_one(found.summary)) == (0, True)


def line_one(summary: str) -> str:
    return next(line for line in summary.splitlines() if line.startswith("#")).replace("\\", "")


@pytest.mark.attack(
    by="pull request",
    tries="edit a file of the system in a step before the gate",
    stopped_by="compared with the commit; the report names it",
)
def test_a_file_that_a_step_edited_before_the_gate_is_named(github: FakeGitHub, checkout: Checkout) -> None:
    checkout.write("rag.py", "def answer(question): ...\n")
    checkout.is_base()
    github.files[MERGE_SHA] = {**github.files[BASE_SHA], "rag.py": b"def answer(question): ...\n"}
    assert "of this checkout" not in checkout.gate().summary
    checkout.write("rag.py", "def answer(question): return 'fine'\n")
    assert "1 file of this checkout differs from commit" in top(checkout.gate().summary)
    assert "rag.py" in top(checkout.gate().summary)
    del github.files[MERGE_SHA]
    assert "It is not known whether files of this checkout differ" in top(checkout.gate().summary)


@pytest.mark.attack(
    by="pull request",
    tries="give the id of a broken must-pass question to a healthy one",
    stopped_by="compared with the base's questions; no pass",
)
def test_ids_that_are_swapped_are_named_and_do_not_pass(github: FakeGitHub, checkout: Checkout) -> None:
    checkout.write("thresholds.toml", POLICY + '[must_pass]\nsamples = ["moon"]\nmin = 0.9\n')
    checkout.is_base()
    rows = [json.loads(line) for line in (checkout.root / "golden.jsonl").read_text(encoding="utf-8").splitlines()]
    (moon,) = [row for row in rows if row["id"] == "moon"]
    other = next(row for row in rows if row["id"] != "moon")
    moon["id"], other["id"] = other["id"], moon["id"]
    checkout.write("golden.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows))
    found = checkout.gate()
    assert found.outputs["verdict"] != "pass"
    assert "another question has the id of a must-pass one (moon)" in found.summary
    assert "gives new ids to 2 samples" in top(github.bodies()[0])


def test_hostile_text_in_an_acceptance_does_not_act(github: FakeGitHub, checkout: Checkout) -> None:
    checkout.write(
        "accepted.toml", ENTRY.replace("half the latency", "@acme/admins ![x](https://evil.example)</details>")
    )
    checkout.gate()
    said = github.bodies()[0].split("|", 1)[0]
    assert "@acme/admins" not in said
    assert "![x](" not in said


def test_a_base_that_can_not_be_read_is_said_with_what_the_baseline_knows(
    github: FakeGitHub, checkout: Checkout
) -> None:
    assert checkout.gate("push").code == 0
    github.add_run(1, artifact=artifact_of(checkout.root / "ragstone-run"))
    checkout.write("thresholds.toml", POLICY.replace("min = 0.5", "min = 0.1"))
    github.fail("GET", "/contents/", 500, times=99)
    checkout.gate()
    said = top(github.bodies()[0])
    assert "Can't compare the gate's files with the base branch" in said
    assert "the policy differs from that of the baseline's run" in said


def test_a_token_that_reads_no_contents_is_said(github: FakeGitHub, checkout: Checkout) -> None:
    github.actors[TOKEN] = Actor("github-actions[bot]", reads=ALL_RIGHTS - {"contents"})
    assert checkout.gate().code == 0
    assert "Can't compare the gate's files with the base branch" in top(github.bodies()[0])


def test_a_forks_acceptance_is_shown_and_turns_nothing(github: FakeGitHub, checkout: Checkout) -> None:
    checkout.answer_badly()
    assert checkout.gate("pull_request", pull_request(fork=True), RAGSTONE_COMMENT="off").code == 1
    github.add_run(
        555,
        event="pull_request",
        branch="main",
        head_repository_id=2002,
        sha=HEAD_SHA,
        artifact=artifact_of(checkout.root / "ragstone-run"),
    )
    github.add_pull(7, owner="mallory", branch="main", sha=HEAD_SHA, head_id=2002)
    github.files[HEAD_SHA] = {
        **github.files[BASE_SHA],
        "accepted.toml": ENTRY.encode(),
        "thresholds.toml": POLICY.replace("min = 0.5", "min = 0.0").encode(),
        "ragstone.toml": CONFIG.replace("outputs.jsonl", "perfect.jsonl").encode(),
    }
    checkout.gate("workflow_run", workflow_run())
    [comment] = github.bodies()
    said = top(comment)
    assert "accepts a drop of faithfulness of up to 0.05" in said
    assert "lowers metrics.faithfulness.min from 0.5 to 0 (not counted in this report)" in said
    assert "changes system.entrypoint from file:outputs.jsonl to file:perfect.jsonl" in said
    assert "Blocked: " in comment.split("##", 1)[1].split("\n", 1)[0]


METRICS = """
[metrics.tone]
rubric = "Is the answer polite?"
[metrics.exact]
python = "evals.checks:exact"
[metrics.brief]
python = "evals.checks:brief"
"""
CODE = "def exact(answer): return True\n\n\ndef brief(answer): return True\n"


@pytest.fixture
def measured(github: FakeGitHub, checkout: Checkout) -> Checkout:
    """The same with metrics of its own, as in its base."""
    checkout.write("ragstone.toml", CONFIG.replace('["faithfulness"]', '["faithfulness", "exact"]') + METRICS)
    checkout.write("evals/checks.py", CODE)
    for name in ("ragstone.toml", "evals/checks.py"):
        github.files[BASE_SHA][name] = (checkout.root / name).read_bytes()
    return checkout


def test_metrics_that_are_as_in_the_base_are_not_mentioned(github: FakeGitHub, measured: Checkout) -> None:
    assert measured.gate().code == 0
    assert "This pull request" not in github.bodies()[0]


@pytest.mark.heavy
def test_changed_metrics_of_the_project_are_said_at_the_top(github: FakeGitHub, measured: Checkout) -> None:
    config = (measured.root / "ragstone.toml").read_text(encoding="utf-8")
    rubric = config.replace("Is the answer polite?", "Is it an answer?")
    other_function = rubric.replace("checks:brief", "checks:exact")
    measured.write("ragstone.toml", other_function.replace("checks:exact", "checks:brief", 1))
    measured.gate()
    said = " ".join(top(github.bodies()[0]).split())
    assert "changes metrics.tone.rubric from 'Is the answer polite?' to 'Is it an answer?'" in said
    assert "changes metrics.exact.python from 'evals.checks:exact' to 'evals.checks:brief'" in said

    measured.write("evals/checks.py", CODE.replace("True", "len(answer) < 900"))
    measured.write("ragstone.toml", config.replace('[metrics.tone]\nrubric = "Is the answer polite?"\n', ""))
    measured.gate()
    said = " ".join(top(github.bodies()[0]).split())
    assert "changes evals/checks.py, the code of the metric exact" in said
    assert "removes the metric tone" in said


def test_weaker_assertions_of_a_sample_are_a_change_of_the_sample(github: FakeGitHub, checkout: Checkout) -> None:
    lines = (checkout.root / "golden.jsonl").read_text(encoding="utf-8").splitlines()
    strict = lines[0].replace("{", '{"must_contain": "x", ', 1)
    github.files[BASE_SHA]["golden.jsonl"] = "\n".join([strict, *lines[1:]]).encode()
    checkout.gate()
    assert "This pull request changes 1 sample in the golden set (moon)" in top(github.bodies()[0])


def test_a_lower_floor_of_a_sample_is_said_at_the_top_and_leaves_it_comparable(
    github: FakeGitHub, checkout: Checkout
) -> None:
    lines = (checkout.root / "golden.jsonl").read_text(encoding="utf-8").splitlines()
    strict = lines[0].replace("{", '{"min": {"faithfulness": 0.4}, "max": {"hallucination": 1}, ', 1)
    github.files[BASE_SHA]["golden.jsonl"] = "\n".join([strict, *lines[1:]]).encode()
    weak = lines[0].replace("{", '{"min": {"faithfulness": 0.2}, ', 1)
    checkout.write("golden.jsonl", "\n".join([weak, *lines[1:]]) + "\n")
    checkout.gate()
    said = top(github.bodies()[0])
    assert "lowers moon.faithfulness.min from 0.4 to 0.2" in said
    assert "removes moon.hallucination.max = 1" in said
    assert "changes 1 sample" not in said
