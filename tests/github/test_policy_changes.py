"""What a pull request changes about the gate stands in the first lines of its report."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable

import pytest

from ragstone.gate.accepted import AcceptedEntry, entry_id
from ragstone.github.policy_changes import in_turns
from ragstone.pipeline.accept import entry_text
from tests.github.api.fake import ALL_RIGHTS, BASE_SHA, TOKEN, Actor
from tests.github.api.payloads import HEAD_SHA, MERGE_SHA
from tests.github.builders import CONFIG as ANY_CONFIG
from tests.github.builders import POLICY, Checkout, Outcome, pull_request, workflow_run
from tests.github.runs import artifact_of

CONFIG = ANY_CONFIG.replace("golden.jsonl", "golden*.jsonl")
NEVER = '[gate]\nfail_on = "never"\n'
LOWER = POLICY.replace("min = 0.5", "min = 0.1")
LOWERED = "changes metrics.faithfulness.min from 0.5 to 0.1"
UNREADABLE = "Can't compare the gate's files with the base branch"


def entry(reason: str = "half the latency", run: str = "a" * 16) -> str:
    metric, baseline = "faithfulness", "b" * 16
    identity, date = entry_id(metric, None, run, baseline), datetime.date(2026, 11, 21)
    found = AcceptedEntry(id=identity, metric=metric, drop=0.05, reason=reason, run=run, baseline=baseline, date=date)
    return entry_text(found)


@pytest.fixture
def checkout(checkout: Checkout) -> Checkout:
    """A checkout that is as its base."""
    checkout.write("ragstone.toml", CONFIG)
    checkout.is_base()
    return checkout


def top(text: str) -> str:
    """What stands above the table, without the signs that keep text from acting, on one line."""
    return " ".join(text.split("|", 1)[0].replace("\u200b", "").replace("\\", "").split())


def said(checkout: Checkout) -> str:
    """What the comment says above the table, after one job."""
    checkout.gate()
    [comment] = checkout.comments
    return top(comment)


def golden(checkout: Checkout, change: Callable[[dict[str, object]], object]) -> str:
    """The golden set with a change of its first sample, called moon."""
    rows = checkout.golden_rows()
    change(rows[0])
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def test_nothing_is_said_where_nothing_is_changed_nor_of_a_push(checkout: Checkout) -> None:
    assert not any(words in said(checkout) for words in ("This change", UNREADABLE))
    checkout.github.files[BASE_SHA] = {}
    assert "This change " not in checkout.gate("push").summary


@pytest.mark.attack(by="pull request", tries="weaken policy, samples or judge", stopped_by="the report says so first")
def test_what_weakens_the_gate_is_said_at_the_top(checkout: Checkout) -> None:
    checkout.write_golden(checkout.golden_rows()[1:])
    checkout.write("thresholds.toml", POLICY.replace("min = 0.5", 'min = 0.1\naction = "warn"'))
    checkout.write("accepted.toml", entry("@acme/admins ![x](https://evil.example)</details>"))
    found = checkout.gate()
    for text in (checkout.comments[0], found.summary):
        assert "This change accepts a drop of faithfulness of up to 0.05" in top(text)
        assert f"; {LOWERED}" in top(text)
        assert "; changes metrics.faithfulness.action from unset to 'warn'" in top(text)
        assert "; removes 1 sample from the golden set (moon)" in top(text)
        assert top(text).index("accepts") < top(text).index("changes")
        assert not any(active in text.split("|", 1)[0] for active in ("@acme/admins", "![x]("))


def test_what_is_measured_otherwise_and_by_whom_is_said_at_the_top(checkout: Checkout) -> None:
    base = checkout.github.files[BASE_SHA]
    base["golden.jsonl"] = golden(checkout, lambda row: row.update(min={"faithfulness": 0.4})).encode()
    base["strict.toml"] = POLICY.replace("0.5\n", "0.9\n").encode()
    theirs = '[judge]\nname = "openai:gpt-x"\n[gate]\nthresholds = "strict.toml"\n'
    base["ragstone.toml"] = f"{CONFIG}{theirs}[system.price]\ninput = 2.5\noutput = 10\n".encode()
    changed = CONFIG.replace("outputs.jsonl", "perfect.jsonl") + "repeats = 2\nworkers = 1\n"
    changed = changed.replace("[run]", 'answer_field = "contexts.0"\n[run]')
    (checkout.root / "outputs.jsonl").rename(checkout.root / "perfect.jsonl")
    checkout.write("ragstone.toml", f"{changed}[system.price]\ninput = 0.5\noutput = 1\n")
    text = said(checkout)
    for change in (
        "changes system.entrypoint from file:outputs.jsonl to file:perfect.jsonl",
        "system.answer_field from unset to contexts.0",
        "run.repeats from 1 to 2",
        "judge.name from openai:gpt-x to offline",
        "changes metrics.faithfulness.min from 0.9 to 0.5",
        "system.price.input from 2.5 to 0.5",
        "moon.faithfulness.min from 0.4 to unset",
    ):
        assert change in text
    assert "workers" not in text, "which is no change of what is measured"


def test_many_changes_of_one_kind_hide_no_other_kind(checkout: Checkout) -> None:
    (checkout.root / "outputs.jsonl").rename(checkout.root / "perfect.jsonl")
    checkout.write("ragstone.toml", CONFIG.replace("outputs.jsonl", "perfect.jsonl") + "repeats = 2\n")
    entries = (entry(f"reason {number} {'and so on ' * 20}", f"{number:016x}") for number in range(9))
    checkout.write("accepted.toml", "\n".join(entries))
    tags = "".join(f"[slices.tag{number}.metrics.faithfulness]\nmin = 0.1\n" for number in range(20))
    checkout.write("thresholds.toml", LOWER + tags)
    text = said(checkout)
    for change in ("accepts a drop of faithfulness", "changes system.entrypoint from", LOWERED, "more changes"):
        assert change in text


@pytest.mark.parametrize("count", [0, 1, 3])
def test_each_kind_has_its_turn(count: int) -> None:
    assert in_turns(["a1", "a2"][:count], ["b1"], []) == [["b1"], ["a1", "b1"], ["a1", "b1", "a2"]][min(count, 2)]


@pytest.mark.parametrize(
    ("name", "text", "mode", "says"),
    [
        ("thresholds.toml", LOWER, "failures", LOWERED),
        ("thresholds.toml", LOWER, "off", None),
        ("ragstone.toml", CONFIG + NEVER, "failures", "does not count"),
    ],
)
def test_what_a_pull_request_changes_is_commented_in_every_mode_but_off(
    checkout: Checkout, name: str, text: str, mode: str, says: str | None
) -> None:
    checkout.write(name, text)
    assert checkout.gate(RAGSTONE_COMMENT=mode).code == 0
    assert len(checkout.comments) == (0 if says is None else 1)
    assert all(str(says) in top(comment) for comment in checkout.comments)


@pytest.mark.attack(by="pull request", tries="a base whose `fail_on` is `never`", stopped_by="line one says so")
@pytest.mark.parametrize("base_says", [True, False], ids=["of the base", "of the workflow"])
def test_line_one_says_that_no_verdict_blocks(checkout: Checkout, base_says: bool) -> None:
    if base_says:
        checkout.write("ragstone.toml", CONFIG + NEVER)
        checkout.is_base()
    more = {} if base_says else {"RAGSTONE_FAIL_ON": "never"}
    assert "fail_on is 'never'" in line_one(checkout.gate(**more))
    checkout.answer_badly()
    found = checkout.gate(**more)
    assert (found.code, "fail_on is 'never'" in line_one(found)) == (0, True)


def line_one(found: Outcome) -> str:
    return next(line for line in found.summary.splitlines() if line.startswith("#")).replace("\\", "")


@pytest.mark.attack(
    by="pull request", tries="edit a file in an earlier step", stopped_by="compared with the commit, and named"
)
def test_a_file_that_a_step_edited_before_the_gate_is_named(checkout: Checkout) -> None:
    files = checkout.github.files
    checkout.write("rag.py", "def answer(question): ...\n")
    files[MERGE_SHA] = {**files[BASE_SHA], "rag.py": b"def answer(question): ...\n"}
    assert "of this checkout" not in checkout.gate().summary
    assert checkout.read("manifest.json")["invocation"]["changed"] == 0
    checkout.write("rag.py", "def answer(question): return 'fine'\n")
    summary = top(checkout.gate().summary)
    assert "Files of this checkout differ from commit" in summary
    assert "rag.py" in summary
    assert checkout.read("manifest.json")["invocation"]["changed"] == 1
    del files[MERGE_SHA]
    assert "It is not known whether files of this checkout differ" in top(checkout.gate().summary)
    assert checkout.read("manifest.json")["invocation"]["changed"] is None


@pytest.mark.attack(by="pull request", tries="swap the ids of must-pass questions", stopped_by="no pass")
def test_ids_that_are_swapped_are_named_and_do_not_pass(checkout: Checkout) -> None:
    checkout.write("thresholds.toml", POLICY + '[must_pass]\nsamples = ["moon"]\nmin = 0.9\n')
    checkout.is_base()
    swapped = golden(checkout, lambda row: row.update(id="sun")).splitlines()
    swapped[1] = swapped[1].replace('"sun"', '"moon"')
    checkout.write("golden.jsonl", "\n".join(swapped) + "\n")
    found = checkout.gate()
    assert found.verdict != "pass"
    assert "another question has the id of a must-pass one (moon)" in found.summary
    assert "gives new ids to 2 samples" in top(checkout.comments[0])


def test_a_token_that_reads_no_contents_is_said(checkout: Checkout) -> None:
    checkout.github.actors[TOKEN] = Actor("github-actions[bot]", reads=ALL_RIGHTS - {"contents"})
    assert UNREADABLE in said(checkout)


@pytest.mark.parametrize("is_readable", [True, False])
def test_a_forks_acceptance_is_shown_and_turns_nothing(checkout: Checkout, is_readable: bool) -> None:
    checkout.answer_badly()
    assert checkout.gate("pull_request", pull_request(fork=True), RAGSTONE_COMMENT="off").code == 1
    files = artifact_of(checkout.out)
    checkout.github.add_fork_run(files)
    if is_readable:
        checkout.github.files[HEAD_SHA] = {
            **checkout.github.files[BASE_SHA],
            "accepted.toml": entry().encode(),
            "thresholds.toml": LOWER.encode(),
            "ragstone.toml": CONFIG.replace("outputs.jsonl", "perfect.jsonl").encode(),
        }
    checkout.gate("workflow_run", workflow_run())
    [comment] = checkout.comments
    assert "Blocked: " in comment.split("##", 1)[1].split("\n", 1)[0]
    text = top(comment)
    assert ("Can't read what this pull request changes" in text) is not is_readable
    assert ("accepts a drop of faithfulness of up to 0.05" in text) is is_readable
    assert (f"{LOWERED} (not counted in this report)" in text) is is_readable
    assert ("changes system.entrypoint from file:outputs.jsonl to file:perfect.jsonl" in text) is is_readable


METRICS = """
[metrics.tone]
rubric = "Is the answer polite?"
[metrics.exact]
python = "evals.checks:exact"
[metrics.brief]
python = "evals.checks:brief"
"""
CODE = "def exact(answer): return True\n\n\ndef brief(answer): return True\n"
MEASURED = CONFIG.replace('["faithfulness"]', '["faithfulness", "exact"]') + METRICS


@pytest.mark.parametrize(
    ("config", "code", "says"),
    [
        (MEASURED, CODE, ""),
        (
            MEASURED.replace("the answer", "it"),
            CODE,
            "changes metrics.tone.rubric from 'Is the answer polite?' to 'Is it",
        ),
        (
            MEASURED.replace("s:exact", "s:brief"),
            CODE,
            "metrics.exact.python from 'evals.checks:exact' to 'evals.checks:b",
        ),
        (MEASURED, CODE.replace("True", "len(answer) < 900"), "changes evals/checks.py, the code of the metric brief"),
        (MEASURED.replace(METRICS[:49], "\n"), CODE, "removes the metric tone"),
    ],
    ids=["nothing", "a rubric", "a function", "the code of a function", "a metric is removed"],
)
def test_changed_metrics_of_the_project_are_said_at_the_top(
    checkout: Checkout, config: str, code: str, says: str
) -> None:
    checkout.github.files[BASE_SHA] |= {"ragstone.toml": MEASURED.encode(), "evals/checks.py": CODE.encode()}
    checkout.write("ragstone.toml", config)
    checkout.write("evals/checks.py", code)
    text = said(checkout)
    assert says in text
    assert ("This change " in text) is bool(says)
